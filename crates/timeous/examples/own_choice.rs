//! A late choice of the application's own: of each sensor only the newest queued reading leaves.
//!
//! Twelve sensors take a reading every 5 ms, and the path carries about a quarter of that. Whenever a packet may be
//! sent, `NewestOfEach` drops each queued reading that a newer one of the same sensor has replaced. It prints how many
//! readings were replaced, how many arrived, and the age of the median on arrival.
//!
//! `cargo run -p timeous --example own_choice`

use std::collections::BTreeSet;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use timeous::core::{Duration, Instant, Rate, SubStream};
use timeous::{Arrival, DropReason, Hints, LateChoice, PathState, Queue, Receiver, Sender, Uri, clock};
use timeous_net::LinkConfig;
use timeous_net::emulator::{Emulator, Relay, RelayConfig, Stop, Stopper};
use timeous_net::link::{Capacity, Limit};

const SENSORS: u8 = 12;
const ROUNDS: u32 = 200;
const INTERVAL: Duration = Duration::from_millis(5);
const READING: usize = 200;

/// Keeps the newest queued reading of each sub-stream.
struct NewestOfEach;

impl LateChoice for NewestOfEach {
    fn choose(&mut self, _now: Instant, _path: &PathState, queue: &mut dyn Queue) {
        let mut seen = BTreeSet::new();
        for place in (0..queue.len()).rev() {
            let Some((meta, _len)) = queue.get(place) else { continue };
            if !seen.insert(meta.substream) {
                queue.drop_at(place, DropReason::Policy);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let (near, link, stopper) = slow_link(SocketAddr::from(([127, 0, 0, 1], port)))?;
    let receiver = thread::spawn(move || receive(port).map_err(|error| error.to_string()));
    measure(near)?;
    let report = receiver.join().map_err(|_| "the receiver has panicked")??;
    stopper.stop();
    link.join().map_err(|_| "the link has panicked")?;
    println!("{report}");
    Ok(())
}

/// The sensors: each reading is written in place, with its time first.
fn measure(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let uri: Uri = format!("timeous://{to}?latency=1s").parse()?;
    let mut sender = Sender::open(&uri.with_choice(|| NewestOfEach))?;
    let mut next = clock::now();
    for _ in 0..ROUNDS {
        for sensor in 0..SENSORS {
            let at = clock::now().as_nanos().to_be_bytes();
            sender.send_with(READING, Hints { substream: SubStream(sensor), ..Hints::default() }, |buffer| {
                buffer.fill(sensor);
                buffer[..8].copy_from_slice(&at);
            })?;
        }
        next += INTERVAL;
        while clock::now() < next {
            sender.wait(Some(next));
            while sender.poll_delivery().is_some() {}
        }
    }
    let stats = sender.finish()?;
    println!(
        "{} readings taken, {} replaced by newer ones of their sensor, {} acknowledged",
        ROUNDS * u32::from(SENSORS),
        stats.pkt_snd_policy_total,
        stats.pkt_acked_total,
    );
    Ok(())
}

/// The receiver: it measures how old the readings are that it gets.
fn receive(port: u16) -> Result<String, Box<dyn Error>> {
    let mut receiver = Receiver::open(&format!("timeous://:{port}").parse()?)?;
    let mut ages = Vec::new();
    while let Arrival::Data(datagram) = receiver.receive(None)? {
        let at = datagram.bytes.first_chunk::<8>().ok_or("too short")?;
        ages.push(datagram.at.saturating_since(Instant::from_nanos(u64::from_be_bytes(*at))));
    }
    ages.sort_unstable();
    let median = ages.get(ages.len() / 2).ok_or("nothing came")?;
    Ok(format!("{} readings received, half of them less than {} ms old", ages.len(), median.as_millis()))
}

/// A link of 1 Mbit/s to `target`, in place of a real one: where it begins, and what ends it.
fn slow_link(target: SocketAddr) -> Result<(SocketAddr, thread::JoinHandle<()>, Stopper), Box<dyn Error>> {
    let delay = Duration::from_millis(15);
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(1_000)),
        delay,
        queue: Limit::Time(Duration::from_millis(50)),
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay, ..LinkConfig::default() };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut relay = Relay::bind(RelayConfig { forward, back, ..RelayConfig::new(listen, target) })?;
    let near = relay.local_addr();
    let stop = Stop::new()?;
    let stopper = stop.stopper()?;
    let link = thread::spawn(move || {
        if let Err(error) = relay.run_until(Instant::FAR_FUTURE, &stop) {
            eprintln!("the link: {error}");
        }
    });
    Ok((near, link, stopper))
}
