//! Streams telephone audio at its constant rate of 64 kbit/s, whatever the path can carry.
//!
//! `cm_audio_plain recv 127.0.0.1:7000` and then `cm_audio_plain send 127.0.0.1:7000 SECONDS`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a plain program")]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes of sound in a packet, behind its number: 20 ms of G.711.
const SOUND: usize = 160;
const INTERVAL: Duration = Duration::from_millis(20);
/// A receiver that hears nothing for so long takes the call for ended.
const SILENCE: Duration = Duration::from_secs(2);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Packets that have left.
    pub packets: u32,
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
    let mut sent = Sent::default();
    let mut next = Instant::now();
    for number in 0..count {
        socket.send(&packet(number))?;
        sent.packets += 1;
        next += INTERVAL;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
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
    while let Ok((len, _)) = socket.recv_from(&mut buffer) {
        socket.set_read_timeout(Some(SILENCE))?;
        let [a, b, c, d, ..] = buffer[..len] else { continue };
        heard.push(u32::from_be_bytes([a, b, c, d]));
    }
    Ok(heard)
}
