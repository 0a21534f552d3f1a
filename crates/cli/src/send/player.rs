//! Receivers that know nothing of Timeous: players that read FLV by TCP or by HTTP.

use timeous::core::{FrameId, Priority};
use timeous::{Arrival, Hints, Receiver, SendError, Sender, Status, clock};

use crate::place::Player;

/// Longest head of a request, in bytes. Chosen by us: browsers with many cookies stay below; a higher value takes more memory.
const LONGEST_HEAD: usize = 16 * 1024;
/// Most fields of a request. Chosen by us, as the one above.
const MOST_FIELDS: usize = 64;
/// Time for which the head of a stream waits for the path, in seconds: as long as the stream itself.
const HEAD_LASTS: u64 = 24 * 3_600;
/// Answer to a request, before the stream. Each ADU is a chunk (RFC 9112 §7.1): without a last chunk, some players report an error.
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\nCache-Control: no-store\r\n\
    Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
/// The same to a player of HTTP/1.0, which knows no chunks (§6.1).
const PLAIN: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";
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
    /// It waits for the stream, to be read as this.
    Ready(Player),
    Gone,
}

/// State of a request.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Incomplete,
    Get(Player),
    /// As GET, without the stream (RFC 9110 §9.3.2).
    Head,
    /// Another method.
    Other,
    Garbage,
}

impl Arriving {
    pub(super) fn new((sender, receiver): (Sender, Receiver)) -> Self {
        Self { sender, receiver, request: Vec::new(), is_answered: false }
    }

    /// Reads more of the request, and answers it.
    pub(super) fn greet(&mut self) -> Greeting {
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
        let answer = match read(&self.request) {
            Request::Incomplete => return if is_over { Greeting::Gone } else { Greeting::Busy },
            Request::Get(player) => {
                say(&mut self.sender, if player == Player::Http { CHUNKED } else { PLAIN });
                return Greeting::Ready(player);
            }
            Request::Head => CHUNKED,
            Request::Other => REFUSAL,
            Request::Garbage => GARBAGE,
        };
        say(&mut self.sender, answer);
        self.sender.begin_finish();
        self.is_answered = true;
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
        Ok(httparse::Status::Complete(_)) => match (request.method, request.version) {
            (Some("GET"), Some(0)) => Request::Get(Player::Tcp),
            (Some("GET"), _) => Request::Get(Player::Http),
            (Some("HEAD"), _) => Request::Head,
            _ => Request::Other,
        },
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

/// Bytes that end the stream.
pub(super) fn end(player: Player) -> Option<&'static [u8]> {
    (player == Player::Http).then_some(LAST_CHUNK)
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
        assert_eq!(read(get), Request::Get(Player::Http));
        assert_eq!(read(b"GET / HTTP/1.0\r\n\r\n"), Request::Get(Player::Tcp), "it knows no chunks");
        assert_eq!(read(b"HEAD / HTTP/1.1\r\n\r\n"), Request::Head);
        assert_eq!(read(b"POST / HTTP/1.1\r\n\r\n"), Request::Other);
        assert_eq!(read(b"\x16\x03\x01\x02\x00"), Request::Garbage);
        assert_eq!(read(&[&b"GET / HTTP/1.1\r\nA: "[..], &vec![b'x'; LONGEST_HEAD]].concat()), Request::Garbage);
    }
}
