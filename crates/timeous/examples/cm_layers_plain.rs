//! Streams video in four layers, always all of them, without congestion control.
//!
//! `cm_layers_plain recv 127.0.0.1:7000` and then `cm_layers_plain send 127.0.0.1:7000 SECONDS`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a plain program")]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Packets of each layer in a frame. A layer is of use only together with those before it.
const LAYERS: [u8; 4] = [1, 1, 2, 4];
/// Bytes of a packet: 25 frames a second of 1, 2, 4 and 8 packets are 100, 200, 400 and 800 kbit/s.
const PACKET: usize = 500;
const INTERVAL: Duration = Duration::from_millis(40);
/// A receiver that hears nothing for so long takes the stream for ended.
const SILENCE: Duration = Duration::from_secs(2);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["recv", local] => println!("frames with 0 to 4 layers: {:?}", receive(&UdpSocket::bind(local)?)?),
        ["send", remote, seconds] => {
            let frames = seconds.parse::<u32>()? * 25;
            println!("{} packets sent", send(UdpSocket::bind("0.0.0.0:0")?, remote.parse()?, frames)?);
        }
        _ => return Err("recv ADDRESS:PORT, or send ADDRESS:PORT SECONDS".into()),
    }
    Ok(())
}

/// Sends so many frames; how many packets that took.
pub fn send(socket: UdpSocket, remote: SocketAddr, frames: u32) -> Outcome<u64> {
    socket.connect(remote)?;
    let mut packets = 0;
    let mut next = Instant::now();
    for frame in 0..frames {
        for (layer, part) in parts(LAYERS.len()) {
            socket.send(&packet(frame, layer, part))?;
            packets += 1;
        }
        next += INTERVAL;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(packets)
}

/// The packets of a frame of so many layers, the most important first.
fn parts(layers: usize) -> impl Iterator<Item = (u8, u8)> {
    (0..).zip(LAYERS).take(layers).flat_map(|(layer, count)| (0..count).map(move |part| (layer, part)))
}

fn packet(frame: u32, layer: u8, part: u8) -> Vec<u8> {
    let mut packet = frame.to_be_bytes().to_vec();
    packet.extend([layer, part]);
    // An encoder's work would stand here.
    packet.resize(PACKET, 0);
    packet
}

/// Receives a stream; how many frames could be shown with 0, 1, 2, 3 and 4 layers.
pub fn receive(socket: &UdpSocket) -> Outcome<[u32; 5]> {
    let mut buffer = [0; 1_500];
    // Of each frame, how many packets of each layer came.
    let mut frames: Vec<[u8; 4]> = Vec::new();
    while let Ok((len, _)) = socket.recv_from(&mut buffer) {
        socket.set_read_timeout(Some(SILENCE))?;
        let [a, b, c, d, layer, _, ..] = buffer[..len] else { continue };
        let frame = u32::from_be_bytes([a, b, c, d]) as usize;
        if frames.len() <= frame {
            frames.resize(frame + 1, [0; 4]);
        }
        frames[frame][usize::from(layer) % 4] += 1;
    }
    let mut shown = [0; 5];
    for came in frames {
        shown[came.iter().zip(LAYERS).take_while(|&(&came, all)| came >= all).count()] += 1;
    }
    Ok(shown)
}
