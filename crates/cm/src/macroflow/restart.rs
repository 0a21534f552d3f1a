//! Restart of a macroflow after a pause, from the remembered state of its path.
//!
//! - A pause shorter than a retransmission timeout changes nothing.
//! - A pause shorter than a second keeps the window. RFC 5681 §4.1 requires a restart after a timeout, which RFC 6298
//!   §2.4 keeps above a second; RFC 7661 §4.4 keeps a window for minutes if it does not leave as a burst. So everything
//!   beyond the initial window is paced until the first acknowledgement.
//! - After a longer pause the controller restarts by its own standard, and *half* of the remembered window is tried in
//!   parallel, paced over a round trip. Every further hour halves it again.
//!
//! The trial window becomes the real one only as far as acknowledgements let the controller grow to it. A loss in that
//! first round trip cancels the trial: slow start from the initial window remains, as on an unknown path. So does an
//! RTT far from the remembered one, which means another path. This is careful resumption
//! (draft-ietf-tsvwg-careful-resume), with the handshake's RTT sample as reconnaissance.
//!
//! Half, because there may be twice as many flows on the path now; and a window that is at most twice too large fits a
//! queue as long as the path, like slow start's last round.

use timeous_core::{Duration, Instant, Rate};

use crate::controller::initial;
use crate::resumption::{Learnt, Resumption};
use crate::rtt::{Known, RttEstimator};

use super::Macroflow;

/// Minimum pause after which the window decays: the minimum of a retransmission timeout (RFC 6298 §2.4).
const MIN_IDLE_TIME: Duration = Duration::from_secs(1);
/// Half-life of a remembered window. Chosen by us. A higher value risks losses by an
/// outdated window; a lower one starts slowly on an unchanged path.
const WINDOW_HALF_LIFE: Duration = Duration::from_secs(3_600);

/// The window to be tried after `age`: half, and half again per half-life.
fn careful(window: u64, age: Duration) -> u64 {
    let halves = 1 + age.as_nanos() / WINDOW_HALF_LIFE.as_nanos();
    window.checked_shr(u32::try_from(halves).unwrap_or(u32::MAX)).unwrap_or(0)
}

impl Macroflow {
    /// Ends a pause, at the first request after it.
    pub(super) fn restart_after_pause(&mut self, now: Instant) {
        let Some(last) = self.last_sent else { return };
        if self.outstanding > 0 || !self.requests.is_empty() || self.granted > 0 {
            return;
        }
        let pause = now.saturating_since(last);
        let timeout = self.rtt.timeout();
        let long = timeout.max(MIN_IDLE_TIME);
        let known = self.reckoned.window;
        if pause < long {
            self.controller.on_idle(now, 0);
        } else if self.reopened {
            self.start_afresh(known, pause);
        } else {
            let timeouts = pause.as_nanos() / long.as_nanos();
            self.controller.on_idle(now, u32::try_from(timeouts).unwrap_or(u32::MAX));
            self.resume(careful(known, pause));
        }
        if pause >= timeout {
            self.spread();
        }
        (self.last_sent, self.reopened) = (None, false);
        self.reckon();
    }

    /// Restarts like on an unknown path, apart from the remembered window.
    fn start_afresh(&mut self, known: u64, age: Duration) {
        let threshold = self.controller.threshold();
        self.controller = (self.make)(self.mtu);
        (self.reduced_at, self.timed_out_at, self.limited_at) = (None, None, None);
        let tried = careful(known, age);
        if tried > self.controller.window() {
            // Slow start goes up to the old window (RFC 7661 §4.4.1).
            let threshold = threshold.map(|threshold| threshold.max(known / 4 * 3));
            self.controller.adopt(self.controller.window(), threshold);
        }
        self.resume(tried);
    }

    fn resume(&mut self, window: u64) {
        self.resumption = if window > self.controller.window() { Resumption::new(window, &self.rtt) } else { None };
    }

    /// The window on trial, if any.
    pub(crate) fn resumed(&self) -> Option<u64> {
        self.resumption.as_ref().map(Resumption::window)
    }

    /// Limits bursts to an initial window until the next feedback.
    fn spread(&mut self) {
        let initial = initial::rfc6928(self.mtu);
        self.reckon();
        if self.reckoned.window > initial {
            self.spreading = true;
            let is_paced = self.rtt.smoothed().is_some_and(|srtt| self.controller.pace(srtt) < Rate::MAX);
            self.burst = if is_paced { 0 } else { initial };
        }
    }

    /// Starts from a state learnt `age` ago, before the first packet.
    pub(crate) fn recall(&mut self, learnt: Learnt, age: Duration) {
        self.rtt = RttEstimator::remembering(Known {
            smoothed: learnt.srtt,
            deviation: learnt.rttvar,
            min: learnt.min_rtt.min(learnt.srtt),
        });
        self.loss_share = f64::from(learnt.loss_ppm.min(1_000_000)) / 1e6;
        let tried = careful(learnt.window, age);
        if tried > self.controller.window() {
            let threshold = learnt.ssthresh.map(|threshold| threshold.max(learnt.window / 4 * 3));
            self.controller.adopt(self.controller.window(), threshold);
        }
        self.resume(tried);
        self.spread();
        self.reckon();
    }

    /// The path's state for storage, if anything was acknowledged.
    pub(crate) fn learnt(&self) -> Option<Learnt> {
        let (srtt, min_rtt) = (self.rtt.smoothed()?, self.rtt.min()?);
        if self.totals.acked == 0 {
            return None;
        }
        let path = self.state();
        Some(Learnt {
            window: path.window,
            ssthresh: self.controller.threshold(),
            srtt,
            rttvar: path.rttvar,
            min_rtt,
            rate: path.rate,
            loss_ppm: path.loss_ppm,
        })
    }

    /// Cancels the trial if an RTT sample shows that the path is another.
    pub(super) fn doubt_resumption(&mut self, rtt: Duration) {
        if self.resumption.is_some_and(|resumption| resumption.is_elsewhere(rtt)) {
            self.resumption = None;
            self.rtt = RttEstimator::default();
        }
    }

    /// Counts feedback for the trial, which ends when its flight was reported.
    pub(super) fn heard_of(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.spreading = false;
        self.burst = 0;
        if let Some(resumption) = &mut self.resumption {
            resumption.heard += bytes;
            if resumption.heard >= resumption.flight {
                self.resumption = None;
            }
        }
    }

    /// Cancels the trial if it caused the congestion of a packet sent at `sent_at`; returns whether it did so.
    pub(super) fn retreat(&mut self, sent_at: Instant) -> bool {
        let on_trial = self.resumption.is_some_and(|resumption| resumption.began.is_some_and(|began| sent_at >= began));
        if on_trial {
            self.resumption = None;
            self.controller = (self.make)(self.mtu);
        }
        on_trial
    }
}
