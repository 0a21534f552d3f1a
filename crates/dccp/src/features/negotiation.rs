//! Negotiation of one feature at one location: value, preferences, state (RFC 4340 §6.6.2).

use super::ends::Role;
use super::number::{Feature, Rule};
use crate::seq::Seq;

/// State of the negotiation (RFC 4340 §6.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Both ends agree, as far as known. Our preferences may still have to be announced.
    Stable {
        /// Whether a Change has to be sent.
        announce: bool,
    },
    /// A Change is in flight.
    Changing {
        /// Packet that last carried it.
        last: Seq,
        /// Whether it must be retransmitted.
        again: bool,
    },
    /// Our preferences changed while a Change was in flight, and no Change has announced them yet.
    Unstable,
}

/// One feature at one location.
#[derive(Clone, Debug)]
pub(super) struct Negotiation {
    pub(super) feature: Feature,
    pub(super) value: u64,
    /// Our preferences, most preferred first; empty if we do not support the feature. A non-negotiable feature has one:
    /// the value that its location wants.
    pub(super) preferences: Vec<u64>,
    /// All values of a negotiable feature that we supported at some time on this connection: at most 256.
    once_supported: Vec<u64>,
    /// Whether we have told the peer any preferences, in a Change or a Confirm.
    has_spoken: bool,
    /// Whether we have told the peer preferences other than the current ones.
    pub(super) has_changed_its_mind: bool,
    /// Whether our Change is marked mandatory.
    pub(super) mandatory: bool,
    pub(super) state: State,
}

impl Negotiation {
    pub(super) fn new(feature: Feature) -> Self {
        let preferences = match feature {
            Feature::SendLossEventRate => Vec::new(),
            // Both values are supported, and neither is needed here.
            Feature::SendAckVector | Feature::SendNdpCount => vec![0, 1],
            _ => vec![feature.initial()],
        };
        let state = State::Stable { announce: false };
        let mut once_supported = preferences.clone();
        once_supported.push(feature.initial());
        Self {
            feature,
            value: feature.initial(),
            preferences,
            once_supported,
            has_spoken: false,
            has_changed_its_mind: false,
            mandatory: false,
            state,
        }
    }

    /// Sets new preferences.
    pub(super) fn wish(&mut self, preferences: &[u64]) {
        if self.preferences == preferences {
            return;
        }
        self.preferences = preferences.to_vec();
        self.has_changed_its_mind |= self.has_spoken;
        if self.feature.rule() == Rule::ServerPriority {
            for &value in preferences {
                if !self.once_supported.contains(&value) {
                    self.once_supported.push(value);
                }
            }
        }
        // "an endpoint that changes its preference list while in the CHANGING state MUST transition to … UNSTABLE"
        // (§6.6.5).
        match &mut self.state {
            State::Changing { .. } => self.state = State::Unstable,
            // A Confirm with the old preferences may be in flight next to one with the new: only the answer to a Change
            // of our own tells which one the peer took.
            State::Stable { announce } => *announce |= self.has_changed_its_mind,
            State::Unstable => {}
        }
    }

    /// Whether no Change is to be sent or awaits its answer.
    pub(super) fn is_settled(&self) -> bool {
        self.state == State::Stable { announce: false }
    }

    /// Whether a Change is to be sent: new, changed, or to be retransmitted.
    pub(super) fn is_due(&self) -> bool {
        match self.state {
            State::Stable { announce } => announce,
            State::Changing { again, .. } => again,
            State::Unstable => true,
        }
    }

    /// Notes that our Change left in packet `seq`; returns whether it was new, so that FGSS advances (§6.6.4).
    pub(super) fn change_sent(&mut self, seq: Seq) -> bool {
        let is_new = !matches!(self.state, State::Changing { .. });
        self.state = State::Changing { last: seq, again: false };
        self.has_spoken = true;
        is_new
    }

    /// Notes that a Change of the peer's arrived, which also answers ours, if any (§6.6.6).
    ///
    /// An end with changed preferences keeps asking ("can then transition", says §6.6.6): the peer may still apply an
    /// older Change of its own, and the two values would differ unnoticed.
    pub(super) fn answered_by_change(&mut self) {
        self.has_spoken = true;
        if !self.has_changed_its_mind {
            self.state = State::Stable { announce: false };
        }
    }

    /// Whether a Confirm of these values follows from our Change (§6.3, §6.6.8).
    ///
    /// With nothing shared the peer "will confirm the feature's previous value" (§6.3.1), which may differ from ours
    /// after a Confirm that we ignored while UNSTABLE. So any value we once supported is accepted: insisting on ours
    /// would reset a connection although both ends follow the rules.
    pub(super) fn is_confirmed_by(&self, role: Role, values: &[u64]) -> bool {
        let Some((&value, theirs)) = values.split_first() else { return false };
        match self.feature.rule() {
            Rule::NonNegotiable => values == self.preferences.as_slice(),
            // The list is optional: "the selected Value, and then possibly the sender's preference list" (§6.2); an
            // empty one shares nothing.
            Rule::ServerPriority => match self.reconciled(role, theirs) {
                Some(shared) => value == shared,
                None => self.once_supported.contains(&value),
            },
        }
    }

    /// "select the first entry in the server's list that also occurs in the client's list" (§6.3.1).
    pub(super) fn reconciled(&self, role: Role, theirs: &[u64]) -> Option<u64> {
        let (server, client) = match role {
            Role::Server => (self.preferences.as_slice(), theirs),
            Role::Client => (theirs, self.preferences.as_slice()),
        };
        server.iter().copied().find(|value| client.contains(value))
    }
}

impl Feature {
    /// Decodes the values in an option; `None` if their length is wrong.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<Vec<u64>> {
        let values = bytes.chunks_exact(self.width());
        let is_whole = values.remainder().is_empty();
        is_whole.then(|| values.map(|value| value.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))).collect())
    }

    /// Encodes values for an option.
    pub(super) fn encode(self, values: impl IntoIterator<Item = u64>) -> Vec<u8> {
        values.into_iter().flat_map(|value| value.to_be_bytes().into_iter().skip(8 - self.width())).collect()
    }
}
