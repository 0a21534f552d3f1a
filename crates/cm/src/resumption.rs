//! What is remembered of a path, and a remembered window on trial.

use timeous_core::{Duration, Instant, Rate};

use crate::rtt::RttEstimator;

/// What was learnt of a path: plain data, to be kept longer than the process lives (RFC 9040).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// The window, in bytes.
    pub window: u64,
    /// The slow start threshold in bytes, if congestion was ever seen.
    pub ssthresh: Option<u64>,
    /// The smoothed round-trip time.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The smallest round-trip time.
    pub min_rtt: Duration,
    /// The rate that the path carried.
    pub rate: Rate,
    /// Share of the packets that were lost of late, in parts per million.
    pub loss_ppm: u32,
}

/// A remembered window on trial, until as much is heard of as left before the first news.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumption {
    pub(crate) window: u64,
    /// What the round trip was.
    pub(crate) srtt: Duration,
    pub(crate) least: Duration,
    pub(crate) began: Option<Instant>,
    /// Bytes that left before the first news, and how many of them were heard of.
    pub(crate) flight: u64,
    pub(crate) heard: u64,
}

impl Resumption {
    pub(crate) fn new(window: u64, rtt: &RttEstimator) -> Option<Self> {
        let (srtt, least) = (rtt.smoothed()?, rtt.min()?);
        Some(Self { window, srtt, least, began: None, flight: 0, heard: 0 })
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        self.began.get_or_insert(now);
        if self.heard == 0 {
            self.flight += bytes;
        }
    }

    /// Whether a round trip is so different that the path is another.
    pub(crate) fn is_elsewhere(&self, rtt: Duration) -> bool {
        rtt * 2 < self.least || rtt > self.srtt * 10
    }
}
