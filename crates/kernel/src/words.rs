//! Records shared with the BPF program, parsed word by word in the order of `bpf/macroflow.h`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use timeous_core::Duration;

use crate::view::{Flow, Macroflow, Path};

/// Size of a macroflow's key, in bytes.
pub(crate) const KEY: usize = 32;
/// Size of a macroflow, in bytes.
pub(crate) const VALUE: usize = 240;
/// Size of a connection record, in bytes.
pub(crate) const SHOWN: usize = 96;
/// Size of the record by which the daemon reports its flows and gets the answer, in bytes.
pub(crate) const FLOW_REPORT_LEN: usize = KEY + 6 * 8;

/// Parser of consecutive words. The caller has checked the length.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (word, rest) = self.0.split_first_chunk().expect("the length of a record is checked before it is read");
        self.0 = rest;
        *word
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn addr(&mut self) -> IpAddr {
        Ipv6Addr::from(self.take::<16>()).to_canonical()
    }

    fn micros(&mut self) -> Duration {
        Duration::from_micros(u64::from(self.u32()))
    }

    fn path(&mut self) -> Path {
        let (namespace, addr, dscp) = (self.u64(), self.addr(), self.u32() as u8);
        self.u32();
        Path { namespace, addr, dscp }
    }
}

fn some(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}

/// Encodes a path as a key of the program's maps.
pub(crate) fn key(path: &Path) -> [u8; KEY] {
    let addr = match path.addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    };
    let mut key = [0; KEY];
    key[..8].copy_from_slice(&path.namespace.to_ne_bytes());
    key[8..24].copy_from_slice(&addr.octets());
    key[24..28].copy_from_slice(&u32::from(path.dscp).to_ne_bytes());
    key
}

/// Parses a macroflow, at a time of the monotonic clock. `None` if the lengths are wrong.
pub(crate) fn macroflow(key: &[u8], value: &[u8], now_nanos: u64) -> Option<Macroflow> {
    if key.len() != KEY || value.len() != VALUE {
        return None;
    }
    let path = Words(key).path();
    let mut words = Words(value);
    let _lock = words.u32();
    let mss = words.u32();
    let _born = words.u64();
    let [window, threshold, _counted, committed, _modest, hungry, flows] = std::array::from_fn(|_| words.u64());
    let [_next, _turn, _reduced, _heard, busy, _reducer, _window_before, _threshold_before] =
        std::array::from_fn(|_| words.u64());
    let [srtt, rttvar, min_rtt] = std::array::from_fn(|_| words.micros());
    let _queueing = words.u32();
    let [acked, lost, losses, timeouts, opened] = std::array::from_fn(|_| words.u64());
    let [_told, _acked, _congestions, companions] = std::array::from_fn(|_| words.u64());
    Some(Macroflow {
        path,
        flows,
        hungry,
        window,
        threshold: (threshold != u64::MAX).then_some(threshold),
        committed,
        mss,
        srtt: some(srtt),
        rttvar,
        min_rtt: some(min_rtt),
        opened,
        acked,
        lost,
        losses,
        timeouts,
        companions,
        idle: Duration::from_nanos(now_nanos.saturating_sub(busy)),
    })
}

/// Parses a connection. `None` if the length is wrong.
pub(crate) fn flow(shown: &[u8]) -> Option<Flow> {
    if shown.len() != SHOWN {
        return None;
    }
    let mut words = Words(shown);
    let path = words.path();
    let local = words.addr();
    let _id = words.u64();
    let [local_port, remote_port] = std::array::from_fn(|_| words.u32() as u16);
    let [window, mss, flight] = std::array::from_fn(|_| words.u32());
    let srtt = words.micros();
    let (committed, hungry) = (words.u64(), words.u64() > 0);
    let (local, remote) = (SocketAddr::new(local, local_port), SocketAddr::new(path.addr, remote_port));
    Some(Flow { path, local, remote, window, mss, flight, srtt, committed, hungry })
}

/// Report on the daemon's flows: their number, those waiting, bytes in flight, bytes acknowledged in total, and
/// congestion events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowReport {
    pub(crate) flows: u64,
    pub(crate) hungry: u64,
    pub(crate) outstanding: u64,
    pub(crate) acked: u64,
    pub(crate) congestions: u64,
}

impl FlowReport {
    pub(crate) fn record(&self, path: &Path) -> [u8; FLOW_REPORT_LEN] {
        let mut record = [0; FLOW_REPORT_LEN];
        record[..KEY].copy_from_slice(&key(path));
        let words = [self.flows, self.hungry, self.outstanding, self.acked, self.congestions];
        for (place, word) in record[KEY..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        record
    }

    /// Returns the answer in a record: the remaining window, if the kernel has flows there.
    pub(crate) fn answer(record: &[u8; FLOW_REPORT_LEN]) -> Option<u64> {
        let window = record.last_chunk().map(|bytes| u64::from_ne_bytes(*bytes)).unwrap_or_default();
        (window > 0).then_some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_same_after_it_went_through_a_key() {
        for addr in ["192.0.2.7", "2001:db8::7"] {
            let path = Path { namespace: 77, addr: addr.parse().unwrap(), dscp: 46 };
            assert_eq!(Words(&key(&path)).path(), path);
        }
    }

    #[test]
    fn records_of_another_size_are_none() {
        assert_eq!(macroflow(&[0; KEY], &[0; VALUE - 1], 0), None);
        assert_eq!(macroflow(&[0; KEY - 1], &[0; VALUE], 0), None);
        assert_eq!(flow(&[0; SHOWN + 1]), None);
        assert!(macroflow(&[0; KEY], &[0; VALUE], 0).is_some() && flow(&[0; SHOWN]).is_some());
    }

    #[test]
    fn what_is_told_and_answered_keeps_its_place() {
        let path = Path { namespace: 0, addr: "192.0.2.7".parse().unwrap(), dscp: 0 };
        let told = FlowReport { flows: 1, hungry: 2, outstanding: 3, acked: 4, congestions: 5 };
        let mut record = told.record(&path);
        assert_eq!(FlowReport::answer(&record), None);
        assert_eq!(record[KEY + 32..KEY + 40], 5_u64.to_ne_bytes());
        record[KEY + 40..].copy_from_slice(&6_000_u64.to_ne_bytes());
        assert_eq!(FlowReport::answer(&record), Some(6_000));
    }
}
