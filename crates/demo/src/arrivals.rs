//! Bytes that came out of a receiver, with their arrival times.

use std::io::Read;
use std::net::UdpSocket;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};

use timeous::clock;
use timeous::core::{Duration, Instant};

/// Socket read timeout, after which the end of the run is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Received bytes, chunk by chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    /// All bytes, in order.
    pub(crate) bytes: Vec<u8>,
    /// End offset and arrival time of each chunk.
    ends: Vec<(usize, Instant)>,
}

/// NAL unit of a byte stream, without start code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nal<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// Arrival time of its first byte.
    pub(crate) first: Instant,
    /// Arrival time of its last byte.
    pub(crate) last: Instant,
}

impl Arrivals {
    /// Adds a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8], at: Instant) {
        self.bytes.extend_from_slice(chunk);
        self.ends.push((self.bytes.len(), at));
    }

    /// Arrival time of the byte at `offset`.
    pub(crate) fn at(&self, offset: usize) -> Instant {
        let chunk = self.ends.partition_point(|&(end, _)| end <= offset);
        self.ends[chunk].1
    }

    /// NAL units of an H.264 byte stream (Annex B).
    pub(crate) fn nals(&self) -> Vec<Nal<'_>> {
        let starts = self.bytes.windows(3).enumerate().filter(|(_, code)| *code == [0, 0, 1]);
        let starts: Vec<usize> = starts.map(|(at, _)| at + 3).collect();
        let ends = starts.iter().skip(1).map(|next| next - 3).chain([self.bytes.len()]);
        let nal = |(&start, end): (&usize, usize)| {
            let zeros = self.bytes[start..end].iter().rev().take_while(|byte| **byte == 0).count();
            let bytes = &self.bytes[start..end - zeros];
            let last = start + bytes.len().checked_sub(1)?;
            Some(Nal { bytes, first: self.at(start), last: self.at(last) })
        };
        starts.iter().zip(ends).filter_map(nal).collect()
    }
}

/// Reads a pipe to its end.
pub(crate) fn read_pipe(mut pipe: ChildStdout) -> Arrivals {
    let (mut came, mut chunk) = (Arrivals::default(), vec![0; 1 << 16]);
    // An error counts as the end: what was received is evaluated.
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        came.push(&chunk[..count], clock::now());
    }
    came
}

/// Reads a socket until the run ends.
pub(crate) fn read_socket(socket: &UdpSocket, has_ended: &AtomicBool) -> Arrivals {
    let (mut came, mut datagram) = (Arrivals::default(), vec![0; 1 << 16]);
    socket.set_read_timeout(Some(LOOK.into())).expect("it is not zero");
    while !has_ended.load(Ordering::Relaxed) {
        if let Ok(count) = socket.recv(&mut datagram) {
            came.push(&datagram[..count], clock::now());
        }
    }
    came
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nal_units_have_the_times_of_their_first_and_last_bytes() {
        let [one, two, three] = [1, 2, 3].map(Instant::from_nanos);
        let mut arrivals = Arrivals::default();
        arrivals.push(&[0, 0, 0, 1, 0x67, 5, 0], one);
        arrivals.push(&[0, 0, 1, 0x65], two);
        arrivals.push(&[9, 8, 7], three);
        let nals = arrivals.nals();
        assert_eq!(nals[0], Nal { bytes: &[0x67, 5], first: one, last: one }, "zeros belong to the next start code");
        assert_eq!(nals[1..], [Nal { bytes: &[0x65, 9, 8, 7], first: two, last: three }]);
        assert!(Arrivals::default().nals().is_empty());
    }
}
