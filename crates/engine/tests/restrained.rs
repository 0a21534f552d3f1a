//! Over the kernel's TCP a controller that keeps queues short holds back what the kernel would let go. Over an
//! emulated link with a long queue, between network namespaces. Needs root.

use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use timeous_choice::Deadlines;
use timeous_cm::Kind;
use timeous_core::{AduMeta, AduSeq, Duration, Instant, Rate};
use timeous_engine::{Carrier, DccpConfig, Engine, ServiceCode, Status, StreamConfig, TcpConfig, clock};
use timeous_net::LinkConfig;
use timeous_net::emulator::{Emulator as _, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};
use timeous_net::link::{Capacity, Limit};

const PATIENCE: Duration = Duration::from_secs(60);
const DATAGRAMS: u64 = 600;

/// Says that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// Two ends of a link of 2 Mbit/s that holds two seconds of that.
struct Bed {
    left: Namespace,
    right: Namespace,
    stopper: Stopper,
    router: Option<thread::JoinHandle<()>>,
}

impl Bed {
    fn make(test: &str) -> Option<Self> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-{test}-{}{side}", std::process::id()));
        let delay = Duration::from_millis(10);
        let capacity = Capacity::Fixed(Rate::from_kbps(2_000));
        let config = RouterConfig {
            forward: LinkConfig { capacity, queue: Limit::Bytes(500_000), delay, ..LinkConfig::default() },
            back: LinkConfig { delay, ..LinkConfig::default() },
            ..RouterConfig::new(&left, &right)
        };
        let mut router = match Router::open(config) {
            Ok(router) => router,
            Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
                skip(test, &format!("root and iproute2 ({error})"));
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let router = Some(thread::spawn(move || _ = router.run_until(Instant::FAR_FUTURE, &stop).unwrap()));
        let [left, right] = [left, right].map(|name| Namespace::open_or_make(&name).unwrap());
        // One that fills queues, whatever this machine's default is.
        left.set_sysctl("net/ipv4/tcp_congestion_control", "reno").unwrap();
        Some(Self { left, right, stopper, router })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stopper.stop();
        let _ = self.router.take().map(thread::JoinHandle::join);
    }
}

/// Sends so much that the queue would hold a second and more; the longest smoothed round trip, and how many arrived.
fn longest_round_trip(bed: &Bed, controller: Option<Kind>) -> (Duration, u64) {
    let listener = bed.right.within(|| TcpListener::bind("10.77.0.2:0").unwrap()).unwrap();
    bed.left
        .within(|| {
            let engine = Engine::start().unwrap();
            let config = StreamConfig {
                carrier: Carrier::Tcp,
                tcp: TcpConfig { controller, silence: PATIENCE, ..TcpConfig::default() },
                dccp: DccpConfig::default(),
                service: ServiceCode::from_bytes(*b"test"),
                dccp_port: 5_004,
                slots: 1_024,
                choice: Arc::new(|| Box::new(Deadlines)),
                repair: None,
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
    let Some(bed) = Bed::make("restrained") else { return };
    let (filled, all) = longest_round_trip(&bed, None);
    assert_eq!(all, DATAGRAMS);
    let (short, all) = longest_round_trip(&bed, Some(Kind::Copa));
    assert_eq!(all, DATAGRAMS, "what is held back leaves");
    assert!(short * 3 < filled, "{} ms beside {} ms", short.as_millis(), filled.as_millis());
}
