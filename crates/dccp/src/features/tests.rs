//! Tests of feature negotiation: the examples of RFC 4340 §6.5, and each rule of §6.6.

use super::*;
use crate::options::{Opt, OptionList, Side};
use crate::packet::PacketType;
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;

/// One end, with the numbers that its packets need.
struct End {
    features: Features,
    next: Seq,
    greatest_received: Option<Seq>,
}

/// A packet with nothing but feature options.
#[derive(Clone)]
struct Carrier {
    seq: Seq,
    ack: Option<Seq>,
    packet: PacketType,
    options: OptionList,
}

impl End {
    fn new(role: Role, first: u64) -> Self {
        Self { features: Features::new(role), next: Seq::new(first), greatest_received: None }
    }

    fn send(&mut self) -> Carrier {
        let packet = if self.greatest_received.is_some() { PacketType::Ack } else { PacketType::Request };
        let mut options = OptionList::new();
        self.features.poll_options(self.next, packet, &mut options);
        let carrier = Carrier { seq: self.next, ack: self.greatest_received, packet, options };
        self.next = self.next.next();
        carrier
    }

    fn try_receive(&mut self, carrier: &Carrier) -> Result<Vec<Agreement>, NegotiationError> {
        self.greatest_received = Some(self.greatest_received.map_or(carrier.seq, |gsr| gsr.max(carrier.seq)));
        self.features.begin_packet(carrier.seq, carrier.ack);
        let mut agreements = Vec::new();
        for item in carrier.options.iter(carrier.packet) {
            let item = item.unwrap();
            agreements.extend(self.features.on_option(&item.opt, item.mandatory)?);
        }
        if let Some(ack) = carrier.ack {
            self.features.on_ack(ack);
        }
        Ok(agreements)
    }

    #[track_caller]
    fn receive(&mut self, carrier: &Carrier) -> Vec<Agreement> {
        self.try_receive(carrier).unwrap()
    }

    /// Receives one option on a fresh packet that acknowledges everything sent.
    fn hear(&mut self, seq: u64, mandatory: bool, opt: Opt<'_>) -> Result<Option<Agreement>, NegotiationError> {
        self.features.begin_packet(Seq::new(seq), Some(self.next.prev()));
        self.features.on_option(&opt, mandatory)
    }

    #[track_caller]
    fn says(&mut self, expected: &[u8]) {
        assert_eq!(self.send().options.as_bytes(), expected);
    }
}

/// Both ends, with a packet each way behind them.
fn connected() -> (End, End) {
    let (mut client, mut server) = (End::new(Role::Client, 100), End::new(Role::Server, 500));
    server.receive(&client.send());
    client.receive(&server.send());
    (client, server)
}

fn change(side: Side, feature: u8, values: &[u8]) -> Opt<'_> {
    Opt::Change { side, feature, values }
}

fn confirm(side: Side, feature: u8, values: &[u8]) -> Opt<'_> {
    Opt::Confirm { side, feature, values }
}

const CCID: Feature = Feature::Ccid;

/// §6.5, first example.
#[test]
fn the_client_asks_for_the_servers_ccid() {
    let (mut client, mut server) = connected();
    client.features.propose(CCID, Location::Remote, &[2, 3, 1], false).unwrap();
    server.features.prefer(CCID, Location::Local, &[3, 2, 1]).unwrap();
    let asked = client.send();
    assert_eq!(asked.options.as_bytes(), [34, 6, 1, 2, 3, 1]);
    assert_eq!(client.features.remote(CCID), 2, "it waits for the Confirm before it changes its value (§6.6.1)");

    let agreed = Agreement { feature: CCID, location: Location::Local, value: 3 };
    assert_eq!(server.receive(&asked), [agreed]);
    assert!(server.features.wants_to_send() && !server.features.is_negotiating());
    let answer = server.send();
    assert_eq!(answer.options.as_bytes(), [33, 7, 1, 3, 3, 2, 1]);
    assert_eq!(client.receive(&answer), [Agreement { location: Location::Remote, ..agreed }]);
    assert_eq!((client.features.remote(CCID), server.features.local(CCID)), (3, 3));
    assert_eq!(
        (client.features.local(CCID), server.features.remote(CCID)),
        (2, 2),
        "the other CCID is another feature"
    );
    assert!(!client.features.is_negotiating() && !client.features.wants_to_send());
}

