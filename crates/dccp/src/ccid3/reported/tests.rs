//! Tests of the verification of loss interval reports, honest and false ones.

use proptest::prelude::*;
use timeous_core::Instant;

use super::super::history::{History, Packet};
use super::super::options::LossInterval;
use super::*;

const RTT: Duration = Duration::from_millis(100);
const ISS: u64 = 1_000;

/// Data packets from ISS on, ten milliseconds apart.
fn log(packets: u64) -> SentLog {
    let mut log = SentLog::new();
    for n in 0..packets {
        log.push(Instant::ZERO + Duration::from_millis(n * 10), Seq::new(ISS + n), Some(1_000), 0);
    }
    log
}

fn against(log: &SentLog, ack: u64) -> LocalBounds<'_> {
    let (ack, iss) = (Seq::new(ISS + ack), Seq::new(ISS));
    LocalBounds { ack, iss, log, rtt: RTT, longest_first: 1_000.0, missing: &[], swallowed: None }
}

fn interval(lossless: u32, lossy: u32, data: u32) -> LossInterval {
    LossInterval { lossless, lossy, nonce: false, data }
}

fn heard(skip: u8, intervals: &[LossInterval]) -> Heard {
    Heard { skip, intervals: intervals.to_vec(), ..Heard::default() }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let log = log(100);
    let good = heard(0, &[interval(49, 1, 50), interval(50, 0, 60)]);
    let nonce = LossInterval { nonce: true, ..interval(49, 1, 50) };
    let cases = [
        (heard(4, &[interval(90, 0, 0)]), Implausible::Skip(4)),
        (heard(0, &[interval(100, 1, 101)]), Implausible::BeforeTheFirst { packets: 101, sent: 100 }),
        (
            heard(0, &[interval(49, 1, 50), interval(50, 1, 51)]),
            Implausible::BeforeTheFirst { packets: 101, sent: 100 },
        ),
        (heard(0, &[interval(9, 0, 9), interval(9, 1, 10)]), Implausible::NoLoss),
        (heard(0, &[interval(9, 1, 11), interval(9, 1, 10)]), Implausible::DataLength { data: 11, packets: 10 }),
        (heard(0, &[nonce, interval(50, 0, 60)]), Implausible::Nonce),
    ];
    let mut reported = Reported::default();
    let told = reported.take(&against(&log, 99), &good, false).unwrap();
    assert!((told.p - 1.0 / 60.0).abs() < 1e-9 && told.new_loss_event);
    for (lie, why) in cases {
        assert_eq!(reported.take(&against(&log, 99), &lie, false), Err(why));
    }
    assert!((reported.loss_event_rate(false, None) - 1.0 / 60.0).abs() < 1e-9);
}

#[test]
fn an_ack_vector_that_tells_of_more_losses_contradicts() {
    let mut log = log(50);
    log.push(Instant::ZERO, Seq::new(ISS + 50), None, 0);
    let told = heard(0, &[interval(40, 1, 41), interval(10, 0, 10)]);
    let take = |missing: &[u64]| {
        let missing: Vec<_> = missing.iter().map(|&n| (Seq::new(ISS + n), Seq::new(ISS + n))).collect();
        Reported::default().take(&LocalBounds { missing: &missing, ..against(&log, 50) }, &told, false)
    };
    assert!(take(&[]).is_ok() && take(&[10]).is_ok());
    assert!(take(&[50]).is_ok(), "it carried no data");
    assert_eq!(take(&[10, 30]), Err(Implausible::Contradiction));
    assert_eq!(take(&[5]), Err(Implausible::Contradiction));
}

#[test]
fn the_first_interval_stands_for_no_more_than_the_rate_there_was() {
    let log = log(100);
    let lie = heard(0, &[interval(9, 1, 10), interval(90, 0, 0xff_ffff)]);
    let p = Reported::default().take(&against(&log, 99), &lie, false).unwrap().p;
    assert!((p - 0.001).abs() < 1e-9, "{p}");
}

