//! TCP throughput equation (RFC 5348 §3.1, §8.1): TCP's rate at a loss event rate and RTT.

use timeous_core::{Duration, Rate};

/// Minimum loss event rate of the search, in loss events per packet. Chosen by us: one in a billion packets. A higher
/// value limits the rate that the first loss interval stands for (RFC 5348 §6.3.1).
const MIN_LOSS_EVENT_RATE: f64 = 1e-9;
/// Number of bisection steps. Chosen by us: far better than the accuracy of 5 % that RFC 5348 §6.3.1 asks for. A higher
/// value takes more time.
const BISECTIONS: u32 = 64;

/// Rate of a TCP with a retransmission timeout of four RTTs that acknowledges each packet, for segments of `segment`
/// bytes at the loss event rate `p`, from 0 to 1. [`Rate::MAX`] without losses or with an RTT of zero.
///
/// ```
/// use timeous_cm::tfrc::equation;
/// use timeous_core::{Duration, Rate};
/// // Once in a hundred packets, over 100 ms: 1.43 Mbit/s, less what timeouts cost.
/// let rate = equation::rate(1_460, Duration::from_millis(100), 0.01);
/// assert!(rate > Rate::from_kbps(1_300) && rate < Rate::from_kbps(1_320));
/// ```
pub fn rate(segment: u64, rtt: Duration, p: f64) -> Rate {
    to_rate(bytes_per_second(segment as f64, rtt, p))
}

/// Full equation, with the retransmission `timeout` and the number `b` of packets per acknowledgement.
pub fn rate_of(segment: u64, rtt: Duration, p: f64, timeout: Duration, b: u32) -> Rate {
    let (p, b) = (p.clamp(0.0, 1.0), f64::from(b));
    let lossy = rtt.as_secs_f64() * (2.0 * b * p / 3.0).sqrt();
    let timeouts = timeout.as_secs_f64() * 3.0 * (3.0 * b * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    to_rate(segment as f64 / (lossy + timeouts))
}

/// Loss event rate at which the equation gives `target`, between one in a billion packets and 1.
pub fn loss_event_rate(segment: u64, rtt: Duration, target: Rate) -> f64 {
    inverse(segment as f64 / (rtt.as_secs_f64() * to_bytes(target)))
}

/// Loss event rate at which the equation gives this many packets per round trip.
pub(crate) fn for_packets_a_round_trip(packets: f64) -> f64 {
    inverse(1.0 / packets)
}

/// Result of the equation in bytes per second; infinite without losses.
pub(crate) fn bytes_per_second(segment: f64, rtt: Duration, p: f64) -> f64 {
    segment / (rtt.as_secs_f64() * f(p))
}

/// f(p) of RFC 5348 §8.1: round trips per packet.
fn f(p: f64) -> f64 {
    let p = p.clamp(0.0, 1.0);
    (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// Loss event rate whose f(p) is `value`, by bisection, since f increases with p.
fn inverse(value: f64) -> f64 {
    let (mut low, mut high) = (MIN_LOSS_EVENT_RATE, 1.0_f64);
    if value.is_nan() || value >= f(high) {
        return high;
    }
    for _ in 0..BISECTIONS {
        // Geometric mean, as the range spans nine orders of magnitude.
        let middle = (low * high).sqrt();
        if f(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Converts bytes per second to a rate; infinity becomes [`Rate::MAX`].
pub(crate) fn to_rate(bytes_per_second: f64) -> Rate {
    Rate::from_bps((bytes_per_second * 8.0).round() as u64)
}

/// Converts a rate to bytes per second.
pub(crate) fn to_bytes(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

#[cfg(test)]
mod tests;
