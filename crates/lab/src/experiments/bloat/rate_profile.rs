//! Link rate over time: constant, or varying as in a mobile network.

use timeous::core::{Duration, Rate, Rng};

use super::setup::RateProfile;
use crate::bound::Rates;

/// Interval between rate changes of a mobile link.
const STEP: Duration = Duration::from_millis(100);
/// Standard deviation of the log rate per step, and the share of its distance to the mean that it
/// regains per step.
const WANDERS: f64 = 0.2;
const RETURNS: f64 = 0.06;
/// Lowest and highest rate, as multiples of the mean.
const LEAST: f64 = 0.2;
const MOST: f64 = 2.5;
/// Probability per step that an outage (handover) begins, and its longest duration in steps.
const OUTAGE: f64 = 0.005;
const OUTAGE_STEPS: u64 = 3;

/// Returns the rates of a link with this mean rate over `lasting`.
pub(super) fn course(course: RateProfile, mean: Rate, lasting: Duration, rng: &mut Rng) -> Rates {
    if course == RateProfile::Steady {
        return Rates::fixed(mean);
    }
    let (mut log, mut out) = (0.0_f64, 0);
    let steps = lasting.as_nanos() / STEP.as_nanos();
    let mut share = || {
        // Approximately normal, with unit variance.
        let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        log = (log * (1.0 - RETURNS) + normal * WANDERS).clamp(LEAST.ln(), MOST.ln());
        if out == 0 && rng.chance(OUTAGE) {
            out = 1 + rng.below(OUTAGE_STEPS);
        }
        let stands = out > 0;
        out = out.saturating_sub(1);
        if stands { 0.0 } else { log.exp() }
    };
    let shares: Vec<f64> = (0..steps).map(|_| share()).collect();
    let scale = shares.len() as f64 / shares.iter().sum::<f64>();
    let rate = |share: &f64| Rate::from_bps((mean.as_bps() as f64 * share * scale) as u64);
    let steps: Vec<_> = shares.iter().enumerate().map(|(n, share)| (STEP * n as u64, rate(share))).collect();
    Rates::steps(&steps)
}
