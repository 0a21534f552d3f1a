//! Stored path state, and the trial of a remembered window (careful resumption).

use timeous_core::{Duration, Instant, Rate};

use crate::rtt::RttEstimator;

/// Path state learnt by the manager: plain data, to be stored beyond the life of the process (RFC 9040).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// Congestion window, in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, if there was congestion.
    pub ssthresh: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Duration,
    /// Mean deviation of the RTT.
    pub rttvar: Duration,
    /// Minimum RTT.
    pub min_rtt: Duration,
    /// Rate that the path carried.
    pub rate: Rate,
    /// Recent loss rate in parts per million.
    pub loss_ppm: u32,
}

/// Trial of a remembered window, until feedback covers the bytes sent before the first feedback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumption {
    pub(crate) window: u64,
    /// Remembered smoothed RTT, and the minimum below.
    pub(crate) srtt: Duration,
    pub(crate) least: Duration,
    pub(crate) began: Option<Instant>,
    /// Bytes sent before the first feedback, and how many of them were reported.
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

    /// Whether an RTT sample differs so much from the remembered RTT that it means another path.
    pub(crate) fn is_elsewhere(&self, rtt: Duration) -> bool {
        rtt * 2 < self.least || rtt > self.srtt * 10
    }
}
