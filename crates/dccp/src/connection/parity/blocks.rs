//! A block of data: what it gets in parity, and when, by the losses seen and by what time is left.

use timeous_core::{AduMeta, Duration, Instant, PathState, Priority};

use crate::seq::Seq;

/// As many packets make a block at most.
pub(super) const MOST_DATA: usize = 48;
/// The numbers of a block are so close together that the option names them all.
pub(super) const MOST_SPAN: u64 = 64;
/// As many packets of parity for a block at most.
pub(super) const MOST_PARITY: usize = 24;
/// A block should fail no more often than that.
const RESIDUAL: f64 = 1e-3;
/// What nothing is worth more than, less often.
const RESIDUAL_OF_HIGHEST: f64 = 1e-4;
/// The time that a packet needs besides the path.
const MARGIN: Duration = Duration::from_millis(5);
/// Blocks of data without a deadline stay open for so long at most, and others as well.
const LONGEST: Duration = Duration::from_millis(200);

/// Data that were sent and wait for their parity.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(super) seqs: Vec<Seq>,
    /// Each with its length before it.
    pub(super) shards: Vec<Vec<u8>>,
    /// The parity has to leave by then.
    pub(super) due: Instant,
    /// And must not after.
    pub(super) deadline: Instant,
    priority: Priority,
}

impl Block {
    pub(super) fn new() -> Self {
        let never = Instant::FAR_FUTURE;
        Self { seqs: Vec::new(), shards: Vec::new(), due: never, deadline: never, priority: Priority::LOWEST }
    }

    pub(super) fn has_room_for(&self, seq: Seq) -> bool {
        self.seqs.len() < MOST_DATA && self.seqs.first().is_none_or(|&first| seq.distance_from(first) < MOST_SPAN)
    }

    pub(super) fn add(&mut self, now: Instant, path: &PathState, seq: Seq, meta: &AduMeta, payload: &[u8]) {
        let mut shard = Vec::with_capacity(payload.len() + 2);
        shard.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        shard.extend_from_slice(payload);
        self.seqs.push(seq);
        self.shards.push(shard);
        self.priority = self.priority.max(meta.priority);
        let deadline = meta.deadline.unwrap_or(Instant::FAR_FUTURE);
        let left = deadline.saturating_since(now);
        let way = path.one_way() + path.srtt.unwrap_or(Duration::ZERO) / 8 + path.rttvar + MARGIN;
        self.due = self.due.min(now + left.saturating_sub(way).min(LONGEST));
        self.deadline = self.deadline.min(deadline);
    }

    /// How many packets of parity it gets.
    pub(super) fn parity(&self, loss: f64, burst: f64) -> usize {
        let residual = if self.priority == Priority::HIGHEST { RESIDUAL_OF_HIGHEST } else { RESIDUAL };
        parity(self.seqs.len(), loss, burst, residual)
    }
}

/// The least number of parity packets so that of all together more than that are lost in a share of `residual` of the blocks
/// only, where each is lost with probability `loss`. Losses that come `burst` at a time take as many more.
fn parity(data: usize, loss: f64, burst: f64, residual: f64) -> usize {
    if loss <= 0.0 {
        return 0;
    }
    let loss = loss.min(0.5);
    let fits = |count: usize| fails(data + count, count, loss) <= residual;
    let least = (1..MOST_PARITY).find(|&count| fits(count)).unwrap_or(MOST_PARITY);
    let most = MOST_PARITY.min(data.max(1) * 2);
    ((least as f64 * burst.clamp(1.0, 4.0)).round() as usize).clamp(1, most.max(least).min(MOST_PARITY))
}

/// The probability that more than `spare` of `all` are lost.
fn fails(all: usize, spare: usize, loss: f64) -> f64 {
    let mut exactly = (1.0 - loss).powi(all as i32);
    let mut within = exactly;
    for lost in 1..=spare {
        exactly *= (all - lost + 1) as f64 / lost as f64 * loss / (1.0 - loss);
        within += exactly;
    }
    1.0 - within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_follows_the_losses() {
        let of = |data, loss| parity(data, loss, 1.0, RESIDUAL);
        assert_eq!([of(1, 0.0), of(10, 0.0)], [0, 0], "where nothing is lost nothing is added");
        assert_eq!([of(1, 0.02), of(1, 0.05)], [1, 2], "4 in 10000; 1 in 10000");
        assert_eq!([of(10, 0.02), of(10, 0.05), of(48, 0.05)], [3, 4, 9]);
        assert!((1..=64).all(|data| (1..60).all(|percent| of(data, f64::from(percent) / 100.0) <= MOST_PARITY)));
        assert_eq!(parity(10, 0.02, 2.0, RESIDUAL), 6, "two at a time");
    }

    #[test]
    fn probabilities_are_the_binomial_distributions() {
        assert!((fails(2, 1, 0.1) - 0.01).abs() < 1e-12);
        assert!((fails(3, 1, 0.5) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_block_is_due_while_its_first_can_still_be_saved() {
        let srtt = Some(Duration::from_millis(80));
        let path = PathState { srtt, min_rtt: srtt, ..PathState::default() };
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let meta = |ms| AduMeta { deadline: Some(at(ms)), ..AduMeta::default() };
        let mut block = Block::new();
        block.add(at(0), &path, Seq::new(1), &meta(100), b"a");
        assert_eq!(block.due, at(100 - 40 - 10 - 5));
        block.add(at(10), &path, Seq::new(2), &meta(110), b"b");
        assert_eq!((block.due, block.deadline), (at(45), at(100)));
        assert!(block.has_room_for(Seq::new(64)) && !block.has_room_for(Seq::new(65)));
    }
}
