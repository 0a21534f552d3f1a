//! How a macroflow starts again after a pause, from what is known of its path.
//!
//! - A pause shorter than a retransmission timeout changes nothing.
//! - After one shorter than a second the window is what it was. RFC 5681 §4.1 wants a restart after a timeout, and
//!   RFC 6298 §2.4 none shorter than a second; RFC 7661 §4.4 lets a window stand for minutes, if it does not leave in a
//!   burst. So all beyond the initial window leaves at a pace, until the first acknowledgement.
//! - After a longer one the controller restarts as its own standard says, and *half* of the window that was known is
//!   tried beside it, paced over a round trip. A pause of hours halves it again for each.
//!
//! What is tried becomes the window only as far as acknowledgements let the controller grow to it. A loss in that first
//! round takes it back: what is left is slow start from the initial window, as for a path of which nothing is known. So
//! does a round trip that is quite another than the remembered: then the path is another, too. That is the careful
//! resumption of draft-ietf-tsvwg-careful-resume, its reconnaissance left to the round trip that a handshake measures.
//!
//! Why half: the others on the path may be twice as many now; and a window that is too large by less than its double
//! fits a queue that is as long as the path, as slow start's last round does.

use timeous_core::{Duration, Instant, Rate};

use crate::controller::initial;
use crate::resumption::{Learnt, Resumption};
use crate::rtt::{Known, RttEstimator};

use super::Macroflow;

/// A pause that is shorter lets the window stand (RFC 6298 §2.4).
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// What is remembered counts for half after so long, and again each time.
const HALF_LIFE: Duration = Duration::from_secs(3_600);

/// What of a window is to be tried after `age`.
fn careful(window: u64, age: Duration) -> u64 {
    let halves = 1 + age.as_nanos() / HALF_LIFE.as_nanos();
    window.checked_shr(u32::try_from(halves).unwrap_or(u32::MAX)).unwrap_or(0)
}

impl Macroflow {
    /// Whoever asks first after a pause ends it.
    pub(super) fn restart_after_pause(&mut self, now: Instant) {
        let Some(last) = self.last_sent else { return };
        if self.outstanding > 0 || !self.requests.is_empty() || self.granted > 0 {
            return;
        }
        let pause = now.saturating_since(last);
        let timeout = self.rtt.timeout();
        let long = timeout.max(SHORT_PAUSE);
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

    /// As a path of which nothing is known would start, but for what is remembered.
    fn start_afresh(&mut self, known: u64, age: Duration) {
        let threshold = self.controller.threshold();
        self.controller = (self.make)(self.mtu);
        (self.reduced_at, self.timed_out_at, self.limited_at) = (None, None, None);
        let tried = careful(known, age);
        if tried > self.controller.window() {
            // Where the window was is where slow start goes (RFC 7661 §4.4.1).
            let threshold = threshold.map(|threshold| threshold.max(known / 4 * 3));
            self.controller.adopt(self.controller.window(), threshold);
        }
        self.resume(tried);
    }

    fn resume(&mut self, window: u64) {
        self.resumption = if window > self.controller.window() { Resumption::new(window, &self.rtt) } else { None };
    }

    /// The window that is on trial, if any is.
    pub(crate) fn resumed(&self) -> Option<u64> {
        self.resumption.as_ref().map(Resumption::window)
    }

    /// Until something is heard, no more than an initial window leaves at once.
    fn spread(&mut self) {
        let initial = initial::rfc6928(self.mtu);
        self.reckon();
        if self.reckoned.window > initial {
            self.spreading = true;
            let is_paced = self.rtt.smoothed().is_some_and(|srtt| self.controller.pace(srtt) < Rate::MAX);
            self.burst = if is_paced { 0 } else { initial };
        }
    }

    /// Starts from what was learnt `age` ago, before its first packet.
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

    /// What is known of its path, if anything ever came back.
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

    /// A round trip was measured.
    pub(super) fn doubt_resumption(&mut self, rtt: Duration) {
        if self.resumption.is_some_and(|resumption| resumption.is_elsewhere(rtt)) {
            self.resumption = None;
            self.rtt = RttEstimator::default();
        }
    }

    /// News of `bytes` came.
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

    /// What was sent at `sent_at` met congestion: if a remembered window was on trial, it is taken back. Says so.
    pub(super) fn retreat(&mut self, sent_at: Instant) -> bool {
        let on_trial = self.resumption.is_some_and(|resumption| resumption.began.is_some_and(|began| sent_at >= began));
        if on_trial {
            self.resumption = None;
            self.controller = (self.make)(self.mtu);
        }
        on_trial
    }
}
