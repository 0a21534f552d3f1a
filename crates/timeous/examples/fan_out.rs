//! One stream to many receivers: each packet is written once, into a zone, and sent from there to all of them.
//!
//! A hundred subscribers call; two hundred packets of 1 000 bytes go to each of them. Prints the number of packets that
//! arrived, the bytes that were written, and the bytes that queueing has copied, which is zero.
//!
//! `cargo run -p timeous --example fan_out`

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use timeous::core::Duration;
use timeous::{Arrival, Hints, Listener, Receiver, Sender, Waker, Zone, clock};

const SUBSCRIBERS: usize = 100;
const PACKETS: usize = 200;
const PAYLOAD: usize = 1_000;
const INTERVAL: Duration = Duration::from_millis(5);

fn main() -> Result<(), Box<dyn Error>> {
    // Both ends run here; real subscribers have the publisher's name in their URI.
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    // Without repair: a stream that may send lost packets again keeps a copy of each.
    let listener = Listener::open(&format!("timeous://:{port}?latency=500ms&policy=deadline&repair=off").parse()?)?;
    let subscribers = thread::spawn(move || subscribe(port).map_err(|error| error.to_string()));
    let (written, copied) = publish(listener)?;
    let received = subscribers.join().map_err(|_| "a subscriber has panicked")??;
    println!(
        "{received} packets received by {SUBSCRIBERS} subscribers; {written} bytes written, {copied} bytes copied"
    );
    Ok(())
}

/// Accepts the subscribers, and sends them all the same packets.
fn publish(mut listener: Listener) -> Result<(usize, u64), Box<dyn Error>> {
    let mut streams: Vec<Sender> = Vec::new();
    while streams.len() < SUBSCRIBERS {
        // Both directions are there; subscribers have nothing to say.
        let (sender, _receiver) = listener.accept(None)?.ok_or("nobody has called")?.accept();
        streams.push(sender);
    }
    // Room for what the slowest subscriber may queue: 100 packets until their deadline, and as many more. A buffer that
    // was never used takes no memory.
    let zone = Zone::new(4_096, 200)?;
    let mut written = 0;
    let mut next = clock::now();
    let pause = Waker::new()?;
    for packet in 0..PACKETS {
        let mut buffer = zone.buffer()?;
        buffer.truncate(PAYLOAD);
        buffer.bytes_mut().fill(packet as u8);
        written += buffer.len();
        let buffer = buffer.freeze();
        for sender in &mut streams {
            // Another reference to the buffer, and no copy.
            sender.send_shared(&buffer, Hints::default())?;
        }
        next += INTERVAL;
        pause.wait(Some(next.saturating_since(clock::now())));
        // Streams let go of sent buffers when they are asked for fates.
        for sender in &mut streams {
            while sender.poll_delivery().is_some() {}
        }
    }
    let copied = streams.iter_mut().map(|sender| sender.ring().copied_bytes()).sum();
    for sender in streams {
        sender.finish()?;
    }
    Ok((written, copied))
}

/// Calls as many subscribers, and counts the packets that they get.
fn subscribe(port: u16) -> Result<usize, Box<dyn Error>> {
    let uri = format!("timeous://{}", SocketAddr::from(([127, 0, 0, 1], port))).parse()?;
    let called: Result<Vec<Receiver>, _> = (0..SUBSCRIBERS).map(|_| Receiver::open(&uri)).collect();
    let mut received = 0;
    for mut receiver in called? {
        while let Arrival::Data(_) = receiver.receive(None)? {
            received += 1;
        }
    }
    Ok(received)
}
