//! Sender and receiver, with a thread each: sensor readings that expire after 200 ms.
//!
//! `cargo run -p timeous --example blocking`

use std::error::Error;
use std::net::UdpSocket;
use std::thread;

use timeous::core::{Duration, Fate};
use timeous::{Arrival, Hints, Listener, Sender, clock};

const READINGS: u32 = 25;
const INTERVAL: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    // Both ends run here; a real receiver has its port in its URI, and a real sender the receiver's name.
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    // Without a host it listens. From now on somebody may call.
    let listener = Listener::open(&format!("timeous://:{port}").parse()?)?;
    let receiver = thread::spawn(move || receive(listener).map_err(|error| error.to_string()));
    send(port)?;
    let received = receiver.join().map_err(|_| "the receiver has panicked")??;
    println!("{received} of {READINGS} readings received");
    Ok(())
}

fn send(port: u16) -> Result<(), Box<dyn Error>> {
    // Opening waits until the receiver has answered.
    let mut sender = Sender::open(&format!("timeous://127.0.0.1:{port}?latency=200ms&policy=deadline").parse()?)?;
    let mut next = clock::now();
    for n in 0..READINGS {
        let reading = format!("reading {n}: {} degrees", 20 + n % 5);
        // It leaves when congestion control allows it, but never later than 200 ms from now.
        sender.send(reading.as_bytes(), Hints::default())?;
        next += INTERVAL;
        while clock::now() < next {
            // Sleeps until something is known of what was sent, or until the next reading is due.
            sender.wait(Some(next));
            while let Some(delivery) = sender.poll_delivery() {
                match delivery.fate {
                    Fate::Acked => {}
                    Fate::Lost => println!("reading {} was lost on the way", delivery.seq.0),
                    Fate::Dropped(reason) => println!("reading {} never left: {reason:?}", delivery.seq.0),
                }
            }
        }
    }
    // Waits until every reading has had its fate, and ends the stream in order.
    let stats = sender.finish()?;
    println!("{} acknowledged, {} expired", stats.pkt_acked_total, stats.pkt_snd_expired_total);
    Ok(())
}

fn receive(mut listener: Listener) -> Result<u32, Box<dyn Error>> {
    // Waits until somebody calls. Both directions are there; this end has nothing to say.
    let caller = listener.accept(None)?.ok_or("nobody has called")?;
    let (_sender, mut receiver) = caller.accept();
    let mut received = 0;
    // Datagrams come whole, and in the order of their arrival.
    while let Arrival::Data(datagram) = receiver.receive(None)? {
        println!("{}", String::from_utf8_lossy(&datagram.bytes));
        received += 1;
    }
    Ok(received)
}
