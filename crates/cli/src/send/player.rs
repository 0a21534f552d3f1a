//! Receivers that know nothing of Timeous: players that read FLV by TCP or by HTTP.

use timeous::core::{FrameId, Priority};
use timeous::{Arrival, Hints, Receiver, Sender, Status, clock};

use crate::place::Player;

/// Longest head of a request, in bytes. Chosen by us: browsers with many cookies stay below; a higher value takes more memory.
const LONGEST_HEAD: usize = 16 * 1024;
/// Most fields of a request. Chosen by us, as the one above.
const MOST_FIELDS: usize = 64;
/// Time for which the head of a stream waits for the path, in seconds: as long as the stream itself.
const HEAD_LASTS: u64 = 24 * 3_600;
/// Answer to a request, before the stream. Each ADU is a chunk (RFC 9112 §7.1): without a last chunk, some players report an error.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\nCache-Control: no-store\r\n\
    Access-Control-Allow-Origin: *\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const REFUSAL: &[u8] =
    b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const GARBAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Player that has connected, until it has asked for the stream.
pub(super) struct Arriving {
    sender: Sender,
    receiver: Receiver,
    request: Vec<u8>,
    /// It hears why it gets nothing.
    is_refused: bool,
}

/// State of a player that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// It still asks, or hears why it gets nothing.
    Busy,
    /// It waits for the stream.
    Ready,
    Gone,
}

/// State of a request.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Incomplete,
    Get,
    /// Another method.
    Other,
    Garbage,
}

impl Arriving {
    pub(super) fn new((sender, receiver): (Sender, Receiver)) -> Self {
        Self { sender, receiver, request: Vec::new(), is_refused: false }
    }

    /// Reads more of the request, and answers it.
    pub(super) fn greet(&mut self) -> Greeting {
        if self.is_refused {
            let is_over = matches!(self.sender.status(), Status::Closed(_));
            return if is_over { Greeting::Gone } else { Greeting::Busy };
        }
        loop {
            match self.receiver.poll_receive() {
                Ok(Some(Arrival::Data(data))) => self.request.extend_from_slice(&data.bytes),
                Ok(Some(Arrival::Nothing) | None) => break,
                Ok(Some(Arrival::End)) | Err(_) => return Greeting::Gone,
            }
        }
        let refusal = match read(&self.request) {
            Request::Incomplete => return Greeting::Busy,
            Request::Get => {
                say(&mut self.sender, ANSWER);
                return Greeting::Ready;
            }
            Request::Other => REFUSAL,
            Request::Garbage => GARBAGE,
        };
        say(&mut self.sender, refusal);
        self.sender.begin_finish();
        self.is_refused = true;
        Greeting::Busy
    }

    pub(super) fn into_both(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

fn read(bytes: &[u8]) -> Request {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) if request.method == Some("GET") => Request::Get,
        Ok(httparse::Status::Complete(_)) => Request::Other,
        Ok(httparse::Status::Partial) if bytes.len() <= LONGEST_HEAD => Request::Incomplete,
        Ok(httparse::Status::Partial) | Err(_) => Request::Garbage,
    }
}

/// Part of the stream as the player reads it.
pub(super) fn part(player: Player, bytes: Vec<u8>) -> Vec<u8> {
    match player {
        Player::Tcp => bytes,
        Player::Http => [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat(),
    }
}

/// What ends the stream.
pub(super) fn end(player: Player) -> Option<&'static [u8]> {
    (player == Player::Http).then_some(LAST_CHUNK)
}

/// Queues what belongs to no picture, and without which the stream cannot be read.
pub(super) fn say(sender: &mut Sender, bytes: &[u8]) {
    let deadline = Some(clock::now() + timeous::core::Duration::from_secs(HEAD_LASTS));
    let hints = Hints { deadline, priority: Priority::HIGHEST, frame: FrameId::NONE, ..Hints::default() };
    // A connection that is gone is told by its status.
    let _ = sender.send(bytes, hints);
}

/// Whether a player asks for the stream before it reads.
pub(super) fn asks(player: Option<Player>) -> bool {
    player == Some(Player::Http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_however_it_comes() {
        let get = b"GET /live HTTP/1.1\r\nHost: camera\r\n\r\n";
        for end in 0..get.len() {
            assert_eq!(read(&get[..end]), Request::Incomplete, "{end} bytes");
        }
        assert_eq!(read(get), Request::Get);
        assert_eq!(read(b"POST / HTTP/1.1\r\n\r\n"), Request::Other);
        assert_eq!(read(b"\x16\x03\x01\x02\x00"), Request::Garbage);
        assert_eq!(read(&[&b"GET / HTTP/1.1\r\nA: "[..], &vec![b'x'; LONGEST_HEAD]].concat()), Request::Garbage);
    }
}
