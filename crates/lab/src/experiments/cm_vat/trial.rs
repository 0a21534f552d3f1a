//! Trial: one call over the path, and the age of its frames.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_host::sources::{Cbr, OnFull};
use timeous_host::{Machine, Udp};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit};
use timeous_net::sim::Network;

use super::super::cm::packet::OVERHEAD;
use super::super::cm::receiver::{AckPolicy, Receiver};
use super::super::cm::sender::Sender;
use super::audio::{FRAME, FrameCounts, INTERVAL, SIZE, SendMethod, Vat};

/// Capacity of the path for audio, in kbit/s.
pub(super) const AVAILABLE: [u64; 7] = [16, 24, 32, 48, 64, 96, 128];
/// One-way delay without queueing.
pub(super) const DELAY: Duration = Duration::from_millis(50);
/// Random variation of the delay.
pub(super) const JITTER: Duration = Duration::from_millis(5);
/// Queue of the bottleneck, in packets.
pub(super) const QUEUE: usize = 3;
pub(super) const WARM_UP: Duration = Duration::from_secs(10);
pub(super) const TIME: Duration = Duration::from_secs(120);

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) way: SendMethod,
    pub(super) available: u64,
    pub(super) seed: u64,
}

/// Outcome of a trial. Times are in milliseconds.
pub(super) struct Outcome {
    pub(super) way: SendMethod,
    pub(super) available: u64,
    /// Waiting time of each packet in the sender.
    pub(super) waited: Vec<f64>,
    /// Creation time of each received frame in seconds, and its age on arrival.
    pub(super) ages: Vec<(f64, f64)>,
    pub(super) counted: FrameCounts,
}

/// Returns the rate of the narrow link, headers included.
pub(super) fn rate(available: u64) -> Rate {
    Rate::from_bps(available * 1_000 * (SIZE + OVERHEAD) as u64 / FRAME as u64)
}

/// Returns the largest age of a frame that waited only on the path: its delay, queue and
/// transmission.
pub(super) fn path_delay(available: u64) -> Duration {
    DELAY + JITTER + rate(available).time_for((SIZE + OVERHEAD) as u64) * (QUEUE as u64 + 2)
}

impl Trial {
    pub(super) fn run(&self) -> Outcome {
        let mut rng = Rng::from_seed(self.seed);
        let mut network = Network::new(rng.next_u64());
        let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 6_000).into());
        let from = network.add_host(here.ip(), Machine::new(here.ip()));
        let to = network.add_host(there.ip(), Machine::new(there.ip()));
        let jitter = Jitter { spread: JITTER, ..Jitter::default() };
        let way = LinkConfig { delay: DELAY, jitter, ..LinkConfig::default() };
        let narrow =
            LinkConfig { capacity: Capacity::Fixed(rate(self.available)), queue: Limit::Packets(QUEUE), ..way.clone() };
        network.connect(from, to, narrow, way);
        let start = Instant::ZERO + Duration::from_nanos(rng.below(INTERVAL.as_nanos()));
        let end = Instant::ZERO + WARM_UP + TIME;
        let manager = network.with_host(from, |_, machine| machine.add_manager(Kind::Aimd));
        let any = network.with_host(to, |_, machine| machine.add_manager(Kind::Aimd));
        let age = |made: Instant, at: Instant| {
            (made.saturating_since(Instant::ZERO).as_secs_f64(), 1e3 * at.saturating_since(made).as_secs_f64())
        };
        let (ages, waited, counted): (Vec<_>, Vec<f64>, FrameCounts) = if self.way == SendMethod::Plain {
            let source = Cbr::new(INTERVAL, SIZE, OnFull::Skip).starting_at(start).until(end);
            let sender =
                network.with_host(from, |_, machine| machine.add(here.port(), manager, Udp::sender(there, source)));
            let receiver = network.with_host(to, |_, machine| machine.add(there.port(), any, Udp::sink()));
            network.run_until(end + DELAY);
            let journal = network.host(from).agent(sender).journal();
            let arrived = network.host(to).agent(receiver).arrivals().first_by_seq(journal.adus().len());
            let adus = journal.adus().iter().zip(arrived);
            let ages = adus.filter_map(|(adu, at)| Some(age(adu.meta.enqueued, at?))).collect();
            let made = journal.adus().len() as u64;
            (ages, vec![0.0; journal.adus().len()], FrameCounts { made, ..FrameCounts::default() })
        } else {
            let sender = Sender::new(there, SIZE, start, Duration::ZERO, Vat::new(self.way));
            let sender = network.with_host(from, |_, machine| machine.add(here.port(), manager, sender));
            let receiver =
                network.with_host(to, |_, machine| machine.add(there.port(), any, Receiver::new(AckPolicy::Soon)));
            network.run_until(end);
            let application = network.host(from).agent(sender).application();
            let arrivals = network.host(to).agent(receiver).arrivals();
            let ages = arrivals.iter().map(|arrival| age(arrival.packet.made, arrival.at)).collect();
            (ages, application.waited().to_vec(), application.counted())
        };
        let ages = ages.into_iter().filter(|&(made, _)| made >= WARM_UP.as_secs_f64()).collect();
        Outcome { way: self.way, available: self.available, waited, ages, counted }
    }
}
