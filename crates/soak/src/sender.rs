//! Sending side: datagrams of random length with random deadlines, some of which are pulled back and rewritten.

use timeous_core::{AduMeta, AduSeq, Duration, Instant, Rate, Rng};
use timeous_engine::{EnqueueError, SendHalf, Status, clock};
use timeous_testbed::RunError;
use timeous_testbed::machine::machine;

use crate::setup::PATIENCE;
use crate::tally::{self, DatagramId, LEAST, MOST, Offered};

/// Range of latencies in milliseconds: some leave no time for a retransmission.
const LATENCIES: [u64; 2] = [30, 400];
/// Probability of a rewrite after each datagram.
const REWRITE: f64 = 0.1;

/// Sends datagrams at this rate for `lasting`, and waits for all their fates.
pub(super) fn run(ring: &mut SendHalf, rate: Rate, lasting: Duration, rng: &mut Rng) -> Result<Offered, RunError> {
    let mut offered = Offered::default();
    let mut due = clock::now();
    let end = due + lasting;
    while due < end {
        while clock::now() < due {
            ring.wait(Some(due));
        }
        offer(ring, &mut offered, rng)?;
        if rng.chance(REWRITE) {
            rewrite(ring, &mut offered, 1 + rng.below(4) as usize)?;
        }
        take_completions(ring, &mut offered);
        if let Status::Closed(reason) = ring.status() {
            return Err(RunError::Machine(format!("the stream ended before its time: {reason:?}")));
        }
        let mean = rate.time_for(((LEAST + MOST) / 2) as u64);
        due += Duration::from_secs_f64(mean.as_secs_f64() * 2.0 * rng.unit());
    }
    ring.finish();
    let end = clock::now() + PATIENCE;
    while !matches!(ring.status(), Status::Closed(_)) && clock::now() < end {
        take_completions(ring, &mut offered);
        ring.wait(Some(clock::now() + Duration::from_millis(50)));
    }
    take_completions(ring, &mut offered);
    Ok(offered)
}

fn meta(seq: u64, deadline: Instant) -> AduMeta {
    AduMeta { seq: AduSeq(seq), deadline: Some(deadline), enqueued: clock::now(), ..AduMeta::default() }
}

fn offer(ring: &mut SendHalf, offered: &mut Offered, rng: &mut Rng) -> Result<(), RunError> {
    let seq = offered.next();
    let latency = LATENCIES[0] + rng.below(LATENCIES[1] - LATENCIES[0]);
    let bytes = tally::of(DatagramId { seq, version: 0 });
    match ring.enqueue(&meta(seq, clock::now() + Duration::from_millis(latency)), &bytes) {
        Ok(_) => offered.offer(),
        // If the ring is full the datagram is skipped and not counted.
        Err(EnqueueError::Full) => {}
        Err(error) => return Err(machine(error)),
    }
    Ok(())
}

/// Rewrites the newest datagrams that have not been sent.
fn rewrite(ring: &mut SendHalf, offered: &mut Offered, newest: usize) -> Result<(), RunError> {
    let mut pulled = ring.ring().pull_back(newest).map_err(machine)?;
    for place in 0..pulled.places() {
        let Some(queued) = pulled.queued(place).filter(|queued| queued.dead.is_none()) else { continue };
        let seq = queued.meta.seq.0;
        let name = DatagramId { seq, version: offered.next_version(seq) };
        match pulled.rewrite(place, &queued.meta, &tally::of(name)) {
            Ok(()) => offered.rewritten(name),
            Err(EnqueueError::Full) => {}
            Err(error) => return Err(machine(error)),
        }
    }
    pulled.release();
    ring.notify_if_asked();
    Ok(())
}

fn take_completions(ring: &mut SendHalf, offered: &mut Offered) {
    while let Some(done) = ring.poll_completion() {
        offered.fate(done.seq.0, done.fate);
    }
}
