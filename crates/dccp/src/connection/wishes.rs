//! What an end asks for from its first packet on (RFC 4340 §6; RFC 4341 §4).

use super::config::Config;
use super::sequence::MAX_SEQUENCE_WINDOW;
use crate::features::{Feature, Features, Location, Role};

/// What this end asks for from the first packet on.
pub(super) fn features(role: Role, config: &Config) -> Features {
    let mut features = Features::new(role);
    // We can live with a peer that cannot read marks, whether or not we can.
    let mut ask = |feature, location, values: &[u64], mandatory| {
        features.propose(feature, location, values, mandatory).expect("a legal value of a feature of ours");
    };
    // CCID 2 is where connections start (RFC 4340 §10); saying so spares an end that could do more a negotiation.
    if role == Role::Client {
        ask(Feature::Ccid, Location::Local, &[2], false);
        ask(Feature::Ccid, Location::Remote, &[2], false);
        ask(Feature::SendAckVector, Location::Local, &[1], false);
        // "Use of the Ack Vector is MANDATORY on CCID 2 half-connections" (RFC 4341 §4).
        ask(Feature::SendAckVector, Location::Remote, &[1], true);
    }
    let window = config.sequence_window.clamp(32, MAX_SEQUENCE_WINDOW);
    ask(Feature::SequenceWindow, Location::Local, &[window], false);
    if config.ndp_count {
        ask(Feature::SendNdpCount, Location::Remote, &[1], false);
    }
    if !config.ecn {
        ask(Feature::EcnIncapable, Location::Local, &[1], true);
    }
    features.prefer(Feature::EcnIncapable, Location::Remote, &[0, 1]).expect("both are legal");
    features
}
