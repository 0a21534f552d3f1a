//! The allowed sending rate X: step 4 of RFC 5348 §4.3, and what silence does to it (§4.4).

use timeous_core::{Duration, Instant};

use super::equation;
use super::recent::ReceiveRates;

/// t_mbi: at least one packet leaves in so many seconds (RFC 5348 §4.3).
const BACKOFF: f64 = 64.0;
/// What X_recv counts for after a loss in a data-limited interval (RFC 5348 §4.3).
const AFTER_LOSS: f64 = 0.85;

/// What the path and the packets are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// R.
    pub(crate) rtt: Duration,
    /// s, in bytes.
    pub(crate) segment: f64,
    /// `W_init`, in bytes.
    pub(crate) initial_window: u64,
}

/// Feedback, as far as it decides on the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// `X_recv`, in bytes a second.
    pub(crate) receive_rate: f64,
    /// p.
    pub(crate) p: f64,
    /// A loss event is told, be it by name or by an increase of p.
    pub(crate) new_loss_event: bool,
    /// The sender was data-limited during the whole of what it tells of.
    pub(crate) data_limited: bool,
}

/// X, and what it follows from; in bytes a second.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    x: f64,
    /// `X_Bps`: what the equation gives. Infinite while there was no loss event.
    by_equation: f64,
    p: f64,
    /// tld.
    doubled: Instant,
    rates: ReceiveRates,
}

impl Path {
    /// `initial_rate` of RFC 5348 §4.2, which is `recover_rate`, too.
    fn initial_rate(&self) -> f64 {
        self.initial_window as f64 / self.rtt.as_secs_f64()
    }
}

/// s/t_mbi.
pub(crate) fn least(segment: f64) -> f64 {
    segment / BACKOFF
}

impl Allowed {
    /// A segment a second, until there is a round-trip time.
    pub(crate) fn new(segment: f64) -> Self {
        let rates = ReceiveRates::new(Instant::ZERO);
        Self { x: segment, by_equation: f64::INFINITY, p: 0.0, doubled: Instant::ZERO, rates }
    }

    /// X.
    pub(crate) fn rate(&self) -> f64 {
        self.x
    }

    /// p, as it was told last.
    pub(crate) fn p(&self) -> f64 {
        self.p
    }

    /// What the equation gives; infinite while there was no loss event.
    pub(crate) fn by_equation(&self) -> f64 {
        self.by_equation
    }

    /// The first round trip was measured (RFC 5348 §4.2).
    pub(crate) fn start(&mut self, now: Instant, path: &Path) {
        self.doubled = now;
        self.x = path.initial_rate();
        self.rates = ReceiveRates::new(now);
    }

    /// Step 4 of RFC 5348 §4.3.
    pub(crate) fn on_feedback(&mut self, now: Instant, path: &Path, heard: Heard) {
        self.p = heard.p;
        let mut limit = 2.0;
        if !heard.data_limited {
            self.rates.update(now, heard.receive_rate, path.rtt);
        } else if heard.new_loss_event {
            self.rates.halve();
            self.rates.maximize(now, AFTER_LOSS * heard.receive_rate);
            limit = 1.0;
        } else {
            self.rates.maximize(now, heard.receive_rate);
        }
        self.recalculate(now, path, limit * self.rates.max());
    }

    /// X is so much at least: it was sent and arrived.
    pub(crate) fn raise(&mut self, rate: f64) {
        self.x = self.x.max(rate);
    }

    /// The first feedback brought the first round trip, which sets the rate in place of step 4 (RFC 5348 §4.2). If it
    /// tells of a loss as well, the rate is what the equation gives, at most.
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

    /// The receiver has trouble of its own: no more than `limit` until it tells of a receive rate again (RFC 4342 §5.2).
    pub(crate) fn restrain(&mut self, now: Instant, limit: f64) {
        self.rates.only(now, limit / 2.0);
        self.x = self.x.min(limit);
    }

    /// The nofeedback timer expired, before there is a round trip: step 1 of RFC 5348 §4.4.
    pub(crate) fn on_silence_at_first(&mut self, segment: f64, idle: bool) {
        if !idle {
            self.x = (self.x / 2.0).max(least(segment));
        }
    }

    /// The nofeedback timer expired: step 1 of RFC 5348 §4.4. `idle`: nothing was sent since it was set.
    pub(crate) fn on_silence(&mut self, now: Instant, path: &Path, idle: bool) {
        let receive_rate = self.rates.max();
        let recover = path.initial_rate();
        let recovers = if self.p > 0.0 { receive_rate < recover } else { self.x < 2.0 * recover };
        if recovers && idle {
            return;
        }
        if self.p <= 0.0 {
            self.x = (self.x / 2.0).max(least(path.segment));
        } else if self.by_equation > 2.0 * receive_rate {
            self.update_limits(now, path, receive_rate);
        } else {
            self.update_limits(now, path, self.by_equation / 2.0);
        }
    }

    /// `Update_Limits()`.
    fn update_limits(&mut self, now: Instant, path: &Path, limit: f64) {
        let limit = limit.max(least(path.segment));
        self.rates.only(now, limit / 2.0);
        self.recalculate(now, path, limit);
    }
}
