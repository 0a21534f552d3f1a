//! Acknowledgements and their wire format.

use timeous_core::Duration;

use super::error::FeedbackError;

/// Maximum number of runs in an acknowledgement, the newest; earlier acknowledgements contained older ones. Chosen by
/// us: a higher value makes acknowledgements longer.
pub const MAX_RUNS: usize = 64;

/// First byte of every acknowledgement, which tells it from an application's own packets.
const MAGIC: u8 = 0xA5;
/// Size of the header: magic, number of runs, marks, delay, newest.
const HEADER: usize = 1 + 1 + 4 + 4 + 8;
/// Size of a run: packets missing and received.
const RUN: usize = 4 + 4;

/// Consecutive packets, listed from newer to older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Missing packets, right below the previous run.
    pub missing: u32,
    /// Received packets, right below those.
    pub there: u32,
}

/// State of the receiver: which packets have arrived.
///
/// It is cumulative, so that the next acknowledgement makes up for a lost one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Newest packet received.
    pub newest: u64,
    /// Time since the newest packet was received.
    pub delay: Duration,
    /// Packets received with an ECN-CE mark (RFC 3168) so far, modulo 2³².
    pub marked: u32,
    /// Runs of packets, from `newest` downwards. The first run has none missing.
    pub runs: Vec<Run>,
}

impl Ack {
    /// Maximum size of an encoded acknowledgement in bytes.
    pub const MAX_LEN: usize = HEADER + RUN * MAX_RUNS;

    /// Encodes the acknowledgement as a datagram.
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

    /// Decodes a datagram.
    ///
    /// # Errors
    /// [`FeedbackError::Malformed`]: not an acknowledgement, or about packets before the first.
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

    /// Received ranges, from newer to older, each as oldest and newest packet.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut above = self.newest + 1;
        self.runs.iter().map(move |run| {
            let newest = above - 1 - u64::from(run.missing);
            above = newest + 1 - u64::from(run.there);
            (above, newest)
        })
    }
}
