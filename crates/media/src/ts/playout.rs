//! Playout of a transport stream: PES packets that are complete, in time and decodable, whole, with their counters made continuous.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use super::descriptor::PesDescriptor;
use super::packet::{PACKET_LEN, PCR_HZ, PCR_VALUES, Packet, pcr_packet, set_continuity};
use super::packetize::TS_PAYLOAD_TYPE;
use crate::clock::{ClockChange, MediaClock};
use crate::error::RtpError;
use crate::playout::Release;
use crate::rtp::sequence::{Place, Sequence};

/// Released PES packets that are remembered for those that refer to them: more than any distance that is told.
const REMEMBERED: u32 = 1_024;
/// Most bytes that wait for their playout time. Chosen by us: ten seconds at 50 Mbit/s; a higher value takes more memory.
const MOST_WAITING: usize = 64 << 20;
/// Most PES packets that wait. Chosen by us: ten seconds of a whole multiplex; a higher value takes more memory.
const MOST_PES: usize = 16_384;
/// Time after which a PES packet without a known end is given up. Chosen by us: an encoder's frame interval at four frames a second.
const END_UNKNOWN: Duration = Duration::from_millis(250);
/// Longest time without a clock value, after which one is inserted (ISO/IEC 13818-1 §2.7.2: at most 100 ms).
const CLOCK_INTERVAL: Duration = Duration::from_millis(90);
/// Time without a value from the sender after which none is inserted. Chosen by us: longer than any stretch of video that is given up.
const CLOCK_KEPT: Duration = Duration::from_secs(30);
/// Time by which an inserted value is behind the interpolated one, so that the next real one is later in any case. Chosen by us.
const CLOCK_MARGIN: Duration = Duration::from_millis(10);

/// Counts of a playout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TsStats {
    /// PES packets given out, with all that they refer to.
    pub released: u64,
    /// Entry points of a video among them.
    pub entries: u64,
    /// PES packets of which a part did not come in time.
    pub incomplete: u64,
    /// PES packets that were complete after their playout time.
    pub late: u64,
    /// PES packets that refer to one which was not given out.
    pub reference_missing: u64,
    /// PES packets of which nothing came: given up by the sender, or lost.
    pub missing: u64,
    /// RTP packets that came twice.
    pub duplicate: u64,
    /// RTP packets that are not usable.
    pub refused: u64,
}

/// Transport packets to be given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsRelease {
    /// Whole packets.
    pub packets: Vec<u8>,
    /// Playout time.
    pub playout_at: Instant,
}

/// Jitter buffer of a transport stream.
///
/// ```
/// use timeous_core::{Duration, Instant};
/// use timeous_media::{Release, ts::TsPlayout};
/// let mut playout = TsPlayout::new(Duration::from_millis(200), Release::Constant);
/// assert!(playout.handle_packet(Instant::ZERO, b"no RTP").is_err());
/// assert_eq!(playout.poll_release(), None);
/// ```
#[derive(Debug)]
pub struct TsPlayout {
    latency: Duration,
    release: Release,
    clock: MediaClock,
    changes: VecDeque<ClockChange>,
    sequence: Sequence,
    ssrc: Option<u32>,
    waiting: BTreeMap<u32, Pes>,
    bytes: usize,
    released: BTreeSet<u32>,
    /// Number of the newest PES packet that came, and how many came.
    newest: Option<u32>,
    pids: BTreeMap<u16, PidOutput>,
    ready: VecDeque<TsRelease>,
    stats: TsStats,
}

/// PES packet that waits.
#[derive(Debug, Default)]
struct Pes {
    pid: Option<u16>,
    parts: BTreeMap<u16, Vec<u8>>,
    /// Number of its transport packets, if known.
    len: Option<u16>,
    references: Vec<u32>,
    is_entry: bool,
    /// Playout time of its latest part.
    due: Instant,
    completed_at: Option<Instant>,
}