/// Found by a search of negotiations (`both_ends_agree_in_the_end`): each end took the value that the other had had before.
#[test]
fn an_answer_that_waits_tells_what_was_agreed_meanwhile() {
    let (mut client, mut server) = connected();
    client.features.propose(CCID, Location::Local, &[2], false).unwrap();
    server.features.propose(CCID, Location::Remote, &[2, 3, 4, 5], false).unwrap();
    let asked = server.send();
    server.features.prefer(CCID, Location::Remote, &[2]).unwrap();
    let told = client.send();
    let asked_again = server.send();
    client.features.prefer(CCID, Location::Local, &[5]).unwrap();
    let told_again = client.send();
    server.receive(&told);
    client.receive(&asked);
    assert_eq!(client.features.local(CCID), 5, "of the first question");
    client.receive(&asked_again);
    server.receive(&told_again);
    // No value is shared any more: the previous value is confirmed, which is 2 at the server.
    client.receive(&server.send());
    assert_eq!(client.features.local(CCID), 2);
    server.receive(&client.send());
    assert_eq!(server.features.remote(CCID), 2, "and not the 5 that waited to be told");
}

/// §6.5, second example.
#[test]
fn a_lost_change_is_retransmitted() {
    let (mut client, mut server) = connected();
    server.features.propose(CCID, Location::Local, &[3, 2, 1], false).unwrap();
    client.features.prefer(CCID, Location::Remote, &[2, 3, 1]).unwrap();
    assert_eq!(server.send().options.as_bytes(), [32, 6, 1, 3, 2, 1]);
    server.says(&[]);
    assert!(server.features.is_negotiating());
    server.features.retransmit();
    let again = server.send();
    assert_eq!(again.options.as_bytes(), [32, 6, 1, 3, 2, 1]);
    client.receive(&again);
    let answer = client.send();
    assert_eq!(answer.options.as_bytes(), [35, 7, 1, 3, 2, 3, 1]);
    server.receive(&answer);
    assert_eq!((client.features.remote(CCID), server.features.local(CCID)), (3, 3));
}

/// §6.5, third example.
#[test]
fn the_server_tells_its_ack_ratio() {
    let (mut client, mut server) = connected();
    server.features.propose(Feature::AckRatio, Location::Local, &[3], false).unwrap();
    let told = server.send();
    assert_eq!(told.options.as_bytes(), [32, 5, 5, 0, 3]);
    client.receive(&told);
    assert_eq!(client.features.remote(Feature::AckRatio), 3);
    assert_eq!(server.features.local(Feature::AckRatio), 2);
    let answer = client.send();
    assert_eq!(answer.options.as_bytes(), [35, 5, 5, 0, 3]);
    server.receive(&answer);
    assert_eq!(server.features.local(Feature::AckRatio), 3);
}

/// §6.5, fourth example, and §6.6.6.
#[test]
fn both_ends_ask_at_once() {
    let (mut client, mut server) = connected();
    client.features.propose(CCID, Location::Remote, &[2, 3, 1], false).unwrap();
    server.features.propose(CCID, Location::Local, &[3, 2, 1], false).unwrap();
    let (asked, told) = (client.send(), server.send());
    assert_eq!(asked.options.as_bytes(), [34, 6, 1, 2, 3, 1]);
    assert_eq!(told.options.as_bytes(), [32, 6, 1, 3, 2, 1]);
    server.receive(&asked);
    client.receive(&told);
    let (answer, echo) = (server.send(), client.send());
    assert_eq!(answer.options.as_bytes(), [33, 7, 1, 3, 3, 2, 1]);
    assert_eq!(echo.options.as_bytes(), [35, 7, 1, 3, 2, 3, 1]);
    assert_eq!(server.receive(&echo), [], "a Confirm in STABLE is ignored");
    assert_eq!(client.receive(&answer), []);
    assert_eq!((client.features.remote(CCID), server.features.local(CCID)), (3, 3));
}