#[test]
fn an_outage_is_as_many_loss_events_as_it_has_round_trips() {
    let log = log(200);
    // 60 packets, 600 ms, six round trips, of which the receiver saw nothing.
    let told = heard(0, &[interval(40, 60, 100), interval(100, 0, 100)]);
    let p = Reported::default().take(&against(&log, 199), &told, false).unwrap().p;
    let within = heard(0, &[interval(91, 9, 100), interval(100, 0, 100)]);
    let one = Reported::default().take(&against(&log, 199), &within, false).unwrap().p;
    assert!((one - 0.01).abs() < 1e-9 && p > one * 2.0, "{p} and {one}");
}

/// Found by `timeous-lab dbat-buffering`: two packets that were lost a second apart, with acknowledgements between them, were
/// nine loss events of less than a packet each, and p was 1.
#[test]
fn a_lossy_part_is_no_more_loss_events_than_it_has_packets_with_data() {
    let mut log = log(50);
    // 50 and 56 carry data and are lost, a second apart; 51 to 55 do not.
    for (n, payload) in (50..60).map(|n| (n, (n == 50 || n >= 56).then_some(1_000))) {
        let sent_at = if n < 56 { 500 } else { 1_500 };
        log.push(Instant::ZERO + Duration::from_millis(sent_at), Seq::new(ISS + n), payload, 0);
    }
    let told = heard(0, &[interval(3, 7, 5), interval(50, 0, 50)]);
    let p = Reported::default().take(&against(&log, 59), &told, false).unwrap().p;
    // 50 before, one up to the next event, and the current one of four.
    assert!((p - 2.0 / 51.0).abs() < 1e-9, "{p}");
}

#[test]
fn what_was_told_before_need_not_be_repeated() {
    let log = log(200);
    let mut reported = Reported::default();
    let all = [interval(20, 1, 21), interval(39, 1, 40), interval(39, 0, 39)];
    let whole = reported.take(&against(&log, 99), &heard(0, &all), false).unwrap();
    assert!(whole.new_loss_event);
    let newest = reported.take(&against(&log, 109), &heard(0, &[interval(30, 1, 31)]), false).unwrap();
    assert_eq!(newest, LossEstimate { p: whole.p, new_loss_event: false }, "31 is no reason to think better of it");
    let further = [interval(9, 1, 10), interval(30, 1, 31)];
    let further = reported.take(&against(&log, 119), &heard(0, &further), false).unwrap();
    assert!(further.new_loss_event && further.p > whole.p, "{further:?}");
    assert_eq!(reported.0.len(), 4);
    // A receiver that first reports only its newest interval is judged by that alone.
    let alone = Reported::default().take(&against(&log, 99), &heard(0, &[interval(19, 1, 20)]), false).unwrap();
    assert!((alone.p - 0.05).abs() < 1e-9);
}

#[test]
fn ccid_4_divides_short_intervals_by_what_was_lost_in_them() {
    let log = log(200);
    let told = |lost: &[u32]| {
        // The second takes 150 ms, and so is short.
        let intervals = [interval(79, 1, 80), interval(9, 6, 15), interval(84, 1, 85), interval(20, 0, 20)];
        Heard { lost: lost.to_vec(), ..heard(0, &intervals) }
    };
    let p = |lost: &[u32], small| Reported::default().take(&against(&log, 199), &told(lost), small).unwrap().p;
    let (three, one) = (p(&[1, 3, 1, 0], true), p(&[1, 1, 1, 0], true));
    assert!(three > one && (one - p(&[], false)).abs() < 1e-9);
    assert!((p(&[], true) - p(&[1, 6, 1, 0], true)).abs() < 1e-9, "without a count the loss length stands for it");
    assert!((p(&[9, 9, 9, 9], true) - p(&[1, 6, 1, 0], true)).abs() < 1e-9, "and it is never more");
}

