//! Feature negotiation of a connection: proposals, their retransmission, and agreed values (RFC 4340 §6; RFC 4341 §4).

use timeous_core::{Duration, Instant};

use super::config::{Config, Parity};
use super::sequence::MAX_SEQUENCE_WINDOW;
use super::timers::{Timer, TimerTable, backed_off};
use crate::ccid::Ccid;
use crate::features::{Feature, Features, Location, Role, TAKES_PARITY, TAKES_REPEATS};
use crate::options::OptionList;
use crate::packet::PacketType;
use crate::seq::Seq;

/// Minimum retransmission timeout of Change options: on a fast path, delayed acknowledgements delay the answer. Chosen
/// by us: a higher value negotiates later after a loss.
const MIN_NEGOTIATION_TIMEOUT: Duration = Duration::from_millis(100);

/// Features of a connection, and when their options leave.
#[derive(Clone, Debug)]
pub(super) struct Negotiation {
    features: Features,
    /// Whether the peer was asked for Ack Vectors as an option (it may decline).
    has_asked_for_vectors: bool,
    /// Earliest time of the next packet that only carries feature negotiation (RFC 4340 §6.6.1).
    next_at: Instant,
    resends: u32,
}

impl Negotiation {
    pub(super) fn new(now: Instant, role: Role, config: &Config) -> Self {
        let has_asked_for_vectors = role == Role::Client;
        Self { features: initial_features(role, config), has_asked_for_vectors, next_at: now, resends: 0 }
    }

    pub(super) fn features(&self) -> &Features {
        &self.features
    }

    pub(super) fn is_ccid_settled(&self) -> bool {
        self.features.is_settled(Feature::Ccid, Location::Local)
    }

    pub(super) fn features_mut(&mut self) -> &mut Features {
        &mut self.features
    }

    pub(super) fn ccid(&self) -> Ccid {
        Ccid::from_number(self.features.local(Feature::Ccid)).unwrap_or_default()
    }

    /// Handles the expiry of the timer for unanswered Changes.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if now >= self.next_at {
            self.features.retransmit();
            self.resends += 1;
        }
    }

    pub(super) fn announce(&mut self, feature: Feature, value: u64) {
        self.features.propose(feature, Location::Local, &[value], false).expect("a legal value of our own feature");
    }

    /// Asks the peer for Ack Vectors as our CCID needs them, unless it has offered them.
    pub(super) fn ask_for_vectors(&mut self) {
        if !self.is_ccid_settled() || !self.features.is_settled(Feature::SendAckVector, Location::Remote) {
            return;
        }
        let is_rate_based = self.ccid().is_rate_based();
        if self.features.remote(Feature::SendAckVector) == 0 && !(is_rate_based && self.has_asked_for_vectors) {
            self.has_asked_for_vectors = true;
            let values: &[u64] = if is_rate_based { &[1, 0] } else { &[1] };
            self.features
                .propose(Feature::SendAckVector, Location::Remote, values, !is_rate_based)
                .expect("a legal value of a negotiable feature");
        }
    }

    /// Keeps negotiation going (§6.6.3). Returns whether a packet is needed for it now; at most one per round trip is
    /// sent (§6.6.1).
    pub(super) fn must_send(&mut self, now: Instant, rtt: Duration, timers: &mut TimerTable) -> bool {
        if !self.features.is_negotiating() {
            self.resends = 0;
            timers.stop(Timer::Features);
        }
        if self.features.wants_to_send() {
            if now >= self.next_at {
                return true;
            }
            timers.set(Timer::Features, self.next_at);
        } else if self.features.is_negotiating() && !timers.is_set(Timer::Features) {
            timers.set(Timer::Features, now + backed_off(rtt.max(MIN_NEGOTIATION_TIMEOUT), self.resends));
        }
        false
    }

    /// Writes options into our packet `seq`; those that do not fit follow at once.
    pub(super) fn write_options(&mut self, next_at: Instant, seq: Seq, packet: PacketType, out: &mut OptionList) {
        if packet != PacketType::Reset && self.features.wants_to_send() {
            self.features.poll_options(seq, packet, out);
            if !self.features.wants_to_send() {
                self.next_at = next_at;
            }
        }
    }
}

/// Returns the features with this end's initial proposals.
fn initial_features(role: Role, config: &Config) -> Features {
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
    features.prefer(Feature::TakeFragments, Location::Local, &[1, 0]).expect("both are legal");
    if config.fragments {
        features.propose(Feature::TakeFragments, Location::Remote, &[1, 0], false).expect("both are legal");
    }
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
