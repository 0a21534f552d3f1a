//! Packet ring with our own TCP, on a TUN device behind the left namespace.

use std::net::SocketAddrV4;

use timeous::core::{AduSeq, Instant};
use timeous_cm::{Controller, Cubic, NewReno};
use timeous_engine::clock;
use timeous_host::stamp;
use timeous_ring::{Config, Producer, RingSource, create};
use timeous_testbed::machine::{machine, no_connection};
use timeous_testbed::network::TestNetwork;
use timeous_testbed::tun::{ConnectionId, Event, Sending, TcpConfig, TunConfig, TunHost};

use super::encryption;
use super::plan::{Control, LEAD, PATIENCE, Plan, RIGHT, SenderStatus};
use crate::experiment::RunError;

/// Streams from behind the left namespace.
pub(super) fn stream(network: &TestNetwork, plan: &Plan) -> Result<(Instant, SenderStatus), RunError> {
    let tcp = TcpConfig { sending: Sending::LateChoice, secret: encryption::secret(plan), ..TcpConfig::default() };
    let config =
        TunConfig { tcp, mtu: plan.mtu.unwrap_or(1_500), controller: controller(plan), ..TunConfig::default() };
    let mut host = network.host_as(config, plan.seed)?;
    let ring = Config::new(plan.slots).completions(plan.slots.saturating_mul(16));
    let (producer, consumer) = create(&ring).expect("an experiment asks for a ring that can be");
    let source = RingSource::with_choice(consumer, (plan.choice)());
    let to: SocketAddrV4 = RIGHT.parse().expect("an address and a port");
    let id = host.connect_from(to, Box::new(source)).map_err(machine)?;
    connected(&mut host)?;
    let begin = clock::now() + LEAD;
    let status = PacedSender { host: &mut host, id, producer, plan, begin }.run()?;
    Ok((begin, status))
}

/// Returns the controller with congestion window validation (RFC 7661): as in the kernel, a loss
/// reduces the window, and not the smaller amount in flight.
fn controller(plan: &Plan) -> fn(u64) -> Box<dyn Controller> {
    match plan.control {
        Control::Reno => |mtu| Box::new(NewReno::new(mtu).for_streams_that_pause()),
        Control::Cubic => |mtu| Box::new(Cubic::new(mtu).for_streams_that_pause()),
    }
}

fn connected(host: &mut TunHost) -> Result<(), RunError> {
    let until = clock::now() + PATIENCE;
    match host.wait(until).map_err(machine)? {
        Some((_, Event::Connected)) => Ok(()),
        _ => Err(no_connection()),
    }
}

struct PacedSender<'a> {
    host: &'a mut TunHost,
    id: ConnectionId,
    producer: Producer,
    plan: &'a Plan,
    begin: Instant,
}

impl PacedSender<'_> {
    /// Offers each datagram at its time, and forwards packets meanwhile.
    fn run(mut self) -> Result<SenderStatus, RunError> {
        let end = self.begin + self.plan.lasting;
        let (mut next, mut status) = (0, SenderStatus::default());
        loop {
            next = self.offer(next);
            let now = clock::now();
            if now >= end {
                return Ok(status);
            }
            let due = self.plan.offers.get(next).map_or(end, |offer| (self.begin + offer.at).min(end));
            match self.host.wait(due).map_err(machine)? {
                Some((_, Event::Closed { .. })) => return Ok(SenderStatus { ended: true, ..status }),
                Some((_, Event::ChangesRefused)) => status.refused = true,
                _ => {}
            }
            if let Some(statistics) = self.host.statistics(self.id) {
                (status.replaced, status.padded) = (statistics.replaced, statistics.padded);
            }
        }
    }

    /// Offers all datagrams due from index `next` on; returns the next index.
    fn offer(&mut self, mut next: usize) -> usize {
        let (now, before) = (clock::now(), next);
        let mut payload = Vec::new();
        while let Some(offer) = self.plan.offers.get(next).filter(|offer| self.begin + offer.at <= now) {
            stamp::write(AduSeq(next as u64), offer.len, &mut payload);
            // Datagrams that find the ring full are not sent; the receiver shows that, too.
            let _ = self.producer.enqueue(&offer.metadata(self.begin, next as u64), &payload);
            next += 1;
        }
        if next > before {
            self.host.wake(self.id);
        }
        while self.producer.poll_completion().is_some() {}
        next
    }
}
