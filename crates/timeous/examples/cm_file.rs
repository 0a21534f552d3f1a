//! Sends a file in datagrams as fast as the path allows, and retransmits lost ones: `cm_file_plain` with the Congestion
//! Manager's buffered socket.
//!
//! `cm_file recv 127.0.0.1:7000 COPY` and then `cm_file send 127.0.0.1:7000 FILE`

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use timeous::clock;
use timeous::cm::{Ack, Acks, BufferedSocket, CongestionManager, ManagerLocation};

/// Bytes of the file in a datagram, behind the number of the chunk.
const CHUNK: usize = 1_000;
/// In place of a chunk's number: "what is missing?", and how many bytes the file has.
const QUESTION: u64 = u64::MAX;
/// An answer names so many chunks at most.
const ANSWER: usize = 120;
const PATIENCE: Duration = Duration::from_millis(800);
/// No more waits in the socket, so that a question does not wait for long.
const WAITING: usize = 16 << 10;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["recv", local, path] => std::fs::write(path, receive(&UdpSocket::bind(local)?)?)?,
        ["send", remote, path] => {
            let packets = send(UdpSocket::bind("0.0.0.0:0")?, remote.parse()?, &std::fs::read(path)?)?;
            println!("arrived, with {packets} packets");
        }
        _ => return Err("recv ADDRESS:PORT FILE, or send ADDRESS:PORT FILE".into()),
    }
    Ok(())
}

/// Sends a file to a receiver; how many packets that took.
pub fn send(socket: UdpSocket, remote: SocketAddr, file: &[u8]) -> Outcome<u64> {
    let mut line = Line::open(socket, remote)?;
    let mut missing: Vec<u64> = (0..file.len().div_ceil(CHUNK) as u64).collect();
    let mut packets = 0;
    while !missing.is_empty() {
        for number in missing {
            let chunk = file.chunks(CHUNK).nth(number as usize).ok_or("there is no such chunk")?;
            line.send(&[&number.to_be_bytes(), chunk].concat())?;
            packets += 1;
        }
        missing = ask(&mut line, file.len() as u64)?;
    }
    Ok(packets)
}

/// Asks the receiver what is missing, until it answers.
fn ask(line: &mut Line, len: u64) -> Outcome<Vec<u64>> {
    loop {
        line.send(&[QUESTION.to_be_bytes(), len.to_be_bytes()].concat())?;
        if let Some(answer) = line.recv()? {
            return Ok(answer.chunks_exact(8).map(number).collect());
        }
    }
}

/// A socket that sends as it is granted, and numbers what it sends.
struct Line {
    socket: BufferedSocket,
    sent: u64,
}

impl Line {
    fn open(socket: UdpSocket, remote: SocketAddr) -> Outcome<Self> {
        let cm = CongestionManager::open(ManagerLocation::InProcess)?;
        let mut socket = BufferedSocket::new(&cm, socket)?.with_capacity(WAITING).with_feedback();
        socket.connect(remote)?;
        Ok(Self { socket, sent: 0 })
    }

    fn send(&mut self, packet: &[u8]) -> Outcome<()> {
        let packet = [&self.sent.to_be_bytes(), packet].concat();
        self.sent += 1;
        while let Err(error) = self.socket.send(&packet) {
            if error.kind() != std::io::ErrorKind::WouldBlock {
                return Err(error.into());
            }
            self.socket.wait(None);
            self.read()?;
        }
        Ok(())
    }

    /// Receives a datagram other than an acknowledgement; `None` after a while with an empty send queue.
    fn recv(&mut self) -> Outcome<Option<Vec<u8>>> {
        let mut until = clock::now() + PATIENCE.into();
        while self.socket.wait(Some(until)) {
            if let Some(answer) = self.read()? {
                return Ok(Some(answer));
            }
            if self.socket.queued() > 0 {
                until = clock::now() + PATIENCE.into();
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Outcome<Option<Vec<u8>>> {
        let mut buffer = [0; 1_500];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            match Ack::decode(&buffer[..len]) {
                Ok(ack) => self.socket.acked(&ack)?,
                Err(_) => return Ok(Some(buffer[..len].to_vec())),
            }
        }
        Ok(None)
    }
}

/// Receives a file.
pub fn receive(socket: &UdpSocket) -> Outcome<Vec<u8>> {
    let mut buffer = [0; 1_500];
    let mut chunks: Vec<Option<Vec<u8>>> = Vec::new();
    let mut complete = false;
    let mut acks = Acks::every(1, timeous::core::Duration::ZERO);
    loop {
        // When all has arrived, the sender may not know it yet.
        let (len, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(_) if complete => return Ok(chunks.into_iter().flatten().flatten().collect()),
            Err(error) => return Err(error.into()),
        };
        let Some((packet, datagram)) = buffer[..len].split_at_checked(8) else { continue };
        acks.received(clock::now(), number(packet));
        if let Some(ack) = acks.poll_ack(clock::now()) {
            socket.send_to(&ack.encode(), from)?;
        }
        let Some((head, data)) = datagram.split_at_checked(8) else { continue };
        let place = if number(head) == QUESTION { number(data).div_ceil(CHUNK as u64) } else { number(head) + 1 };
        if chunks.len() < place as usize {
            chunks.resize(place as usize, None);
        }
        if number(head) == QUESTION {
            let missing = (0..chunks.len()).filter(|&place| chunks[place].is_none()).take(ANSWER);
            let answer: Vec<u8> = missing.flat_map(|place| (place as u64).to_be_bytes()).collect();
            socket.send_to(&answer, from)?;
            complete = answer.is_empty();
            socket.set_read_timeout(complete.then_some(4 * PATIENCE))?;
        } else {
            chunks[place as usize - 1] = Some(data.to_vec());
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}
