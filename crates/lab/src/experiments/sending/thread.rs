//! Ring with the transport in a thread of its own, as in the engine: the application notifies at
//! each packet if that thread sleeps, and the thread sends all packets queued meanwhile.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use timeous::core::{AduMeta, AduSeq};
use timeous_engine::{EnqueueError, Producer, Waker, clock};
use timeous_lab::rig::Rig;

use super::sent::{ROUND_TRIP, Sent, number, processor_time};

/// Wakers between the two threads.
struct Wakers {
    /// Wakes a sleeping transport after a packet was queued.
    queued: Waker,
    /// Wakes a waiting application when the ring has room again.
    room: Waker,
    waiting: AtomicBool,
    done: AtomicBool,
}

/// Sends `packets` packets; the processor time of both threads counts.
pub(super) fn send(
    rig: &mut Rig,
    producer: &mut Producer,
    payload: usize,
    packets: u32,
    next: &mut u64,
) -> io::Result<Sent> {
    let wakers = Wakers {
        queued: Waker::new()?,
        room: Waker::new()?,
        waiting: AtomicBool::new(false),
        done: AtomicBool::new(false),
    };
    let transport = thread::scope(|scope| {
        let transport = scope.spawn(|| transport(rig, &wakers));
        let before = processor_time();
        application(producer, &wakers, payload, packets, next);
        let own = processor_time() - before;
        wakers.done.store(true, Ordering::Release);
        wakers.queued.wake();
        own + transport.join().expect("the transport's thread does not panic")
    });
    while producer.poll_completion().is_some() {}
    Ok(Sent { packets, nanos: transport })
}

fn application(producer: &mut Producer, wakers: &Wakers, payload: usize, packets: u32, next: &mut u64) {
    for _ in 0..packets {
        let meta = AduMeta { seq: AduSeq(*next), ..AduMeta::default() };
        while let Err(full) = producer.enqueue_with(&meta, payload, |bytes| number(bytes, next)) {
            assert!(matches!(full, EnqueueError::Full | EnqueueError::ZoneFull), "{full}");
            wait_for_room(producer, wakers);
        }
        if producer.needs_notify() {
            wakers.queued.wake();
        }
    }
}

fn wait_for_room(producer: &mut Producer, wakers: &Wakers) {
    wakers.waiting.store(true, Ordering::SeqCst);
    // Room that appeared before the flag was set causes no wake-up.
    if producer.free_slots() == 0 {
        wakers.room.wait(Some(timeous::core::Duration::from_millis(10)));
    }
    wakers.waiting.store(false, Ordering::SeqCst);
    while producer.poll_completion().is_some() {}
}

/// Runs the transport; returns its processor time without the peer's.
fn transport(rig: &mut Rig, wakers: &Wakers) -> u64 {
    let begin = processor_time();
    let (mut unanswered, mut others) = (0, 0);
    loop {
        let sent = rig.send(clock::now());
        unanswered += sent;
        if unanswered >= ROUND_TRIP as usize {
            unanswered = 0;
            let before = processor_time();
            rig.answer(clock::now());
            others += processor_time() - before;
            rig.hear(clock::now());
        }
        if sent > 0 && wakers.waiting.load(Ordering::SeqCst) {
            wakers.room.wake();
        }
        if sent == 0 && !rig.stop_polling() {
            if wakers.done.load(Ordering::Acquire) {
                return processor_time() - begin - others;
            }
            wakers.queued.wait(None);
        }
    }
}
