//! Parity blocks: size, timing and amount of parity for data that were sent, by loss rate and deadlines.

use timeous_core::{AduMeta, Duration, FrameId, Instant, PathState, Priority};

use super::covered::BlockId;
use super::rebuild::padded;
use super::stake::is_referred_to;
use crate::options::PARITY_MAP;
use crate::seq::Seq;

/// Maximum number of data packets in a block (docs/decisions/parity-block-size.md): with 48 fewer frames survive bursts
/// of losses, with 235 no more.
const MAX_DATA: usize = 160;
/// Maximum span of a block, in sequence numbers: the Parity option's map has a bit for each of them.
const MAX_SPAN: u64 = PARITY_MAP as u64 * 8;
/// Maximum number of parity packets for a block. Chosen by us: a higher value protects large blocks on paths that lose
/// more than a quarter of their packets.
const MAX_PARITY: usize = 64;
/// Target failure probability of a block (docs/design/repair.md). Chosen by us: a lower value sends more parity.
const TARGET_FAILURE: f64 = 1e-3;
/// Target failure probability of a block with data of the highest priority (docs/design/repair.md). Chosen by us: a
/// lower value sends more parity.
const TARGET_FAILURE_OF_HIGHEST: f64 = 1e-4;
/// Time reserved for a packet's processing, besides the path's delay. Chosen by us: a higher value closes blocks
/// earlier, so that they are smaller.
const PROCESSING_TIME: Duration = Duration::from_millis(5);
/// Maximum time that a block stays open, with or without deadlines (docs/design/repair.md). Chosen by us: a higher
/// value makes larger blocks whose data is rebuilt later.
const MAX_OPEN_TIME: Duration = Duration::from_millis(200);

/// Data that were sent and wait for their parity.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(super) id: BlockId,
    pub(super) seqs: Vec<Seq>,
    /// Payloads, each preceded by its length.
    pub(super) shards: Vec<Vec<u8>>,
    /// Time at which the block closes, if that is the end of a frame.
    due: Instant,
    /// Time at which the block closes at the latest, within a frame or not.
    latest: Instant,
    /// Deadline of the data, after which parity is useless.
    pub(super) deadline: Instant,
    priority: Priority,
    pub(super) newest: AduMeta,
    /// Frame of the newest ADU, and number of frames.
    frame: FrameId,
    frames: usize,
    /// Number of ADUs without time for a retransmission.
    exposed: usize,
}

impl Block {
    pub(super) fn new(id: BlockId) -> Self {
        let never = Instant::FAR_FUTURE;
        Self {
            id,
            seqs: Vec::new(),
            shards: Vec::new(),
            due: never,
            latest: never,
            deadline: never,
            priority: Priority::LOWEST,
            newest: AduMeta::default(),
            frame: FrameId::NONE,
            frames: 0,
            exposed: 0,
        }
    }

    pub(super) fn has_room_for(&self, seq: Seq) -> bool {
        self.seqs.len() < MAX_DATA && self.seqs.first().is_none_or(|&first| seq.distance_from(first) < MAX_SPAN)
    }

    /// Adds sent data, whose one-way delay is estimated as `way`.
    pub(super) fn add(
        &mut self,
        now: Instant,
        (path, way): (&PathState, Duration),
        seq: Seq,
        meta: &AduMeta,
        payload: &[u8],
    ) {
        self.seqs.push(seq);
        self.shards.push(padded(payload, payload.len() + 2).expect("a payload is shorter than a datagram"));
        self.priority = self.priority.max(meta.priority);
        self.newest = *meta;
        self.frames += usize::from(meta.frame == FrameId::NONE || meta.frame != self.frame);
        self.frame = meta.frame;
        let deadline = meta.deadline.unwrap_or(Instant::FAR_FUTURE);
        // Estimated transmission time of the parity itself.
        let parity = path.rate.time_for((1 + self.seqs.len() as u64 / 4) * payload.len() as u64);
        let varies = path.srtt.unwrap_or(Duration::ZERO) / 8 + path.rttvar;
        let left = deadline.saturating_since(now).saturating_sub(parity + PROCESSING_TIME);
        let least = path.shortest_way();
        self.latest = self.latest.min(now + left.saturating_sub(least).min(MAX_OPEN_TIME));
        self.due = self.due.min(now + left.saturating_sub(way + varies).min(MAX_OPEN_TIME));
        self.deadline = self.deadline.min(deadline);
        self.exposed += usize::from(!path.has_second_chance(now, deadline));
    }

