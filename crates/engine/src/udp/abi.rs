//! Addresses and control messages as Linux lays them out in memory, written and read without pointers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use timeous_core::{Duration, Ecn};

use super::packet::is_ipv4;

/// An instruction of a classic BPF program (`linux/filter.h`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) code: u16,
    pub(super) if_true: u8,
    pub(super) if_false: u8,
    pub(super) value: u32,
}

/// A `sockaddr_in` or `sockaddr_in6`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
pub(super) struct Name(pub(super) [u8; Name::MOST]);

impl Name {
    pub(super) const MOST: usize = size_of::<libc::sockaddr_in6>();

    /// Writes `address` and returns its length in bytes.
    pub(super) fn write(&mut self, address: SocketAddr) -> usize {
        let bytes = &mut self.0;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                bytes[8..16].fill(0);
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                size_of::<libc::sockaddr_in6>()
            }
        }
    }

    /// Returns the address, if it is an IP address.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        let bytes = &self.0;
        let port = u16::from_be_bytes(part(bytes, 2));
        match i32::from(u16::from_ne_bytes(part(bytes, 0))) {
            libc::AF_INET => Some((Ipv4Addr::from(part::<4>(bytes, 4)), port).into()),
            libc::AF_INET6 => {
                let (flow, scope) = (u32::from_ne_bytes(part(bytes, 4)), u32::from_ne_bytes(part(bytes, 24)));
                Some(SocketAddrV6::new(Ipv6Addr::from(part::<16>(bytes, 8)), port, flow, scope).into())
            }
            _ => None,
        }
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("a fixed place within a fixed size")
}

/// Default ECN mark, which the kernel keeps with the socket: nearly all packets have it.
pub(super) const OWN_MARK: Ecn = Ecn::Ect0;

/// Buffer for the control messages of one packet, both ways: more than twice the largest size seen, since the kernel
/// truncates longer ones, and with them the ECN mark.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; Control::MOST]);

impl Default for Control {
    fn default() -> Self {
        Self([0; Self::MOST])
    }
}

/// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6` (`linux/errqueue.h`).
const BY_ICMP: [u8; 2] = [2, 3];
/// `cmsghdr`: length, level, type.
const HEAD: usize = size_of::<libc::cmsghdr>();
const WORD: usize = size_of::<usize>();

/// Metadata received with a datagram, or with several merged by GRO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) ecn: Ecn,
    /// Local unicast address that it was sent to, where the socket asks for it.
    pub(super) to: Option<IpAddr>,
    /// Size of each datagram but the last; zero: there is only one.
    pub(super) segment: usize,
    /// Unix time of its arrival in this host, where the socket asks for it.
    pub(super) arrived: Option<Duration>,
    /// Whether it is a sent datagram, returned with an ICMP "port unreachable".
    pub(super) refused: bool,
}

impl Control {
    pub(super) const MOST: usize = 256;

