//! False feedback of a client about its packets.

use timeous::core::Duration;
use timeous_cm::Update;

use crate::experiment::values;

values! {
    /// Kind of false feedback.
    #[derive(serde::Deserialize)]
    pub(crate) enum FalseFeedback {
        /// True feedback.
        None = "is honest",
        /// Twice the bytes that have arrived.
        Double = "acknowledges each packet twice",
        /// Arrival of many bytes that were never sent.
        Unsent = "acknowledges what was never sent",
        /// A tenth of the round-trip time.
        Short = "tells a tenth of the round trip",
        /// Arrival of each packet at the time it leaves, without any loss.
        Early = "acknowledges what has just left",
        /// Arrival of lost packets.
        Deaf = "hides losses",
    }
}

impl FalseFeedback {
    /// Returns whether part of it is impossible, so that the daemon can detect it.
    pub(crate) fn is_impossible(self) -> bool {
        matches!(self, Self::Double | Self::Unsent)
    }

    /// Returns the feedback given when a packet has just left.
    pub(crate) fn of_sent(self, bytes: u64) -> Option<Update> {
        (self == Self::Early).then(|| Update { acked: bytes, ..Update::default() })
    }

    /// Returns the feedback given in place of the truth.
    pub(crate) fn of(self, truth: Update) -> Vec<Update> {
        let silent = Update { acked: truth.acked + truth.lost, lost: 0, loss: None, ..truth };
        match self {
            Self::None => vec![truth],
            Self::Double => vec![truth, Update { acked: truth.acked, ..Update::default() }],
            Self::Unsent => vec![truth, Update { acked: 1_000_000, ..Update::default() }],
            Self::Short => vec![Update { rtt: truth.rtt.map(|rtt: Duration| rtt / 10), ..truth }],
            // All bytes were reported at departure; only the round-trip time is missing.
            Self::Early => Vec::new(),
            Self::Deaf => vec![silent],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lies_says_something_else() {
        let truth = Update { acked: 1_000, lost: 500, rtt: Some(Duration::from_millis(50)), ..Update::default() };
        assert_eq!(FalseFeedback::None.of(truth), [truth]);
        let all = |lie: FalseFeedback| lie.of(truth).iter().map(|update| update.acked).sum::<u64>();
        assert_eq!(
            [FalseFeedback::Double, FalseFeedback::Unsent, FalseFeedback::Deaf].map(all),
            [2_000, 1_001_000, 1_500]
        );
        assert_eq!(FalseFeedback::Short.of(truth)[0].rtt, Some(Duration::from_millis(5)));
        assert_eq!(FalseFeedback::Early.of_sent(700).map(|update| update.acked), Some(700));
        assert!(FalseFeedback::ALL.iter().filter(|lie| lie.of_sent(1).is_some()).eq([&FalseFeedback::Early]));
    }
}