    /// Whether the block is to be closed now; `goes_on`: the next data may belong to the same frame.
    pub(super) fn is_due(&self, now: Instant, goes_on: bool) -> bool {
        now >= self.latest || now >= self.due && !goes_on
    }

    /// Whether the block's parity fits into spare capacity of `spare` per data packet: then it need not grow.
    pub(super) fn fits(&self, spare: f64, path: &PathState, burst: f64) -> bool {
        self.needed(f64::from(path.loss_ppm) / 1e6, burst) as f64 <= self.seqs.len() as f64 * spare
    }

    /// Whether an ADU with this `meta` begins another frame.
    pub(super) fn ends_before(&self, meta: &AduMeta) -> bool {
        meta.frame == FrameId::NONE || meta.frame != self.frame
    }

    /// Time of the next check.
    pub(super) fn watch(&self, now: Instant) -> Instant {
        if now < self.due { self.due } else { self.latest }
    }

    /// Returns the number of urgent parity packets, each worth more than a fresh packet, and the number in all.
    /// `to_follow`: packets still to come that a failed block makes useless.
    pub(super) fn parity(&self, loss: f64, burst: f64, (to_follow, price): (f64, f64)) -> (usize, usize) {
        let count = self.seqs.len();
        // A block that fails lost a few packets more than the mean.
        let losses = count as f64 * loss + 1.0;
        let stake = to_follow + count as f64 * spoilt(self.frames.max(1), losses, is_referred_to(&self.newest));
        // Data with time for a retransmission are lost only if that is lost, too.
        let exposed = self.exposed as f64 / count.max(1) as f64;
        let urgent = worth(count, loss * (exposed + (1.0 - exposed) * loss), burst, (stake, price));
        (urgent, self.needed(loss, burst).max(urgent))
    }

    fn needed(&self, loss: f64, burst: f64) -> usize {
        let residual = if self.priority == Priority::HIGHEST { TARGET_FAILURE_OF_HIGHEST } else { TARGET_FAILURE };
        parity(self.seqs.len(), loss, burst, residual)
    }
}

/// Share of `frames` that `losses` make useless: those hit or, in a chain of references, also all after the first one
/// hit.
fn spoilt(frames: usize, losses: f64, is_chain: bool) -> f64 {
    let frame = 1.0 / frames as f64;
    if is_chain { frame.max(losses / (losses + 1.0)) } else { 1.0 - (1.0 - frame).powf(losses) }
}

/// Number of parity packets that minimizes the expected cost: their price, plus `stake` times the probability that the
/// block fails.
fn worth(data: usize, loss: f64, burst: f64, (stake, price): (f64, f64)) -> usize {
    if loss <= 0.0 {
        return 0;
    }
    let mut lost = Lost::new(loss.min(0.5), burst);
    (0..data).for_each(|_| lost.sent());
    let mut best = (lost.more_than(0) * stake, 0);
    for count in 1..=MAX_PARITY.min(data * 2) {
        lost.sent();
        let cost = lost.more_than(count) * stake + count as f64 * price;
        if cost < best.0 {
            best = (cost, count);
        }
    }
    best.1
}

/// Distribution of the number of losses in a sequence of packets, with losses in bursts (Gilbert model), split by the
/// last packet's fate. The last element holds all greater numbers.
struct Lost {
    arrived: [f64; MAX_PARITY + 2],
    lost: [f64; MAX_PARITY + 2],
    enters: f64,
    leaves: f64,
}

impl Lost {
    fn new(loss: f64, burst: f64) -> Self {
        // Without burstiness a loss follows a loss with probability `loss`, so the mean burst is 1 / (1 − loss).
        let leaves = 1.0 / burst.clamp(1.0 / (1.0 - loss), 8.0);
        let (mut arrived, mut lost) = ([0.0; MAX_PARITY + 2], [0.0; MAX_PARITY + 2]);
        (arrived[0], lost[0]) = (1.0 - loss, loss);
        Self { arrived, lost, enters: leaves * loss / (1.0 - loss), leaves }
    }

