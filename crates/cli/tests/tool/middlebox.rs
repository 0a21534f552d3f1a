//! `timeous probe` through middleboxes that keep the first version of a segment, or swallow another one.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use etherparse::TcpHeader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous_net::emulator::{Ipv4Interface, Namespace, Tun};

use crate::support::{Files, Running, skip};

/// What a middlebox does with a segment whose bytes differ from those that it has seen at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// Puts in the bytes that it has seen first, as a normalizer does.
    Keep,
    Swallow,
}

/// First bytes at each place of each connection, by port and sequence number.
type Seen = BTreeMap<(u16, u32), Vec<u8>>;

impl Behaviour {
    /// Returns what leaves for an IPv4 packet.
    fn alter(self, mut packet: Vec<u8>, seen: &mut Seen) -> Option<Vec<u8>> {
        let begin = usize::from(packet[0] & 0x0f) * 4;
        if packet[9] != 6 {
            return Some(packet);
        }
        let (mut header, data) = TcpHeader::from_slice(&packet[begin..]).unwrap();
        let (data, key) = (data.to_vec(), (header.source_port, header.sequence_number));
        let first = seen.entry(key).or_insert_with(|| data.clone());
        if data.is_empty() || data.len() != first.len() || data == *first {
            // A SYN or an acknowledgement has a place of its own: no data is there yet.
            if first.is_empty() {
                seen.remove(&key);
            }
            return Some(packet);
        }
        if self == Self::Swallow {
            return None;
        }
        let [from, to] = [12, 16].map(|at| packet[at..at + 4].try_into().unwrap());
        header.checksum = header.calc_checksum_ipv4_raw(from, to, first).unwrap();
        packet.truncate(begin);
        packet.extend_from_slice(&header.to_bytes());
        packet.extend_from_slice(first);
        Some(packet)
    }
}

/// Middlebox between two namespaces, until it is dropped.
struct Middlebox {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Middlebox {
    fn lay(inner: Tun, outer: Tun, behaviour: Behaviour) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut seen, mut buffer) = (Seen::new(), vec![0; 1 << 16]);
            while !ends.load(Ordering::Relaxed) {
                while let Some(packet) = inner.read(&mut buffer).unwrap() {
                    // IPv6 has no place here.
                    let is_ipv4 = packet[0] >> 4 == 4;
                    let packet = is_ipv4.then(|| packet.to_vec());
                    if let Some(packet) = packet.and_then(|packet| behaviour.alter(packet, &mut seen)) {
                        outer.write(&packet);
                    }
                }
                while let Some(packet) = outer.read(&mut buffer).unwrap() {
                    inner.write(packet);
                }
                let look = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                // An interrupted wait is harmless.
                let _ = poll(
                    &mut [
                        PollFd::from_borrowed_fd(inner.as_fd(), PollFlags::IN),
                        PollFd::from_borrowed_fd(outer.as_fd(), PollFlags::IN),
                    ],
                    Some(&look),
                );
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Middlebox {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the middlebox does not panic");
        }
    }
}

/// A host behind a middlebox, a router, and a host behind that; `None`: no right to make them.
fn hosts(name: &str, behaviour: Behaviour) -> Option<([Namespace; 3], Middlebox)> {
    let names = ["a", "r", "b"].map(|end| format!("t-{name}-{}-{end}", std::process::id()));
    let [here, router, there] = [0, 1, 2].map(|n: usize| Namespace::open_or_make(&names[n]).ok());
    let (here, router, there) = (here?, router?, there?);
    router.set_sysctl("net/ipv4/ip_forward", "1").ok()?;
    let open = |namespace: &Namespace, last| {
        Tun::open_in(namespace, "tun", Ipv4Interface { address: [10, 79, 1, last].into(), prefix: 24 }, 1_500).ok()
    };
    let (inner, outer) = (open(&here, 2)?, open(&router, 1)?);
    here.ip(&["route", "add", "default", "via", "10.79.1.1"]).unwrap();
    router.ip(&["link", "add", "right", "type", "veth", "peer", "name", "veth", "netns", there.name()]).ok()?;
    for (host, device, address) in [(&router, "right", "10.79.2.1/24"), (&there, "veth", "10.79.2.2/24")] {
        host.ip(&["address", "add", address, "dev", device]).unwrap();
        host.ip(&["link", "set", device, "up"]).unwrap();
    }
    there.ip(&["route", "add", "default", "via", "10.79.2.1"]).unwrap();
    Some(([here, router, there], Middlebox::lay(inner, outer, behaviour)))
}

fn command(host: &Namespace, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host.name(), env!("CARGO_BIN_EXE_timeous")]).args(arguments);
    command.stdin(Stdio::null());
    command
}

#[test]
fn middleboxes_that_keep_or_swallow_changed_segments_are_found_out() {
    let name = "middleboxes_that_keep_or_swallow_changed_segments_are_found_out";
    let probed = |(label, behaviour)| {
        let ([here, _router, there], _middlebox) = hosts(label, behaviour)?;
        let files = Files::new();
        let uri = "timeous://:7000?transport=auto&encryption=off";
        let mut receiving = command(&there, &["recv", uri, &files.path("out.h264")]);
        receiving.stdout(Stdio::null());
        let mut receiver = Running::start(receiving);
        receiver.until_it_says(" at ");
        let output = command(&here, &["probe", "10.79.2.2:7000", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["property"] == "changed retransmissions").unwrap();
        let say = |key: &str| found[key].as_str().unwrap().to_owned();
        Some((say("verdict"), say("why"), report["advice"].to_string()))
    };
    // Each waits for seconds.
    let [kept, swallowed] = thread::scope(|scope| {
        let each = [("keep", Behaviour::Keep), ("swallow", Behaviour::Swallow)];
        each.map(|one| scope.spawn(move || probed(one))).map(|one| one.join().unwrap())
    });
    let (Some(kept), Some(swallowed)) = (kept, swallowed) else {
        return skip(name, "the right to make network namespaces");
    };
    assert_eq!((kept.0.as_str(), kept.1.contains("a middlebox keeps it")), ("no", true), "{kept:?}");
    assert_eq!((swallowed.0.as_str(), swallowed.1.contains("swallowed in 3 of 3")), ("no", true), "{swallowed:?}");
}
