//! A plain byte stream as a send queue, like a socket's send buffer.

use std::collections::VecDeque;

use timeous_core::{AduMeta, AduSource, Copied, DropReason, Instant, PathState, PulledAdu};

/// Send buffer of bounded capacity, without record boundaries: a pull takes as much as there is room for.
///
/// ```
/// use timeous_tcp::StreamBuffer;
/// let mut stream = StreamBuffer::new(8);
/// assert_eq!(stream.write(b"0123456789"), 8);
/// assert_eq!(stream.room(), 0);
/// ```
#[derive(Debug, Default)]
pub struct StreamBuffer {
    bytes: VecDeque<u8>,
    capacity: usize,
    next_token: u64,
    closed: bool,
}

impl StreamBuffer {
    /// Creates an empty buffer for at most `capacity` unsent bytes.
    pub fn new(capacity: usize) -> Self {
        Self { bytes: VecDeque::new(), capacity, next_token: 0, closed: false }
    }

    /// Appends as many of `bytes` as there is room for, and returns their number. The connection must be woken
    /// afterwards.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let accepted = bytes.len().min(self.room());
        self.bytes.extend(&bytes[..accepted]);
        accepted
    }

    /// Returns the free capacity in bytes; zero once the connection has ended.
    pub fn room(&self) -> usize {
        if self.closed { 0 } else { self.capacity.saturating_sub(self.bytes.len()) }
    }

    /// Returns the number of unsent bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl AduSource for StreamBuffer {
    fn has_queued(&mut self, _: Instant) -> bool {
        !self.bytes.is_empty()
    }

    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let len = room.min(self.bytes.len());
        if len == 0 {
            return None;
        }
        let (front, back) = self.bytes.as_slices();
        let first = len.min(front.len());
        packet.extend_from_slice(&front[..first]);
        packet.extend_from_slice(&back[..len - first]);
        self.bytes.drain(..len);
        let token = self.next_token;
        self.next_token += 1;
        Some(PulledAdu { token, len, meta: AduMeta::default(), apart: false, copy: Copied::First, is_fragment: false })
    }

    fn waiting_bytes(&self) -> Option<u64> {
        Some(self.bytes.len() as u64)
    }

    fn sent(&mut self, _: u64) {}

    fn acked(&mut self, _: u64) {}

    fn lost(&mut self, _: u64) {}

    fn dropped(&mut self, _: u64, _: DropReason) {}

    fn close(&mut self) {
        self.closed = true;
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_whatever_the_room() {
        let mut stream = StreamBuffer::new(10);
        let mut packet = Vec::new();
        let mut written = 0_u8;
        for room in [3, 4, 1, 9, 10, 2, 7].repeat(20) {
            while stream.write(&[written]) == 1 {
                written = written.wrapping_add(1);
            }
            assert_eq!(stream.pull(Instant::ZERO, &PathState::default(), room, &mut packet).unwrap().len, room);
        }
        assert!(packet.iter().enumerate().all(|(n, &byte)| byte == n as u8));
    }

    #[test]
    fn an_ended_stream_takes_nothing() {
        let mut stream = StreamBuffer::new(10);
        stream.write(b"late");
        stream.close();
        assert_eq!((stream.len(), stream.write(b"later")), (0, 0));
    }
}
