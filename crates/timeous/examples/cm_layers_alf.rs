//! Streams video in four layers, and decides at each grant of the Congestion Manager which layer to send:
//! `cm_layers_plain` with requests and callbacks.
//!
//! `cm_layers_alf recv 127.0.0.1:7000` and then `cm_layers_alf send 127.0.0.1:7000 SECONDS`

use std::collections::VecDeque;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use timeous::clock;
use timeous::cm::{Ack, Acks, CongestionManager, Event, Feedback, FlowId, ManagerLocation};

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
    socket.set_nonblocking(true)?;
    let cm = CongestionManager::open(ManagerLocation::InProcess)?;
    let flow = cm.open_to(remote, PACKET as u64)?;
    let (mut feedback, mut requested) = (Feedback::default(), 0);
    let mut packets = 0;
    let mut next = clock::now();
    for frame in 0..frames {
        // Packets of the previous frame that were not sent are stale.
        let mut fresh = parts(LAYERS.len()).collect::<VecDeque<_>>();
        cm.request_many(flow, fresh.len() as u32 - requested)?;
        requested = fresh.len() as u32;
        next += INTERVAL.into();
        while clock::now() < next {
            cm.wait_with(&socket, feedback.poll_timeout().into_iter().chain([next]).min());
            while let Some(event) = cm.poll_event() {
                let Event::Granted(_) = event else { continue };
                requested -= 1;
                let Some((layer, part)) = fresh.pop_front() else {
                    cm.answer_grant(flow, 0)?;
                    continue;
                };
                let number = feedback.sent(clock::now(), PACKET as u64);
                socket.send(&packet(number, frame, layer, part))?;
                cm.answer_grant(flow, PACKET as u64)?;
                packets += 1;
            }
            hear(&cm, flow, &socket, &mut feedback)?;
        }
    }
    Ok(packets)
}

/// Tells the manager what the receiver says, and if it says nothing.
fn hear(cm: &CongestionManager, flow: FlowId, socket: &UdpSocket, feedback: &mut Feedback) -> Outcome<()> {
    let mut buffer = [0; 1_500];
    while let Ok(len) = socket.recv(&mut buffer) {
        if let Some(update) = feedback.acked(clock::now(), &Ack::decode(&buffer[..len])?)? {
            cm.update(flow, update)?;
        }
    }
    if let Some(update) = feedback.handle_timeout(clock::now()) {
        cm.update(flow, update)?;
    }
    Ok(())
}

/// The packets of a frame of so many layers, the most important first.
fn parts(layers: usize) -> impl Iterator<Item = (u8, u8)> {
    (0..).zip(LAYERS).take(layers).flat_map(|(layer, count)| (0..count).map(move |part| (layer, part)))
}

fn packet(number: u64, frame: u32, layer: u8, part: u8) -> Vec<u8> {
    let mut packet = [&number.to_be_bytes()[..], &frame.to_be_bytes()].concat();
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
    let mut acks = Acks::every(1, timeous::core::Duration::ZERO);
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        socket.set_read_timeout(Some(SILENCE))?;
        let Some((number, [a, b, c, d, layer, _, ..])) = buffer[..len].split_first_chunk() else { continue };
        acks.received(clock::now(), u64::from_be_bytes(*number));
        if let Some(ack) = acks.poll_ack(clock::now()) {
            socket.send_to(&ack.encode(), from)?;
        }
        let frame = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if frames.len() <= frame {
            frames.resize(frame + 1, [0; 4]);
        }
        frames[frame][usize::from(*layer) % 4] += 1;
    }
    let mut shown = [0; 5];
    for came in frames {
        shown[came.iter().zip(LAYERS).take_while(|&(&came, all)| came >= all).count()] += 1;
    }
    Ok(shown)
}
