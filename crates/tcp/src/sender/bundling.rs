//! What is known of how a peer tells of bundles, and how often they may leave.

/// So many bundles whose second copy is not told of, before any was, and the peer is one that does not tell.
const MOST_SILENT: u32 = 3;
/// So many bundles in a row whose fate is known let them leave closer together.
const KNOWN_IN_A_ROW: u32 = 32;
/// Bundles are no farther apart than so many segments.
const MOST_APART: u32 = 8;

/// What is known of a peer's way to tell of bundles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bundling {
    pub(super) is_on: bool,
    /// The peer has told of a second copy.
    pub(super) tells: bool,
    /// Before that: how many it did not tell of, though it must have had both.
    silent: u32,
    /// A bundle leaves with each so many'th segment at most.
    pub(super) apart: u32,
    /// Segments since the last bundle.
    pub(super) since: u32,
    known_in_a_row: u32,
    /// What was hidden was answered; until this is acknowledged the window stays.
    pub(super) answered_to: u64,
}

impl Bundling {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, tells: false, silent: 0, apart: 1, since: 0, known_in_a_row: 0, answered_to: 0 }
    }

    /// The second copy of a bundle was told of, or not, where the peer had the first.
    pub(super) fn had_both(&mut self, is_told: bool) {
        self.silent += u32::from(!is_told && !self.tells);
        self.is_on &= self.silent < MOST_SILENT;
    }

    pub(super) fn is_known(&mut self) {
        self.known_in_a_row += 1;
        if self.known_in_a_row >= KNOWN_IN_A_ROW {
            (self.known_in_a_row, self.apart) = (0, self.apart.saturating_sub(1).max(1));
        }
    }

    /// The peer had a duplicate to tell of and waited for more: it acknowledged so many segments together.
    pub(super) fn waited(&mut self, segments: usize) {
        self.known_in_a_row = 0;
        self.apart = self.apart.max(segments as u32).min(MOST_APART);
    }
}
