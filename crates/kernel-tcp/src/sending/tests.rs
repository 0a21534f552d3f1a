//! Tests of the sending side over a socket.

use std::net::{TcpListener, TcpStream};

use timeous_core::{AduMeta, Copied};
use timeous_tcp::StreamBuffer;

use super::*;

/// Source that counts how often it chooses.
struct Counted {
    inner: StreamBuffer,
    choices: u32,
}

impl AduSource for Counted {
    fn has_queued(&mut self, now: Instant) -> bool {
        self.inner.has_queued(now)
    }

    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.choices += 1;
        self.pull_chosen(now, path, room, packet)
    }

    fn pull_chosen(&mut self, now: Instant, path: &PathState, _: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        self.inner.pull(now, path, 100, packet)
    }

    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {}
    fn lost(&mut self, _: u64) {}
    fn dropped(&mut self, _: u64, _: DropReason) {}
}

/// Found by measurement: each datagram of a burst of 700 was chosen anew, by a look at all that waited. On a busy machine a stream of
/// 50 Mbit/s came to have no time but for that, and lost two thirds of its frames.
#[test]
fn late_choice_looks_at_the_queue_once_in_a_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = Socket::accepted(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
    let _peer = listener.accept().unwrap();
    let mut sending = Sending::new(|| Instant::ZERO, (&TcpConfig::default(), None), &socket, None).unwrap();
    // A fast path: the kernel takes what a turn gives.
    sending.told_limit = 1 << 20;
    socket.set_unsent_limit(sending.told_limit).unwrap();
    let mut source = Counted { inner: StreamBuffer::new(10_000), choices: 0 };
    source.inner.write(&[7; 10_000]);
    let (mut manager, mut counts) = (Manager::default(), Statistics::default());
    for turn in 1..=2 {
        sending.transmit(Instant::ZERO, &socket, &mut source, &mut counts, &mut manager).unwrap();
        assert_eq!(source.choices, turn, "{} sent", counts.data_sent);
    }
    assert_eq!(counts.data_sent, 100);
    // A dropped datagram may be the reference of others: the choice is made anew.
    let gone =
        PulledAdu { token: 0, len: 0, meta: AduMeta::default(), apart: false, copy: Copied::First, is_fragment: false };
    sending.is_chosen = true;
    sending.give_up(&gone, false, &mut source);
    assert!(!sending.is_chosen);
}
