//! Tests of the loss history, scripted packet by packet.

use proptest::prelude::*;

use super::super::options::encode_loss_intervals;
use super::*;

const FIRST: f64 = 15.0;

fn data(number: u64, counter: u8) -> Packet {
    Packet { number, counter: Some(counter % 16), marked: false, no_data_before: 0 }
}

/// All but `lost` up to `last` arrive; the window counter grows by one with each `per_tick` packets.
fn arrive(history: &mut History, last: u64, per_tick: u64, lost: &[u64]) {
    for number in (0..=last).filter(|number| !lost.contains(number)) {
        history.arrive(data(number, (number / per_tick % 16) as u8), &|| FIRST);
    }
}

#[test]
fn the_rfcs_example_is_told_as_the_rfc_tells_it() {
    let mut history = History::default();
    // So that 19 to 23 are within a round trip, and the others further apart.
    for number in (0..=44).filter(|number| ![10, 19, 20, 21, 23, 32, 43].contains(number)) {
        let packet = Packet { counter: (number != 36).then_some((number * 2 / 3 % 16) as u8), ..data(number, 0) };
        history.arrive(packet, &|| FIRST);
    }
    let (skip, intervals, lost) = history.told();
    let mut bytes = Vec::new();
    encode_loss_intervals(skip, &intervals, &mut bytes);
    let expected = [
        2, 0, 0, 10, 0, 0, 1, 0, 0, 10, 0, 0, 8, 0, 0, 5, 0, 0, 13, 0, 0, 8, 0, 0, 1, 0, 0, 9, 0, 0, 10, 0, 0, 0, 0, 0,
        15,
    ];
    // As §8.6.2, but for the nonces, and data lengths where the example has more packets without data.
    assert_eq!(bytes, expected);
    assert_eq!(lost, [1, 4, 1, 0], "RFC 5622 §8.7.1");
}

#[test]
fn a_hole_is_a_loss_once_the_numbers_are_three_ahead() {
    let mut history = History::default();
    history.arrive(data(0, 0), &|| FIRST);
    history.arrive(data(2, 0), &|| FIRST);
    assert_eq!(history.arrive(data(3, 0), &|| FIRST), News::default());
    assert_eq!(history.told().0, 3);
    assert_eq!(history.loss_event_rate(false), 0.0);
    assert!(history.arrive(data(4, 0), &|| FIRST).began);
    assert!((history.loss_event_rate(false) - 1.0 / FIRST).abs() < 1e-9);
    // A longer one is told as far as the skip allows, and then grows.
    history.arrive(data(10, 9), &|| FIRST);
    let (skip, intervals, lost) = history.told();
    assert_eq!((skip, intervals[0].lossy, intervals[0].lossless, lost[0]), (3, 7, 0, 4), "1, 5, 6, 7: one event");
}

#[test]
fn late_packets_fill_holes_and_take_losses_back() {
    let mut history = History::default();
    arrive(&mut history, 20, 1, &[5, 6, 15]);
    assert_eq!(history.told().1.len(), 3);
    assert_eq!(history.arrive(data(15, 15), &|| FIRST), News { began: false, removed: true });
    let (_, intervals, lost) = history.told();
    assert_eq!((intervals.len(), intervals[0].lossy, intervals[0].lossless, lost[0]), (2, 2, 14, 2));
    assert_eq!(history.arrive(data(5, 5), &|| FIRST), News::default());
    let (_, intervals, lost) = history.told();
    assert_eq!((intervals[0].lossy, intervals[1].lossless, lost[0]), (1, 6, 1), "it begins with 6");
    assert!(history.arrive(data(6, 6), &|| FIRST).removed);
    assert_eq!((history.told().1.len(), history.loss_event_rate(false)), (1, 0.0), "as if nothing had been");
    // A packet that is not lost yet only fills its hole.
    history.arrive(data(22, 6), &|| FIRST);
    assert_eq!(history.told().0, 2);
    history.arrive(data(21, 5), &|| FIRST);
    assert_eq!((history.told().0, history.told().1[0].lossless), (0, 23));
}

#[test]
fn losses_are_of_one_event_while_the_counter_is_a_round_trip_on_at_most() {
    for (apart, events) in [(4, 1), (5, 2)] {
        let mut history = History::default();
        arrive(&mut history, 10, 100, &[]);
        // X_prev is 10, Y_prev 12: its counter decides.
        for (number, counter) in [(12, apart), (14, apart), (15, apart), (16, apart), (17, apart)] {
            history.arrive(data(number, counter), &|| FIRST);
        }
        assert_eq!(history.told().1.len(), 1 + events, "{apart}");
    }
}