/// Output of a PID.
#[derive(Debug, Default)]
struct PidOutput {
    /// Continuity counters of the last packet: as it came, and as it was given out.
    counters: Option<(u8, u8)>,
    /// The last clock value, and its playout time.
    clock: Option<(u64, Instant)>,
    /// Playout time of the last one that came.
    clock_came: Instant,
}

impl Pes {
    fn is_complete(&self) -> bool {
        let mut next = 0;
        for (first, packets) in &self.parts {
            if *first != next {
                return false;
            }
            next += (packets.len() / PACKET_LEN) as u16;
        }
        self.len == Some(next)
    }
}

impl TsPlayout {
    /// Creates a playout that gives out packets one latency after their capture, or at once.
    pub fn new(latency: Duration, release: Release) -> Self {
        Self {
            latency,
            release,
            clock: MediaClock::new(latency / 2),
            changes: VecDeque::new(),
            sequence: Sequence::default(),
            ssrc: None,
            waiting: BTreeMap::new(),
            bytes: 0,
            released: BTreeSet::new(),
            newest: None,
            pids: BTreeMap::new(),
            ready: VecDeque::new(),
            stats: TsStats::default(),
        }
    }

    /// Latency in force.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Changes the latency.
    pub fn set_latency(&mut self, latency: Duration) {
        self.latency = latency;
        self.clock.set_tolerance(latency / 2);
    }

    /// Synchronisation source (SSRC) that is played.
    pub fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// Extra delay of the fastest packets of the last second, against the clock.
    pub fn excess(&self, now: Instant) -> Option<Duration> {
        self.clock.excess(now)
    }

    /// Counts so far.
    pub fn stats(&self) -> TsStats {
        self.stats
    }

