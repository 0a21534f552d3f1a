//! Tests of the evaluation, on small artificial runs.

use super::*;

const LATENCY: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(1_000_000 + ms)
}

fn sent(number: u16, kind: Kind, captured: u64, deadline: Option<u64>, given_up: bool) -> SentPacket {
    let id = RtpId { timestamp: u32::from(number) * 10, sequence: number };
    SentPacket { id, kind, bytes: 1_000, captured: at(captured), deadline: deadline.map(at), given_up }
}

fn received(number: u32, completed: Option<u64>, shown: bool) -> ReceivedFrame {
    ReceivedFrame { timestamp: number * 10, completed: completed.map(at), shown }
}

fn passed(number: u16, entered: u64, left: Option<u64>) -> LinkTransit {
    let rtp = Some(RtpId { timestamp: u32::from(number) * 10, sequence: number });
    LinkTransit { entered: at(entered), left: left.map(at), dropped: left.is_none(), rtp }
}

/// Five frames: in time, in time but not to be shown, late, given up, lost.
fn evidence() -> Evidence {
    Evidence {
        sent: vec![
            sent(1, Kind::Idr, 0, None, false),
            sent(2, Kind::P, 10, None, false),
            sent(3, Kind::Idr, 20, None, false),
            sent(4, Kind::B, 30, None, true),
            sent(5, Kind::P, 40, None, false),
        ],
        received: vec![received(1, Some(100), true), received(2, Some(50), false), received(3, Some(121), true)],
        passages: vec![passed(1, 5, Some(100)), passed(2, 12, Some(50)), passed(3, 30, Some(121)), passed(5, 41, None)],
    }
}

#[test]
fn a_frame_is_in_time_up_to_the_very_instant() {
    let judgement = judge(Approach::Udp, LATENCY, &evidence()).unwrap();
    let outcomes: Vec<_> = judgement.frames.iter().map(|frame| frame.outcome).collect();
    assert_eq!(outcomes, [Outcome::InTime, Outcome::InTime, Outcome::Late, Outcome::GivenUp, Outcome::Lost]);
    let row = judgement.row;
    assert_eq!((row.frames, row.frames_in_time), (5, 2));
    assert_eq!((row.i_frames, row.i_frames_in_time), (2, 1));
    assert_eq!(row.decodable_in_time, 1, "neither what could not be decoded nor what was shown late");
    assert_eq!((row.link_packets, row.link_dropped, row.link_loss), (4, 1, 0.25));
    let first = (Duration::from_millis(5), Duration::from_millis(95));
    assert_eq!((judgement.on_link[0], judgement.on_link.len()), (first, 3));
}

#[test]
fn delays_are_those_of_complete_frames() {
    let row = judge(Approach::Udp, LATENCY, &evidence()).unwrap().row;
    assert_eq!(row.delay_ms, Some(Delays { p50: 100.0, p95: 101.0, p99: 101.0 }));
    let none = Evidence { received: Vec::new(), passages: Vec::new(), ..evidence() };
    assert_eq!(judge(Approach::Udp, LATENCY, &none).unwrap().row.delay_ms, None);
}

#[test]
fn what_the_receiver_had_forgotten_before_it_was_whole_is_late_and_not_lost() {
    let mut evidence = evidence();
    let more = SentPacket { id: RtpId { timestamp: 50, sequence: 6 }, ..evidence.sent[4] };
    evidence.sent.push(more);
    evidence.passages[3] = passed(5, 41, Some(400));
    let outcome = |evidence: &Evidence| {
        let frame = judge(Approach::Fifo, LATENCY, evidence).unwrap().frames[4];
        (frame.outcome, frame.delay.map(Duration::as_millis))
    };
    assert_eq!(outcome(&evidence), (Outcome::Lost, None), "half of it came");
    let rest = |left| LinkTransit { rtp: Some(more.id), ..passed(6, 42, Some(left)) };
    evidence.passages.extend([rest(450), rest(600)]);
    assert_eq!(outcome(&evidence), (Outcome::Late, Some(410)), "the first of two repairs completes it");
    evidence.passages = vec![passed(5, 41, Some(50)), rest(60)];
    assert_eq!(outcome(&evidence), (Outcome::Lost, None), "what counts in time is only what the receiver had");
}

#[test]
fn a_packet_leaves_late_by_its_own_deadline_or_by_that_of_its_frame() {
    let mut evidence = evidence();
    evidence.passages = vec![passed(1, 100, Some(140)), passed(2, 111, None)];
    assert_eq!(judge(Approach::Fifo, LATENCY, &evidence).unwrap().row.left_late, 1, "dropped behind it or not");
    evidence.sent[0].deadline = Some(at(99));
    assert_eq!(judge(Approach::Fifo, LATENCY, &evidence).unwrap().row.left_late, 2);
}

#[test]
fn witnesses_that_contradict_each_other_are_not_believed() {
    let mut unknown = evidence();
    unknown.passages.push(passed(9, 50, Some(60)));
    let id = RtpId { timestamp: 90, sequence: 9 };
    assert_eq!(judge(Approach::Udp, LATENCY, &unknown), Err(Contradiction::UnknownPacket(id)));
    let nothing = Evidence { sent: Vec::new(), ..evidence() };
    assert_eq!(judge(Approach::Udp, LATENCY, &nothing), Err(Contradiction::NothingSent));
}

fn rows() -> [Row; 3] {
    let delays = |p95| Some(Delays { p50: 10.0, p95, p99: 2.0 * p95 });
    let row = |run, decodable_in_time, p95| Row {
        run,
        frames: 100,
        frames_in_time: 60,
        i_frames: 4,
        i_frames_in_time: 4,
        decodable_in_time,
        delay_ms: delays(p95),
        link_packets: 1_000,
        link_dropped: 10,
        link_loss: 0.01,
        left_late: 0,
    };
    [row(Approach::Udp, 25, 500.0), row(Approach::Fifo, 20, 900.0), row(Approach::Timeous, 50, 99.0)]
}

#[test]
fn promises_hold_at_their_bounds() {
    assert_eq!(broken_promises(&rows(), LATENCY), [""; 0]);
}

type RowChange = fn(&mut [Row; 3]);

#[test]
fn each_promise_can_be_broken() {
    let broken = |change: RowChange| {
        let mut rows = rows();
        change(&mut rows);
        broken_promises(&rows, LATENCY)
    };
    let cases: [(RowChange, &str); 6] = [
        (|rows| rows[2].i_frames_in_time = 3, "every I frame in time: 3 of 4 were"),
        (|rows| rows[0].decodable_in_time = 26, "of UDP, constant rate: 50 against 26"),
        (|rows| rows[1].decodable_in_time = 26, "of plain queue (fifo): 50 against 26"),
        (|rows| rows[2].delay_ms = None, "it is inf ms"),
        (|rows| rows[2].link_loss = 0.011, "it dropped 1.10 %"),
        (|rows| rows[2].left_late = 1, "1 packets did"),
    ];
    for (change, words) in cases {
        let broken = broken(change);
        assert!(broken.len() == 1 && broken[0].contains(words), "{broken:?}");
    }
    assert_eq!(broken(|rows| rows[2].delay_ms.as_mut().unwrap().p95 = 100.0).len(), 1);
}
