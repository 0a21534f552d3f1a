//! A stage: a stream from a sender to a receiver, played in virtual or in real time.

use std::collections::BTreeMap;

use timeous::core::{Duration, Fate, Instant};
use timeous::{CloseReason, Status};
use timeous_engine::Producer;

use crate::scene::Scene;

/// Longer than anything takes that is going to happen; only a case that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How finely one looks.
const LOOK: Duration = Duration::from_millis(5);

/// Why an ADU was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    TooLarge { max: usize },
    Closed,
}

/// What is known where time is virtual: when each ADU was handed over, when each copy of it left, when it came.
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

    /// The fates told so far; none is told twice.
    fn fates(&mut self) -> &BTreeMap<u64, Fate>;

    /// What has come so far, in its order.
    fn received(&mut self) -> &[Vec<u8>];

    /// Where the sender's end stands.
    fn sending(&mut self) -> Status;

    /// Where the receiver's end stands.
    fn receiving(&mut self) -> Status;

    /// The sender has sent all it had.
    fn finish(&mut self);

    /// The sender is gone.
    fn drop_sender(&mut self);

    /// The receiver is gone.
    fn drop_receiver(&mut self);

    /// Nothing passes in either direction any more.
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
