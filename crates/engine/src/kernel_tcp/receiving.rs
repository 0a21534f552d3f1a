//! What comes over a socket, in order, as datagrams.

use std::io;

use timeous_core::Instant;
use timeous_dccp::Statistics;

use super::framing::Reader;
use super::socket::Socket;
use crate::carrier::TcpConfig;
use crate::inbox::Received;
use crate::session::Session;

/// As much is read in one call.
const BUFFER: usize = 64 * 1024;
/// And so often in one turn, so that other streams have theirs.
const TURN: u32 = 16;

/// The receiving side of a connection.
#[derive(Debug)]
pub(super) struct Receiving {
    reader: Reader,
    buffer: Vec<u8>,
}

impl Receiving {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self { reader: Reader::new(config), buffer: vec![0; BUFFER] }
    }

    /// Takes in what has come; `true` when nothing will come any more.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        socket: &mut Socket,
        session: &mut Session,
        counts: &mut Statistics,
    ) -> io::Result<bool> {
        for _ in 0..TURN {
            let Some(len) = socket.receive(&mut self.buffer)? else { break };
            if len == 0 {
                return Ok(true);
            }
            read(&mut self.reader, now, &self.buffer[..len], session, counts);
        }
        Ok(false)
    }

    /// Takes in what was read elsewhere.
    pub(super) fn take_in(&mut self, now: Instant, bytes: &[u8], session: &mut Session, counts: &mut Statistics) {
        read(&mut self.reader, now, bytes, session, counts);
    }
}

fn read(reader: &mut Reader, now: Instant, bytes: &[u8], session: &mut Session, counts: &mut Statistics) {
    counts.packets_received += 1;
    reader.push(bytes, |substream, datagram| {
        counts.data_received += 1;
        counts.bytes_received += datagram.len() as u64;
        session.received(Received { bytes: datagram.to_vec(), at: now, substream });
    });
    (counts.malformed, counts.duplicates) = reader.refused();
}