#[test]
fn sequence_windows_have_six_bytes() {
    let (mut client, mut server) = connected();
    client.features.propose(Feature::SequenceWindow, Location::Local, &[1024], false).unwrap();
    let told = client.send();
    assert_eq!(told.options.as_bytes(), [32, 9, 3, 0, 0, 0, 0, 4, 0]);
    server.receive(&told);
    server.says(&[35, 9, 3, 0, 0, 0, 0, 4, 0]);
    assert_eq!(server.features.remote(Feature::SequenceWindow), 1024);
}

#[test]
fn nothing_shared_keeps_the_value_unless_mandatory() {
    let (_, mut server) = connected();
    server.features.prefer(CCID, Location::Local, &[2]).unwrap();
    let kept = Agreement { feature: CCID, location: Location::Local, value: 2 };
    assert_eq!(server.hear(900, false, change(Side::R, 1, &[3, 4])), Ok(Some(kept)));
    server.says(&[33, 5, 1, 2, 2]);
    let error = server.hear(901, true, change(Side::R, 1, &[3, 4])).unwrap_err();
    assert_eq!(error, NegotiationError::NothingShared { kind: 34, feature: CCID, first: 3 });
    assert_eq!(error.reset(), ResetReason { code: ResetCode::MandatoryError, data: [34, 1, 3] });
    server.says(&[]);
}

/// §6.6.7.
#[test]
fn unknown_features_get_an_empty_confirm() {
    let (mut client, _) = connected();
    assert_eq!(client.hear(900, false, change(Side::L, 126, &[1])), Ok(None));
    assert_eq!(client.hear(900, false, change(Side::R, 127, &[])), Ok(None));
    client.says(&[35, 3, 126, 33, 3, 127]);
    let error = client.hear(901, true, change(Side::L, 126, &[7])).unwrap_err();
    assert_eq!(error.reset(), ResetReason { code: ResetCode::MandatoryError, data: [32, 126, 7] });
    for mandatory in [false, true] {
        assert_eq!(client.hear(902, mandatory, confirm(Side::R, 126, &[7])), Ok(None));
    }
}

#[test]
fn a_ccids_feature_is_unknown_until_asked_for() {
    let loss_events = change(Side::L, 192, &[1]);
    let (mut client, _) = connected();
    client.hear(900, false, loss_events).unwrap();
    client.says(&[35, 3, 192]);
    client.features.prefer(Feature::SendLossEventRate, Location::Remote, &[1]).unwrap();
    client.hear(901, false, loss_events).unwrap();
    client.says(&[35, 5, 192, 1, 1]);
    assert_eq!(client.features.remote(Feature::SendLossEventRate), 1);
}

