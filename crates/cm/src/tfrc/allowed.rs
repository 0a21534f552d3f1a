//! TFRC's allowed sending rate X: step 4 of RFC 5348 §4.3, and the response to the nofeedback timer (§4.4).

use timeous_core::{Duration, Instant};

use super::equation;
use super::recent::ReceiveRates;

/// Maximum interval between packets, in seconds: `t_mbi` (RFC 5348 §4.3).
const MAX_BACKOFF: f64 = 64.0;
/// Factor of X_recv after a loss in a data-limited interval (RFC 5348 §4.3).
const DATA_LIMITED_LOSS_FACTOR: f64 = 0.85;

/// Path parameters for the rate computation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// R: the smoothed RTT.
    pub(crate) rtt: Duration,
    /// s: the segment size in bytes.
    pub(crate) segment: f64,
    /// `W_init`, in bytes.
    pub(crate) initial_window: u64,
}

/// Contents of a feedback packet that determine the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedbackReport {
    /// `X_recv`, in bytes per second.
    pub(crate) receive_rate: f64,
    /// p: the loss event rate.
    pub(crate) p: f64,
    /// Whether a new loss event is reported, explicitly or by an increase of p.
    pub(crate) new_loss_event: bool,
    /// Whether the sender was data-limited during the whole interval of the report.
    pub(crate) data_limited: bool,
}

/// Allowed sending rate X and its inputs, in bytes per second.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    x: f64,
    /// `X_Bps`: the result of the throughput equation. Infinite before the first loss event.
    by_equation: f64,
    p: f64,
    /// tld: the time of the last doubling.
    doubled: Instant,
    rates: ReceiveRates,
    /// Rate to which what was received does not limit the sender. The throughput equation does.
    floor: f64,
}

impl Path {
    /// `initial_rate` of RFC 5348 §4.2, also used as `recover_rate`.
    fn initial_rate(&self) -> f64 {
        self.initial_window as f64 / self.rtt.as_secs_f64()
    }
}

/// Minimum rate s/t_mbi.
pub(crate) fn least(segment: f64) -> f64 {
    segment / MAX_BACKOFF
}

impl Allowed {
    /// One segment per second, until the first RTT sample.
    pub(crate) fn new(segment: f64) -> Self {
        let rates = ReceiveRates::new(Instant::ZERO);
        Self { x: segment, by_equation: f64::INFINITY, p: 0.0, doubled: Instant::ZERO, rates, floor: 0.0 }
    }

    /// X: the allowed sending rate.
    pub(crate) fn rate(&self) -> f64 {
        self.x
    }

    /// p, as last reported.
    pub(crate) fn p(&self) -> f64 {
        self.p
    }

    /// Result of the throughput equation; infinite before the first loss event.
    pub(crate) fn by_equation(&self) -> f64 {
        self.by_equation
    }

    /// Sets the rate that a stream needs: idle times and small receive rates do not limit it to less.
    pub(crate) fn hold(&mut self, floor: f64) {
        self.floor = floor;
    }

    /// Sets the initial rate at the first RTT sample (RFC 5348 §4.2).
    pub(crate) fn start(&mut self, now: Instant, path: &Path) {
        self.doubled = now;
        self.x = path.initial_rate();
        self.rates = ReceiveRates::new(now);
    }

    /// Updates the rate by feedback: step 4 of RFC 5348 §4.3.
    pub(crate) fn on_feedback(&mut self, now: Instant, path: &Path, report: FeedbackReport) {
        self.p = report.p;
        let mut limit = 2.0;
        if !report.data_limited {
            self.rates.update(now, report.receive_rate, path.rtt);
        } else if report.new_loss_event {
            self.rates.halve();
            self.rates.maximize(now, DATA_LIMITED_LOSS_FACTOR * report.receive_rate);
            limit = 1.0;
        } else {
            self.rates.maximize(now, report.receive_rate);
        }
        self.recalculate(now, path, (limit * self.rates.max()).max(self.floor));
    }

    /// Raises X to a rate that was sent and arrived.
    pub(crate) fn raise(&mut self, rate: f64) {
        self.x = self.x.max(rate);
    }

    /// Sets the rate at the first feedback, which brings the first RTT sample, in place of step 4 (RFC 5348 §4.2). If
    /// it reports a loss as well, the throughput equation limits the rate.
    pub(crate) fn on_first_feedback(&mut self, now: Instant, path: &Path, p: f64) {
        self.start(now, path);
        self.p = p;
        if p > 0.0 {
            self.recalculate(now, path, path.initial_rate());
        }
    }

    fn recalculate(&mut self, now: Instant, path: &Path, limit: f64) {
        if self.p > 0.0 {
            self.by_equation = equation::bytes_per_second(path.segment, path.rtt, self.p);
            self.x = self.by_equation.min(limit).max(least(path.segment));
        } else if now.saturating_since(self.doubled) >= path.rtt {
            self.x = (2.0 * self.x).min(limit).max(path.initial_rate());
            self.doubled = now;
        }
    }

    /// Limits the rate of a flow with a slow receiver, until it reports a receive rate again (RFC 4342 §5.2).
    pub(crate) fn restrain(&mut self, now: Instant, limit: f64) {
        self.rates.only(now, limit / 2.0);
        self.x = self.x.min(limit);
    }

    /// Handles the nofeedback timer before the first RTT sample: step 1 of RFC 5348 §4.4.
    pub(crate) fn on_silence_at_first(&mut self, segment: f64, idle: bool) {
        if !idle {
            self.x = (self.x / 2.0).max(least(segment));
        }
    }

    /// Handles the nofeedback timer: step 1 of RFC 5348 §4.4. `idle`: nothing was sent since it was set.
    pub(crate) fn on_silence(&mut self, now: Instant, path: &Path, idle: bool) {
        let receive_rate = self.rates.max();
        let recover = path.initial_rate();
        let recovers = if self.p > 0.0 { receive_rate < recover } else { self.x < 2.0 * recover };
        if recovers && idle {
            return;
        }
        if self.p <= 0.0 {
            let floor = if idle { self.floor.min(self.x) } else { 0.0 };
            self.x = (self.x / 2.0).max(least(path.segment)).max(floor);
        } else if idle && self.floor > 0.0 {
            // Silence of an idle sender tells nothing of the path.
            self.update_limits(now, path, (self.by_equation / 2.0).min(receive_rate).max(self.floor));
        } else if self.by_equation > 2.0 * receive_rate {
            self.update_limits(now, path, receive_rate);
        } else {
            self.update_limits(now, path, self.by_equation / 2.0);
        }
    }

    /// `Update_Limits()` of RFC 5348 §4.4: halves the receive rates and recalculates X.
    fn update_limits(&mut self, now: Instant, path: &Path, limit: f64) {
        let limit = limit.max(least(path.segment));
        self.rates.only(now, limit / 2.0);
        self.recalculate(now, path, limit);
    }
}
