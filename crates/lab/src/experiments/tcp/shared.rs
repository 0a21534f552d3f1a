//! Flows that share a bottleneck: pairs of hosts at the two ends of a dumbbell, with one connection
//! each.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::Kind;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Jitter, Limit};
use timeous_net::sim::{Network, NodeId};
use timeous_tcp::Config;

use super::end::End;
use crate::experiments::fault::Fault;

/// Bytes of data in a segment.
const SEGMENT: u16 = 500;
/// Bytes of a segment on a link, with the headers of TCP and IP.
const PACKET: u64 = SEGMENT as u64 + 40;
/// Rate and delay of a host's access link.
const ACCESS_RATE: Rate = Rate::from_bps(1_000_000_000);
const ACCESS_DELAY: Duration = Duration::from_millis(1);
/// Time within which flows start.
const BEGINNING: Duration = Duration::from_secs(1);

/// Bottleneck that the flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bottleneck {
    /// Capacity in full packets per second.
    pub(crate) packets: u64,
    /// Round-trip time without queueing.
    pub(crate) rtt: Duration,
    /// Queue in packets (drop-tail).
    pub(crate) queue: usize,
}

impl Bottleneck {
    fn rate(&self) -> Rate {
        Rate::from_bps(self.packets * PACKET * 8)
    }
}

/// Network with its flows.
pub(crate) struct Shared {
    pub(crate) network: Network<End>,
    senders: Vec<NodeId>,
    receivers: Vec<NodeId>,
}

impl Shared {
    /// Builds the network, with a flow for each of `controllers`, some of which may be faulty.
    pub(crate) fn new(seed: u64, bottleneck: Bottleneck, controllers: &[(Kind, Option<Fault>)]) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut network = Network::new(rng.next_u64());
        let config = || {
            // Timestamps would lengthen packets and are not needed here.
            let mut config = Config { timestamps: false, mss: SEGMENT, ..Config::default() };
            config.delayed_ack.delay = Duration::ZERO;
            config
        };
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (number, &(kind, fault)) in (1u8..).zip(controllers) {
            let here: SocketAddr = ([10, 0, 1, number], 1_000).into();
            let there: SocketAddr = ([10, 0, 2, number], 2_000).into();
            let at = Instant::ZERO + Duration::from_nanos(rng.below(BEGINNING.as_nanos()));
            let sender = End::sender(at, kind, config(), (here, there), rng.fork()).with_fault(kind, fault);
            left.push((here.ip(), sender));
            right.push((there.ip(), End::receiver(config(), (there, here), rng.fork())));
        }
        let access = LinkConfig {
            capacity: Capacity::Fixed(ACCESS_RATE),
            delay: ACCESS_DELAY,
            // Jitter of half a packet's transmission time at the bottleneck, to either side.
            jitter: Jitter { spread: bottleneck.rate().time_for(PACKET) / 2, ..Jitter::default() },
            queue: Limit::Packets(usize::MAX),
            ..LinkConfig::default()
        };
        let middle = LinkConfig::with_delay((bottleneck.rtt / 2).saturating_sub(ACCESS_DELAY * 2))
            .with_rate(bottleneck.rate(), Limit::Packets(bottleneck.queue));
        let back = LinkConfig { queue: Limit::Packets(usize::MAX), ..middle.clone() };
        let dumbbell = network.dumbbell(left, right, &access, middle, back);
        Self { network, senders: dumbbell.left, receivers: dumbbell.right }
    }

    /// Runs for `warm_up`, then returns the rate of each flow, in received bytes per second, in
    /// each of `slices` slices of `time`.
    pub(crate) fn rates(&mut self, warm_up: Duration, time: Duration, slices: u64) -> Vec<Vec<f64>> {
        self.network.run_until(Instant::ZERO + warm_up);
        let mut rates = vec![Vec::new(); self.receivers.len()];
        for slice in 1..=slices {
            let before = self.received();
            self.network.run_until(Instant::ZERO + warm_up + time / slices * slice);
            for ((rates, before), after) in rates.iter_mut().zip(before).zip(self.received()) {
                rates.push((after - before) as f64 / (time / slices).as_secs_f64());
            }
        }
        rates
    }

    fn received(&self) -> Vec<u64> {
        self.receivers.iter().map(|&node| self.network.host(node).received()).collect()
    }

    /// Returns the sender of a flow.
    pub(crate) fn sender(&self, flow: usize) -> &End {
        self.network.host(self.senders[flow])
    }
}

/// Returns the data bytes of a segment, for output and for windows.
pub(crate) const fn segment() -> u16 {
    SEGMENT
}
