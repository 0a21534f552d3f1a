//! Packet ring before the kernel's TCP: the engine.

use std::net::SocketAddr;

use timeous::core::{AduSeq, Duration, Instant};
use timeous_engine::{Carrier, Engine, Reach, Status, Stream, StreamConfig, TcpConfig, clock};
use timeous_host::stamp;
use timeous_net::emulator::Namespace;
use timeous_testbed::machine::{machine, opened, sleep_until};

use super::encryption;
use super::plan::{LEAD, PATIENCE, Plan, RIGHT, SenderKind, SenderStatus};
use crate::experiment::RunError;

/// Time that the engine may take to update its snapshot.
const NEWS: Duration = Duration::from_millis(300);

/// Streams from a namespace. A connection that ends early is replaced by another, in which late
/// choice ends at the kernel's queue, as in a program that met a reset.
pub(super) fn stream(from: &Namespace, plan: &Plan) -> Result<(Instant, SenderStatus), RunError> {
    // A new thread and its sockets belong to the network namespace of the thread that starts it.
    let engine = from.within(Engine::start).map_err(machine)?.map_err(machine)?;
    let mut stream = call(&engine, plan, plan.way == SenderKind::Late)?;
    let begin = clock::now() + LEAD;
    let end = begin + plan.lasting;
    let mut status = SenderStatus::default();
    let mut payload = Vec::new();
    for (index, offer) in plan.offers.iter().enumerate() {
        sleep_until(begin + offer.at);
        if !status.ended && matches!(stream.status(), Status::Closed(_)) {
            status = SenderStatus { ended: true, ..add_counters(status, &mut stream) };
            stream = call(&engine, plan, false)?;
        }
        let ring = stream.sending();
        stamp::write(AduSeq(index as u64), offer.len, &mut payload);
        // Datagrams that find the ring full are not sent; the receiver shows that, too.
        let _ = ring.enqueue(&offer.metadata(begin, index as u64), &payload);
        while ring.poll_completion().is_some() {}
    }
    sleep_until(end);
    status.ended |= matches!(stream.status(), Status::Closed(_));
    Ok((begin, add_counters(status, &mut stream)))
}

fn call(engine: &Engine, plan: &Plan, into_retransmissions: bool) -> Result<Stream, RunError> {
    let to: SocketAddr = RIGHT.parse().expect("an address and a port");
    let stream = engine.connect(to, config(plan, into_retransmissions)?);
    let mut stream = stream.map_err(machine)?;
    opened(&mut stream, PATIENCE)?;
    Ok(stream)
}

/// Adds the counters of a connection to those of the previous ones.
fn add_counters(status: SenderStatus, stream: &mut Stream) -> SenderStatus {
    // The first snapshot requests an update, which the second one contains.
    let _ = stream.sending().snapshot();
    sleep_until(clock::now() + NEWS);
    let view = stream.sending().snapshot().tcp.unwrap_or_default();
    let (replaced, padded) = (status.replaced + view.replaced, status.padded + view.padded);
    let refused = status.refused || (view.reach == Reach::Queue && replaced + padded > 0);
    SenderStatus { reach: Some(view.reach), replaced, padded, refused, ..status }
}

fn config(plan: &Plan, into_retransmissions: bool) -> Result<StreamConfig, RunError> {
    Ok(StreamConfig {
        tcp: TcpConfig { longest: plan.longest(), into_retransmissions, ..TcpConfig::default() },
        slots: plan.slots,
        choice: plan.choice.clone(),
        sealing: encryption::sealing(plan)?,
        ..StreamConfig::new(Carrier::Tcp)
    })
}
