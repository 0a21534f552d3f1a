//! A source that follows the advice of its send buffer: `cargo run --example adaptive timeous://127.0.0.1:7000`.

use std::error::Error;

use timeous::core::{Duration, Instant, Rate};
use timeous::{Hints, Sender, SenderEvent, clock};

/// Stands for an encoder: a frame every 40 ms, as large as its bitrate makes it.
struct Encoder {
    bitrate: Rate,
    next: Instant,
}

impl Encoder {
    const FRAME: Duration = Duration::from_millis(40);

    fn encode(&mut self) -> Vec<u8> {
        self.next += Self::FRAME;
        vec![0; self.bitrate.bytes_in(Self::FRAME) as usize]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).ok_or("give a URI such as timeous://127.0.0.1:7000")?;
    let mut sender = Sender::open(&format!("{uri}?policy=dbat&latency=200ms").parse()?)?;
    let mut encoder = Encoder { bitrate: Rate::from_kbps(800), next: clock::now() };
    sender.set_rate(encoder.bitrate);
    loop {
        while let Some(event) = sender.poll_event() {
            if let SenderEvent::Advice(advice) = event {
                println!("{}: {} bytes wait, better {}", advice.reason.as_str(), advice.queued, advice.rate);
                encoder.bitrate = advice.rate;
                sender.set_rate(advice.rate);
            }
        }
        if clock::now() < encoder.next {
            sender.wait(Some(encoder.next));
            continue;
        }
        for packet in encoder.encode().chunks(sender.max_payload()) {
            sender.send(packet, Hints::default())?;
        }
    }
}