#[test]
fn by_intervals_alone_the_lossless_parts_have_arrived() {
    let told = heard(2, &[interval(10, 1, 11), interval(0, 3, 3), interval(8, 0, 8)]);
    let reports = covered(Seq::new(100), &told);
    let ranges: Vec<_> = reports.iter().map(|report| (report.newest.value(), report.oldest.value())).collect();
    assert_eq!(ranges, [(100, 100), (98, 89), (84, 77)]);
}

proptest! {
    #[test]
    fn an_honest_receiver_is_believed_and_both_ends_reckon_alike(
        lost in prop::collection::vec(prop::bool::weighted(0.05), 20..400),
        every in 1..8_u64,
    ) {
        let (log, mut history, mut reported) = (log(lost.len() as u64), History::default(), Reported::default());
        for (n, lost) in lost.iter().enumerate() {
            let n = n as u64;
            if *lost {
                continue;
            }
            // A counter of 25 ms, as at 100 ms there and back.
            let counter = (n * 10 / 25 % 16) as u8;
            history.arrive(Packet { number: n, counter: Some(counter), marked: false, no_data_before: 0 }, &|| 50.0);
            if n.is_multiple_of(every) {
                let (skip, intervals, lost) = history.told();
                let heard = Heard { skip, intervals, lost, ..Heard::default() };
                let told = reported.take(&against(&log, n), &heard, false);
                prop_assert!(told.is_ok(), "{:?}", told);
                let (p, theirs) = (told.unwrap().p, history.loss_event_rate(false));
                // Discounting looks back further where intervals were told earlier.
                prop_assert!((p - theirs).abs() <= 0.35 * theirs, "{} and {}", p, theirs);
            }
        }
    }

    #[test]
    fn whatever_is_reported_p_is_a_share(
        reports in prop::collection::vec(
            (0..5_u8, prop::collection::vec((0..60_u32, 0..20_u32, 0..100_u32), 1..12), 0..200_u64, any::<bool>()), 1..20),
    ) {
        let (log, mut reported) = (log(200), Reported::default());
        for (skip, intervals, ack, small) in reports {
            let intervals: Vec<_> = intervals.into_iter().map(|(a, b, data)| interval(a, b, data)).collect();
            if let Ok(told) = reported.take(&against(&log, ack), &heard(skip, &intervals), small) {
                prop_assert!((0.0..=1.0).contains(&told.p), "{:?}", told);
            }
            prop_assert!(reported.0.len() <= KEPT_INTERVALS);
        }
    }
}

#[test]
fn packets_that_a_black_hole_took_are_one_loss_event() {
    let log = log(100);
    // 60 packets, six round trips.
    let told = heard(0, &[interval(10, 60, 70), interval(30, 0, 30)]);
    let take = |swallowed| Reported::default().take(&LocalBounds { swallowed, ..against(&log, 99) }, &told, false);
    let of = |first, last| Some((Seq::new(ISS + first), Seq::new(ISS + last)));
    let (several, one) = (take(None).unwrap().p, take(of(30, 90)).unwrap().p);
    assert!(one < several / 1.5, "{one}, and {several}");
    assert_eq!(take(of(31, 90)).unwrap().p, several, "the first loss was before it");
}

#[test]
fn losses_between_which_small_packets_passed_a_black_hole_are_one_event() {
    let log = log(100);
    // A black hole from the 40th packet on, for three round trips: of ten packets each, the last passes.
    let told = heard(0, &[interval(20, 9, 29), interval(1, 9, 10), interval(1, 9, 10), interval(1, 0, 40)]);
    let take = |swallowed| Reported::default().take(&LocalBounds { swallowed, ..against(&log, 88) }, &told, false);
    let of = |first, last| Some((Seq::new(ISS + first), Seq::new(ISS + last)));
    let (several, one) = (take(None).unwrap().p, take(of(40, 89)).unwrap().p);
    let whole = heard(0, &[interval(20, 29, 49), interval(1, 0, 40)]);
    let bounds = LocalBounds { swallowed: of(40, 89), ..against(&log, 88) };
    assert_eq!(one, Reported::default().take(&bounds, &whole, false).unwrap().p, "as if none had passed");
    assert!(one < several / 1.5, "{one}, and {several}");
}
