//! Tests of both ends of the Ack Vector: the RFC's examples, and hostile sequence numbers.

use super::*;
use crate::options::{OptionList, Options};
use crate::packet::PacketType;
use crate::seq::Seq;

use PacketState::{Marked, Missing, Received};

fn seq(n: u64) -> Seq {
    Seq::new(n)
}

/// The vector bytes that the packet `on` would carry.
#[track_caller]
fn sent_on(vector: &mut AckVector, on: u64) -> Vec<u8> {
    let mut list = OptionList::new();
    assert!(vector.push_options(seq(on), &mut list));
    let bytes: Vec<u8> = vectors_of(list.iter(PacketType::Ack)).flatten().copied().collect();
    assert_eq!(bytes.len(), vector.vector_len());
    bytes
}

/// The Example Buffer of appendix A: 10 came, 9 to 7 did not, 6 to 2 did, 1 was marked, 0 came.
fn example_buffer() -> AckVector {
    let mut vector = AckVector::new(253, 0);
    vector.record(seq(0), Received);
    vector.record(seq(1), Marked);
    for n in [2, 3] {
        vector.record(seq(n), Received);
    }
    assert_eq!(sent_on(&mut vector, 59), [1, 0x40, 0], "Ack 59 acknowledges packet 3");
    for n in [4, 5, 6, 10] {
        assert_eq!(vector.record(seq(n), Received), Arrival::Newest);
    }
    assert_eq!(sent_on(&mut vector, 60), [0, 0xc0 | 2, 4, 0x40, 0], "compressed, as A.2 allows");
    vector
}

/// §11.4: "An Ack Vector containing the decimal values 0,192,3,64,5".
#[test]
fn the_rfcs_vector_is_read_and_written() {
    let bytes = [0, 192, 3, 64, 5];
    let reports: Vec<Report> = Reports::new(seq(100), seq(88), [&bytes[..]]).unwrap().collect();
    let report = |newest, oldest, state| Report { newest: seq(newest), oldest: seq(oldest), state };
    let expected = [
        report(100, 100, Received),
        report(99, 99, Missing),
        report(98, 95, Received),
        report(94, 94, Marked),
        report(93, 88, Received),
    ];
    assert_eq!(reports, expected);

    let mut vector = AckVector::new(253, 0);
    for n in (88..=100).filter(|&n| n != 99) {
        vector.record(seq(n), if n == 94 { Marked } else { Received });
    }
    assert_eq!(vector.ack_number(), Some(seq(100)));
    assert_eq!(sent_on(&mut vector, 1), bytes);
}

/// Appendix A.1.1.
#[test]
fn new_packets_extend_the_buffer() {
    let mut vector = example_buffer();
    vector.record(seq(11), Received);
    assert_eq!(sent_on(&mut vector, 61), [1, 0xc2, 4, 0x40, 0]);
    let mut vector = example_buffer();
    vector.record(seq(12), Received);
    assert_eq!(sent_on(&mut vector, 61), [0, 0xc0, 0, 0xc2, 4, 0x40, 0]);
    assert_eq!(vector.coverage(), 13);
}

/// Appendix A.1.2.
#[test]
fn old_packets_fill_holes() {
    let mut vector = example_buffer();
    assert_eq!(vector.record(seq(8), Received), Arrival::Late);
    assert_eq!(sent_on(&mut vector, 61), [0, 0xc0, 0, 0xc0, 4, 0x40, 0]);
    assert_eq!(vector.record(seq(8), Marked), Arrival::Duplicate);
    assert_eq!(vector.record(seq(10), Received), Arrival::Duplicate);
    assert_eq!(vector.record(seq(1), Received), Arrival::Duplicate);
    assert_eq!(vector.record(seq(9), Received), Arrival::Late);
    assert_eq!(vector.record(seq(7), Marked), Arrival::Late);
    assert_eq!(sent_on(&mut vector, 62), [2, 0x40, 4, 0x40, 0]);
    assert_eq!(vector.record(Seq::new(0).prev(), Received), Arrival::TooOld);
}

/// Appendix A.3: the peer acknowledges Ack 59, so it knows about 0 to 3.
#[test]
fn an_acknowledged_vector_is_not_repeated() {
    let mut vector = example_buffer();
    vector.on_ack(seq(58));
    assert_eq!(vector.coverage(), 11, "58 carried no vector");
    vector.on_ack(seq(59));
    assert_eq!(sent_on(&mut vector, 61), [0, 0xc2, 2]);
    vector.on_ack(seq(59));
    assert_eq!(vector.coverage(), 7);
    vector.on_ack(seq(61));
    assert_eq!(sent_on(&mut vector, 62), [0], "the newest stays");
    vector.on_ack(seq(60));
    assert_eq!(vector.coverage(), 1, "60 was forgotten with 61, which says more");
}

/// Appendix A.3's careful implementation: Ack 60 called 9 missing, so it must not settle 9.
#[test]
fn a_late_arrival_is_reported_before_it_is_settled() {
    let mut vector = example_buffer();
    vector.record(seq(9), Received);
    vector.on_ack(seq(60));
    assert_eq!(sent_on(&mut vector, 61), [1], "10 and 9; 8 and older are settled");
    assert_eq!(vector.state_of(seq(9)), Some(Received));
    vector.on_ack(seq(61));
    assert_eq!(vector.coverage(), 1);
}