#[test]
fn the_counter_may_wrap_between_losses() {
    let mut history = History::default();
    // 16 ticks and one later: modulo 16 that is one.
    arrive(&mut history, 40, 2, &[2, 36]);
    assert_eq!(history.told().1.len(), 3);
}

#[test]
fn marks_are_losses_at_once_and_all_missing_below_them() {
    let mut history = History::default();
    arrive(&mut history, 10, 4, &[]);
    let marked = Packet { marked: true, ..data(12, 3) };
    assert!(history.arrive(marked, &|| FIRST).began);
    let (skip, intervals, lost) = history.told();
    assert_eq!((skip, intervals[0].lossless, intervals[0].lossy, lost[0]), (0, 0, 2, 2));
}

#[test]
fn packets_without_data_are_no_losses_where_they_are_known() {
    let mut history = History::default();
    history.arrive(data(0, 0), &|| FIRST);
    // 1 and 2 were acknowledgements that were lost; 3 was data.
    history.arrive(Packet { no_data_before: 0, ..data(4, 0) }, &|| FIRST);
    let mut known = History::default();
    known.arrive(data(0, 0), &|| FIRST);
    known.arrive(Packet { no_data_before: 2, ..data(3, 0) }, &|| FIRST);
    for number in 5..9 {
        history.arrive(data(number, 0), &|| FIRST);
        known.arrive(data(number - 1, 0), &|| FIRST);
    }
    assert_eq!((history.told().1.len(), known.told().1.len()), (2, 1));
    // They do not count as data, lost or not.
    let packet = Packet { counter: None, ..data(9, 0) };
    history.arrive(packet, &|| FIRST);
    history.arrive(data(10, 0), &|| FIRST);
    let newest = history.told().1[0];
    assert_eq!((newest.packets(), newest.data), (10, 9));
}

/// Loss by number, without anything clever: what is missing three behind.
fn missing(numbers: &[u64]) -> Vec<u64> {
    let highest = numbers.iter().max().copied().unwrap_or(0);
    (0..=highest.saturating_sub(NDUPACK)).filter(|number| !numbers.contains(number)).collect()
}

proptest! {
    #[test]
    fn intervals_cover_everything_once_and_hold_every_loss(
        steps in prop::collection::vec((0..5_u64, 0..6_u8, prop::bool::weighted(0.1), prop::bool::weighted(0.1)), 1..200),
        late in prop::collection::vec(0..400_u64, 0..20),
    ) {
        let mut history = History::default();
        let (mut number, mut counter, mut arrived, mut marks) = (0, 0_u8, Vec::new(), Vec::new());
        for (gap, ticks, marked, is_ack) in steps {
            counter = (counter + ticks) % 16;
            number += gap / 3 * gap;
            let packet = Packet { number, counter: (!is_ack).then_some(counter), marked, no_data_before: 0 };
            history.arrive(packet, &|| FIRST);
            arrived.push(number);
            if marked && !is_ack {
                marks.push(number);
            }
            number += 1;
        }
        for number in late {
            if number < *arrived.iter().max().unwrap() && !arrived.contains(&number) {
                history.arrive(data(number, 0), &|| FIRST);
                arrived.push(number);
            }
        }
        let (skip, intervals, lost) = history.told();
        prop_assert!(skip <= 3, "{}", skip);
        prop_assert_eq!(intervals.len(), lost.len());
        let highest = *arrived.iter().max().unwrap();
        let mut end = highest + 1 - u64::from(skip);
        let oldest = end - intervals.iter().map(LossInterval::packets).sum::<u64>();
        let gone: Vec<u64> = missing(&arrived).into_iter().chain(marks).filter(|&n| n >= oldest && n < end).collect();
        let mut found = 0;
        for (interval, lost) in intervals.iter().zip(&lost) {
            let lossless = end - u64::from(interval.lossless);
            let first = lossless - u64::from(interval.lossy);
            prop_assert!(gone.iter().all(|&n| !(lossless..end).contains(&n)), "{:?} in {}..{}", gone, lossless, end);
            let here = gone.iter().filter(|&&n| (first..lossless).contains(&n)).count();
            found += here;
            if interval.lossy > 0 {
                prop_assert!(*lost <= interval.lossy && *lost as usize >= here);
                prop_assert!(interval.data >= 1 && u64::from(interval.data) <= interval.packets());
            }
            end = first;
        }
        prop_assert_eq!(found, gone.len(), "every loss is in a lossy part");
        let p = history.loss_event_rate(false);
        prop_assert!((0.0..=1.0).contains(&p) && history.loss_event_rate(true) <= 1.0);
    }
}