/// §6.6.8.
#[test]
fn invalid_changes_get_an_empty_confirm() {
    let invalid: [(Opt<'_>, [u8; 3]); 8] = [
        (change(Side::L, 1, &[]), [35, 3, 1]),
        (change(Side::L, 5, &[3]), [35, 3, 5]),
        (change(Side::L, 5, &[0, 3, 0, 3]), [35, 3, 5]),
        (change(Side::L, 3, &[0, 0, 0, 0, 0, 31]), [35, 3, 3]),
        (change(Side::L, 3, &[64, 0, 0, 0, 0, 0]), [35, 3, 3]),
        (change(Side::L, 3, &[0, 0, 4, 0]), [35, 3, 3]),
        (change(Side::R, 5, &[0, 3]), [33, 3, 5]),
        (change(Side::R, 3, &[0, 0, 0, 0, 4, 0]), [33, 3, 3]),
    ];
    for (opt, answer) in invalid {
        let (mut client, _) = connected();
        assert_eq!(client.hear(900, false, opt), Ok(None), "{opt:?}");
        client.says(&answer);
        let error = client.hear(901, true, opt).unwrap_err();
        assert!(matches!(error, NegotiationError::Invalid { .. }), "{opt:?}");
        assert_eq!(error.reset().code, ResetCode::MandatoryError);
        assert_eq!(client.features.remote(Feature::SequenceWindow), 100);
    }
}

/// §11.3 against §6.6.8; see [`Feature::is_legal`].
#[test]
fn an_ack_ratio_of_zero_is_accepted() {
    let (mut client, _) = connected();
    client.hear(900, false, change(Side::L, 5, &[0, 0])).unwrap();
    client.says(&[35, 5, 5, 0, 0]);
    assert_eq!(client.features.remote(Feature::AckRatio), 0);
}

#[test]
fn wrong_confirms_reset() {
    let wrong: [&[u8]; 5] = [&[4], &[2, 3, 2], &[3, 1], &[1, 3, 1], &[4, 4, 3]];
    for values in wrong {
        let (mut client, _) = connected();
        client.features.propose(CCID, Location::Remote, &[1, 3], false).unwrap();
        client.send();
        let error = client.hear(900, false, confirm(Side::L, 1, values)).unwrap_err();
        assert_eq!(error, NegotiationError::WrongConfirm { kind: 33, feature: CCID, first: values[0] }, "{values:?}");
        assert_eq!(error.reset(), ResetReason { code: ResetCode::OptionError, data: [33, 1, values[0]] });
    }
    let (mut client, _) = connected();
    client.features.propose(Feature::AckRatio, Location::Local, &[4], false).unwrap();
    client.send();
    for (seq, values) in (900..).zip([&[0, 5][..], &[4], &[0, 4, 0, 4]]) {
        let error = client.hear(seq, false, confirm(Side::R, 5, values)).unwrap_err();
        assert_eq!(error.reset(), ResetReason { code: ResetCode::OptionError, data: [35, 5, values[0]] });
    }
}

#[test]
fn right_confirms_are_accepted_with_and_without_a_list() {
    // The client asked for 1, 3: the server's list decides; without one, any of ours will do, and so will the old.
    for (values, value) in [(&[3, 3, 1][..], 3), (&[1, 4, 1, 3], 1), (&[2, 4, 2], 2), (&[1], 1), (&[3], 3), (&[2], 2)] {
        let (mut client, _) = connected();
        client.features.propose(CCID, Location::Remote, &[1, 3], false).unwrap();
        client.send();
        let agreed = client.hear(900, false, confirm(Side::L, 1, values)).unwrap().unwrap();
        assert_eq!(agreed, Agreement { feature: CCID, location: Location::Remote, value }, "{values:?}");
        assert!(!client.features.is_negotiating());
    }
}

#[test]
fn an_empty_confirm_ends_the_talk_unless_the_feature_is_required() {
    let (mut client, _) = connected();
    client.features.propose(Feature::SendNdpCount, Location::Remote, &[1], false).unwrap();
    client.send();
    let refused = client.hear(900, false, confirm(Side::L, 7, &[])).unwrap().unwrap();
    assert_eq!(refused.value, 0);
    assert!(!client.features.is_negotiating());

    client.features.propose(CCID, Location::Remote, &[3], false).unwrap();
    client.send();
    let error = client.hear(901, false, confirm(Side::L, 1, &[])).unwrap_err();
    assert_eq!(error.reset(), ResetReason { code: ResetCode::OptionError, data: [33, 1, 0] });
}

#[test]
fn a_mandatory_change_carries_the_mark() {
    let (mut client, mut server) = connected();
    client.features.propose(Feature::CheckDataChecksum, Location::Remote, &[1], true).unwrap();
    let asked = client.send();
    assert_eq!(asked.options.as_bytes(), [1, 34, 4, 9, 1]);
    let error = server.try_receive(&asked).unwrap_err();
    assert_eq!(error.reset(), ResetReason { code: ResetCode::MandatoryError, data: [34, 9, 1] });
}

/// "retransmissions … MUST have exactly the same contents" (§6.6.4), so that a new mark makes a new Change.
#[test]
fn a_change_can_become_mandatory() {
    let (mut client, _) = connected();
    client.features.propose(CCID, Location::Remote, &[2], false).unwrap();
    client.says(&[34, 4, 1, 2]);
    client.features.propose(CCID, Location::Remote, &[2], false).unwrap();
    client.says(&[]);
    client.features.propose(CCID, Location::Remote, &[2], true).unwrap();
    client.says(&[1, 34, 4, 1, 2]);
    client.says(&[]);
}

/// §6.6.4: options of a packet at or before FGSR are ignored, but two options of one packet are not.
#[test]
fn reordered_options_are_ignored() {
    let (mut client, _) = connected();
    client.features.begin_packet(Seq::new(900), Some(Seq::new(100)));
    client.features.on_option(&change(Side::L, 5, &[0, 3]), false).unwrap();
    client.features.on_option(&change(Side::L, 5, &[0, 4]), false).unwrap();
    assert_eq!(client.features.remote(Feature::AckRatio), 4);
    client.says(&[35, 5, 5, 0, 4]);
    for late in [900, 899] {
        assert_eq!(client.hear(late, false, change(Side::L, 5, &[0, 9])), Ok(None));
        assert_eq!(client.hear(late, true, change(Side::L, 5, &[9])), Ok(None), "not even an invalid one");
    }
    client.says(&[]);
    // A packet without feature options does not move FGSR.
    client.features.begin_packet(Seq::new(950), None);
    client.features.on_option(&Opt::SlowReceiver, false).unwrap();
    assert!(client.hear(901, false, change(Side::L, 5, &[0, 9])).unwrap().is_some());
}

#[test]
fn a_confirm_must_acknowledge_the_last_change() {
    let (mut client, _) = connected();
    client.features.propose(Feature::AckRatio, Location::Local, &[4], false).unwrap();
    let first = client.send().seq;
    client.features.propose(Feature::AckRatio, Location::Local, &[6], false).unwrap();
    let second = client.send().seq;
    let mut hear = |seq, ack| {
        client.features.begin_packet(Seq::new(seq), ack);
        client.features.on_option(&confirm(Side::R, 5, &[0, 6]), false)
    };
    assert_eq!(hear(900, Some(first)), Ok(None));
    assert_eq!(hear(901, None), Ok(None));
    assert!(hear(902, Some(second)).unwrap().is_some());
    assert_eq!(client.features.local(Feature::AckRatio), 6);
}

/// A repeated Change does not move FGSS: the answer to the first one counts (§6.6.4).
#[test]
fn an_answer_to_the_first_transmission_counts_after_the_second() {
    let (mut client, mut server) = connected();
    client.features.propose(CCID, Location::Remote, &[3, 2], false).unwrap();
    server.features.prefer(CCID, Location::Local, &[3]).unwrap();
    let first = client.send();
    server.receive(&first);
    client.features.retransmit();
    client.send();
    client.receive(&server.send());
    assert_eq!(client.features.remote(CCID), 3);
}

/// §6.6.5.
#[test]
fn a_change_of_mind_needs_a_new_change() {
    let (mut client, mut server) = connected();
    client.features.propose(CCID, Location::Remote, &[3, 2], false).unwrap();
    server.features.prefer(CCID, Location::Local, &[3, 2]).unwrap();
    server.receive(&client.send());
    client.features.propose(CCID, Location::Remote, &[2], false).unwrap();
    let stale = server.send();
    assert_eq!(client.receive(&stale), [], "UNSTABLE ignores Confirms");
    assert_eq!(client.hear(600, true, change(Side::L, 1, &[9])), Ok(None), "and Changes");
    assert!(client.features.is_negotiating());
    let anew = client.send();
    assert_eq!(anew.options.as_bytes(), [34, 4, 1, 2]);
    server.receive(&anew);
    assert_eq!(server.features.local(CCID), 2);
}

/// The Confirm that UNSTABLE ignores has moved the peer's value; a later one that shares nothing confirms that value.
#[test]
fn the_previous_value_confirmed_may_be_news() {
    let (mut client, mut server) = connected();
    let vectors = Feature::SendAckVector;
    client.features.prefer(vectors, Location::Local, &[1]).unwrap();
    server.features.propose(vectors, Location::Remote, &[0, 1], false).unwrap();
    client.receive(&server.send());
    server.features.propose(vectors, Location::Remote, &[0], false).unwrap();
    server.receive(&client.send());
    assert_eq!((client.features.local(vectors), server.features.remote(vectors)), (1, 0));
    client.receive(&server.send());
    let answer = client.send();
    assert_eq!(answer.options.as_bytes(), [33, 5, 6, 1, 1]);
    server.receive(&answer);
    assert_eq!((client.features.local(vectors), server.features.remote(vectors)), (1, 1));
}

/// The answer to an older Change can come on a packet that acknowledges more than the newest Change, which was lost.
#[test]
fn an_outdated_confirm_does_not_reset() {
    let (mut client, mut server) = connected();
    client.features.propose(Feature::AckRatio, Location::Local, &[4], false).unwrap();
    server.receive(&client.send());
    client.features.propose(Feature::AckRatio, Location::Local, &[6], false).unwrap();
    client.send();
    server.receive(&client.send());
    let outdated = server.send();
    assert_eq!(outdated.options.as_bytes(), [35, 5, 5, 0, 4]);
    assert_eq!(client.receive(&outdated), []);
    server.receive(&client.send());
    client.receive(&server.send());
    assert_eq!((client.features.local(Feature::AckRatio), server.features.remote(Feature::AckRatio)), (6, 6));
}

/// Each end hears an older Change of the other's, and a newer one is lost.
#[test]
fn ends_that_changed_their_minds_still_agree() {
    let (mut client, mut server) = connected();
    client.features.propose(CCID, Location::Remote, &[5], false).unwrap();
    client.send();
    client.features.prefer(CCID, Location::Remote, &[2, 3, 4]).unwrap();
    server.features.propose(CCID, Location::Local, &[2], false).unwrap();
    let (asked, told) = (client.send(), server.send());
    server.features.prefer(CCID, Location::Local, &[4]).unwrap();
    server.send();
    client.receive(&told);
    server.receive(&asked);
    assert_eq!((client.features.remote(CCID), server.features.local(CCID)), (2, 4), "so far they differ");
    for _ in 0..2 {
        client.features.retransmit();
        server.features.retransmit();
        server.receive(&client.send());
        client.receive(&server.send());
    }
    assert_eq!((client.features.remote(CCID), server.features.local(CCID)), (4, 4));
    assert!(!client.features.is_negotiating() && !server.features.is_negotiating());
}

/// Two different Confirms of one repeated Change: the peer takes the first, and must learn that it is outdated.
#[test]
fn a_preference_that_changes_after_the_answer_is_announced() {
    let (mut client, mut server) = connected();
    let vectors = Feature::SendAckVector;
    client.features.prefer(vectors, Location::Local, &[0]).unwrap();
    assert!(!client.features.is_negotiating());
    server.features.propose(vectors, Location::Remote, &[1], false).unwrap();
    client.receive(&server.send());
    let refused = client.send();
    client.features.prefer(vectors, Location::Local, &[0, 1]).unwrap();
    server.features.retransmit();
    client.receive(&server.send());
    server.receive(&refused);
    assert_eq!((client.features.local(vectors), server.features.remote(vectors)), (1, 0), "so far they differ");
    assert!(client.features.is_negotiating());
    server.receive(&client.send());
    client.receive(&server.send());
    assert_eq!((client.features.local(vectors), server.features.remote(vectors)), (1, 1));
    assert!(!client.features.is_negotiating());
}

#[test]
fn an_unanswered_change_is_repeated_once_acknowledged() {
    let (mut client, mut server) = connected();
    client.features.propose(Feature::SendAckVector, Location::Remote, &[1], false).unwrap();
    let asked = client.send();
    client.features.on_ack(asked.seq.prev());
    client.says(&[]);
    // The server processes the Change, and the packet with its Confirm is lost.
    server.receive(&asked);
    server.send();
    client.receive(&server.send());
    let again = client.send();
    assert_eq!(again.options.as_bytes(), asked.options.as_bytes());
    server.receive(&again);
    client.receive(&server.send());
    assert_eq!(client.features.remote(Feature::SendAckVector), 1);
    assert!(!client.features.is_negotiating());
}

#[test]
fn confirms_wait_for_an_acknowledgement_number_and_nothing_goes_on_data() {
    let (mut client, _) = connected();
    client.hear(900, false, change(Side::L, 5, &[0, 7])).unwrap();
    client.features.propose(Feature::AckRatio, Location::Local, &[4], false).unwrap();
    let mut options = OptionList::new();
    client.features.poll_options(Seq::new(1), PacketType::Data, &mut options);
    assert!(options.is_empty());
    client.features.poll_options(Seq::new(2), PacketType::Request, &mut options);
    assert_eq!(options.as_bytes(), [32, 5, 5, 0, 4]);
    options.reset(4);
    client.features.poll_options(Seq::new(3), PacketType::Ack, &mut options);
    assert!(options.is_empty(), "what does not fit waits");
    options.reset(5);
    client.features.poll_options(Seq::new(4), PacketType::Ack, &mut options);
    assert_eq!(options.as_bytes(), [35, 5, 5, 0, 7]);
    assert!(!client.features.wants_to_send());
}

#[test]
fn a_flood_of_changes_is_answered_within_bounds() {
    let (mut client, _) = connected();
    for feature in 10..=255 {
        for side in [Side::L, Side::R] {
            client.hear(900, false, change(side, feature, &[1])).unwrap();
        }
    }
    let mut options = OptionList::new();
    client.features.poll_options(Seq::new(4), PacketType::Ack, &mut options);
    assert_eq!(options.as_bytes().len(), 64 * 3);
    assert!(!client.features.wants_to_send());
}

#[test]
fn illegal_wishes_are_refused() {
    let mut features = Features::new(Role::Client);
    let mut propose =
        |feature, location, values: &[u64]| features.propose(feature, location, values, false).unwrap_err();
    let (local, remote) = (Location::Local, Location::Remote);
    assert_eq!(propose(CCID, local, &[]), ProposeError::Count { feature: CCID, count: 0 });
    assert_eq!(propose(CCID, local, &[2; 252]), ProposeError::Count { feature: CCID, count: 252 });
    assert_eq!(propose(CCID, local, &[2, 256]), ProposeError::Illegal { feature: CCID, value: 256 });
    let window = Feature::SequenceWindow;
    assert_eq!(propose(window, local, &[31]), ProposeError::Illegal { feature: window, value: 31 });
    assert_eq!(propose(window, local, &[1 << 46]), ProposeError::Illegal { feature: window, value: 1 << 46 });
    assert_eq!(propose(window, local, &[100, 200]), ProposeError::Count { feature: window, count: 2 });
    assert_eq!(propose(window, remote, &[100]), ProposeError::NotOurs { feature: window, location: remote });
    let short = Feature::AllowShortSeqnos;
    assert_eq!(propose(short, local, &[0, 2]), ProposeError::Illegal { feature: short, value: 2 });
    let not_ours = ProposeError::NotOurs { feature: window, location: local };
    assert_eq!(features.prefer(window, local, &[100]), Err(not_ours));
    assert!(!features.is_negotiating());
    features.propose(CCID, local, &[2; 251], false).unwrap();
    let mut options = OptionList::new();
    features.poll_options(Seq::new(1), PacketType::Request, &mut options);
    assert_eq!(options.as_bytes().len(), 254);
}

/// Table 4 of §6.4.
#[test]
fn features_are_as_in_the_table() {
    use Rule::{NonNegotiable as NN, ServerPriority as SP};
    let table = [
        (1, SP, 2, true, 1),
        (2, SP, 0, true, 1),
        (3, NN, 100, true, 6),
        (4, SP, 0, false, 1),
        (5, NN, 2, false, 2),
        (6, SP, 0, false, 1),
        (7, SP, 0, false, 1),
        (8, SP, 0, false, 1),
        (9, SP, 0, false, 1),
        (192, SP, 0, false, 1),
    ];
    let features = Features::new(Role::Server);
    for (feature, (number, rule, initial, required, width)) in Feature::ALL.into_iter().zip(table) {
        assert_eq!(Feature::from_number(number), Some(feature));
        let found = (feature.number(), feature.rule(), feature.initial(), feature.is_required(), feature.width());
        assert_eq!(found, (number, rule, initial, required, width));
        assert_eq!((features.local(feature), features.remote(feature)), (initial, initial));
    }
    assert_eq!(Feature::from_number(0), None);
    assert_eq!(Feature::from_number(10), None);
}

#[test]
fn each_feature_has_its_place() {
    for (place, feature) in Feature::ALL.into_iter().enumerate() {
        assert_eq!(feature.place(), place);
    }
}
