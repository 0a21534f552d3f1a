//! One feature at one end: its value, our wishes, and how far the talk about it has come (RFC 4340 §6.6.2).

use super::ends::Role;
use super::number::{Feature, Rule};
use crate::seq::Seq;

/// How far the talk has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Both ends agree, as far as we know. Our wishes may still have to be announced.
    Stable {
        /// Whether a Change has to be sent.
        announce: bool,
    },
    /// A Change is on its way.
    Changing {
        /// The packet that last carried it.
        last: Seq,
        /// Whether it must be repeated.
        again: bool,
    },
    /// The wishes changed while a Change was on its way, and no Change has said so yet.
    Unstable,
}

/// One feature at one location.
#[derive(Clone, Debug)]
pub(super) struct Negotiation {
    pub(super) feature: Feature,
    pub(super) value: u64,
    /// Ours, most preferred first; none if we do not support the feature. A non-negotiable feature has one: the value
    /// that its location wants.
    pub(super) preferences: Vec<u64>,
    /// Every value of a negotiable feature that we ever supported on this connection: at most 256, of one byte each.
    once_supported: Vec<u64>,
    /// Whether we ever told the peer our wishes, in a Change or a Confirm.
    has_spoken: bool,
    /// Whether we ever told the peer other wishes than those of now.
    pub(super) has_changed_its_mind: bool,
    /// Whether our Change is marked mandatory.
    pub(super) mandatory: bool,
    pub(super) state: State,
}

impl Negotiation {
    pub(super) fn new(feature: Feature) -> Self {
        let preferences = match feature {
            Feature::SendLossEventRate => Vec::new(),
            // We can do both, and see no need of our own.
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

    /// Takes new wishes in.
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
            // The old wishes may still be on their way in a Confirm, next to one with the new; only an answer to a
            // Change of our own tells which of them the peer took.
            State::Stable { announce } => *announce |= self.has_changed_its_mind,
            State::Unstable => {}
        }
    }

    /// No Change of ours is to be sent or answered.
    pub(super) fn is_settled(&self) -> bool {
        self.state == State::Stable { announce: false }
    }

    /// The next Change to send is due, because it is new, or changed, or must be repeated.
    pub(super) fn is_due(&self) -> bool {
        match self.state {
            State::Stable { announce } => announce,
            State::Changing { again, .. } => again,
            State::Unstable => true,
        }
    }

    /// Notes that our Change went out on the packet `seq`; returns whether it was new, so that FGSS moves (§6.6.4).
    pub(super) fn change_sent(&mut self, seq: Seq) -> bool {
        let is_new = !matches!(self.state, State::Changing { .. });
        self.state = State::Changing { last: seq, again: false };
        self.has_spoken = true;
        is_new
    }

    /// Notes that a Change of the peer's came, which answers ours, if there is one (§6.6.6).
    ///
    /// An end that changed its mind asks on all the same ("can then transition", says §6.6.6): an older Change of its
    /// own may still be counted at the peer, and the two values would differ unnoticed.
    pub(super) fn answered_by_change(&mut self) {
        self.has_spoken = true;
        if !self.has_changed_its_mind {
            self.state = State::Stable { announce: false };
        }
    }

    /// Whether a Confirm of these values follows from what we asked for (§6.3, §6.6.8).
    ///
    /// With nothing shared it "will confirm the feature's previous value" (§6.3.1): the peer's, which may have moved
    /// on from ours by a Confirm that came while we were UNSTABLE and ignored it. So any value that we once supported
    /// will do; to insist on ours would reset a connection whose ends both keep the rules.
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
    /// The values in an option, or `None` if their length is wrong.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<Vec<u64>> {
        let values = bytes.chunks_exact(self.width());
        let is_whole = values.remainder().is_empty();
        is_whole.then(|| values.map(|value| value.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))).collect())
    }

    /// The values as an option carries them.
    pub(super) fn encode(self, values: impl IntoIterator<Item = u64>) -> Vec<u8> {
        values.into_iter().flat_map(|value| value.to_be_bytes().into_iter().skip(8 - self.width())).collect()
    }
}
