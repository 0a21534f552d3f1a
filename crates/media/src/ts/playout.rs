//! Playout of a transport stream: PES packets that are complete, in time and decodable, whole, with their counters made continuous.

use std::collections::{BTreeMap, VecDeque};

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use super::descriptor::PesDescriptor;
use super::packet::{PACKET_LEN, PCR_HZ, PCR_VALUES, Packet, pcr_packet, set_continuity, set_pcr};
use super::packetize::TS_PAYLOAD_TYPE;
use crate::clock::ClockChange;
use crate::error::RtpError;
use crate::jitter::{JitterBuffer, Part, Whole, WholeFrameCounts};
use crate::playout::Release;

/// Longest time without a clock value, after which one is inserted (ISO/IEC 13818-1 §2.7.2: at most 100 ms).
const CLOCK_INTERVAL: Duration = Duration::from_millis(90);
/// Time without a value from the sender after which none is inserted. Chosen by us: longer than any stretch of video that is given up.
const CLOCK_KEPT: Duration = Duration::from_secs(30);
/// Time by which an inserted value is behind the interpolated one, so that the next real one is later unless the source stood still.
/// Chosen by us: a higher value is a larger jump of the clock.
const CLOCK_MARGIN: Duration = Duration::from_millis(10);

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
    frames: JitterBuffer<Vec<u8>>,
    pids: BTreeMap<u16, PidOutput>,
    ready: VecDeque<TsRelease>,
}

/// Output of a PID.
#[derive(Debug, Default)]
struct PidOutput {
    /// Continuity counters of the last packet: as it came, and as it was given out.
    counters: Option<(u8, u8)>,
    /// The last clock value, and its playout time.
    clock: Option<(u64, Instant)>,
    /// The last value that came, as it came.
    clock_value: u64,
    /// Playout time of the last one that came.
    clock_came: Instant,
}

impl PidOutput {
    /// Clock value to give for one that came: if it is behind those that were inserted while the source stood still, just after them.
    fn after_inserted(&self, pcr: u64) -> u64 {
        let Some((last, _)) = self.clock else { return pcr };
        let since = |value: u64| (value + PCR_VALUES - self.clock_value) % PCR_VALUES;
        if since(pcr) < since(last) { (last + 1) % PCR_VALUES } else { pcr }
    }
}

impl TsPlayout {
    /// Creates a playout that gives out packets one latency after their capture, or at once.
    pub fn new(latency: Duration, release: Release) -> Self {
        Self { frames: JitterBuffer::new(latency, release), pids: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// Latency in force.
    pub fn latency(&self) -> Duration {
        self.frames.latency()
    }

    /// Changes the latency.
    pub fn set_latency(&mut self, latency: Duration) {
        self.frames.set_latency(latency);
    }

    /// Synchronisation source (SSRC) that is played.
    pub fn ssrc(&self) -> Option<u32> {
        self.frames.ssrc()
    }

    /// Extra delay of the fastest packets of the last second, against the clock.
    pub fn excess(&self, now: Instant) -> Option<Duration> {
        self.frames.excess(now)
    }

    /// Counts so far. Frames are PES packets.
    pub fn stats(&self) -> WholeFrameCounts {
        self.frames.counts()
    }

    /// Whether packets wait for their playout time.
    pub fn holds_packets(&self) -> bool {
        self.frames.holds_frames()
    }

    /// Handles an RTP packet.
    ///
    /// # Errors
    /// See [`RtpError`]: the stream goes on without the packet.
    pub fn handle_packet(&mut self, now: Instant, rtp: &[u8]) -> Result<(), RtpError> {
        let handled = self.take(now, rtp);
        if handled.is_err() {
            self.frames.count_refused();
        }
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
        let is_prompt = descriptor.is_none_or(|descriptor| !descriptor.is_queued);
        let Some(due) = self.frames.admit(now, &packet, is_prompt)? else { return Ok(()) };
        match descriptor {
            Some(descriptor) => self.frames.insert(now, due, part(&descriptor, payload)),
            // Another sender's: useful as it is.
            None => self.give_out(payload.to_vec(), due),
        }
        Ok(())
    }

    /// Gives out what is due, and gives up what did not come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.frames.handle_timeout(now);
        self.take_released();
        self.insert_clocks(now);
    }

    fn take_released(&mut self) {
        while let Some(Whole { parts, due, .. }) = self.frames.poll() {
            self.give_out(parts.concat(), due);
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let clock = self.pids.values().filter_map(|output| Some(output.clock?.1 + CLOCK_INTERVAL)).min();
        let due = self.frames.poll_timeout()?;
        Some(clock.map_or(due, |clock| due.min(clock)))
    }

    /// Returns the next packets to give out.
    pub fn poll_release(&mut self) -> Option<TsRelease> {
        self.ready.pop_front()
    }

    /// Returns the next change of the clock.
    pub fn poll_change(&mut self) -> Option<ClockChange> {
        self.frames.poll_change()
    }

    /// Ends the stream: what is complete is given out at once.
    pub fn finish(&mut self) {
        self.frames.finish();
        self.take_released();
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
                let given = output.after_inserted(pcr);
                if given != pcr {
                    set_pcr(bytes, given);
                }
                (output.clock, output.clock_came, output.clock_value) = (Some((given, due)), due, pcr);
            }
            set_continuity(bytes, counter);
        }
        self.ready.push_back(TsRelease { packets, playout_at: due });
    }

    /// Inserts clock values for PIDs whose clock was given up, while others of the stream wait.
    fn insert_clocks(&mut self, now: Instant) {
        if !self.frames.holds_frames() {
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

/// Part of a PES packet, in whole transport packets.
fn part(descriptor: &PesDescriptor, payload: &[u8]) -> Part<Vec<u8>> {
    Part {
        frame: descriptor.frame,
        stream: payload.get(..PACKET_LEN).and_then(Packet::new).map(Packet::pid),
        first: descriptor.first,
        count: (payload.len() / PACKET_LEN) as u16,
        last: descriptor.last,
        is_entry: descriptor.is_entry,
        references: descriptor.references().collect(),
        len: payload.len(),
        units: (!payload.is_empty()).then(|| payload.to_vec()),
    }
}
