//! Tests of ADUs that the application writes in place, into the ring's memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use timeous::core::Fate;
use timeous::{Hints, Options, SendError, clock};

use crate::support::{PATIENCE, collect, fates, pause, stream};

#[test]
fn adus_written_in_place_arrive_among_copied_ones_in_order_with_numbers_and_fates() {
    for transport in ["dccp", "tcp"] {
        let (mut sender, receiver) = stream(&format!("latency=9s&policy=deadline&transport={transport}"));
        let received = collect(receiver);
        let max = sender.max_payload();
        for n in 0..100u8 {
            let len = if n == 98 { max } else { usize::from(n) };
            let seq = if n % 2 == 0 {
                sender.send_with(len, Hints::default(), |buffer| {
                    assert_eq!(buffer.len(), len);
                    buffer.fill(n);
                })
            } else {
                sender.send(&vec![n; len], Hints::default())
            };
            assert_eq!(seq.unwrap().0, u64::from(n));
        }
        let fates = fates(&mut sender);
        assert!(fates.len() == 100 && fates.values().all(|&fate| fate == Fate::Acked), "{transport}: {fates:?}");
        sender.finish().unwrap();
        let expected = (0..100u8).map(|n| vec![n; if n == 98 { max } else { usize::from(n) }]);
        assert!(received.join().unwrap().into_iter().eq(expected), "{transport}");
    }
}

#[test]
fn a_refused_adu_is_not_written() {
    let (mut sender, receiver) = stream("latency=9s&policy=deadline&slots=4");
    let max = Options::MAX_ADU;
    let unwritten = |_: &mut [u8]| unreachable!("it is refused");
    assert_eq!(sender.send_with(max + 1, Hints::default(), unwritten), Err(SendError::TooLarge { len: max + 1, max }));
    // All are pulled back, so that none leaves: the ring stays full.
    let mut pulled = sender.ring().pull_back_all().unwrap();
    for n in 0..3 {
        pulled.push(&timeous::core::AduMeta::default(), &[n]).unwrap();
    }
    std::mem::forget(pulled);
    assert_eq!(sender.send_with(1, Hints::default(), unwritten), Err(SendError::Full));
    drop(receiver);
    let (mut sender, receiver) = stream("latency=9s&policy=deadline");
    drop(receiver);
    let end = clock::now() + PATIENCE;
    while !matches!(sender.status(), timeous::Status::Closed(_)) {
        assert!(clock::now() < end, "it goes on");
        pause(timeous::core::Duration::from_millis(5));
    }
    assert!(matches!(sender.send_with(1, Hints::default(), unwritten), Err(SendError::Closed(_))));
}

#[test]
fn a_panic_of_the_writer_queues_nothing_and_takes_no_number_and_no_room() {
    let (mut sender, receiver) = stream("latency=9s&policy=deadline&slots=4");
    let received = collect(receiver);
    for _ in 0..16 {
        let write = || sender.send_with(3, Hints::default(), |_| std::panic::panic_any("the application's own"));
        assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
    }
    assert_eq!(sender.pending(), 0);
    assert_eq!(sender.send_with(3, Hints::default(), |buffer| buffer.fill(7)).unwrap().0, 0);
    assert_eq!(fates(&mut sender).len(), 1);
    sender.finish().unwrap();
    assert_eq!(received.join().unwrap(), [vec![7; 3]]);
}
