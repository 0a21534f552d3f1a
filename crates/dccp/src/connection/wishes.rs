//! Feature preferences of an end at the start of a connection (RFC 4340 §6; RFC 4341 §4).

use super::config::{Config, Parity};
use super::sequence::MAX_SEQUENCE_WINDOW;
use crate::ccid::Ccid;
use crate::features::{Feature, Features, Location, Role, TAKES_PARITY, TAKES_REPEATS};

/// Returns the feature state with this end's initial proposals.
pub(super) fn features(role: Role, config: &Config) -> Features {
    let mut features = Features::new(role);
    for (location, ccids) in [(Location::Local, &config.ccids), (Location::Remote, &config.peer_ccids)] {
        ask_for_ccid(&mut features, role, location, ccids);
    }
    // A peer that cannot read ECN marks is acceptable.
    let mut ask = |feature, location, values: &[u64], mandatory| {
        features.propose(feature, location, values, mandatory).expect("a legal value of a feature of ours");
    };
    let window = config.sequence_window.clamp(32, MAX_SEQUENCE_WINDOW);
    ask(Feature::SequenceWindow, Location::Local, &[window], false);
    if config.ndp_count {
        ask(Feature::SendNdpCount, Location::Remote, &[1], false);
    }
    if !config.ecn {
        ask(Feature::EcnIncapable, Location::Local, &[1], true);
    }
    features.prefer(Feature::EcnIncapable, Location::Remote, &[0, 1]).expect("both are legal");
    ask_for_checksums(&mut features, config);
    features.prefer(Feature::TakeRepeats, Location::Local, &[TAKES_PARITY, TAKES_REPEATS, 0]).expect("all are legal");
    let wishes: &[u64] = match (config.parity, config.repeats) {
        (Parity::Off, false) => &[],
        (Parity::Off, true) => &[TAKES_REPEATS, 0],
        _ => &[TAKES_PARITY, TAKES_REPEATS, 0],
    };
    if !wishes.is_empty() {
        features.propose(Feature::TakeRepeats, Location::Remote, wishes, false).expect("all are legal");
    }
    features
}

/// Proposes the CCID of one half-connection, and the acknowledgement features that it needs from the other end.
fn ask_for_ccid(features: &mut Features, role: Role, location: Location, ccids: &[Ccid]) {
    let numbers: Vec<u64> = ccids.iter().map(|ccid| u64::from(ccid.number())).collect();
    let (only_2, has_2) = (numbers.iter().all(|&ccid| ccid == 2), numbers.is_empty() || numbers.contains(&2));
    let numbers = if numbers.is_empty() { vec![2] } else { numbers };
    let acks = match location {
        Location::Local => Location::Remote,
        Location::Remote => Location::Local,
    };
    let mut ask = |feature, location, values: &[u64], mandatory| {
        features.propose(feature, location, values, mandatory).expect("a legal value of a feature of ours");
    };
    // CCID 2 is the default (RFC 4340 §10); a client that asks for it alone spares a more capable server a negotiation.
    if role == Role::Client || !only_2 {
        ask(Feature::Ccid, location, &numbers, !has_2);
    }
    // "Use of the Ack Vector is MANDATORY on CCID 2 half-connections" (RFC 4341 §4); with other CCIDs it is optional,
    // and tells the fate of each packet (RFC 4342 §6).
    if role == Role::Client {
        let values: &[u64] = if only_2 { &[1] } else { &[1, 0] };
        ask(Feature::SendAckVector, acks, values, only_2 && location == Location::Local);
    }
    if !only_2 {
        // Granted if the peer asks, once the CCID is settled (RFC 4342 §8.4).
        features.prefer(Feature::SendLossEventRate, acks, &[1, 0]).expect("both are legal");
        features.prefer(Feature::SendAckVector, acks, &[1, 0]).expect("both are legal");
    }
}

/// Proposes checksum features: Data Checksum, and minimum coverage (RFC 4340 §9.2.1, §9.3.1).
fn ask_for_checksums(features: &mut Features, config: &Config) {
    const LEGAL: &str = "a legal value of a feature of ours";
    if config.data_checksum {
        features.propose(Feature::CheckDataChecksum, Location::Remote, &[1, 0], false).expect(LEGAL);
    }
    // This end checks every Data Checksum that it receives.
    features.prefer(Feature::CheckDataChecksum, Location::Local, &[1, 0]).expect(LEGAL);
    let (sent, taken) = (u64::from(config.checksum_coverage.min(15)), u64::from(config.min_checksum_coverage.min(15)));
    if sent > 0 {
        let values: Vec<u64> = (0..=sent).rev().collect();
        features.propose(Feature::MinChecksumCoverage, Location::Remote, &values, false).expect(LEGAL);
    }
    if taken > 0 {
        let values: Vec<u64> = (taken..=15).chain([0]).collect();
        features.prefer(Feature::MinChecksumCoverage, Location::Local, &values).expect(LEGAL);
    }
}
