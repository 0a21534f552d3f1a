//! An engine whose thread stands still in the middle of a round, as on a busy machine.

use std::sync::Arc;

use timeous_core::{AduMeta, Duration, Instant, LateChoice, PathState, Queue};
use timeous_engine::{Carrier, CloseReason, Engine, Status, StreamConfig, clock};

const PATIENCE: Duration = Duration::from_secs(30);

/// Late choice that takes longer than a round may.
struct Slow;

impl LateChoice for Slow {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {
        std::thread::park_timeout(Duration::from_millis(3).into());
    }
}

/// Regression, found by senders beside busy processes: the round ended before what it had made to do was done, and the engine's thread
/// panicked as it was about to sleep.
#[test]
fn a_round_that_the_machine_stopped_is_followed_by_another_before_the_engine_sleeps() {
    let slow = || StreamConfig { choice: Arc::new(|| Box::new(Slow)), slots: 16, ..StreamConfig::new(Carrier::Udp) };
    let engine = Engine::start().unwrap();
    let mut listener = engine.listen("127.0.0.1:0".parse().unwrap(), StreamConfig::new(Carrier::Udp)).unwrap();
    let mut busy = engine.connect(listener.local_addr(), slow()).unwrap();
    let _busy_far = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
    for _ in 0..100 {
        let mut ending = engine.connect(listener.local_addr(), StreamConfig::new(Carrier::Udp)).unwrap();
        let _far = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
        ending.sending().enqueue(&AduMeta::default(), b"the last").unwrap();
        ending.sending().finish();
        let end = clock::now() + PATIENCE;
        while !matches!(ending.status(), Status::Closed(_)) {
            assert!(clock::now() < end, "the stream is {:?}", ending.status());
            // A full ring keeps the other stream busy as well.
            let _ = busy.sending().enqueue(&AduMeta::default(), b"again and again");
            while busy.sending().poll_completion().is_some() {}
            ending.sending().wait(Some(clock::now() + Duration::from_millis(1)));
        }
        assert_eq!(ending.status(), Status::Closed(CloseReason::Local), "the engine is there still");
    }
}
