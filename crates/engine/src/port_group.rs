//! Placement of hosts among workers, and a UDP port that several workers share.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::waker::Waker;

/// Place of a host's streams among `count` workers. All of them share one macroflow, so they stay together.
///
/// UDP ports that several workers share are steered by the same rule ([`crate::udp::Socket::bind_shared`]).
pub(crate) fn place(host: IpAddr, count: usize) -> usize {
    let low = match host.to_canonical() {
        IpAddr::V4(addr) => u32::from(addr),
        IpAddr::V6(addr) => u128::from(addr) as u32,
    };
    low as usize % count
}

/// A UDP port that several workers share, each by a socket of its own. The kernel knows the sockets by their order, so
/// that all stay open until the last one is unused.
#[derive(Debug)]
pub(crate) struct PortGroup {
    workers: Vec<Waker>,
    used: AtomicUsize,
}

impl PortGroup {
    pub(crate) fn new(workers: Vec<Waker>) -> Arc<Self> {
        Arc::new(Self { workers, used: AtomicUsize::new(0) })
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.workers.len()).expect("an engine has a worker")
    }
}

/// One worker's share in a [`PortGroup`].
#[derive(Debug)]
pub(crate) struct GroupShare {
    group: Arc<PortGroup>,
    /// Place of the worker among the group's.
    place: usize,
    is_used: bool,
}

impl GroupShare {
    /// Joins the group as its worker at `place`. A listening one must be in it before.
    pub(crate) fn new(group: Arc<PortGroup>, place: usize) -> Self {
        group.used.fetch_add(1, Ordering::SeqCst);
        Self { group, place, is_used: true }
    }

    /// Returns whether this worker has the streams to `host`. The kernel gives packets to another one while sockets are
    /// missing, as when the port is opened.
    pub(crate) fn has(&self, host: IpAddr) -> bool {
        place(host, self.group.workers.len()) == self.place
    }

    /// Notes whether this worker uses its socket; returns whether no worker uses one.
    pub(crate) fn is_over(&mut self, is_used: bool) -> bool {
        let was_used = std::mem::replace(&mut self.is_used, is_used);
        match (was_used, is_used) {
            (false, true) => {
                self.group.used.fetch_add(1, Ordering::SeqCst);
            }
            // The others close their sockets, too.
            (true, false) if self.group.used.fetch_sub(1, Ordering::SeqCst) == 1 => {
                self.group.workers.iter().for_each(Waker::wake);
            }
            _ => {}
        }
        self.group.used.load(Ordering::SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_host_has_one_place_however_its_address_is_written() {
        let four = Ipv4Addr::new(192, 0, 2, 7);
        assert_eq!(place(four.into(), 4), place(four.to_ipv6_mapped().into(), 4));
        let hosts = (0..256u32).map(|host| place(Ipv6Addr::from(u128::from(host)).into(), 4));
        assert_eq!(hosts.filter(|&place| place == 3).count(), 64);
    }

    #[test]
    fn a_group_is_over_when_those_who_joined_are_idle() {
        let wakers: Vec<_> = (0..3).map(|_| Waker::new().unwrap()).collect();
        let group = PortGroup::new(wakers.clone());
        // The third one could not bind its socket.
        let mut shares = [0, 1].map(|place| GroupShare::new(group.clone(), place));
        assert!(!shares[0].is_over(false) && !wakers[1].clear());
        assert!(!shares[0].is_over(true) && !shares[1].is_over(false));
        assert!(shares[0].is_over(false) && wakers[1].clear(), "the others are woken");
        assert!(shares[1].is_over(false));
    }
}
