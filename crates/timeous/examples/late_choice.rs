//! Late choice by the application itself: a game in which only the newest state matters.
//!
//! Forty ships move sixty times a second, and the path carries less than half of that. A queue would grow, and deliver
//! old positions. Here, at each tick, the game pulls back all packets not sent yet and overwrites them with the new
//! positions: the queue never holds more than one packet per ship, and each is as new as possible.
//!
//! `cargo run -p timeous --example late_choice`

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use timeous::core::{AduSeq, Duration, Fate, Instant, Rate};
use timeous::{Arrival, Hints, Receiver, Sender, clock};
use timeous_net::LinkConfig;
use timeous_net::emulator::{Emulator, Relay, RelayConfig, Stop, Stopper};
use timeous_net::link::{Capacity, Limit};

const SHIPS: u32 = 40;
const TICKS: u32 = 90;
const TICK: Duration = Duration::from_nanos(1_000_000_000 / 60);

fn main() -> Result<(), Box<dyn Error>> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let (near, link, stopper) = slow_link(SocketAddr::from(([127, 0, 0, 1], port)))?;
    let spectator = thread::spawn(move || watch(port).map_err(|error| error.to_string()));
    play(near)?;
    let report = spectator.join().map_err(|_| "the spectator has panicked")??;
    stopper.stop();
    link.join().map_err(|_| "the link has panicked")?;
    println!("{report}");
    Ok(())
}

/// Where a ship is, and when it was there.
fn encode(ship: u32, at: Instant) -> Vec<u8> {
    let angle = at.as_nanos() as f64 / 1e9 + f64::from(ship);
    let mut bytes = ship.to_be_bytes().to_vec();
    bytes.extend(at.as_nanos().to_be_bytes());
    bytes.extend((angle.cos() * 100.0).to_be_bytes());
    bytes.extend((angle.sin() * 100.0).to_be_bytes());
    bytes
}

/// The game: it sends positions, and takes the last word on each until it leaves.
fn play(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut sender = Sender::open(&format!("timeous://{to}?latency=1s&policy=deadline").parse()?)?;
    let mut game = Game::default();
    let mut next = clock::now();
    for _ in 0..TICKS {
        game.tick(&mut sender)?;
        next += TICK;
        while clock::now() < next {
            sender.wait(Some(next));
            game.hear(&mut sender);
        }
    }
    let rewritten = game.rewritten;
    let stats = sender.finish()?;
    println!(
        "{} positions computed, {rewritten} of them written over older ones in the queue, {} packets left",
        TICKS * SHIPS,
        stats.pkt_sent_total,
    );
    Ok(())
}

#[derive(Default)]
struct Game {
    /// Which ship a packet that has no fate yet is about.
    ships: BTreeMap<AduSeq, u32>,
    rewritten: u64,
}

impl Game {
    fn tick(&mut self, sender: &mut Sender) -> Result<(), Box<dyn Error>> {
        let now = clock::now();
        let mut unsaid: BTreeSet<u32> = (0..SHIPS).collect();

        // Everything that has not left is ours again: the engine takes nothing of it until it is released.
        let mut pulled = sender.ring().pull_back_all()?;
        for place in 0..pulled.places() {
            let Some(queued) = pulled.queued(place) else { continue };
            let Some(&ship) = self.ships.get(&queued.meta.seq) else { continue };
            if unsaid.remove(&ship) {
                pulled.rewrite(place, &queued.meta, &encode(ship, now))?;
                self.rewritten += 1;
            }
        }
        pulled.release();
        // The engine may have found nothing in the meantime, and gone to sleep.
        sender.notify();

        // The others have nothing in the queue: theirs is a new packet.
        for ship in unsaid {
            let seq = sender.send(&encode(ship, now), Hints::default())?;
            self.ships.insert(seq, ship);
        }
        Ok(())
    }

    fn hear(&mut self, sender: &mut Sender) {
        while let Some(delivery) = sender.poll_delivery() {
            self.ships.remove(&delivery.seq);
            if let Fate::Dropped(reason) = delivery.fate {
                println!("packet {} never left: {reason:?}", delivery.seq.0);
            }
        }
    }
}

/// The spectator: it looks how old the positions are that it gets.
fn watch(port: u16) -> Result<String, Box<dyn Error>> {
    let mut receiver = Receiver::open(&format!("timeous://:{port}").parse()?)?;
    let mut ages = Vec::new();
    while let Arrival::Data(datagram) = receiver.receive(None)? {
        let (_ship, rest) = datagram.bytes.split_first_chunk::<4>().ok_or("too short")?;
        let (at, _position) = rest.split_first_chunk::<8>().ok_or("too short")?;
        ages.push(datagram.at.saturating_since(Instant::from_nanos(u64::from_be_bytes(*at))));
    }
    ages.sort_unstable();
    let median = ages.get(ages.len() / 2).ok_or("nothing came")?;
    Ok(format!("{} positions seen, half of them less than {} ms old", ages.len(), median.as_millis()))
}

/// A link of 400 kbit/s to `target`, in place of a real one: where it begins, and what ends it.
fn slow_link(target: SocketAddr) -> Result<(SocketAddr, thread::JoinHandle<()>, Stopper), Box<dyn Error>> {
    let delay = Duration::from_millis(15);
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(400)),
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
