//! Selection among a few fixed rates, such as layers or simulcast encodings, by the stream's advice.

use timeous_core::{Advice, Duration, Instant, Rate, Reason};

/// Time for which there must be room before the next higher rate is tried (docs/design/encoder-feedback.md). Chosen by
/// us: a higher value rises later.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Duration of a higher rate below which it has failed: the next try waits twice as long (like the join experiments of
/// layered multicast, McCanne, Jacobson & Vetterli 1996 §3.2). Chosen by us (docs/design/encoder-feedback.md).
const MIN_LASTING: Duration = Duration::from_secs(8);
/// Maximum wait before the next higher rate is tried. Chosen by us: a higher value uses regained capacity later.
const MAX_WAIT: Duration = Duration::from_secs(16);

/// Current step on a list of rising rates: down at once as far as advised, up by one step after there was room for a
/// while.
///
/// A step up needs a path that is expected to carry the higher rate ([`Advice::path`]) for a second. A path's capacity
/// is known up to about twice the sending rate, so adjacent rates should not be further apart.
///
/// ```
/// use timeous::Ladder;
/// use timeous::core::Rate;
/// let ladder = Ladder::new([200, 400, 800].map(Rate::from_kbps).to_vec()).unwrap();
/// assert_eq!((ladder.step(), ladder.rate()), (0, Rate::from_kbps(200)));
/// assert!(Ladder::new(vec![]).is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Ladder {
    rates: Vec<Rate>,
    step: usize,
    /// Start of the current period with room for the next rate.
    room: Option<Instant>,
    /// Required length of that period.
    wait: Duration,
    /// Time of the last step up.
    tried: Option<Instant>,
}

impl Ladder {
    /// Creates a ladder at the lowest of `rates`; `None` if they are empty or not strictly rising.
    #[must_use]
    pub fn new(rates: Vec<Rate>) -> Option<Self> {
        let rise = rates.first()? > &Rate::ZERO && rates.is_sorted_by(|low, high| low < high);
        rise.then_some(Self { rates, step: 0, room: None, wait: FIRST_WAIT, tried: None })
    }

    /// Index of the current rate.
    #[must_use]
    pub const fn step(&self) -> usize {
        self.step
    }

