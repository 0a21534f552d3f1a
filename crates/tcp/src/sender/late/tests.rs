//! Choice of the datagrams in a segment, and reports to their source, which is scripted.

use super::*;
use crate::record::{numbered_len, numbered_room};
use timeous_core::{Copied, SubStream};
use timeous_seal::{Cipher, Secret};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn path() -> PathState {
    let rtt = Some(Duration::from_millis(40));
    PathState { srtt: rtt, min_rtt: rtt, ..PathState::default() }
}

/// Datagrams of these lengths, each due 100 ms after the beginning, and their reported fates.
#[derive(Debug, Default)]
struct Script {
    lens: VecDeque<usize>,
    pulled: u64,
    sent: Vec<u64>,
    missed: usize,
    dropped: Vec<(u64, DropReason)>,
    /// Sent datagrams are not worth a retransmission.
    is_stale: bool,
    substream: SubStream,
}

impl AduSource for Script {
    fn has_queued(&mut self, _: Instant) -> bool {
        !self.lens.is_empty()
    }

    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let len = self.lens.pop_front()?;
        assert!(len <= room, "what is longer would have been given up");
        packet.resize(packet.len() + len, 7);
        self.pulled += 1;
        let (deadline, substream) = (Some(at(100)), self.substream);
        let meta = AduMeta { deadline, substream, ..AduMeta::default() };
        Some(PulledAdu { token: self.pulled - 1, len, meta, apart: false, copy: Copied::First, is_fragment: false })
    }

    fn pull_beside(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.lens.front().is_some_and(|&len| len <= room).then(|| self.pull(now, path, room, packet))?
    }

    fn is_worth_repeating(&mut self, _: Instant, _: &PathState, _: &AduMeta) -> bool {
        !self.is_stale
    }

    fn missed(&mut self, _: &AduMeta) {
        self.missed += 1;
    }

    fn sent(&mut self, token: u64) {
        self.sent.push(token);
    }

    fn acked(&mut self, _: u64) {}

    fn lost(&mut self, _: u64) {}

    fn why_not(&self, _: &AduMeta) -> DropReason {
        DropReason::ReferenceLost
    }

    fn dropped(&mut self, token: u64, reason: DropReason) {
        self.dropped.push((token, reason));
    }
}

fn script(lens: &[usize]) -> Script {
    Script { lens: lens.iter().copied().collect(), ..Script::default() }
}

/// Sends a segment; returns its length, and the datagram that the driver reports.
fn fresh(late: &mut Late, source: &mut Script, window: usize) -> (usize, u64) {
    let room = Room { segment: 1_000, window };
    let mut packet = Vec::new();
    let fresh = late.fresh(at(0), &path(), room, source, &mut packet).unwrap();
    assert_eq!(fresh.len, packet.len());
    (fresh.len, fresh.adu.unwrap().token)
}

#[test]
fn what_waits_together_leaves_in_one_segment_as_far_as_there_is_room() {
    let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 300, 700, 50]));
    assert_eq!(fresh(&mut late, &mut source, usize::MAX), (2 * numbered_len(300), 1));
    assert_eq!(source.sent, [0], "of the last one the driver tells");
    assert_eq!(fresh(&mut late, &mut source, usize::MAX), (numbered_len(700) + numbered_len(50), 3));
    assert_eq!(late.places.len(), 4, "each has a place of its own");
}

#[test]
fn nothing_goes_beside_another_for_which_the_window_has_no_room() {
    let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 300]));
    assert_eq!(fresh(&mut late, &mut source, numbered_len(300)), (numbered_len(300), 0));
    assert!(source.has_queued(at(0)), "it stays where it is");
    assert_eq!(late.next_size(&source), Some(numbered_len(300) as u64));
}

#[test]
fn a_segment_of_two_that_is_sent_again_has_both() {
    let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 300]));
    let (len, _) = fresh(&mut late, &mut source, usize::MAX);
    let mut packet = Vec::new();
    assert_eq!(late.again(at(1), &path(), 0..len as u64, &mut source, &mut packet), None);
    assert_eq!(packet.len(), len);
}

fn arrived(now: Instant, end: u64, is_prompt: bool) -> Arrived {
    Arrived { span: 0..end, now, before: at(0), least: Duration::from_millis(40), una: 0, is_prompt, echo: None }
}

