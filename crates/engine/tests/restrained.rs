//! Over the kernel's TCP, a delay-based controller limits the sending below the kernel's window. The test uses an
//! emulated link with a long queue, between network namespaces. Needs root.

mod test_network;

use std::io::Read;
use std::net::TcpListener;
use std::thread;

use test_network::TestNetwork;
use timeous_cm::Kind;
use timeous_core::{AduMeta, AduSeq, Duration, Rate};
use timeous_engine::{Carrier, Engine, Sealing, Status, StreamConfig, TcpConfig, clock};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};

const PATIENCE: Duration = Duration::from_secs(60);
const DATAGRAMS: u64 = 600;

/// Two ends of a link of 2 Mbit/s with a queue of two seconds.
fn deep_queue() -> Option<TestNetwork> {
    let delay = Duration::from_millis(10);
    let network = TestNetwork::make("restrained", |config| {
        let capacity = Capacity::Fixed(Rate::from_kbps(2_000));
        config.forward = LinkConfig { capacity, queue: Limit::Bytes(500_000), delay, ..LinkConfig::default() };
        config.back = LinkConfig { delay, ..LinkConfig::default() };
    })?;
    // A loss-based controller, which fills queues, instead of this machine's default.
    network.left.set_sysctl("net/ipv4/tcp_congestion_control", "reno").unwrap();
    Some(network)
}

/// Sends data that would fill the queue for over a second; returns the longest smoothed RTT and the number of arrivals.
fn longest_round_trip(network: &TestNetwork, controller: Option<Kind>) -> (Duration, u64) {
    let listener = network.right.within(|| TcpListener::bind("10.77.0.2:0").unwrap()).unwrap();
    network
        .left
        .within(|| {
            let engine = Engine::start().unwrap();
            let config = StreamConfig {
                tcp: TcpConfig { controller, silence: PATIENCE, ..TcpConfig::default() },
                slots: 1_024,
                sealing: Sealing::Off,
                ..StreamConfig::new(Carrier::Tcp)
            };
            let mut stream = engine.connect(listener.local_addr().unwrap(), config).unwrap();
            let mut peer = listener.accept().unwrap().0;
            let reader = thread::spawn(move || peer.read_to_end(&mut Vec::new()));
            for seq in 0..DATAGRAMS {
                let meta = AduMeta { seq: AduSeq(seq), enqueued: clock::now(), ..AduMeta::default() };
                stream.sending().enqueue(&meta, &[7; 1_100]).unwrap();
            }
            stream.sending().finish();
            let (end, mut longest) = (clock::now() + PATIENCE, Duration::ZERO);
            while !matches!(stream.status(), Status::Closed(_)) {
                assert!(clock::now() < end, "{:?}", stream.sending().snapshot());
                longest = longest.max(stream.sending().snapshot().path.srtt.unwrap_or_default());
                while stream.sending().poll_completion().is_some() {}
                stream.sending().wait(Some(clock::now() + Duration::from_millis(10)));
            }
            reader.join().unwrap().unwrap();
            let acked = stream.sending().snapshot().transport.acked;
            assert!(
                engine.congestion().lock().snapshot().macroflows.iter().all(|macroflow| macroflow.flows.is_empty())
            );
            (longest, acked)
        })
        .unwrap()
}

#[test]
fn a_controller_by_delay_leaves_the_queue_empty_that_the_kernel_alone_fills() {
    let Some(network) = deep_queue() else { return };
    let (filled, all) = longest_round_trip(&network, None);
    assert_eq!(all, DATAGRAMS);
    let (short, all) = longest_round_trip(&network, Some(Kind::Live));
    assert_eq!(all, DATAGRAMS, "what is held back leaves");
    assert!(short * 3 < filled, "{} ms beside {} ms", short.as_millis(), filled.as_millis());
}
