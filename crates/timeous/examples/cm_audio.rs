//! Streams telephone audio at its constant rate of 64 kbit/s as far as the path carries it: `cm_audio_plain` with a
//! policer and a buffer that drops from its head, as vat with the Congestion Manager (Andersen et al. §3.6, figure 2).
//!
//! `cm_audio recv 127.0.0.1:7000` and then `cm_audio send 127.0.0.1:7000 SECONDS`

use std::collections::VecDeque;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use timeous::clock;
use timeous::cm::{Ack, Acks, CongestionManager, Event, Feedback, ManagerLocation};

/// Bytes of sound in a packet, behind its number: 20 ms of G.711.
const SOUND: usize = 160;
const PACKET: usize = 8 + 4 + SOUND;
const INTERVAL: Duration = Duration::from_millis(20);
/// So far behind the newest a packet may wait for a grant; so many the policer lets pass in a row.
const BUFFER: u32 = 5;
const BURST: u64 = 5;
/// A receiver that hears nothing for so long takes the call for ended.
const SILENCE: Duration = Duration::from_secs(2);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Packets that have left.
    pub packets: u32,
    /// Packets that the policer has taken out: the path carries less than the audio has.
    pub policed: u32,
    /// Packets dropped from the head of the buffer.
    pub stale: u32,
    /// By how many packets one that left was behind the newest, at most.
    pub behind: u32,
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["recv", local] => println!("{} packets heard", receive(&UdpSocket::bind(local)?)?.len()),
        ["send", remote, seconds] => {
            let count = seconds.parse::<u32>()? * 50;
            println!("{:?}", send(UdpSocket::bind("0.0.0.0:0")?, remote.parse()?, count)?);
        }
        _ => return Err("recv ADDRESS:PORT, or send ADDRESS:PORT SECONDS".into()),
    }
    Ok(())
}

/// Sends so many packets of sound.
pub fn send(socket: UdpSocket, remote: SocketAddr, count: u32) -> Outcome<Sent> {
    socket.connect(remote)?;
    socket.set_nonblocking(true)?;
    let cm = CongestionManager::open(ManagerLocation::InProcess)?;
    let flow = cm.open_to(remote, PACKET as u64)?;
    let (mut feedback, mut waiting) = (Feedback::default(), VecDeque::new());
    let (mut tokens, mut requested) = (0, 0);
    let mut buffer = [0; 1_500];
    let mut sent = Sent::default();
    let mut next = clock::now();
    for newest in 0..count {
        let path = cm.query(flow)?;
        tokens = (tokens + path.rate.bytes_in(INTERVAL.into())).min(BURST * PACKET as u64);
        if path.srtt.is_some() && tokens < PACKET as u64 {
            sent.policed += 1;
        } else {
            tokens = tokens.saturating_sub(PACKET as u64);
            waiting.push_back(newest);
        }
        while waiting.front().is_some_and(|oldest| newest - oldest > BUFFER) {
            waiting.pop_front();
            sent.stale += 1;
        }
        if requested < waiting.len() {
            cm.request(flow)?;
            requested += 1;
        }
        next += INTERVAL.into();
        while clock::now() < next {
            cm.wait_with(&socket, feedback.poll_timeout().into_iter().chain([next]).min());
            while let Some(event) = cm.poll_event() {
                let Event::Granted(_) = event else { continue };
                requested -= 1;
                let Some(number) = waiting.pop_front() else {
                    cm.answer_grant(flow, 0)?;
                    continue;
                };
                socket
                    .send(&[&feedback.sent(clock::now(), PACKET as u64).to_be_bytes(), &packet(number)[..]].concat())?;
                cm.answer_grant(flow, PACKET as u64)?;
                sent.packets += 1;
                sent.behind = sent.behind.max(newest - number);
            }
            while let Ok(len) = socket.recv(&mut buffer) {
                if let Some(update) = feedback.acked(clock::now(), &Ack::decode(&buffer[..len])?)? {
                    cm.update(flow, update)?;
                }
            }
            if let Some(update) = feedback.handle_timeout(clock::now()) {
                cm.update(flow, update)?;
            }
        }
    }
    Ok(sent)
}

fn packet(number: u32) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    // A microphone's work would stand here.
    packet.resize(4 + SOUND, 0xff);
    packet
}

/// Receives a call; the numbers of the packets that were heard, in their order.
pub fn receive(socket: &UdpSocket) -> Outcome<Vec<u32>> {
    let mut buffer = [0; 1_500];
    let mut heard: Vec<u32> = Vec::new();
    let mut acks = Acks::every(1, timeous::core::Duration::ZERO);
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        socket.set_read_timeout(Some(SILENCE))?;
        let Some((number, &[a, b, c, d, ..])) = buffer[..len].split_first_chunk() else { continue };
        acks.received(clock::now(), u64::from_be_bytes(*number));
        if let Some(ack) = acks.poll_ack(clock::now()) {
            socket.send_to(&ack.encode(), from)?;
        }
        heard.push(u32::from_be_bytes([a, b, c, d]));
    }
    Ok(heard)
}
