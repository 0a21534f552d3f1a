//! Tests of `transport=auto` behind a firewall that blocks UDP, from the start or later. Needs root and nftables.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::thread;

use timeous::core::{Duration, Fate, Instant};
use timeous::{Arrival, Hints, Receiver, Sender, Uri, clock};
use timeous_net::emulator::{EmulatorError, Namespace};

const PATIENCE: Duration = Duration::from_secs(30);
/// Keys of an encrypted stream's URI.
const ENCRYPTED: &str = "&passphrase=correct-horse-1";

/// Says that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

fn nft(rule: &str) -> bool {
    let nft = Command::new("nft").arg(rule).stdin(Stdio::null()).output();
    nft.is_ok_and(|output| output.status.success())
}

fn block_udp() {
    assert!(nft("add rule inet t input meta l4proto udp drop"));
}

/// Runs `work` where there is nothing but a loopback with a firewall. All in one test, since the streams of a process share
/// one engine, whose thread is in one namespace.
fn within(test: &str, work: impl FnOnce() + Send) {
    let namespace = match Namespace::open_or_make(&format!("timeous-{test}-{}", std::process::id())) {
        Ok(namespace) => namespace,
        Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
            return skip(test, &format!("root and iproute2 ({error})"));
        }
        Err(error) => panic!("{error}"),
    };
    namespace.ip(&["link", "set", "lo", "up"]).unwrap();
    let done = namespace.within(|| {
        if !nft("add table inet t") {
            return false;
        }
        assert!(nft("add chain inet t input { type filter hook input priority 0; }"));
        work();
        true
    });
    if !done.unwrap() {
        skip(test, "nftables");
    }
}

fn uri(text: &str) -> Uri {
    text.parse().unwrap()
}

/// Waits until a listener has its port in UDP and in TCP: a call in between is refused by UDP, and goes on over TCP.
fn until_listening(port: u16) {
    let is_bound = |protocol: &str| {
        let sockets = std::fs::read_to_string(format!("/proc/thread-self/net/{protocol}")).unwrap();
        sockets.contains(&format!(":{port:04X} 00000000:0000"))
    };
    let end = clock::now() + PATIENCE;
    while !(is_bound("udp") && is_bound("tcp")) {
        assert!(clock::now() < end, "nobody listens at {port}");
        timeous::Waker::new().unwrap().wait(Some(Duration::from_millis(5)));
    }
}

/// The two ends of a stream; the sender is the caller, or the listener. `security`: more keys of both URIs.
fn ends(port: u16, sender_calls: bool, security: &str) -> (Sender, Receiver) {
    let query = format!("transport=auto&latency=8s&policy=deadline&slots=4096&timeout=10s{security}");
    let listener = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&{query}"));
    let caller = uri(&format!("timeous://127.0.0.1:{port}?{query}"));
    thread::scope(|scope| {
        if sender_calls {
            let receiver = scope.spawn(|| Receiver::open(&listener).unwrap());
            until_listening(port);
            (Sender::open(&caller).unwrap(), receiver.join().unwrap())
        } else {
            let sender = scope.spawn(|| Sender::open(&listener).unwrap());
            until_listening(port);
            let receiver = Receiver::open(&caller).unwrap();
            (sender.join().unwrap(), receiver)
        }
    })
}

/// The statistics are written down now and then.
fn is_carried_by(sender: &Sender, transport: &str) {
    let end = clock::now() + PATIENCE;
    while sender.stats().transport != transport {
        assert!(clock::now() < end, "{:?}", sender.stats());
        sender.wait(Some(clock::now() + Duration::from_millis(20)));
    }
}

