//! Rate limit for each unverified host: answers to requests whose source addresses may be forged.

use std::net::IpAddr;

use crate::keyed_hash::KeyedHash;
use crate::rate_limit::RateLimit;
use crate::time::Instant;

/// Token buckets that hosts share, chosen by a keyed hash of the address: no host can choose its bucket, or the hosts
/// that share it.
///
/// A host is an IPv4 address, also an IPv4-mapped one, or an IPv6 network of 64 bits, as a host may have all
/// addresses of its network (RFC 4291 §2.5.1, RFC 8273). A site with a shorter prefix has many networks: only the sum
/// of all buckets bounds its rate.
///
/// Memory is fixed: 16 bytes a bucket, allocated once. A flood from forged addresses adds no entry; it uses up
/// the buckets that it hits, for less than a second each, also for true hosts there.
///
/// ```
/// use timeous_core::{HostRateLimit, Instant};
/// let mut limit = HostRateLimit::per_second([7; 16], 256, 8);
/// let network: std::net::Ipv6Addr = "2001:db8::".parse()?;
/// let hosts = (0..100).map(|n| (network.to_bits() | n).to_be_bytes().into());
/// assert_eq!(hosts.filter(|&host| limit.take(Instant::ZERO, host)).count(), 8);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HostRateLimit {
    hash: KeyedHash,
    buckets: Box<[RateLimit]>,
}

impl HostRateLimit {
    /// Creates `buckets` token buckets, at least one, each for about `per_second` answers per second. `key` is a secret.
    pub fn per_second(key: [u8; 16], buckets: usize, per_second: u32) -> Self {
        let buckets = vec![RateLimit::per_second(per_second); buckets.max(1)].into();
        Self { hash: KeyedHash::new(key), buckets }
    }

    /// Takes a token from the bucket of `host`, if one is left; returns whether an answer is allowed now.
    pub fn take(&mut self, now: Instant, host: IpAddr) -> bool {
        let bucket = self.bucket(host);
        self.buckets[bucket].take(now)
    }

    fn bucket(&self, host: IpAddr) -> usize {
        let hash = match host.to_canonical() {
            IpAddr::V4(host) => self.hash.of(&host.octets()),
            IpAddr::V6(host) => self.hash.of(&host.octets()[..8]),
        };
        (hash % self.buckets.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::rng::Rng;
    use crate::time::Duration;

    const BUCKETS: usize = 256;
    const PER_SECOND: u32 = 8;

    fn limit(seed: u8) -> HostRateLimit {
        HostRateLimit::per_second([seed; 16], BUCKETS, PER_SECOND)
    }

    fn allowed(limit: &mut HostRateLimit, now: Instant, hosts: impl Iterator<Item = IpAddr>) -> usize {
        hosts.filter(|&host| limit.take(now, host)).count()
    }

    #[test]
    fn any_addresses_of_one_64_share_a_bucket_and_other_networks_do_not() {
        let mut rng = Rng::from_seed(1);
        for seed in 0..50 {
            let mut limit = limit(seed);
            // 2000::/3, so that none is IPv4-mapped.
            let network = rng.next_u64() >> 3 | 1 << 61;
            let mut host_in = |network: u64| {
                IpAddr::from(Ipv6Addr::from_bits(u128::from(network) << 64 | u128::from(rng.next_u64())))
            };
            let hosts: Vec<_> = (0..100).map(|_| host_in(network)).collect();
            assert_eq!(allowed(&mut limit, Instant::ZERO, hosts.into_iter()), PER_SECOND as usize);
            // One bit further: each network has a bucket, and few share one.
            let neighbours: Vec<_> = (0..16).map(|bit| host_in(network ^ 1 << bit)).collect();
            assert!(allowed(&mut limit, Instant::ZERO, neighbours.into_iter()) >= 12);
        }
    }

    #[test]
    fn an_ipv4_mapped_address_is_its_ipv4_host() {
        let mut rng = Rng::from_seed(2);
        for _ in 0..1_000 {
            let host = Ipv4Addr::from_bits(rng.next_u64() as u32);
            assert_eq!(limit(1).bucket(host.into()), limit(1).bucket(host.to_ipv6_mapped().into()));
        }
        let mapped = (0..1_000).map(|n| Ipv4Addr::from_bits(n).to_ipv6_mapped().into());
        assert!(allowed(&mut limit(1), Instant::ZERO, mapped) > 900, "they lie in one /64, and are many hosts");
    }

    #[test]
    fn a_key_chooses_the_buckets() {
        let hosts = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"].map(|host| host.parse().unwrap());
        let buckets = |seed| hosts.map(|host| limit(seed).bucket(host));
        assert_eq!(buckets(1), buckets(1));
        assert_ne!(buckets(1), buckets(2));
    }

    #[test]
    fn forged_addresses_get_the_sum_of_the_buckets_and_no_further_one() {
        let (mut limit, mut rng, mut now) = (limit(1), Rng::from_seed(3), Instant::ZERO);
        let all = BUCKETS * PER_SECOND as usize;
        for seconds in 0..4 {
            let forged = (0..40_000).map(|n| match n % 2 {
                0 => Ipv4Addr::from_bits(rng.next_u64() as u32).into(),
                _ => Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64).into(),
            });
            assert_eq!(allowed(&mut limit, now, forged), all, "after {seconds} s");
            assert_eq!(limit.buckets.len(), BUCKETS);
            now += Duration::from_secs(1);
        }
        assert_eq!(HostRateLimit::per_second([1; 16], 0, 1).buckets.len(), 1);
    }
}
