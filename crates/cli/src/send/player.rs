//! Receivers that know nothing of Timeous: players that read FLV or MPEG-TS by TCP or by HTTP.

use timeous::core::{FrameId, Priority};
use timeous::{Arrival, Hints, Receiver, SendError, Sender, Status, clock};

use super::request::{self, LONGEST_HEAD, Request};
use crate::place::{Player, Protocol, StreamContainer};

/// Time for which the head of a stream waits for the path, in seconds: as long as the stream itself.
const HEAD_LASTS: u64 = 24 * 3_600;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const REFUSAL: &[u8] =
    b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const GARBAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Player that has connected, until it has asked for the stream.
pub(super) struct Arriving {
    sender: Sender,
    receiver: Receiver,
    request: Vec<u8>,
    /// It was answered without the stream, and stays until it has read that.
    is_answered: bool,
}

/// State of a player that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// It still asks, or reads an answer without the stream.
    Busy,
    /// It waits for the stream, by this protocol.
    Ready(Protocol),
    Gone,
}

impl Arriving {
    pub(super) fn new((sender, receiver): (Sender, Receiver)) -> Self {
        Self { sender, receiver, request: Vec::new(), is_answered: false }
    }

    /// Reads more of the request for a stream in this container, and answers it.
    pub(super) fn greet(&mut self, container: StreamContainer) -> Greeting {
        if self.is_answered {
            let is_over = matches!(self.sender.status(), Status::Closed(_));
            return if is_over { Greeting::Gone } else { Greeting::Busy };
        }
        let mut is_over = false;
        while !is_over && self.request.len() <= LONGEST_HEAD {
            match self.receiver.poll_receive() {
                Ok(Some(Arrival::Data(data))) => self.request.extend_from_slice(&data.bytes),
                Ok(Some(Arrival::Nothing) | None) => break,
                Ok(Some(Arrival::End)) | Err(_) => is_over = true,
            }
        }
        let said = match request::read(&self.request) {
            Request::Incomplete => return if is_over { Greeting::Gone } else { Greeting::Busy },
            Request::Get { knows_chunks } => {
                let protocol = if knows_chunks { Protocol::Http } else { Protocol::Tcp };
                say(&mut self.sender, &answer(protocol, container));
                return Greeting::Ready(protocol);
            }
            Request::Head => &answer(Protocol::Http, container),
            Request::Other => REFUSAL,
            Request::Garbage => GARBAGE,
        };
        say(&mut self.sender, said);
        self.sender.begin_finish();
        self.is_answered = true;
        Greeting::Busy
    }

    pub(super) fn into_both(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

/// Answer to a request, before the stream. Each ADU is a chunk (RFC 9112 §7.1): without a last chunk, some players report an error. A
/// player of HTTP/1.0 knows no chunks (§6.1).
fn answer(protocol: Protocol, container: StreamContainer) -> Vec<u8> {
    let kind = match container {
        StreamContainer::Flv => "video/x-flv",
        StreamContainer::Ts => "video/mp2t",
    };
    let coding = if protocol == Protocol::Http { "Transfer-Encoding: chunked\r\n" } else { "" };
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\n{coding}Connection: close\r\n\r\n")
        .into_bytes()
}

/// Part of the stream as the player reads it.
pub(super) fn part(protocol: Protocol, bytes: Vec<u8>) -> Vec<u8> {
    match protocol {
        Protocol::Tcp => bytes,
        // A chunk without bytes would be the last one.
        Protocol::Http if bytes.is_empty() => bytes,
        Protocol::Http => [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat(),
    }
}

/// Bytes that end the stream.
pub(super) fn end(protocol: Protocol) -> Option<&'static [u8]> {
    (protocol == Protocol::Http).then_some(LAST_CHUNK)
}

/// Queues what belongs to no picture, and without which the stream cannot be read; `false`: there is no room.
pub(super) fn say(sender: &mut Sender, bytes: &[u8]) -> bool {
    let deadline = Some(clock::now() + timeous::core::Duration::from_secs(HEAD_LASTS));
    let hints = Hints { deadline, priority: Priority::HIGHEST, frame: FrameId::NONE, ..Hints::default() };
    // A connection that is gone is told by its status.
    !matches!(sender.send(bytes, hints), Err(SendError::Full))
}

/// Whether a player asks for the stream before it reads.
pub(super) fn asks(player: Option<Player>) -> bool {
    player.is_some_and(|player| player.protocol == Protocol::Http)
}