#[test]
fn the_source_hears_of_what_arrived_after_its_deadline() {
    for (now, is_prompt, missed) in [(120, true, 0), (121, true, 1), (121, false, 0), (160, false, 0), (161, false, 1)]
    {
        let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300]));
        let (len, _) = fresh(&mut late, &mut source, usize::MAX);
        late.arrived(&arrived(at(now), len as u64, is_prompt));
        late.has_fresh(at(now), &mut source);
        assert_eq!(source.missed, missed, "acknowledged at {now}, half of 40 ms after it came, or held back");
        assert_eq!(late.poll_settled(), Some(Settled { token: 0, arrived: true }), "it has arrived all the same");
    }
}

#[test]
fn what_the_acknowledgement_before_did_not_tell_of_was_not_there_yet() {
    for (before, missed) in [(120, 0), (121, 1)] {
        let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300]));
        let (len, _) = fresh(&mut late, &mut source, usize::MAX);
        late.arrived(&Arrived { before: at(before), ..arrived(at(125), len as u64, false) });
        late.has_fresh(at(125), &mut source);
        assert_eq!(source.missed, missed, "which left 20 ms before {before}");
    }
}

#[test]
fn the_source_hears_once_of_what_would_be_acknowledged_if_it_had_come_in_time() {
    let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300]));
    let (len, _) = fresh(&mut late, &mut source, usize::MAX);
    for (now, missed) in [(160, 0), (161, 1), (300, 1)] {
        late.again(at(now), &path(), 0..len as u64, &mut source, &mut Vec::new());
        assert_eq!(source.missed, missed, "at {now}: half a round trip and a delayed acknowledgement after 100");
    }
    late.arrived(&arrived(at(400), len as u64, true));
    late.has_fresh(at(400), &mut source);
    assert_eq!(source.missed, 1);
}

/// Regression, found by `timeous-lab tl-dependencies` with delay spikes: it was sent after all fresh datagrams, and too
/// late.
#[test]
fn what_did_not_arrive_since_its_place_had_something_already_leaves_before_what_is_fresh() {
    for (echo, first) in [(0, 1), (150, 2)] {
        let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 300, 300]));
        let (len, _) = fresh(&mut late, &mut source, numbered_len(300));
        source.is_stale = true;
        late.again(at(150), &path(), 0..len as u64, &mut source, &mut Vec::new());
        assert_eq!((late.changes().replaced, source.pulled), (1, 2));
        source.is_stale = false;
        late.arrived(&Arrived { echo: Some(Duration::from_millis(echo)), ..arrived(at(200), len as u64, true) });
        let number = late.next(at(200), &path(), 1_000, &mut source);
        assert_eq!(number, Some(first), "the echo of {echo} ms tells which version it was");
    }
}

/// Found by `late::nothing_torn_is_ever_delivered_and_nothing_twice`: of two versions sent in one millisecond the second counted as arrived.
#[test]
fn of_versions_sent_in_one_millisecond_no_echo_tells_which_arrived() {
    for (second, is_known) in [(150, false), (151, true)] {
        let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 300, 300]));
        let (len, _) = fresh(&mut late, &mut source, numbered_len(300));
        (source.is_stale, late.is_borne) = (true, true);
        for now in [150, second] {
            late.again(at(now), &path(), 0..len as u64, &mut source, &mut Vec::new());
        }
        let echo = Some(Duration::from_millis(second));
        late.arrived(&Arrived { echo, ..arrived(at(200), len as u64, true) });
        let settled: Vec<_> = std::iter::from_fn(|| late.poll_settled()).filter(|one| one.arrived).collect();
        assert_eq!(settled.len(), usize::from(is_known), "{second}");
    }
}

#[test]
fn what_waits_for_its_turn_and_is_given_up_has_the_reason_of_who_chooses() {
    let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 700]));
    let (len, _) = fresh(&mut late, &mut source, numbered_len(300));
    source.is_stale = true;
    late.again(at(150), &path(), 0..len as u64, &mut source, &mut Vec::new());
    assert_eq!((late.changes().padded, source.pulled), (1, 2), "it is too long for that place");
    assert_eq!(late.next(at(150), &path(), 1_000, &mut source), None);
    assert_eq!(source.dropped, [(1, DropReason::ReferenceLost)]);
}

