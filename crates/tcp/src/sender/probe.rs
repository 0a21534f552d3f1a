//! Tail loss probe: permission to send, and evaluation of its acknowledgement (RFC 8985 §7).

use timeous_core::Duration;

/// Maximum delay of an acknowledgement for a single segment (`TLP.max_ack_delay`, RFC 8985 §5.3); Linux's value.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(200);

/// The state of RFC 8985 §7.1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// `TLP.end_seq`: end of the probe that was sent and not acknowledged.
    end: Option<u64>,
    /// `TLP.is_retrans`.
    repeats: bool,
    /// Whether there was no RTT sample since the last probe.
    unsampled: bool,
}

/// An acknowledgement's evidence about a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Cumulative acknowledgement.
    pub(super) ack: u64,
    /// It reports a duplicate segment.
    pub(super) dsack: bool,
    /// It is a duplicate without SACK blocks.
    pub(super) bare_duplicate: bool,
}

impl Probe {
    /// Returns whether "there is no other previous loss probe still in flight", and there was a sample since the last
    /// one (§7.3).
    pub(super) fn may_send(&self) -> bool {
        self.end.is_none() && !self.unsampled
    }

    pub(super) fn sent(&mut self, end: u64, repeats: bool) {
        *self = Self { end: Some(end), repeats, unsampled: true };
    }

    pub(super) fn sampled(&mut self) {
        self.unsampled = false;
    }

    /// Resets the probe: fast recovery or a timeout has begun (§7.1).
    pub(super) fn reset(&mut self) {
        (self.end, self.repeats) = (None, false);
    }

    /// Processes an acknowledgement: `TLP_process_ack` (§7.4.2). Returns whether the probe has repaired a loss, which
    /// congestion control must learn of.
    pub(super) fn on_ack(&mut self, seen: Seen) -> bool {
        let Some(end) = self.end.filter(|&end| seen.ack >= end) else { return false };
        if !self.repeats || seen.dsack {
            self.end = None;
        } else if seen.ack > end {
            self.end = None;
            return true;
        } else if seen.bare_duplicate {
            self.end = None;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ack: u64) -> Seen {
        Seen { ack, dsack: false, bare_duplicate: false }
    }

    fn repeated() -> Probe {
        let mut probe = Probe::default();
        probe.sent(1_000, true);
        probe
    }

    #[test]
    fn a_second_probe_waits_for_the_first_and_for_a_sample() {
        let mut probe = Probe::default();
        assert!(probe.may_send());
        probe.sent(1_000, false);
        probe.sampled();
        assert!(!probe.may_send());
        assert!(!probe.on_ack(ack(1_000)), "new data came through: no loss");
        assert!(probe.may_send());
        probe.sent(2_000, false);
        probe.reset();
        assert!(!probe.may_send(), "no sample since the last one");
    }

    #[test]
    fn an_acknowledgement_beyond_a_repeated_segment_tells_of_a_loss_unless_both_copies_came() {
        assert!(!repeated().on_ack(ack(999)));
        let mut probe = repeated();
        assert!(!probe.on_ack(ack(1_000)));
        assert!(probe.on_ack(ack(1_001)), "RFC 8985 §7.4.2: repaired the single loss");
        let mut probe = repeated();
        assert!(!probe.on_ack(Seen { dsack: true, ..ack(1_000) }), "case 1");
        assert!(!probe.on_ack(ack(5_000)));
        let mut probe = repeated();
        assert!(!probe.on_ack(Seen { bare_duplicate: true, ..ack(1_000) }), "case 2");
        assert!(!probe.on_ack(ack(5_000)));
    }
}