    /// Writes the mark unless it is the socket's own, the source address if there is a choice, and the size of each
    /// packet of a bundle; returns the length in bytes.
    pub(super) fn write(&mut self, to: SocketAddr, from: Option<IpAddr>, ecn: Ecn, segment: Option<u16>) -> usize {
        let mut at = 0;
        if ecn != OWN_MARK {
            let (level, kind) =
                if is_ipv4(to) { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
            at = self.put(at, level, kind, &i32::from(ecn as u8).to_ne_bytes());
        }
        match from {
            // `in_pktinfo`: interface, local address, destination address in the header.
            Some(IpAddr::V4(from)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&from.octets());
                at = self.put(at, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // `in6_pktinfo`: address, interface.
            Some(IpAddr::V6(from)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&from.octets());
                at = self.put(at, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        if let Some(segment) = segment {
            at = self.put(at, libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        at
    }

    pub(super) fn put(&mut self, at: usize, level: i32, kind: i32, data: &[u8]) -> usize {
        let end = at + (HEAD + data.len()).next_multiple_of(WORD);
        let message = &mut self.0[at..end];
        message.fill(0);
        message[..WORD].copy_from_slice(&(HEAD + data.len()).to_ne_bytes());
        message[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        message[WORD + 4..HEAD].copy_from_slice(&kind.to_ne_bytes());
        message[HEAD..HEAD + data.len()].copy_from_slice(data);
        end
    }

    /// Parses the first `len` bytes, which the kernel wrote.
    pub(super) fn read(&self, len: usize) -> Marks {
        let mut marks = Marks::default();
        for (level, kind, data) in self.messages(len) {
            match (level, kind, data) {
                (libc::IPPROTO_IP, libc::IP_TOS, &[tos, ..]) => marks.ecn = ecn_of(tos),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, data) => {
                    marks.ecn =
                        data.first_chunk().map_or(Ecn::NotEct, |&class| ecn_of(i32::from_ne_bytes(class) as u8));
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO, &[_, _, _, _, a, b, c, d, ref header @ ..])
                    if header.starts_with(&[a, b, c, d]) =>
                {
                    marks.to = Some(Ipv4Addr::new(a, b, c, d).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, data) => {
                    let to = data.first_chunk::<16>().map(|&to| Ipv6Addr::from(to));
                    marks.to = to.filter(|to| !to.is_multicast()).map(IpAddr::from);
                }
                // `sock_extended_err`: the error, and its origin.
                (libc::IPPROTO_IP, libc::IP_RECVERR, &[a, b, c, d, origin, ..])
                | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &[a, b, c, d, origin, ..]) => {
                    marks.refused = i32::from_ne_bytes([a, b, c, d]) == libc::ECONNREFUSED && BY_ICMP.contains(&origin);
                }
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, data) => marks.arrived = unix_time(data),
                (libc::SOL_UDP, libc::UDP_GRO, data) => {
                    let segment = data.first_chunk().map_or(0, |&size| i32::from_ne_bytes(size));
                    marks.segment = usize::try_from(segment).unwrap_or(0);
                }
                _ => {}
            }
        }
        marks
    }

    /// Returns level, type and data of each message.
    pub(super) fn messages(&self, len: usize) -> impl Iterator<Item = (i32, i32, &[u8])> {
        let mut rest = &self.0[..len.min(Self::MOST)];
        std::iter::from_fn(move || {
            let len = usize::from_ne_bytes(*rest.first_chunk()?);
            let message = rest.get(..len).filter(|message| message.len() >= HEAD)?;
            rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or(&[]);
            let level = i32::from_ne_bytes(part(message, WORD));
            Some((level, i32::from_ne_bytes(part(message, WORD + 4)), &message[HEAD..]))
        })
    }
}

/// Reads a `timespec` of two 64-bit numbers.
fn unix_time(data: &[u8]) -> Option<Duration> {
    let number = |at: usize| data.get(at..)?.first_chunk().map(|&bytes| u64::from_ne_bytes(bytes));
    Some(Duration::from_secs(number(0)?) + Duration::from_nanos(number(8)?))
}

fn ecn_of(tos: u8) -> Ecn {
    match tos & 0b11 {
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        0b11 => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for address in ["192.0.2.1:6511", "[2001:db8::1]:80", "[::ffff:192.0.2.1]:9"] {
            let address: SocketAddr = address.parse().unwrap();
            let mut name = Name::default();
            name.write(address);
            assert_eq!(name.read(), Some(address));
        }
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0, 3).into();
        let mut name = Name::default();
        assert_eq!(name.write(scoped), 28);
        assert_eq!(name.read(), Some(scoped));
        assert_eq!(Name::default().read(), None, "no family, no address");
    }

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        for to in ["192.0.2.1:6511", "[2001:db8::1]:80", "[::ffff:192.0.2.1]:9"] {
            for ecn in [Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
                let mut control = Control::default();
                let len = control.write(to.parse().unwrap(), None, ecn, Some(1400));
                assert_eq!(control.read(len), Marks { ecn, ..Marks::default() }, "the size given is no size received");
            }
        }
    }

    #[test]
    fn what_the_kernel_cut_off_is_not_read() {
        let mut control = Control::default();
        let len = control.write("192.0.2.1:1".parse().unwrap(), None, Ecn::Ce, None);
        for cut in 0..HEAD + 4 {
            assert_eq!(control.read(cut), Marks::default());
        }
        assert_eq!(control.read(len).ecn, Ecn::Ce);
        let time = [7_u64.to_ne_bytes(), 8_u64.to_ne_bytes()].concat();
        let len = control.put(0, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &time);
        assert_eq!(control.read(len).arrived, Some(Duration::from_nanos(7_000_000_008)));
        assert_eq!(control.read(len - 8).arrived, None);
        let mut endless = Control::default();
        endless.0[..WORD].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(endless.messages(Control::MOST).count(), 0);
    }
}
