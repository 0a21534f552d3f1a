//! The rate of a link, by trains: packets that waited for each other at it, so that it had no pause between them (Keshav,
//! SIGCOMM 1991; Dovrolis, Ramanathan & Moore, INFOCOM 2001). It is known within a frame, however little of the time the stream
//! fills the link.

use timeous_core::{Duration, Instant};

use super::extreme::{Greatest, Least};

/// What a train has at least, packets and time. Acknowledgements come for two packets, and one alone waits for company for 20 ms.
const LEAST: (u64, Duration) = (4, Duration::from_millis(40));
/// As much has the first flight of a stream. Among others such a train tells more than there is for one.
const LEAST_OF_FLIGHT: (u64, Duration) = (6, Duration::from_millis(10));
/// The best train of so long counts: one that the link's way back held up tells too little.
const BEST_OF: Duration = Duration::from_millis(300);
/// A link is unsteady whose rate was as many times as much as at another time of as long.
const UNSTEADY: f64 = 2.0;
const COMPARED: Duration = Duration::from_secs(10);

/// Measures trains. It counts in bytes and seconds.
#[derive(Clone, Debug)]
pub(super) struct Trains {
    least: (u64, Duration),
    train: Option<Train>,
    best: Greatest<f64>,
    latest: Option<(Instant, f64)>,
    fastest: Greatest<f64>,
    slowest: Least<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    began: Instant,
    bytes: u64,
}

impl Default for Trains {
    fn default() -> Self {
        Self::of(LEAST)
    }
}

impl Trains {
    /// Those of a first flight count, too.
    pub(super) fn of_flights() -> Self {
        Self::of(LEAST_OF_FLIGHT)
    }

    fn of(least: (u64, Duration)) -> Self {
        let (fastest, slowest) = (Greatest::default(), Least::default());
        Self { least, train: None, best: Greatest::default(), latest: None, fastest, slowest }
    }

    /// Bytes are acknowledged, in packets of `mtu` at most. Did the newest of them wait behind another? `None`: that is not known.
    pub(super) fn acked(&mut self, now: Instant, bytes: u64, mtu: u64, waited: Option<bool>) {
        if waited == Some(false) {
            // What comes next, if it waits, waits for this one.
            self.train = Some(Train { began: now, bytes: 0 });
            return;
        }
        let Some(train) = &mut self.train else { return };
        train.bytes += bytes;
        let lasted = now.saturating_since(train.began);
        let (packets, time) = self.least;
        if waited.is_some() && lasted >= time && train.bytes >= packets * mtu {
            let rate = train.bytes as f64 / lasted.as_secs_f64();
            self.best.measured(now, BEST_OF, rate);
            self.latest = Some((now, rate));
            self.fastest.measured(now, COMPARED, rate);
            self.slowest.measured(now, COMPARED, rate);
            self.train = Some(Train { began: now, bytes: 0 });
        }
    }

    /// What the latest told.
    pub(super) fn latest(&self) -> Option<f64> {
        self.latest.map(|(_, rate)| rate)
    }

    /// The best of late, if one came within this time.
    pub(super) fn rate(&self, now: Instant, within: Duration) -> Option<f64> {
        let (at, _) = self.latest?;
        self.best.get().filter(|_| now.saturating_since(at) <= within)
    }

    /// The best of the time over which rates are compared, if anything was told in it.
    pub(super) fn best(&self, now: Instant) -> Option<f64> {
        let (at, _) = self.latest?;
        self.fastest.get().filter(|_| now.saturating_since(at) <= COMPARED)
    }

    /// Whether the rate goes up and down.
    pub(super) fn is_unsteady(&self) -> bool {
        self.fastest.get().zip(self.slowest.get()).is_some_and(|(fastest, slowest)| fastest > UNSTEADY * slowest)
    }

    /// What comes next waits for nothing of before.
    pub(super) fn pause(&mut self) {
        self.train = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1_000;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// So many packets, 10 ms from each to the next, of which all but the first waited.
    fn train(trains: &mut Trains, from: u64, count: u64) {
        for n in 0..count {
            trains.acked(at(from + 10 * n), MTU, MTU, Some(n > 0));
        }
    }

    #[test]
    fn what_waited_for_each_other_tells_the_rate_of_the_link_and_pauses_are_not_counted() {
        let mut trains = Trains::default();
        let second = Duration::from_secs(1);
        train(&mut trains, 0, 4);
        assert_eq!(trains.rate(at(30), second), None, "too few");
        for burst in 1..5 {
            train(&mut trains, 500 * burst, 6);
        }
        assert_eq!(trains.rate(at(2_050), second), Some(100_000.0));
        assert_eq!(trains.rate(at(3_050), second), None, "that was long ago");
        assert_eq!(trains.latest(), Some(100_000.0));
        assert!(!trains.is_unsteady());
        (0..=10).for_each(|n| trains.acked(at(4_000 + 4 * n), MTU, MTU, Some(n > 0)));
        assert_eq!(trains.latest(), Some(250_000.0));
        assert!(trains.is_unsteady());
        assert_eq!(
            [trains.best(at(14_000)), trains.best(at(15_000))],
            [Some(250_000.0), None],
            "that was too long ago"
        );
    }

    #[test]
    fn of_a_first_flight_ten_milliseconds_are_enough() {
        let tell = |mut trains: Trains| {
            (0..=6).for_each(|n| trains.acked(at(2 * n), MTU, MTU, Some(n > 0)));
            trains.latest()
        };
        assert_eq!([tell(Trains::default()), tell(Trains::of_flights())], [None, Some(500_000.0)]);
    }

    #[test]
    fn packets_that_do_not_wait_tell_nothing() {
        let mut trains = Trains::default();
        (0..100).for_each(|n| trains.acked(at(10 * n), MTU, MTU, Some(false)));
        assert_eq!(trains.latest(), None);
        trains.pause();
        (0..100).for_each(|n| trains.acked(at(2_000 + 10 * n), MTU, MTU, Some(true)));
        assert_eq!(trains.latest(), None, "nor those of which none is known that did not");
    }
}
