//! Link rate estimation by packet trains: packets that queued behind each other, so that the link had no gap between
//! them (Keshav, SIGCOMM 1991; Dovrolis, Ramanathan & Moore, INFOCOM 2001). A train measures the link within a frame,
//! however rarely the stream fills it.

use timeous_core::{Duration, Instant};

use super::extreme::{Greatest, Least};

/// Minimum train, in packets and duration. Chosen by us: acknowledgements cover two packets, and a single packet's is
/// delayed by up to 20 ms. A higher value finds fewer trains; a lower one measures the rate less accurately.
const MIN_TRAIN: (u64, Duration) = (4, Duration::from_millis(40));
/// Minimum train of a stream's first flight, in packets and duration (docs/decisions/packet-trains.md). With cross
/// traffic so short a train overestimates one flow's share.
const MIN_FLIGHT_TRAIN: (u64, Duration) = (6, Duration::from_millis(10));
/// Window of the maximum filter for train rates: a train whose acknowledgements were held up shows too low a rate.
/// Chosen by us. A higher value keeps the rate of a link that has become slower.
const RATE_WINDOW: Duration = Duration::from_millis(300);
/// Ratio of the fastest to the slowest train within `VARYING_WINDOW` above which the link's rate varies (option 1 of
/// docs/decisions/varying-links.md).
const VARYING_RATIO: f64 = 2.0;
/// Window in which train rates are compared, and of the best rate after a pause (docs/decisions/varying-links.md).
const VARYING_WINDOW: Duration = Duration::from_secs(10);

/// Packet train estimator, in bytes and seconds.
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
        Self::of(MIN_TRAIN)
    }
}

impl Trains {
    /// Also accepts trains as short as a first flight.
    pub(super) fn of_flights() -> Self {
        Self::of(MIN_FLIGHT_TRAIN)
    }

    fn of(least: (u64, Duration)) -> Self {
        let (fastest, slowest) = (Greatest::default(), Least::default());
        Self { least, train: None, best: Greatest::default(), latest: None, fastest, slowest }
    }

    /// Takes an acknowledgement of packets of at most `mtu` bytes. `waited`: whether its newest packet queued behind
    /// another, if known.
    pub(super) fn acked(&mut self, now: Instant, bytes: u64, mtu: u64, waited: Option<bool>) {
        if waited == Some(false) {
            // The next packet, if it queues, queues behind this one.
            self.train = Some(Train { began: now, bytes: 0 });
            return;
        }
        let Some(train) = &mut self.train else { return };
        train.bytes += bytes;
        let lasted = now.saturating_since(train.began);
        let (packets, time) = self.least;
        if waited.is_some() && lasted >= time && train.bytes >= packets * mtu {
            let rate = train.bytes as f64 / lasted.as_secs_f64();
            self.best.measured(now, RATE_WINDOW, rate);
            self.latest = Some((now, rate));
            self.fastest.measured(now, VARYING_WINDOW, rate);
            self.slowest.measured(now, VARYING_WINDOW, rate);
            self.train = Some(Train { began: now, bytes: 0 });
        }
    }

    /// Rate of the latest train.
    pub(super) fn latest(&self) -> Option<f64> {
        self.latest.map(|(_, rate)| rate)
    }

    /// Maximum recent rate, if the latest train ended within this time.
    pub(super) fn rate(&self, now: Instant, within: Duration) -> Option<f64> {
        let (at, _) = self.latest?;
        self.best.get().filter(|_| now.saturating_since(at) <= within)
    }

    /// Maximum rate within the compared period, if a train ended in it.
    pub(super) fn best(&self, now: Instant) -> Option<f64> {
        let (at, _) = self.latest?;
        self.fastest.get().filter(|_| now.saturating_since(at) <= VARYING_WINDOW)
    }

    /// Whether the link rate varies.
    pub(super) fn is_unsteady(&self) -> bool {
        self.fastest.get().zip(self.slowest.get()).is_some_and(|(fastest, slowest)| fastest > VARYING_RATIO * slowest)
    }

    /// Ends the current train at a pause.
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

    /// Acknowledges packets 10 ms apart, of which all but the first queued.
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