    /// Current rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rates[self.step]
    }

    /// Sets the step, at most the highest, after the source has changed its rate by itself.
    pub fn take(&mut self, step: usize) {
        let step = step.min(self.rates.len() - 1);
        if step != self.step {
            (self.step, self.room, self.tried) = (step, None, None);
        }
    }

    /// Follows advice; returns whether the step changed.
    pub fn follow(&mut self, advice: &Advice) -> bool {
        match advice.reason {
            Reason::Room => self.go_up(advice),
            Reason::Filling | Reason::Overfull | Reason::Late => self.go_down(advice),
            _ => false,
        }
    }

    fn go_up(&mut self, advice: &Advice) -> bool {
        let fits = self.rates.get(self.step + 1).is_some_and(|above| advice.path.is_some_and(|path| path >= *above));
        if !fits {
            self.room = None;
            return false;
        }
        let since = *self.room.get_or_insert(advice.at);
        let lasts = advice.at.saturating_since(since) >= self.wait;
        if lasts {
            self.step += 1;
            (self.room, self.tried) = (None, Some(advice.at));
        }
        lasts
    }

    fn go_down(&mut self, advice: &Advice) -> bool {
        self.room = None;
        let fitting = self.rates.iter().rposition(|rate| *rate <= advice.rate).unwrap_or(0);
        if fitting >= self.step {
            return false;
        }
        let failed = self.tried.is_some_and(|at| advice.at.saturating_since(at) < MIN_LASTING);
        self.wait = if failed { (self.wait * 2).min(MAX_WAIT) } else { FIRST_WAIT };
        (self.step, self.tried) = (fitting, None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder() -> Ladder {
        Ladder::new([200, 400, 800].map(Rate::from_kbps).to_vec()).unwrap()
    }

    fn advice(millis: u64, reason: Reason, rate: u64, path: u64) -> Advice {
        let mut advice = Advice::new(Instant::ZERO + Duration::from_millis(millis), reason);
        (advice.rate, advice.path) = (Rate::from_kbps(rate), Some(Rate::from_kbps(path)));
        advice
    }

    /// Room for all is told of every 200 ms from `from` on: when the next step is taken.
    fn climbs(ladder: &mut Ladder, from: u64) -> u64 {
        let mut told = (from..).step_by(200);
        told.find(|&at| ladder.follow(&advice(at, Reason::Room, 250, 2_000))).unwrap()
    }

    #[test]
    fn rates_rise() {
        for rates in [&[][..], &[0, 4], &[4, 4], &[4, 3]] {
            assert!(Ladder::new(rates.iter().copied().map(Rate::from_kbps).collect()).is_none(), "{rates:?}");
        }
    }

    #[test]
    fn one_is_added_where_there_is_room_for_a_second_and_no_more_than_there_are() {
        let mut ladder = ladder();
        assert_eq!(climbs(&mut ladder, 0), 1_000);
        assert_eq!(climbs(&mut ladder, 1_200), 2_200);
        assert_eq!(ladder.rate(), Rate::from_kbps(800));
        assert!(!ladder.follow(&advice(9_000, Reason::Room, 2_000, 2_000)));
    }

    #[test]
    fn room_is_for_the_whole_of_the_next_one_and_without_a_break() {
        let mut ladder = ladder();
        for at in (0..5_000).step_by(200) {
            assert!(!ladder.follow(&advice(at, Reason::Room, 250, 399)));
        }
        for at in [5_000, 5_800] {
            assert!(!ladder.follow(&advice(at, Reason::Room, 250, 400)));
        }
        assert!(!ladder.follow(&advice(5_900, Reason::Filling, 200, 200)), "what it has still fits");
        assert_eq!(climbs(&mut ladder, 6_000), 7_000);
    }

    #[test]
    fn what_the_source_takes_by_itself_is_where_advice_goes_on_from() {
        let mut ladder = ladder();
        assert!(!ladder.follow(&advice(0, Reason::Room, 250, 2_000)));
        ladder.take(1);
        assert_eq!((ladder.step(), climbs(&mut ladder, 800)), (1, 1_800));
        ladder.take(9);
        assert_eq!(ladder.step(), 2);
        ladder.take(1);
        assert!(ladder.follow(&advice(3_000, Reason::Filling, 300, 300)));
        assert_eq!(climbs(&mut ladder, 4_000), 5_000, "nothing that was tried has failed");
    }

    #[test]
    fn what_does_not_fit_is_left_out_at_once_all_of_it() {
        for (reason, rate, step) in [(Reason::Filling, 799, 1), (Reason::Overfull, 300, 0), (Reason::Late, 10, 0)] {
            let mut ladder = ladder();
            climbs(&mut ladder, 0);
            climbs(&mut ladder, 2_000);
            assert!(ladder.follow(&advice(20_000, reason, rate, 2_000)));
            assert_eq!(ladder.step(), step);
            assert!(!ladder.follow(&advice(20_100, reason, rate, 2_000)));
        }
    }

    #[test]
    fn a_try_that_failed_makes_the_next_one_wait_longer_until_one_stays() {
        let mut ladder = ladder();
        let mut now = climbs(&mut ladder, 0);
        for wait in [2, 4, 8, 16, 16] {
            assert!(ladder.follow(&advice(now + 500, Reason::Filling, 200, 200)));
            let begin = now + 1_000;
            now = climbs(&mut ladder, begin);
            assert_eq!(now - begin, wait * 1_000);
        }
        assert!(ladder.follow(&advice(now + 9_000, Reason::Filling, 200, 200)));
        assert_eq!(climbs(&mut ladder, now + 10_000), now + 11_000);
    }
}
