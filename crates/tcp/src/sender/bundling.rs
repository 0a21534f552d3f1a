//! State of bundling: whether the peer reports duplicates, and the spacing of bundles.

/// Bundles without a DSACK, before any DSACK, from which the peer counts as one that reports none. Chosen by us: a
/// higher value sends more copies that nobody reports.
const MAX_UNREPORTED: u32 = 3;
/// Consecutive bundles with a known fate after which the spacing shrinks. Chosen by us: a higher value bundles again
/// later.
const MIN_KNOWN_IN_A_ROW: u32 = 32;
/// Maximum spacing of bundles, in segments. Chosen by us: a higher value bundles less after losses.
const MAX_SPACING: u32 = 8;

/// State of bundling towards a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bundling {
    pub(super) is_on: bool,
    /// The peer has reported a second copy.
    pub(super) tells: bool,
    /// Second copies not reported before that, though the peer must have had both.
    silent: u32,
    /// Spacing: at most one bundle per this many segments.
    pub(super) apart: u32,
    /// Segments since the last bundle.
    pub(super) since: u32,
    known_in_a_row: u32,
    /// Offset up to which the window stays after a reduction for a hidden loss.
    pub(super) answered_to: u64,
}

impl Bundling {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, tells: false, silent: 0, apart: 1, since: 0, known_in_a_row: 0, answered_to: 0 }
    }

    /// Notes whether the second copy of a bundle was reported, where the peer had the first.
    pub(super) fn had_both(&mut self, is_told: bool) {
        self.silent += u32::from(!is_told && !self.tells);
        self.is_on &= self.silent < MAX_UNREPORTED;
    }

    pub(super) fn is_known(&mut self) {
        self.known_in_a_row += 1;
        if self.known_in_a_row >= MIN_KNOWN_IN_A_ROW {
            (self.known_in_a_row, self.apart) = (0, self.apart.saturating_sub(1).max(1));
        }
    }

    /// Notes a delayed DSACK: the peer acknowledged `segments` segments together.
    pub(super) fn waited(&mut self, segments: usize) {
        self.known_in_a_row = 0;
        self.apart = self.apart.max(segments as u32).min(MAX_SPACING);
    }
}
