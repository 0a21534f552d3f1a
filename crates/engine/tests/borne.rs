//! Detection of middleboxes on a lossy path: over an emulated link, behind a firewall that drops the first of some segments. Needs root,
//! iproute2 and nftables.

mod test_network;

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use test_network::TestNetwork;
use timeous_core::{AduMeta, AduSeq, Duration, Instant};
use timeous_engine::{Carrier, Engine, Reach, Sealing, Status, Stream, StreamConfig, TcpConfig, TcpFraming, clock};
use timeous_tcp::record::numbered_len;

const PATIENCE: Duration = Duration::from_secs(30);
const ONE_WAY: Duration = Duration::from_millis(50);
/// Length of the datagram whose segment is lost; all others are shorter.
const LOST: usize = 700;
const OTHERS: usize = 300;
/// Length of the headers of IP and TCP, and of timestamps.
const HEADERS: usize = 20 + 20 + 12;

fn nft(network: &TestNetwork, rule: &str) -> bool {
    let nft = || Command::new("nft").arg(rule).stdin(Stdio::null()).output();
    network.right.within(nft).unwrap().is_ok_and(|output| output.status.success())
}

fn send(stream: &mut Stream, seq: u64, len: usize, deadline: Instant) {
    let meta = AduMeta { seq: AduSeq(seq), deadline: Some(deadline), enqueued: clock::now(), ..AduMeta::default() };
    stream.sending().enqueue(&meta, &vec![0x40; len]).unwrap();
}

fn until(stream: &mut Stream, what: &str, mut so: impl FnMut(&mut Stream) -> bool) {
    let end = clock::now() + PATIENCE;
    while !so(stream) {
        assert!(clock::now() < end, "{what}: {:?}", stream.sending().snapshot());
        stream.sending().wait(Some(clock::now() + Duration::from_millis(10)));
    }
}

/// Regression, found by `tl-middleboxes --real`: after a lost retransmission, the changed one of the timeout was in flight while the place
/// was restored; its arrival counted as that of the original. After three of those the path was marked as unable to carry changes.
#[test]
fn a_path_that_loses_a_repair_is_not_taken_for_one_that_swallows_what_was_changed() {
    let Some(network) = TestNetwork::make("borne", |config| {
        config.forward.delay = ONE_WAY;
        config.back.delay = ONE_WAY;
    }) else {
        return;
    };
    if !nft(&network, "add table inet t") {
        eprintln!("SKIPPED borne: needs nftables");
        assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "it may not be skipped");
        return;
    }
    assert!(nft(&network, "add chain inet t input { type filter hook input priority 0; }"));
    // Drops a segment of this length and its first retransmission.
    let len = HEADERS + numbered_len(LOST);
    let quota = 2 * len + len / 2;
    assert!(nft(
        &network,
        &format!("add rule inet t input tcp dport 7000 ip length {len} quota until {quota} bytes drop")
    ));
    let listener = network.right.within(|| TcpListener::bind("10.77.0.2:7000").unwrap()).unwrap();
    let engine = network.left.within(Engine::start).unwrap().unwrap();
    let config = StreamConfig {
        tcp: TcpConfig { framing: TcpFraming::Records, silence: PATIENCE, ..TcpConfig::default() },
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Tcp)
    };
    let mut stream = engine.connect("10.77.0.2:7000".parse().unwrap(), config).unwrap();
    let mut peer = listener.accept().unwrap().0;
    let received = thread::spawn(move || {
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).unwrap();
    });
    let long = clock::now() + PATIENCE;
    send(&mut stream, 0, OTHERS, long);
    until(&mut stream, "the first one arrives", |stream| stream.sending().poll_completion().is_some());
    // Lost, and lost again an RTT later, when the other segments are acknowledged; the next retransmission is at the timeout, changed by
    // then.
    send(&mut stream, 1, LOST, clock::now() + ONE_WAY * 5);
    until(&mut stream, "it leaves", |stream| stream.sending().snapshot().transport.data_sent == 2);
    (2..6).for_each(|seq| send(&mut stream, seq, OTHERS, long));
    until(&mut stream, "all arrive", |stream| stream.sending().poll_completion().is_some_and(|done| done.seq.0 == 5));
    let view = stream.sending().snapshot().tcp.unwrap_or_default();
    assert_eq!((view.replaced + view.padded, view.unchanged), (1, 0), "it never went back: {view:?}");
    assert_eq!(view.reach, Reach::Retransmissions);
    stream.sending().finish();
    until(&mut stream, "the end", |stream| matches!(stream.status(), Status::Closed(_)));
    received.join().unwrap();
}
