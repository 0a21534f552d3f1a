//! Playout of a transport stream: PES packets that are complete, in time and decodable, whole, with their counters made continuous.

use std::collections::BTreeMap;

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant};

use super::descriptor::PesDescriptor;
use super::packet::{
    MOST_STEP, PACKET_LEN, PCR_HZ, PCR_VALUES, Packet, mark_discontinuous, pcr_packet, set_continuity, set_pcr,
};
use super::packetize::TS_PAYLOAD_TYPE;
use super::psi::Tables;
use super::stream::{TsStream, number_of, pid_of};
use crate::error::RtpError;
use crate::jitter::{Part, Whole, WholeFrameCounts};
use crate::whole::{Carrier, Content, Reading, WholeFramePlayout};

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
    /// Restarts of the sender: with another number, clock and times are of another one.
    pub restarts: u32,
    /// Whether it is a clock value alone, inserted where the sender's was given up, and no frame.
    pub is_inserted: bool,
}

/// Output of a transport stream.
#[derive(Debug, Default)]
pub struct TsOutput {
    pids: BTreeMap<u16, PidOutput>,
    tables: Tables,
    restarts: u32,
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
pub type TsPlayout = WholeFramePlayout<TsOutput>;

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
    /// Whether another sender goes on.
    has_new_clock: bool,
}

impl PidOutput {
    /// Whether a value is of another clock: behind the last one that came, or ahead of it by more than the time between them and
    /// [`MOST_STEP`].
    fn is_another_clock(&self, pcr: u64, due: Instant) -> bool {
        let step = (pcr + PCR_VALUES - self.clock_value) % PCR_VALUES;
        self.clock.is_some() && step > ticks(due.saturating_since(self.clock_came)) + MOST_STEP
    }

    /// Clock value to give for one that came: if it is behind those that were inserted while the source stood still, just after them.
    fn after_inserted(&self, pcr: u64) -> u64 {
        let Some((last, _)) = self.clock else { return pcr };
        let since = |value: u64| (value + PCR_VALUES - self.clock_value) % PCR_VALUES;
        if since(pcr) < since(last) { (last + 1) % PCR_VALUES } else { pcr }
    }
}

impl TsPlayout {
    /// Returns the next packets to give out.
    pub fn poll_release(&mut self) -> Option<TsRelease> {
        self.next_release()
    }

    /// Counts of each elementary stream that has come.
    pub fn streams(&self) -> impl Iterator<Item = (TsStream, WholeFrameCounts)> + '_ {
        self.counts_by_stream().map(|(number, counts)| {
            let (pid, is_clock) = pid_of(number);
            (self.carrier.tables.stream(pid, is_clock), counts)
        })
    }
}

impl Carrier for TsOutput {
    type Piece = Vec<u8>;
    type Release = TsRelease;

    fn read(&mut self, packet: &RtpPacket<'_>) -> Result<Reading<Vec<u8>>, RtpError> {
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
        let content = match descriptor {
            Some(descriptor) => Content::Part(part(&descriptor, payload)),
            // Another sender's: useful as it is.
            None => Content::Alone(payload.to_vec()),
        };
        Ok(Reading { is_prompt, content })
    }

    /// Makes the counters continuous.
    fn give_out(&mut self, whole: Whole<Vec<u8>>) -> Option<TsRelease> {
        let (mut packets, due) = (whole.parts.concat(), whole.due);
        for bytes in packets.chunks_exact_mut(PACKET_LEN) {
            let Some(packet) = Packet::new(bytes) else { continue };
            let (pid, came, has_payload) = (packet.pid(), packet.continuity(), packet.has_payload());
            let (starts, pcr) = (packet.starts(), packet.adaptation().pcr);
            if !packet.is_scrambled() {
                self.tables.push(pid, starts, packet.payload());
            }
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
                let is_new = std::mem::take(&mut output.has_new_clock);
                if is_new || output.is_another_clock(pcr, due) {
                    mark_discontinuous(bytes);
                }
                let given = output.after_inserted(pcr);
                if given != pcr {
                    set_pcr(bytes, given);
                }
                (output.clock, output.clock_came, output.clock_value) = (Some((given, due)), due, pcr);
            }
            set_continuity(bytes, counter);
        }
        (!packets.is_empty()).then_some(TsRelease {
            packets,
            playout_at: due,
            restarts: self.restarts,
            is_inserted: false,
        })
    }

    fn begin_anew(&mut self, restarts: u32) {
        self.restarts = restarts;
        for output in self.pids.values_mut() {
            (output.clock, output.has_new_clock) = (None, output.counters.is_some());
        }
    }

    /// Inserts clock values for PIDs whose clock was given up.
    fn pass_time(&mut self, now: Instant) -> Vec<TsRelease> {
        let mut inserted = Vec::new();
        for (&pid, output) in &mut self.pids {
            let (Some((pcr, at)), Some((_, counter))) = (output.clock, output.counters) else { continue };
            if now.saturating_since(output.clock_came) > CLOCK_KEPT || !self.tables.has_clock(pid) {
                // The program is gone.
                output.clock = None;
                continue;
            }
            if now.saturating_since(at) < CLOCK_INTERVAL {
                continue;
            }
            let until = now.saturating_sub(CLOCK_MARGIN);
            let value = (pcr + ticks(until.saturating_since(at))) % PCR_VALUES;
            output.clock = Some((value, until));
            let packets = pcr_packet(pid, counter, value).to_vec();
            inserted.push(TsRelease { packets, playout_at: now, restarts: self.restarts, is_inserted: true });
        }
        inserted
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.pids.values().filter_map(|output| Some(output.clock?.1 + CLOCK_INTERVAL)).min()
    }
}

/// Ticks of the program clock.
fn ticks(time: Duration) -> u64 {
    time.as_nanos() / 1_000 * (PCR_HZ / 1_000_000)
}

/// Part of a PES packet, in whole transport packets.
fn part(descriptor: &PesDescriptor, payload: &[u8]) -> Part<Vec<u8>> {
    let first = payload.get(..PACKET_LEN).and_then(Packet::new);
    Part {
        frame: descriptor.frame,
        bits: PesDescriptor::FRAME_BITS,
        lane: first.map(Packet::pid),
        stream: first.map(|packet| (number_of(packet.pid(), packet.has_payload()), descriptor.place)),
        first: descriptor.first,
        count: (payload.len() / PACKET_LEN) as u16,
        last: descriptor.last,
        is_entry: descriptor.is_entry,
        is_below: false,
        back: descriptor.distances().collect(),
        len: payload.len(),
        units: (!payload.is_empty()).then(|| payload.to_vec()),
    }
}