#[test]
fn a_late_window_tells_late_packets_from_duplicates() {
    let mut vector = AckVector::new(253, 4);
    for n in (0..=20).filter(|n| ![8, 16, 18].contains(n)) {
        vector.record(seq(n), Received);
    }
    sent_on(&mut vector, 70);
    vector.on_ack(seq(70));
    assert_eq!(vector.coverage(), 5);
    assert_eq!(vector.record(seq(8), Received), Arrival::TooOld);
    assert_eq!(vector.record(seq(17), Received), Arrival::Duplicate);
    assert_eq!(vector.record(seq(16), Received), Arrival::Late);
    assert_eq!(sent_on(&mut vector, 71), [1, 0xc0, 1]);
}

#[test]
fn long_runs_take_several_bytes_and_long_vectors_several_options() {
    let mut vector = AckVector::new(600, 0);
    for n in 0..65 {
        vector.record(seq(n), Received);
    }
    assert_eq!(sent_on(&mut vector, 1), [63, 0]);
    let mut vector = AckVector::new(600, 0);
    for n in 0..300 {
        vector.record(seq(2 * n), Received);
    }
    let mut list = OptionList::new();
    assert!(vector.push_options(seq(5), &mut list));
    let lengths: Vec<usize> = vectors_of(list.iter(PacketType::Ack)).map(<[u8]>::len).collect();
    assert_eq!(lengths, [253, 253, 93]);
    let reports = Reports::new(seq(598), seq(0), vectors_of(list.iter(PacketType::Ack))).unwrap();
    for report in reports {
        let n = report.newest.value();
        assert_eq!(
            report,
            Report { newest: seq(n), oldest: seq(n), state: if n % 2 == 0 { Received } else { Missing } }
        );
    }
}

#[test]
fn what_does_not_fit_is_cut_at_the_old_end_and_settles_nothing() {
    let mut vector = example_buffer();
    for (limit, expected) in [(4, &[38, 4, 0, 0xc2][..]), (2, &[]), (0, &[])] {
        let mut list = OptionList::with_limit(limit);
        assert!(!vector.push_options(seq(80), &mut list));
        assert_eq!(list.as_bytes(), expected);
        vector.on_ack(seq(80));
        assert_eq!(vector.coverage(), 11);
    }
}

#[test]
fn hostile_gaps_cost_no_memory() {
    let mut vector = AckVector::new(8, 0);
    vector.record(seq(0), Received);
    assert_eq!(vector.record(seq((1 << 46) - 1), Received), Arrival::Newest);
    assert_eq!((vector.vector_len(), vector.coverage()), (8, 7 * 64 + 1));
    assert_eq!(vector.record(seq(0), Received), Arrival::TooOld);
    for n in 0..100_000 {
        vector.record(seq((1 << 46) + n * 1_000_003), Received);
        vector.record(seq((1 << 46) + n * 1_000_003 - 5), Marked);
        assert!(vector.vector_len() <= 8);
    }
    assert_eq!(sent_on(&mut vector, 1).len(), 8);

    let mut vector = AckVector::new(0, u32::MAX);
    for n in 0..1_000 {
        vector.record(seq(n * 3), Received);
        sent_on(&mut vector, n);
    }
    assert_eq!(vector.coverage(), 1, "one byte is the least");
}

#[test]
fn the_memory_of_vectors_sent_is_bounded() {
    let mut vector = AckVector::new(253, 0);
    for n in 0..=512 {
        vector.record(seq(n), Received);
        sent_on(&mut vector, 1_000 + n);
    }
    vector.on_ack(seq(1_000));
    assert_eq!(vector.coverage(), 513, "the first of 513 is forgotten");
    vector.on_ack(seq(1_001));
    assert_eq!(vector.coverage(), 511);
}

#[test]
fn nothing_received_nothing_reported() {
    let mut vector = AckVector::new(253, 0);
    assert_eq!((vector.ack_number(), vector.state_of(seq(1))), (None, None));
    assert_eq!(sent_on(&mut vector, 1), []);
    vector.on_ack(seq(1));
}

/// §11.4.1: the sender's table.
#[test]
fn the_senders_table() {
    for (old, reported, new) in [
        (Received, Received, Received),
        (Received, Marked, Marked),
        (Received, Missing, Received),
        (Marked, Received, Marked),
        (Marked, Marked, Marked),
        (Marked, Missing, Marked),
        (Missing, Received, Received),
        (Missing, Marked, Marked),
        (Missing, Missing, Missing),
    ] {
        assert_eq!(old.updated_by(reported), new);
    }
}

/// §11.4: reports from before the first packet are invalid.
#[test]
fn reports_reach_no_further_than_the_first_packet() {
    let new =
        |first, vectors: &[&'static [u8]]| Reports::new(seq(100), seq(first), vectors.to_vec()).map(Iterator::count);
    assert_eq!(new(36, &[&[63, 0]]), Ok(2));
    assert_eq!(new(37, &[&[63, 0]]), Err(AckVectorError::BeforeFirst { covered: 65, sent: 64 }));
    assert_eq!(new(99, &[&[0], &[], &[0]]), Ok(2));
    assert_eq!(new(99, &[&[0], &[1]]), Err(AckVectorError::BeforeFirst { covered: 3, sent: 2 }));
    assert_eq!(new(100, &[]), Ok(0));
}

/// State 2 is reserved: as good as not mentioned.
#[test]
fn the_reserved_state_says_nothing() {
    let bytes = [38, 3, 0x81];
    let vectors = vectors_of(Options::new(&bytes, PacketType::Ack));
    let report = Reports::new(seq(0), Seq::new(0) - 7, vectors).unwrap().next().unwrap();
    assert_eq!(report, Report { newest: seq(0), oldest: Seq::new(0).prev(), state: Missing });
    let packets: Vec<Seq> = report.packets().collect();
    assert_eq!(packets, [Seq::new(0).prev(), seq(0)]);
}
