//! Receiving datagrams over a TCP socket: in order or, with a packet tap, as soon as their segments arrive.

use std::io;

use timeous_core::Instant;
use timeous_seal::{Secrets, is_tls};
use timeous_tcp::record::Datagram;
use timeous_transport::Statistics;

use crate::config::{TcpConfig, TcpFraming, Unordered};
use crate::framing::Reader;
use crate::identity::END;
use crate::session::TcpSession;
use crate::socket::Socket;
use crate::tap::{Tap, TapObservation};

/// Size of the read buffer, in bytes. Chosen by us: a higher value takes more memory and fewer system calls.
const BUFFER: usize = 64 * 1024;
/// Maximum number of reads per turn, so that other streams have theirs. Chosen by us: a higher value costs fewer
/// wake-ups and delays the others.
const TURN: u32 = 16;

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Receiving {
    reader: Reader,
    tap: Option<Tap>,
    buffer: Vec<u8>,
    /// Whether the next bytes are the first of a plain stream.
    may_be_tls: bool,
    end: PeerEnd,
}

/// Stream that datagrams are delivered to, with its counters.
pub(crate) struct Sink<'a, S> {
    pub(crate) now: Instant,
    pub(crate) session: &'a mut S,
    pub(crate) counts: &'a mut Statistics,
}

impl<S: TcpSession> Sink<'_, S> {
    /// Delivers a datagram, or notes what a control message tells of the peer's `end`.
    fn deliver(&mut self, Datagram { substream, is_control, payload, .. }: Datagram<'_>, end: &mut PeerEnd) {
        if is_control {
            if payload == END && *end == PeerEnd::Awaited {
                *end = PeerEnd::Said;
            }
            return;
        }
        self.counts.data_received += 1;
        self.counts.bytes_received += payload.len() as u64;
        self.session.received(self.now, substream, payload.to_vec());
    }
}

/// Knowledge of the end of the peer's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerEnd {
    /// Whoever is on the path may end a plain stream.
    Unauthenticated,
    /// The record that ends an encrypted stream has not come.
    Awaited,
    Said,
}

impl Receiving {
    /// # Errors
    /// The tap, if it is required and not available.
    pub(crate) fn new(config: &TcpConfig, socket: &Socket, secrets: Option<&Secrets>) -> io::Result<Self> {
        let tap = tap(config, socket)?;
        let reader = if tap.is_some() { Reader::tapped(config, secrets) } else { Reader::new(config, secrets) };
        let end = if secrets.is_some() { PeerEnd::Awaited } else { PeerEnd::Unauthenticated };
        Ok(Self { reader, tap, buffer: vec![0; BUFFER], may_be_tls: secrets.is_none(), end })
    }

    /// Reads and delivers incoming data; returns `true` at the end of the stream.
    ///
    /// The socket comes before the tap: data that arrived before the tap was open, or that is in order, keeps its order.
    ///
    /// # Errors
    /// The system's. `InvalidData`: the peer encrypts, and this end does not. `ConnectionReset`: an encrypted stream ends without the
    /// peer's word.
    pub(crate) fn receive(&mut self, socket: &mut Socket, mut sink: Sink<'_, impl TcpSession>) -> io::Result<bool> {
        let ended = self.read_socket(socket, &mut sink);
        self.look(&mut sink);
        ended
    }

    fn read_socket(&mut self, socket: &mut Socket, sink: &mut Sink<'_, impl TcpSession>) -> io::Result<bool> {
        for turn in 0..TURN {
            let Some(len) = socket.receive(&mut self.buffer)? else {
                if turn > 0 {
                    socket.acknowledge_at_once();
                }
                break;
            };
            if len == 0 {
                let is_in_order = self.end != PeerEnd::Awaited;
                return if is_in_order { Ok(true) } else { Err(io::ErrorKind::ConnectionReset.into()) };
            }
            let buffer = std::mem::take(&mut self.buffer);
            let taken = self.take_in(&buffer[..len], sink);
            self.buffer = buffer;
            taken?;
        }
        Ok(false)
    }

    /// Processes bytes that were read elsewhere.
    ///
    /// # Errors
    /// `InvalidData`: the peer encrypts, and this end does not.
    pub(crate) fn take_in(&mut self, bytes: &[u8], sink: &mut Sink<'_, impl TcpSession>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.may_be_tls) && is_tls(bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        sink.counts.packets_received += 1;
        self.reader.push(bytes, |datagram| sink.deliver(datagram, &mut self.end));
        (sink.counts.malformed, sink.counts.duplicates) = self.reader.refused();
        Ok(())
    }

    /// Reads tapped segments. If the tap fails, all data still arrives in order by the socket.
    fn look(&mut self, sink: &mut Sink<'_, impl TcpSession>) {
        let end = &mut self.end;
        let (Some(tap), Reader::Tapped(reader)) = (&mut self.tap, &mut self.reader) else { return };
        let done = tap.look(|sight| match sight {
            TapObservation::Passed(upto) => reader.passed(upto),
            TapObservation::Data(at, data) => {
                reader.see(at, data, |datagram| sink.deliver(datagram, end));
            }
        });
        if let Err(error) = done {
            tracing::warn!(%error, "the packet tap has failed: datagrams are received in order from now on");
            self.tap = None;
        }
    }

    pub(crate) fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }

    /// Returns whether there is a tap, and the number of datagrams that it delivered first.
    pub(crate) fn tapped(&self) -> (bool, u64) {
        (self.tap.is_some(), self.reader.early())
    }
}

/// Opens the tap, if one is configured and available.
fn tap(config: &TcpConfig, socket: &Socket) -> io::Result<Option<Tap>> {
    if config.unordered == Unordered::Off || config.framing != TcpFraming::Records {
        return Ok(None);
    }
    let opened = socket.info().and_then(|info| Tap::open(socket.local()?, socket.peer()?, info.window_scale()));
    match opened {
        Ok(tap) => Ok(Some(tap)),
        Err(error) if config.unordered == Unordered::Require => Err(error),
        Err(error) => {
            tracing::warn!(%error, "no packet tap: datagrams are received in order");
            Ok(None)
        }
    }
}
