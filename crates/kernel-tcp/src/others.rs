//! Detection of cross traffic: a long round trip without queued data of our own means that other flows fill the path's queue.

use timeous_core::Duration;

use crate::info::Info;

/// Segments after which an acknowledgement is not delayed (RFC 9293 §3.8.6.3).
const COMPANY: u64 = 2;
/// Minimum queueing delay of cross traffic: also at least half of the minimum RTT, and above the jitter of idle hosts
/// and radio links. Chosen by us: a higher value misses short queues.
const LEAST: Duration = Duration::from_millis(20);

/// Detector, by the first round trips after an idle period.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Others {
    /// State at the start of the idle period: acknowledged bytes and smoothed RTT.
    rested: Option<(u64, Duration)>,
    are_there: bool,
}

impl Others {
    /// Updates the detector from the kernel's report and the number of unacknowledged bytes.
    pub(crate) fn hear(&mut self, info: &Info, unacknowledged: u64) {
        let (Some(srtt), Some(least)) = (info.srtt(), info.min_rtt()) else { return };
        if unacknowledged == 0 {
            self.rested = Some((info.acknowledged(), srtt));
            return;
        }
        let Some((acknowledged, before)) = self.rested else { return };
        let bytes = info.acknowledged() - acknowledged;
        let segments = bytes / u64::from(info.mss().max(1));
        if segments >= COMPANY {
            self.rested = None;
            // The number of RTT samples is not known: of the possible ones, the one that makes the queue shorter.
            let count = if srtt > before { segments } else { segments / COMPANY };
            let own = info.delivery_rate().time_for(bytes);
            let queued = newest(before, srtt, count).saturating_sub(least + own);
            self.are_there = queued > LEAST.max(least / 2);
        }
    }

    pub(crate) fn are_there(&self) -> bool {
        self.are_there
    }
}

/// Returns the mean of the `count` samples that moved the smoothed RTT from `before` to `after`; each has weight 1/8 (RFC 6298 §2.3).
fn newest(before: Duration, after: Duration, count: u64) -> Duration {
    let kept = (0..count.min(32)).fold(1.0, |kept, _| kept * 7.0 / 8.0);
    let [before, after] = [before, after].map(|rtt| rtt.as_secs_f64());
    Duration::from_secs_f64(((after - before * kept) / (1.0 - kept)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::info::LEN;
    use super::*;

    const MSS: u64 = 1_000;

    /// Fakes a kernel report: acknowledged segments, smoothed RTT in milliseconds, delivery rate.
    fn info(segments: u64, rtt: f64, bytes_a_second: u64) -> Info {
        let mut bytes = [0; LEN];
        for (at, value) in [(16, MSS as u32), (68, (rtt * 1e3) as u32), (148, 60_000)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(120, segments * MSS), (160, bytes_a_second)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        Info::new(bytes)
    }

    /// Runs the detector on these RTT samples (ms) of segments sent after an idle period.
    fn are_there(smoothed: f64, samples: &[f64], bytes_a_second: u64) -> bool {
        let mut others = Others::default();
        others.hear(&info(7, smoothed, bytes_a_second), 0);
        let after = samples.iter().fold(smoothed, |smoothed, sample| smoothed * 7.0 / 8.0 + sample / 8.0);
        others.hear(&info(7 + samples.len() as u64, after, bytes_a_second), 5 * MSS);
        others.are_there()
    }

    /// Found by `timeous-peer-trials`: beside a flow that filled the queue nothing was sent between two intra frames, and no part of these
    /// was in time.
    #[test]
    fn what_meets_a_queue_after_a_rest_met_that_of_others() {
        assert!(are_there(300.0, &[310.0, 312.0], 50_000));
        assert!(are_there(60.0, &[310.0, 312.0], 50_000), "they are new");
        assert!(!are_there(60.0, &[61.0, 62.0], 50_000));
        assert!(!are_there(60.0, &[75.0, 80.0], 50_000), "hosts are idle, and radio links");
    }

    #[test]
    fn the_queue_of_before_the_rest_was_our_own() {
        assert!(!are_there(250.0, &[62.0, 64.0], 100_000));
        assert!(!are_there(750.0, &[62.0, 64.0], 100_000));
    }

    #[test]
    fn what_leaves_at_once_waits_for_itself() {
        // At 300 kbit/s each segment takes 27 ms.
        assert!(!are_there(60.0, &[87.0, 114.0, 141.0, 168.0], 37_500));
    }

    #[test]
    fn where_the_kernel_knows_no_rate_it_may_all_be_ours() {
        assert!(!are_there(60.0, &[310.0, 312.0], 0));
    }

    #[test]
    fn one_segment_says_nothing_nor_do_those_without_a_rest() {
        assert!(!are_there(300.0, &[310.0], 50_000), "its acknowledgement may have waited");
        let mut others = Others::default();
        for segments in 0..10 {
            others.hear(&info(segments, 300.0, 50_000), 3 * MSS);
        }
        assert!(!others.are_there(), "it may all be ours");
    }

    #[test]
    fn they_are_gone_when_it_is_seen() {
        let mut others = Others::default();
        for (rested, smoothed, expected) in
            [(300.0, 302.0, true), (302.0, 302.0 * 49.0 / 64.0 + 61.0 * 15.0 / 64.0, false)]
        {
            others.hear(&info(0, rested, 50_000), 0);
            others.hear(&info(2, smoothed, 50_000), MSS);
            assert_eq!(others.are_there(), expected);
        }
    }
}
