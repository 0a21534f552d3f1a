//! Sending end: the source, and kernel TCP with and without an application that drops.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::mpsc::Receiver;

use rustix::event::{PollFd, PollFlags, poll};
use timeous::core::{Duration, Instant};
use timeous_engine::clock;
use timeous_testbed::machine::sleep_until;

use crate::datagram::Header;
use crate::trace::Trace;

/// `TCP_NOTSENT_LOWAT` as a sysctl of the namespace: unsent bytes below which the kernel asks an application that drops
/// for more; a datagram and its length.
pub(crate) const LOWAT: (&str, &str) = ("net/ipv4/tcp_notsent_lowat", "1002");

/// Sends each frame at its time, by calling `send` for its datagrams.
///
/// # Errors
/// The first error of `send`.
pub(crate) fn play(trace: &Trace, begin: Instant, mut send: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    for frame in &trace.frames {
        sleep_until(begin + frame.at);
        frame.datagrams(clock::now()).iter().try_for_each(|datagram| send(datagram))?;
    }
    Ok(())
}

fn write(mut stream: &TcpStream, datagram: &[u8]) -> io::Result<()> {
    let len = (datagram.len() as u16).to_be_bytes();
    stream.write_all(&[&len, datagram].concat())
}

/// Sends all datagrams from the channel in order, until the connection or the channel ends.
pub(crate) fn send_all(stream: &TcpStream, datagrams: &Receiver<Vec<u8>>) {
    while let Ok(datagram) = datagrams.recv() {
        if write(stream, &datagram).is_err() {
            return;
        }
    }
}

/// The same, but drops expired or undecodable datagrams when the kernel asks for more.
pub(crate) fn send_useful(stream: &TcpStream, datagrams: &Receiver<Vec<u8>>, deadline: Duration) {
    let mut waiting = SendBacklog { queue: VecDeque::new(), broken: BTreeSet::new(), deadline };
    loop {
        if waiting.queue.is_empty() {
            match datagrams.recv() {
                Ok(datagram) => waiting.queue.push_back(datagram),
                Err(_) => return,
            }
        }
        let wanted = PollFlags::OUT | PollFlags::HUP | PollFlags::ERR;
        let Ok(_) = poll(&mut [PollFd::new(stream, wanted)], None) else { return };
        waiting.queue.extend(datagrams.try_iter());
        if let Some(datagram) = waiting.next(clock::now())
            && write(stream, &datagram).is_err()
        {
            return;
        }
    }
}

/// Datagrams held back by an application while the kernel has enough.
struct SendBacklog {
    queue: VecDeque<Vec<u8>>,
    /// Frames with a part or a reference that was dropped.
    broken: BTreeSet<u32>,
    deadline: Duration,
}

impl SendBacklog {
    /// Returns the next useful datagram, and drops useless ones.
    fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        while let Some(datagram) = self.queue.pop_front() {
            let Some(header) = Header::read(&datagram) else { return Some(datagram) };
            let useless = now > header.at + self.deadline
                || self.broken.contains(&header.frame)
                || header.references.iter().any(|id| self.broken.contains(id));
            if !useless {
                return Some(datagram);
            }
            self.broken.insert(header.frame);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_drops_sends_nothing_expired_and_nothing_that_refers_to_it() {
        let ms = Duration::from_millis;
        let datagram = |frame: u32, piece, at, reference| {
            let at = Instant::ZERO + ms(at);
            let references = [reference, 0, 0, 0];
            Header { frame, piece, pieces: 2, kind: b'P', priority: 0, at, references }.datagram(100)
        };
        let sent = [
            datagram(1, 0, 0, 0),
            datagram(1, 1, 50, 0),
            datagram(2, 0, 60, 1),
            datagram(3, 0, 70, 2),
            datagram(4, 0, 80, 0),
        ];
        let mut waiting = SendBacklog { queue: sent.clone().into(), broken: BTreeSet::new(), deadline: ms(100) };
        assert_eq!(waiting.next(Instant::ZERO + ms(101)).as_ref(), Some(&sent[4]), "the only one of use");
        assert_eq!(waiting.next(Instant::ZERO + ms(101)), None);
        let mut waiting = SendBacklog { queue: sent.clone().into(), broken: BTreeSet::new(), deadline: ms(100) };
        assert_eq!(waiting.next(Instant::ZERO + ms(100)).as_ref(), Some(&sent[0]), "at its deadline it may go");
    }
}
