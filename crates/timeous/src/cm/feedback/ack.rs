//! An acknowledgement, and how it looks in a datagram.

use timeous_core::Duration;

use super::error::FeedbackError;

/// So many runs are told at most: the newest. What is older was told by acknowledgements before.
pub const MAX_RUNS: usize = 64;

/// The first byte of every acknowledgement, so that an application can tell it from packets of its own.
const MAGIC: u8 = 0xA5;
/// Magic, how many runs, marks, delay, newest.
const HEADER: usize = 1 + 1 + 4 + 4 + 8;
/// Missing and there.
const RUN: usize = 4 + 4;

/// Packets in a row, told from newer to older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// So many did not come, just below what was told of before.
    pub missing: u32,
    /// So many came, just below those.
    pub there: u32,
}

/// Which packets came: what a receiver tells.
///
/// It tells its state, not what is new, so that one that is lost is made good by the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The newest packet that came.
    pub newest: u64,
    /// For how long the receiver has known of it.
    pub delay: Duration,
    /// How many packets came with a mark for congestion (ECN-CE, RFC 3168) so far, counted modulo 2³².
    pub marked: u32,
    /// What came, from `newest` down. The first run has nothing missing.
    pub runs: Vec<Run>,
}

impl Ack {
    /// As a datagram.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let runs = &self.runs[..self.runs.len().min(MAX_RUNS)];
        let mut bytes = Vec::with_capacity(HEADER + RUN * runs.len());
        bytes.extend([MAGIC, runs.len() as u8]);
        bytes.extend(self.marked.to_be_bytes());
        bytes.extend(u32::try_from(self.delay.as_micros()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(self.newest.to_be_bytes());
        for run in runs {
            bytes.extend(run.missing.to_be_bytes());
            bytes.extend(run.there.to_be_bytes());
        }
        bytes
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// [`FeedbackError::Malformed`]: it is no acknowledgement, or tells of packets before the first.
    pub fn decode(datagram: &[u8]) -> Result<Self, FeedbackError> {
        Self::read(datagram).ok_or(FeedbackError::Malformed { len: datagram.len() })
    }

    fn read(datagram: &[u8]) -> Option<Self> {
        let (&[magic, count], rest) = datagram.split_first_chunk()?;
        let (&marked, rest) = rest.split_first_chunk()?;
        let (&delay, rest) = rest.split_first_chunk()?;
        let (&newest, rest) = rest.split_first_chunk()?;
        let count = usize::from(count);
        if magic != MAGIC || !(1..=MAX_RUNS).contains(&count) || rest.len() != count * RUN {
            return None;
        }
        let runs = rest.as_chunks::<RUN>().0.iter().map(|&[a, b, c, d, e, f, g, h]| Run {
            missing: u32::from_be_bytes([a, b, c, d]),
            there: u32::from_be_bytes([e, f, g, h]),
        });
        let ack = Self {
            newest: u64::from_be_bytes(newest),
            delay: Duration::from_micros(u32::from_be_bytes(delay).into()),
            marked: u32::from_be_bytes(marked),
            runs: runs.collect(),
        };
        ack.is_sound().then_some(ack)
    }

    /// Whether no run is empty, and none reaches below packet 0.
    fn is_sound(&self) -> bool {
        let told: u64 = self.runs.iter().map(|run| u64::from(run.missing) + u64::from(run.there)).sum();
        let mut runs = self.runs.iter();
        runs.next().is_some_and(|first| first.missing == 0 && first.there > 0)
            && runs.all(|run| run.missing > 0 && run.there > 0)
            && told - 1 <= self.newest
    }

    /// What came, from newer to older, each as its oldest and its newest packet.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut above = self.newest + 1;
        self.runs.iter().map(move |run| {
            let newest = above - 1 - u64::from(run.missing);
            above = newest + 1 - u64::from(run.there);
            (above, newest)
        })
    }
}
