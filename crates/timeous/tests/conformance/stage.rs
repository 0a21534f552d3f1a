//! Interface of a stage: runs a stream from a sender to a receiver, in virtual or real time.

use std::collections::BTreeMap;

use timeous::core::{Duration, Fate, Instant};
use timeous::{CloseReason, Status};
use timeous_engine::Producer;

use crate::scene::Scene;

/// Time limit of a case, longer than any success takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between checks.
const LOOK: Duration = Duration::from_millis(5);

/// Reason why an ADU was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    TooLarge { max: usize },
    Closed,
}

/// Times of an ADU, known in virtual time: queued, each copy sent, arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) offered: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) left: Vec<Instant>,
    pub(crate) arrived: Option<Instant>,
}

pub(crate) trait Stage: Sized {
    /// The listener listens, if the scene has one.
    fn set(scene: &Scene) -> Self;

    /// The caller, who sends, calls for a service.
    fn call(&mut self, service: [u8; 4]) -> Result<(), CloseReason>;

    /// The present.
    fn now(&self) -> Instant;

    /// Hands over an ADU; its number.
    fn send(&mut self, bytes: &[u8], deadline: Option<Instant>) -> Result<u64, Refusal>;

    /// Does something to the ring.
    fn with_ring<R>(&mut self, act: impl FnOnce(&mut Producer) -> R) -> R;

    /// Lets time pass.
    fn pass(&mut self, time: Duration);

    /// Fates reported so far, each once.
    fn fates(&mut self) -> &BTreeMap<u64, Fate>;

    /// Data received so far, in order.
    fn received(&mut self) -> &[Vec<u8>];

    /// State of the sender's end.
    fn sending(&mut self) -> Status;

    /// State of the receiver's end.
    fn receiving(&mut self) -> Status;

    /// The sender has sent all it had.
    fn finish(&mut self);

    /// The sender is gone.
    fn drop_sender(&mut self);

    /// The receiver is gone.
    fn drop_receiver(&mut self);

    /// Drops all packets in both directions from now on.
    fn cut(&mut self);

    /// Where time is virtual, all that is known of each ADU.
    fn times(&self) -> Option<Vec<Times>>;

    /// A scene whose call succeeds.
    fn open(scene: &Scene) -> Self {
        let mut stage = Self::set(scene);
        stage.call(scene.asks_for).unwrap();
        stage
    }

    /// Lets time pass until something is so.
    #[track_caller]
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = self.now() + PATIENCE;
        while !is_so(self) {
            assert!(self.now() < end, "waiting in vain until {what}: {:?} {:?}", self.sending(), self.receiving());
            self.pass(LOOK);
        }
    }

    /// Waits for the fates of `count` ADUs, which are all that there are.
    #[track_caller]
    fn all_fates(&mut self, count: usize) -> BTreeMap<u64, Fate> {
        self.wait_until("every ADU has its fate", |stage| stage.fates().len() >= count);
        assert_eq!(self.fates().len(), count);
        self.fates().clone()
    }
}