#[test]
fn what_is_not_worth_it_any_more_is_not_bundled_and_the_rest_as_it_left() {
    let (mut late, mut source) = (Late::new(true, Writer::default()), script(&[300, 200]));
    let mut packet = Vec::new();
    let room = Room { segment: 1_000, window: numbered_len(300) };
    let len = late.fresh(at(0), &path(), room, &mut source, &mut packet).unwrap().len as u64;
    let span = 0..len;
    assert!(late.may_bundle(at(1), &path(), span.clone(), &mut source));
    let mut again = Vec::new();
    late.bundle(&span, &mut again);
    assert_eq!(again, packet);
    source.is_stale = true;
    assert!(!late.may_bundle(at(1), &path(), span.clone(), &mut source));
    source.is_stale = false;
    // A place of which the peer holds a part, and one with another datagram than at first.
    late.is_held(100..len);
    assert!(!late.may_bundle(at(1), &path(), span, &mut source));
}

#[test]
fn each_version_of_a_place_is_encrypted_under_a_counter_of_its_own() {
    let writer = Writer::encrypted(Cipher::Aes128Gcm, Secret::new([7; 32]));
    let (mut late, mut source) = (Late::new(true, writer), script(&[300, 300, 300]));
    (source.is_stale, late.is_borne) = (true, true);
    let room = Room { segment: 1_000, window: 0 };
    let mut first = Vec::new();
    let len = late.fresh(at(0), &path(), room, &mut source, &mut first).unwrap().len as u64;
    let mut versions = vec![first];
    for now in [150, 160, 170, 180] {
        let mut again = Vec::new();
        late.again(at(now), &path(), 0..len, &mut source, &mut again);
        versions.push(again);
    }
    assert_eq!((late.changes().replaced, late.changes().padded), (2, 1), "the last is the padding once more");
    let counters = versions.iter().map(|version| {
        let mut record: Vec<u8> = version.split(|&byte| byte == 0).find(|record| !record.is_empty()).unwrap().to_vec();
        cobs::decode_in_place(&mut record).unwrap();
        record[..6].to_vec()
    });
    assert_eq!(counters.collect::<Vec<_>>(), [0, 1, 2, 3, 3].map(|counter| vec![0, 0, 0, 0, 0, counter]));
    assert_eq!(versions[3], versions[4]);
}

/// Sends a filled segment of at most 1000 bytes, for which the congestion window has this room.
fn filled(late: &mut Late, source: &mut Script, window: usize) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    let fresh = late.fresh(at(0), &path(), Room { segment: 1_000, window }, source, &mut packet)?;
    assert_eq!(fresh.len, packet.len());
    Some(packet)
}

/// Found by `timeous-lab tl-datagrams`: over 100 ms and 8 % loss, datagrams were half as often in time as over plain TCP.
#[test]
fn where_nothing_changes_segments_are_full_and_a_record_goes_on_in_the_next() {
    let (mut late, mut source) = (Late::new(false, Writer::default()), script(&[290; 5]));
    let segments = [filled(&mut late, &mut source, 5_000).unwrap(), filled(&mut late, &mut source, 5_000).unwrap()];
    assert_eq!(segments.each_ref().map(Vec::len), [1_000, 5 * numbered_len(290) - 1_000]);
    assert_eq!(filled(&mut late, &mut source, 5_000), None);
    let mut reader = crate::record::Ordered::new(crate::record::Framing::Numbered, 1_500);
    let mut lens = Vec::new();
    reader.push(&segments.concat(), |datagram| lens.push(datagram.payload.len()));
    assert_eq!(lens, [290; 5]);
    let mut again = Vec::new();
    late.again(at(1), &path(), 1_000..1_200, &mut source, &mut again);
    assert_eq!(again, segments[1][..200], "the same bytes");
}

/// A segment with less grows a window that counts bytes by less than one, and the next full segment has to wait.
#[test]
fn what_waits_fills_a_segment_however_little_room_is_left() {
    for first in 400..=numbered_room(1_000).unwrap() {
        let (mut late, mut source) = (Late::new(false, Writer::default()), script(&[first, 290, 290, 290]));
        assert_eq!(filled(&mut late, &mut source, 5_000).map(|segment| segment.len()), Some(1_000), "{first}");
    }
}