    /// Whether packets wait for their playout time.
    pub fn holds_packets(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Handles an RTP packet.
    ///
    /// # Errors
    /// See [`RtpError`]: the stream goes on without the packet.
    pub fn handle_packet(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let handled = self.take(now, rtp);
        self.stats.refused += u64::from(handled.is_err());
        self.handle_timeout(now);
        handled
    }

    fn take(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let packet = RtpPacket::parse(rtp).map_err(|error| RtpError::NotRtp(error.to_string()))?;
        if packet.payload_type() != TS_PAYLOAD_TYPE {
            return Err(RtpError::PayloadType { found: packet.payload_type(), expected: TS_PAYLOAD_TYPE });
        }
        let payload = packet.payload();
        let descriptor = packet.extension().and_then(|(profile, bytes)| PesDescriptor::read(profile, bytes));
        let is_whole = payload.len().is_multiple_of(PACKET_LEN)
            && payload.chunks_exact(PACKET_LEN).all(|packet| Packet::new(packet).is_some());
        if !is_whole || payload.is_empty() && descriptor.is_none() {
            return Err(RtpError::NotTransportStream);
        }
        if self.ssrc != Some(packet.ssrc()) {
            // A sender that begins anew numbers anew.
            self.restart();
            self.ssrc = Some(packet.ssrc());
        }
        let expected = self.sequence.next();
        let ticks = match self.sequence.place(packet.sequence_number(), packet.timestamp()) {
            Place::New { ticks, .. } => ticks,
            Place::Duplicate => {
                self.stats.duplicate += 1;
                return Ok(());
            }
            Place::Stray => return Err(RtpError::SequenceJump { found: packet.sequence_number(), expected }),
            Place::Restart => {
                self.restart();
                match self.sequence.place(packet.sequence_number(), packet.timestamp()) {
                    Place::New { ticks, .. } => ticks,
                    _ => return Err(RtpError::SequenceJump { found: packet.sequence_number(), expected }),
                }
            }
        };
        let is_prompt = descriptor.is_none_or(|descriptor| !descriptor.is_queued);
        self.changes.extend(self.clock.observe(ticks, now, is_prompt));
        let due = self.clock.instant(ticks) + self.latency;
        match descriptor {
            Some(descriptor) => self.wait(now, due, &descriptor, payload),
            // Another sender's: useful as it is.
            None => self.give_out(payload.to_vec(), due),
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.sequence = Sequence::default();
        self.clock = MediaClock::new(self.latency / 2);
        self.waiting.clear();
        self.bytes = 0;
        self.released.clear();
        self.newest = None;
    }

    fn wait(&mut self, now: Instant, due: Instant, descriptor: &PesDescriptor, payload: &[u8]) {
        let number = descriptor.frame;
        if self.newest.is_none_or(|newest| number > newest) {
            let gap = self.newest.map_or(0, |newest| number - newest - 1);
            self.stats.missing += u64::from(gap);
            self.newest = Some(number);
        } else if !self.waiting.contains_key(&number) {
            // Counted as missing before; or given up, or given out.
            if self.released.contains(&number) {
                return;
            }
            self.stats.missing = self.stats.missing.saturating_sub(1);
        }
        let pes = self.waiting.entry(number).or_default();
        pes.pid = pes.pid.or(payload.get(..PACKET_LEN).and_then(Packet::new).map(Packet::pid));
        pes.due = pes.due.max(due);
        pes.is_entry |= descriptor.is_entry;
        if descriptor.count > 0 {
            pes.references = descriptor.references().collect();
        }
        if descriptor.last {
            pes.len = Some(descriptor.first.saturating_add((payload.len() / PACKET_LEN) as u16));
        }
        if !payload.is_empty() && pes.parts.insert(descriptor.first, payload.to_vec()).is_none() {
            self.bytes += payload.len();
        }
        if pes.completed_at.is_none() && pes.is_complete() {
            pes.completed_at = Some(now);
        }
    }

    /// Gives out what is due, and gives up what did not come.
    pub fn handle_timeout(&mut self, now: Instant) {
        while (self.bytes > MOST_WAITING || self.waiting.len() > MOST_PES)
            && let Some((&oldest, _)) = self.waiting.first_key_value()
        {
            self.give_up(oldest);
        }
        let mut due: Vec<(Instant, u32)> = self
            .waiting
            .iter()
            .filter(|(_, pes)| self.is_due(pes, now))
            .map(|(&number, pes)| (pes.due, number))
            .collect();
        due.sort_unstable();
        for (_, number) in due {
            // An earlier one of its PID is given up with it.
            if let Some(pes) = self.waiting.get(&number) {
                if pes.completed_at.is_some() { self.release(number) } else { self.give_up(number) }
            }
        }
        self.insert_clocks(now);
    }

    fn is_due(&self, pes: &Pes, now: Instant) -> bool {
        match (pes.completed_at, self.release) {
            (Some(_), Release::Immediate) => true,
            (Some(_), _) => pes.due <= now,
            (None, _) => pes.due + if pes.len.is_some() { Duration::ZERO } else { END_UNKNOWN } <= now,
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let due = |pes: &Pes| match (pes.completed_at, pes.len) {
            (None, None) => pes.due + END_UNKNOWN,
            _ => pes.due,
        };
        let clock = self.pids.values().filter_map(|output| Some(output.clock?.1 + CLOCK_INTERVAL)).min();
        let due = self.waiting.values().map(due).min()?;
        Some(clock.map_or(due, |clock| due.min(clock)))
    }

    /// Returns the next packets to give out.
    pub fn poll_release(&mut self) -> Option<TsRelease> {
        self.ready.pop_front()
    }

    /// Returns the next change of the clock.
    pub fn poll_change(&mut self) -> Option<ClockChange> {
        self.changes.pop_front()
    }

    /// Ends the stream: what is complete is given out at once.
    pub fn finish(&mut self) {
        for number in self.waiting.keys().copied().collect::<Vec<_>>() {
            match self.waiting.get(&number).map(|pes| pes.completed_at.is_some()) {
                Some(true) => self.release(number),
                Some(false) => self.give_up(number),
                None => {}
            }
        }
    }

    fn give_up(&mut self, number: u32) {
        if let Some(pes) = self.waiting.remove(&number) {
            self.bytes -= pes.parts.values().map(Vec::len).sum::<usize>();
            self.stats.incomplete += 1;
        }
    }

    /// Gives out a complete PES packet, after those before it on its PID: the clock may have been corrected in between, so that their
    /// playout time is a little later.
    fn release(&mut self, number: u32) {
        let Some(pid) = self.waiting.get(&number).map(|pes| pes.pid) else { return };
        let until = self.waiting.range(..=number).filter(|(_, pes)| pes.pid == pid);
        for (number, is_complete) in
            until.map(|(&number, pes)| (number, pes.completed_at.is_some())).collect::<Vec<_>>()
        {
            if is_complete { self.release_next(number) } else { self.give_up(number) }
        }
    }

    /// Gives out a complete PES packet, if it was in time and can be decoded.
    fn release_next(&mut self, number: u32) {
        let Some(pes) = self.waiting.remove(&number) else { return };
        self.bytes -= pes.parts.values().map(Vec::len).sum::<usize>();
        if pes.references.iter().any(|reference| !self.released.contains(reference)) {
            self.stats.reference_missing += 1;
            return;
        }
        let is_late = self.release != Release::Immediate && pes.completed_at.is_some_and(|at| at > pes.due);
        if is_late {
            self.stats.late += 1;
            return;
        }
        self.released.insert(number);
        while self.released.first().is_some_and(|&first| first + REMEMBERED < number) {
            self.released.pop_first();
        }
        self.stats.released += 1;
        self.stats.entries += u64::from(pes.is_entry);
        self.give_out(pes.parts.into_values().flatten().collect(), pes.due);
    }

    /// Makes the counters continuous, and queues the packets.
    fn give_out(&mut self, mut packets: Vec<u8>, due: Instant) {
        for bytes in packets.chunks_exact_mut(PACKET_LEN) {
            let Some(packet) = Packet::new(bytes) else { continue };
            let (pid, came, has_payload) = (packet.pid(), packet.continuity(), packet.has_payload());
            let (starts, pcr) = (packet.starts(), packet.adaptation().pcr);
            let output = self.pids.entry(pid).or_default();
            let counter = match output.counters {
                None => came,
                Some((_, gave)) if !has_payload => gave,
                // PES packets that were given up leave no gap. A gap within a PES packet is the source's own.
                Some((_, gave)) if starts => gave.wrapping_add(1),
                Some((before, gave)) => gave.wrapping_add(came.wrapping_sub(before)),
            } & 0x0f;
            output.counters = Some((came, counter));
            if let Some(pcr) = pcr {
                (output.clock, output.clock_came) = (Some((pcr, due)), due);
            }
            set_continuity(bytes, counter);
        }
        self.ready.push_back(TsRelease { packets, playout_at: due });
    }

    /// Inserts clock values for PIDs whose clock was given up, while others of the stream wait.
    fn insert_clocks(&mut self, now: Instant) {
        if self.waiting.is_empty() {
            return;
        }
        for (&pid, output) in &mut self.pids {
            let (Some((pcr, at)), Some((_, counter))) = (output.clock, output.counters) else { continue };
            if now.saturating_since(output.clock_came) > CLOCK_KEPT {
                // The program is gone.
                output.clock = None;
                continue;
            }
            if now.saturating_since(at) < CLOCK_INTERVAL {
                continue;
            }
            let until = now.saturating_sub(CLOCK_MARGIN);
            let ticks = until.saturating_since(at).as_nanos() / 1_000 * (PCR_HZ / 1_000_000);
            let value = (pcr + ticks) % PCR_VALUES;
            output.clock = Some((value, until));
            self.ready.push_back(TsRelease { packets: pcr_packet(pid, counter, value).to_vec(), playout_at: now });
        }
    }
}