/// Sends numbered ADUs, one each 5 ms, until the receiver has got one that was sent after `since`; when that came.
fn send_until_received(
    sender: &mut Sender,
    receiver: &mut Receiver,
    sent: &mut Vec<Instant>,
    got: &mut BTreeSet<u64>,
    since: Instant,
) -> Instant {
    loop {
        assert!(clock::now() < since + PATIENCE, "{:?} {:?}", sender.stats(), receiver.stats());
        let now = clock::now();
        let seq = sender.send(&(sent.len() as u64).to_be_bytes(), Hints::default()).unwrap();
        assert_eq!(seq.0, sent.len() as u64);
        sent.push(now);
        if let Some(at) = hear(receiver, sent, got, now + Duration::from_millis(5), since) {
            return at;
        }
    }
}

/// Takes in what comes until `until`; when something came that was sent after `since`.
fn hear(
    receiver: &mut Receiver,
    sent: &[Instant],
    got: &mut BTreeSet<u64>,
    until: Instant,
    since: Instant,
) -> Option<Instant> {
    let mut fresh = None;
    while let Arrival::Data(data) = receiver.receive(Some(until)).unwrap() {
        let number = u64::from_be_bytes(data.bytes[..].try_into().unwrap());
        got.insert(number);
        if sent[number as usize] > since {
            fresh = fresh.or(Some(data.at));
        }
    }
    fresh
}

/// Everything that was sent has arrived, and has one fate.
fn all_arrives(sender: &mut Sender, receiver: &mut Receiver, sent: &[Instant], got: &mut BTreeSet<u64>) {
    let end = clock::now() + PATIENCE;
    let mut fates = Vec::new();
    while got.len() < sent.len() || sender.pending() > 0 {
        assert!(clock::now() < end, "{} of {}, {} pending", got.len(), sent.len(), sender.pending());
        hear(receiver, sent, got, clock::now() + Duration::from_millis(20), Instant::FAR_FUTURE);
        fates.extend(std::iter::from_fn(|| sender.poll_delivery()));
    }
    let seqs: BTreeSet<u64> = fates.iter().map(|delivery| delivery.seq.0).collect();
    assert!(fates.iter().all(|delivery| delivery.fate == Fate::Acked), "{fates:?}");
    assert_eq!(seqs.len(), fates.len(), "each has one fate");
}

#[test]
fn a_stream_goes_on_over_tcp_where_udp_is_blocked_and_loses_nothing() {
    within("blocked", || {
        for (port, sender_calls, security) in
            [(7_001, true, ""), (7_002, false, ""), (7_005, true, ENCRYPTED), (7_006, false, ENCRYPTED)]
        {
            let (mut sender, mut receiver) = ends(port, sender_calls, security);
            let (mut sent, mut got) = (Vec::new(), BTreeSet::new());
            let began = clock::now();
            send_until_received(&mut sender, &mut receiver, &mut sent, &mut got, began + Duration::from_millis(300));
            is_carried_by(&sender, "dccp");
            block_udp();
            let blocked = clock::now();
            let at = send_until_received(&mut sender, &mut receiver, &mut sent, &mut got, blocked);
            println!("the sender calls: {sender_calls}; moved {:?} after UDP was blocked", at - blocked);
            is_carried_by(&sender, "tcp");
            all_arrives(&mut sender, &mut receiver, &sent, &mut got);
            assert!(nft("flush chain inet t input"));
            sender.finish().unwrap();
            assert_eq!(receiver.receive(Some(clock::now() + PATIENCE)).unwrap(), Arrival::End);
        }

        block_udp();
        for (port, sender_calls, security) in
            [(7_003, true, ""), (7_004, false, ""), (7_007, true, ENCRYPTED), (7_008, false, ENCRYPTED)]
        {
            let began = clock::now();
            let (mut sender, mut receiver) = ends(port, sender_calls, security);
            let (mut sent, mut got) = (Vec::new(), BTreeSet::new());
            let at = send_until_received(&mut sender, &mut receiver, &mut sent, &mut got, began);
            println!("the sender calls: {sender_calls}; streams {:?} after it began", at - began);
            is_carried_by(&sender, "tcp");
            all_arrives(&mut sender, &mut receiver, &sent, &mut got);
        }
    });
}