#[test]
fn a_record_in_two_segments_has_arrived_with_both() {
    let (mut late, mut source) = (Late::new(false, Writer::default()), script(&[290; 4]));
    filled(&mut late, &mut source, 5_000).unwrap();
    let end = 1_000 + filled(&mut late, &mut source, 5_000).unwrap().len() as u64;
    let part = |span| Arrived { span, ..arrived(at(50), end, true) };
    let settled = |late: &mut Late| std::iter::from_fn(|| late.poll_settled()).map(|one| one.token).collect::<Vec<_>>();
    late.arrived(&part(1_000..end));
    late.arrived(&part(1_000..end));
    assert_eq!(settled(&mut late), [], "the front of the fourth is missing");
    late.arrived(&part(0..1_000));
    assert_eq!(settled(&mut late), [0, 1, 2, 3]);
}

#[test]
fn a_window_too_small_for_what_waits_and_for_a_segment_holds_it_back() {
    let (mut late, mut source) = (Late::new(false, Writer::default()), script(&[290; 5]));
    assert_eq!(filled(&mut late, &mut source, 700), None, "two fit, and more wait");
    assert!(late.has_fresh(at(0), &mut source));
    assert_eq!(filled(&mut late, &mut source, 5_000).map(|segment| segment.len()), Some(1_000));
    assert_eq!(filled(&mut late, &mut source, 500), None, "a datagram and the rest of one wait");
    assert!(filled(&mut late, &mut source, 700).is_some());
    assert_eq!(source.sent, [0, 1, 2], "of the last one of a segment the driver tells");
}

/// Found by reading: of what was acknowledged within a segment, the source never heard.
#[test]
fn what_is_acknowledged_within_a_segment_is_settled_and_so_is_a_record_cut_by_it() {
    use crate::sender::{Acknowledgement, Detection, RoundTrip, Sender};
    for replaces in [false, true] {
        let mut source = script(&[290; 3]);
        let late = Late::new(replaces, Writer::default());
        let mut sender = Sender::new(Box::new(late), 1_000, Detection::DupThresh, false);
        let room = Room { segment: 1_000, window: 5_000 };
        let fresh = sender.pull(at(0), &path(), room, &mut source, &mut Vec::new()).unwrap();
        assert_eq!(fresh.len, 3 * numbered_len(290), "all in one segment");
        sender.sent_fresh(at(0), &fresh);
        let mut settled = |ack: usize| {
            let (ack, dsack, is_bare, ece, echoed) = (ack as u64, None, true, false, None);
            sender.on_ack(
                at(50),
                &Acknowledgement { ack, sacked: &[], dsack, is_bare, ece, echoed },
                RoundTrip::default(),
            );
            std::iter::from_fn(|| sender.poll_settled()).map(|one| one.token).collect::<Vec<_>>()
        };
        assert_eq!(settled(numbered_len(290) + 100), [0], "{replaces}");
        assert_eq!(settled(3 * numbered_len(290)), [1, 2], "{replaces}");
    }
}

/// Found by reading: of the application's sub-streams those of 1 and from 126 on were sent as none.
#[test]
fn the_longest_datagram_of_any_substream_fits_and_no_segment_is_too_long() {
    let longest = numbered_room(1_000).unwrap();
    for own in [1, 2, 125, 126, 127, 128, 255] {
        let mut source = Script { substream: SubStream(own), ..script(&[longest, 300]) };
        let mut late = Late::new(true, Writer::default());
        let mut wire = Vec::new();
        while late.has_fresh(at(0), &mut source) {
            let before = wire.len();
            let room = Room { segment: 1_000, window: 5_000 };
            late.fresh(at(0), &path(), room, &mut source, &mut wire).unwrap();
            assert!(wire.len() - before <= 1_000, "{own}");
        }
        let mut got = Vec::new();
        let mut reader = crate::record::Ordered::new(crate::record::Framing::Numbered, 1_500);
        reader.push(&wire, |datagram| got.push((datagram.substream, datagram.payload.len())));
        assert_eq!(got, [(SubStream(own), longest), (SubStream(own), 300)]);
    }
}