    fn sent(&mut self) {
        let mut carried = 0.0;
        for count in 0..self.arrived.len() {
            let (arrived, lost) = (self.arrived[count], self.lost[count]);
            let comes = arrived * (1.0 - self.enters) + lost * self.leaves;
            let goes = arrived * self.enters + lost * (1.0 - self.leaves);
            (self.arrived[count], self.lost[count]) = (comes, carried);
            carried = goes;
        }
        self.lost[MAX_PARITY + 1] += carried;
    }

    fn more_than(&self, count: usize) -> f64 {
        self.arrived[count + 1..].iter().chain(&self.lost[count + 1..]).sum()
    }
}

/// Minimum number of parity packets for a failure probability of at most `residual`, with independent losses of
/// probability `loss`; multiplied by the mean burst length.
fn parity(data: usize, loss: f64, burst: f64, residual: f64) -> usize {
    if loss <= 0.0 {
        return 0;
    }
    let loss = loss.min(0.5);
    let fits = |count: usize| fails(data + count, count, loss) <= residual;
    // With fewer than the mean number of losses, half of the blocks would fail.
    let mean = (data as f64 * loss) as usize;
    let least = (mean.max(1)..MAX_PARITY).find(|&count| fits(count)).unwrap_or(MAX_PARITY);
    let most = MAX_PARITY.min(data.max(1) * 2);
    ((least as f64 * burst.clamp(1.0, 4.0)).round() as usize).clamp(1, most.max(least).min(MAX_PARITY))
}

