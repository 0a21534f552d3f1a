//! Offered data: datagrams at the paper's cadence, groups of pictures, and greedy datagrams.

use timeous::core::{AduMeta, Duration, FrameId, Instant, PathState, References, Rng};
use timeous_choice::Timeline;
use timeous_host::sources::{Frame, Frames};
use timeous_host::{Application, Outlet, stamp};

/// Ticks of the media clock between two datagrams (20 ms at 8000 Hz).
const TICKS: u32 = 160;
const CLOCK: u32 = 8_000;
pub(crate) const INTERVAL: Duration = Duration::from_millis(20);
pub(crate) const SIZES: [usize; 2] = [550, 650];

/// Datagrams at the paper's cadence.
pub(crate) struct Cadence {
    left: u64,
    number: u64,
    next: Option<Instant>,
    timeline: Option<Timeline>,
    payload: Vec<u8>,
    ended: bool,
    in_chains: bool,
}

impl Cadence {
    /// Creates `count` datagrams. With `latency`, each has a playout time that long after its
    /// hand-over.
    pub(crate) fn new(count: u64, latency: Option<Duration>) -> Self {
        let timeline = latency.map(|latency| Timeline::new(CLOCK).buffered(latency));
        Self { left: count, number: 0, next: None, timeline, payload: Vec::new(), ended: false, in_chains: false }
    }

    /// Makes each datagram but the first of five depend on the one before it.
    pub(crate) fn in_chains(mut self) -> Self {
        self.in_chains = true;
        self
    }

    /// Sets the first number: another connection sent the datagrams before it.
    pub(crate) fn numbered_from(mut self, number: u64) -> Self {
        self.number = number;
        self
    }
}

impl Application for Cadence {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        let mut next = self.next.unwrap_or(now);
        while self.left > 0 && next <= now {
            let playout = (self.number as u32).wrapping_mul(TICKS);
            let path = PathState::default();
            let deadline = self.timeline.as_mut().map(|timeline| timeline.deadline(now, &path, playout));
            let meta = AduMeta { enqueued: now, deadline, ..AduMeta::default() };
            let meta = if self.in_chains { in_chain(meta, self.number) } else { meta };
            stamp::write(outlet.next_seq(), SIZES[(self.number % 2) as usize], &mut self.payload);
            // The outlet records a datagram that finds no room.
            let _noted = outlet.send(meta, &self.payload);
            self.number += 1;
            self.left -= 1;
            next += INTERVAL;
        }
        self.next = Some(next);
        if self.left == 0 && !self.ended {
            self.ended = true;
            outlet.finish();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.ended { None } else { self.next }
    }
}

/// Datagrams of a chain of dependencies, as in the paper: "every fifth packet was expressed as being independent" (§4.1).
const CHAIN: u64 = 5;

/// Returns the metadata of the datagram of this number in a chain.
fn in_chain(meta: AduMeta, number: u64) -> AduMeta {
    let references =
        if number.is_multiple_of(CHAIN) { References::NONE } else { References::from([FrameId(number as u32)]) };
    AduMeta { frame: FrameId(number as u32 + 1), references, ..meta }
}

/// Payload bytes of a video packet.
pub(crate) const PACKET: usize = 1_100;
/// Frame interval.
const FRAME: Duration = Duration::from_millis(40);
/// Packets of an I-frame and of a P-frame.
const I_PACKETS: usize = 10;
const P_PACKETS: usize = 2;

/// Returns frames over `lasting`, in groups of 12 to 60, where each P-frame refers to the previous
/// frame.
pub(crate) fn pictures(seed: u64, lasting: Duration) -> Vec<Frame> {
    let mut rng = Rng::from_seed(seed);
    let mut frames = Vec::new();
    let mut until_next = 0;
    let count = lasting.as_millis() / FRAME.as_millis();
    for n in 0..count {
        let is_first = until_next == 0;
        if is_first {
            until_next = 12 + rng.below(49);
        }
        until_next -= 1;
        let packets = if is_first { I_PACKETS } else { P_PACKETS };
        // Frame numbers are indices plus one: the previous frame's number is `n`.
        let references = if is_first { References::NONE } else { References::from([FrameId(n as u32)]) };
        let meta = AduMeta { references, ..AduMeta::default() };
        frames.push(Frame { at: FRAME * n, bytes: packets * PACKET, meta });
    }
    frames
}

/// Returns a source that sends these frames.
pub(crate) fn video(frames: &[Frame], latency: Option<Duration>) -> Frames {
    let frames = Frames::new(frames.iter().copied(), PACKET);
    match latency {
        Some(latency) => frames.with_latency(latency),
        None => frames,
    }
}

/// Datagrams offered at one instant, at most: where each is given up at once, there is always room for more. Several rings full.
const MOST_AT_ONCE: u32 = 4_096;
/// Pause after that many.
const PAUSE: Duration = Duration::from_millis(1);

/// Greedy datagrams in chains of five, each with the same useful life.
pub(crate) struct Greedy {
    latency: Option<Duration>,
    len: usize,
    payload: Vec<u8>,
    /// Instant of the last offers, and their number.
    offered: (Instant, u32),
    /// Number of datagrams so far.
    number: u64,
}

impl Greedy {
    pub(crate) fn new(len: usize, latency: Option<Duration>) -> Self {
        Self { latency, len, payload: Vec::new(), offered: (Instant::ZERO, 0), number: 0 }
    }
}

impl Application for Greedy {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if self.offered.0 < now {
            self.offered = (now, 0);
        }
        while self.offered.1 < MOST_AT_ONCE {
            self.offered.1 += 1;
            stamp::write(outlet.next_seq(), self.len, &mut self.payload);
            let deadline = self.latency.map(|latency| now + latency);
            let meta = in_chain(AduMeta { enqueued: now, deadline, ..AduMeta::default() }, self.number);
            if outlet.send(meta, &self.payload).is_err() {
                return;
            }
            self.number += 1;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.offered.1 == MOST_AT_ONCE).then(|| self.offered.0 + PAUSE)
    }
}
