//! Throughput models of TCP: Padhye et al., in full and as in RFC 5348.

/// Path in the models. Times are in seconds, rates in packets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Model {
    /// Mean round-trip time `RTT`.
    pub(crate) rtt: f64,
    /// Mean length of the first timeout of a series, `T0`.
    pub(crate) timeout: f64,
    /// Packets acknowledged together, `b`, which slow the growth of the window, if acknowledgements
    /// are counted; 1 if bytes are.
    pub(crate) per_ack: f64,
}

impl Model {
    /// Returns Reno's sending rate with `p` loss indications per packet sent and no limit by the
    /// receiver's window: Padhye, Firoiu, Towsley and Kurose, "Modeling TCP Throughput" (1998), the
    /// full model.
    pub(crate) fn full(&self, p: f64) -> f64 {
        let window = self.mean_window(p);
        let share = timeout_share(p, window);
        // Packets sent and rounds in a period between two losses, with the timeouts that end some
        // periods.
        let packets = (1.0 - p) / p + window + share / (1.0 - p);
        let rounds = self.per_ack / 2.0 * window + 1.0;
        let waiting = share * self.timeout * backed_off(p) / (1.0 - p);
        packets / (self.rtt * rounds + waiting)
    }

    /// Returns the rate by TFRC's simplified equation (RFC 5348 §3.1).
    pub(crate) fn rfc5348(&self, p: f64) -> f64 {
        let b = self.per_ack;
        let recovering = self.rtt * (2.0 * b * p / 3.0).sqrt();
        let waiting = self.timeout * 3.0 * (3.0 * b * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
        1.0 / (recovering + waiting)
    }

    /// Returns `E[W]`, the window in packets at a loss.
    fn mean_window(&self, p: f64) -> f64 {
        let b = self.per_ack;
        let offset = (2.0 + b) / (3.0 * b);
        offset + (8.0 * (1.0 - p) / (3.0 * b * p) + offset * offset).sqrt()
    }
}

/// Returns `Q̂(w)`, the share of timeouts among the loss indications in a window of `w` packets.
fn timeout_share(p: f64, w: f64) -> f64 {
    let kept = 1.0 - p;
    let three = kept * kept * kept;
    let share = (1.0 - three) * (1.0 + three * (1.0 - kept.powf(w - 3.0))) / (1.0 - kept.powf(w));
    share.min(1.0)
}

/// Returns `f(p)`, the length of a series of timeouts relative to its first: each doubles the next,
/// up to 64 times.
fn backed_off(p: f64) -> f64 {
    1.0 + p * (1.0 + p * (2.0 + p * (4.0 + p * (8.0 + p * (16.0 + p * 32.0)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(value: f64, expected: f64, share: f64) {
        assert!((value - expected).abs() <= share * expected, "{value} is not {expected} within {share}");
    }

    #[test]
    fn with_few_losses_both_are_the_square_root_law() {
        for per_ack in [1.0, 2.0] {
            let model = Model { rtt: 0.1, timeout: 0.4, per_ack };
            let law = (3.0 / (2.0 * per_ack * 1e-7f64)).sqrt() / 0.1;
            close(model.full(1e-7), law, 0.002);
            close(model.rfc5348(1e-7), law, 0.002);
        }
    }

    #[test]
    fn the_simplification_of_rfc_5348_is_near_the_full_model() {
        let model = Model { rtt: 0.1, timeout: 0.4, per_ack: 1.0 };
        for p in [0.001, 0.003, 0.01, 0.03, 0.05] {
            close(model.rfc5348(p), model.full(p), 0.25);
        }
    }

    #[test]
    fn with_four_round_trips_for_a_timeout_it_is_the_equation_that_rfc_5348_gives() {
        for (p, rtt) in [(0.001, 0.02), (0.02, 0.1), (0.05, 0.2)] {
            let model = Model { rtt, timeout: 4.0 * rtt, per_ack: 1.0 };
            let p: f64 = p;
            let given =
                1.0 / (rtt * ((2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)));
            close(model.rfc5348(p), given, 1e-12);
        }
    }

    #[test]
    fn the_share_of_timeouts_tends_to_three_in_a_window() {
        for w in [4.0, 10.0, 40.0] {
            close(timeout_share(1e-7, w), 3.0 / w, 1e-3);
        }
        assert_eq!(timeout_share(0.3, 2.0), 1.0, "too few packets for three duplicates");
    }

    /// By hand: E\[W\] = 1 + √(8 × 0.95 / 0.15 + 1) = 8.188; Q̂ = 0.4992; f = 1.0554.
    #[test]
    fn one_loss_in_twenty_by_hand() {
        let model = Model { rtt: 0.1, timeout: 0.5, per_ack: 1.0 };
        close(model.mean_window(0.05), 8.188, 1e-3);
        let by_hand = (19.0 + 8.188 + 0.4992 / 0.95) / (0.1 * 5.094 + 0.4992 * 0.5 * 1.0554 / 0.95);
        close(model.full(0.05), by_hand, 2e-3);
    }
}