/// Probability that more than `spare` of `all` packets are lost.
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
    use timeous_core::Rate;

    use super::super::covered::Covered;
    use super::*;

    #[test]
    fn parity_follows_the_losses() {
        let of = |data, loss| parity(data, loss, 1.0, TARGET_FAILURE);
        assert_eq!([of(1, 0.0), of(10, 0.0)], [0, 0], "where nothing is lost nothing is added");
        assert_eq!([of(1, 0.02), of(1, 0.05)], [1, 2], "4 in 10000; 1 in 10000");
        assert_eq!([of(10, 0.02), of(10, 0.05), of(48, 0.05)], [3, 4, 9]);
        assert!((1..=MAX_DATA).all(|data| (1..60).all(|percent| of(data, f64::from(percent) / 100.0) <= MAX_PARITY)));
        assert_eq!(parity(10, 0.02, 2.0, TARGET_FAILURE), 6, "two at a time");
    }

    #[test]
    fn probabilities_are_the_binomial_distributions() {
        assert!((fails(2, 1, 0.1) - 0.01).abs() < 1e-12);
        assert!((fails(3, 1, 0.5) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn parity_is_worth_its_place_by_what_hangs_on_the_block() {
        let of = |data, loss, burst, stake| worth(data, loss, burst, (stake, 3.0));
        assert_eq!(of(7, 0.0, 1.0, 70.0), 0);
        assert_eq!([of(7, 0.05, 1.0, 70.0), of(21, 0.05, 1.0, 70.0)], [2, 3], "larger blocks need a smaller share");
        assert_eq!([of(7, 0.01, 1.0, 70.0), of(7, 0.01, 1.0, 7.0)], [1, 0], "nothing refers to it");
        assert_eq!(of(1, 0.05, 1.0, 1.0), 0, "a packet that stands alone");
        assert_eq!([of(21, 0.05, 4.0, 40.0), of(21, 0.05, 4.0, 140.0)], [0, 5], "four at a time");
        assert_eq!([3.0, 1.5].map(|price| worth(21, 0.05, 1.0, (70.0, price))), [3, 4], "a lower price");
    }

    /// Found by `timeous-lab bloat`: a block of many frames had the parity that one of them is worth.
    #[test]
    fn a_block_has_parity_for_all_of_its_frames_that_losses_make_useless() {
        let path = PathState { srtt: Some(Duration::from_millis(300)), rate: Rate::MAX, ..PathState::default() };
        let urgent = |priority| {
            let mut block = Block::new(Covered::default().begin(Seq::new(0)));
            for n in 0..100 {
                let deadline = Some(Instant::ZERO + Duration::from_millis(300));
                let meta = AduMeta { frame: FrameId(1 + n / 20), priority, deadline, ..AduMeta::default() };
                block.add(Instant::ZERO, (&path, path.one_way()), Seq::new(n.into()), &meta, b"a");
            }
            block.parity(0.05, 1.0, (0.0, 3.0)).0
        };
        assert_eq!([Priority::NORMAL, Priority(Priority::NORMAL.0 - 1)].map(urgent), [9, 9], "by one frame: none");
        assert!((spoilt(1, 7.0, false) - 1.0).abs() < 1e-9 && (spoilt(4, 2.0, false) - 1.75 / 4.0).abs() < 1e-9);
        assert!((spoilt(1, 7.0, true) - 1.0).abs() < 1e-9 && (spoilt(9, 2.0, true) - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn losses_by_themselves_are_binomial_and_bursts_have_their_length() {
        let mut lost = Lost::new(0.1, 1.0);
        (0..20).for_each(|_| lost.sent());
        for count in 0..6 {
            assert!((lost.more_than(count) - fails(20, count, 0.1)).abs() < 1e-9, "{count}");
        }
        let mut lost = Lost::new(0.1, 4.0);
        (0..3).for_each(|_| lost.sent());
        let all = 0.1 * 0.75 * 0.75;
        assert!((lost.more_than(2) - all).abs() < 1e-9);
    }

    #[test]
    fn a_block_is_due_at_the_end_of_a_frame_while_its_first_can_still_be_saved() {
        let srtt = Some(Duration::from_millis(80));
        let path = PathState { srtt, min_rtt: srtt, rate: Rate::MAX, ..PathState::default() };
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let meta = |frame, ms| AduMeta { frame: FrameId(frame), deadline: Some(at(ms)), ..AduMeta::default() };
        let mut block = Block::new(Covered::default().begin(Seq::new(1)));
        block.add(at(0), (&path, path.one_way()), Seq::new(1), &meta(1, 100), b"a");
        assert_eq!((block.due, block.latest), (at(100 - 40 - 10 - 5), at(100 - 40 - 5)));
        block.add(at(10), (&path, path.one_way()), Seq::new(2), &meta(2, 110), b"b");
        assert_eq!((block.due, block.latest, block.deadline), (at(45), at(55), at(100)));
        assert!(!block.is_due(at(50), true) && block.is_due(at(50), false) && block.is_due(at(55), true));
        assert!(!block.ends_before(&meta(2, 110)) && block.ends_before(&meta(3, 120)));
        let lossy = PathState { loss_ppm: 20_000, ..path };
        assert!(block.fits(1.0, &lossy, 1.0) && !block.fits(0.9, &lossy, 1.0), "two packets of parity for two of data");
        assert!(block.has_room_for(Seq::new(192)) && !block.has_room_for(Seq::new(193)));
    }

    /// Found by `timeous-lab bloat`: the middle of an intra frame, which could just leave again by the round trip of the moment, had no
    /// parity, and by the time that its losses were heard of round trips were longer by what its own end waited.
    #[test]
    fn what_could_leave_again_only_if_nothing_becomes_slower_counts_as_what_could_not() {
        let srtt = Some(Duration::from_millis(250));
        let path = PathState { srtt, min_rtt: srtt, rate: Rate::MAX, ..PathState::default() };
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let meta = AduMeta { frame: FrameId(1), deadline: Some(at(500)), ..AduMeta::default() };
        let of_parity = |sent| {
            let mut block = Block::new(Covered::default().begin(Seq::new(1)));
            (0..30).for_each(|n| block.add(at(sent), (&path, path.one_way()), Seq::new(n), &meta, b"a"));
            block.parity(0.01, 1.0, (300.0, 3.0)).0
        };
        // It arrives by 500 if it leaves by 375, and a loss is known after 250 to 322.
        assert_eq!([40, 60, 103, 130].map(of_parity), [0, 2, 2, 2]);
    }
}
