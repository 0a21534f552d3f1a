//! Constant bitrate: null packets between those of a stream, and a program clock by the place in the stream.

use std::collections::BTreeMap;

use timeous_core::{Duration, Instant, Rate};

use super::packet::{NULL_PID, PACKET_LEN, PCR_HZ, PCR_VALUES, Packet, SYNC, mark_discontinuous, set_pcr};

/// Bits of a packet.
const PACKET_BITS: u128 = 8 * PACKET_LEN as u128;
/// Longest silence that is filled. Chosen by us: after a longer one the stream goes on where it was, as a file would.
const MOST_SILENCE: Duration = Duration::from_secs(2);
/// Difference between a clock value and the place in the stream at which the clock begins anew, with a discontinuity: 500 ms. Chosen by us:
/// a keyframe may take that long at the constant rate; a higher value leaves a decoder less time.
const MOST_DIFFERENCE: u64 = PCR_HZ / 2;

/// Makes the bitrate of a transport stream constant.
///
/// Clock values are those of their places: a decoder that reads at the constant rate sees no jitter. The rate must be above that of the
/// stream for most of the time; a burst above it delays what follows.
///
/// ```
/// use timeous_core::{Duration, Instant, Rate};
/// use timeous_media::ts::ConstantRate;
/// let mut constant = ConstantRate::new(Rate::from_kbps(1_504));
/// let packet = [[0x47, 1, 0, 0x10].as_slice(), &[0; 184]].concat();
/// assert_eq!(constant.push(&packet, Instant::ZERO).len(), 188);
/// // 1000 packets a second: nine null packets, and the next one.
/// assert_eq!(constant.push(&packet, Instant::ZERO + Duration::from_millis(10)).len(), 10 * 188);
/// ```
#[derive(Clone, Debug)]
pub struct ConstantRate {
    rate: Rate,
    /// Time of the first packet.
    origin: Option<Instant>,
    /// Packets so far.
    packets: u128,
    /// Clock of each PID: its value at a place.
    clocks: BTreeMap<u16, (u64, u128)>,
    last: Instant,
}

impl ConstantRate {
    /// Creates it for a rate, of whole packets.
    pub fn new(rate: Rate) -> Self {
        Self { rate, origin: None, packets: 0, clocks: BTreeMap::new(), last: Instant::ZERO }
    }

    /// By how much a reader at the constant rate is late with what was given out: the stream has more than the rate.
    pub fn lag(&self) -> Duration {
        let bits = self.packets * PACKET_BITS;
        let nanos = bits * 1_000_000_000 / u128::from(self.rate.as_bps().max(1));
        let took = self.origin.map_or(Duration::ZERO, |origin| self.last.saturating_since(origin));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_sub(took)
    }

    /// Takes whole packets that are given out at a time; returns them after the null packets before them.
    pub fn push(&mut self, packets: &[u8], at: Instant) -> Vec<u8> {
        let silence = at.saturating_since(self.last);
        let origin = *self.origin.get_or_insert(at);
        if silence > MOST_SILENCE && self.last > Instant::ZERO {
            // What was silent is no part of the stream.
            self.origin = Some(origin + silence);
        }
        self.last = self.last.max(at);
        let time = at.saturating_since(self.origin.unwrap_or(at));
        let due = u128::from(time.as_nanos()) * u128::from(self.rate.as_bps()) / 1_000_000_000 / PACKET_BITS;
        let nulls = due.saturating_sub(self.packets);
        self.packets += nulls;
        let mut out = null_packet().repeat(usize::try_from(nulls).unwrap_or(0));
        for packet in packets.chunks_exact(PACKET_LEN) {
            out.extend_from_slice(packet);
            let begin = out.len() - PACKET_LEN;
            self.stamp(&mut out[begin..]);
            self.packets += 1;
        }
        out
    }

    /// Gives a packet's clock the value of its place.
    fn stamp(&mut self, bytes: &mut [u8]) {
        let Some((pid, Some(came))) = Packet::new(bytes).map(|packet| (packet.pid(), packet.adaptation().pcr)) else {
            return;
        };
        let (value, place) = *self.clocks.entry(pid).or_insert((came, self.packets));
        let bits = (self.packets - place) * PACKET_BITS;
        let ticks = bits * u128::from(PCR_HZ) / u128::from(self.rate.as_bps().max(1));
        let by_place = ((u128::from(value) + ticks) % u128::from(PCR_VALUES)) as u64;
        let ahead = (by_place + PCR_VALUES - came) % PCR_VALUES;
        if ahead.min(PCR_VALUES - ahead) <= MOST_DIFFERENCE {
            set_pcr(bytes, by_place);
        } else {
            self.clocks.insert(pid, (came, self.packets));
            mark_discontinuous(bytes);
        }
    }
}

/// Null packet (ISO/IEC 13818-1 §2.4.3.3).
fn null_packet() -> [u8; PACKET_LEN] {
    let mut packet = [0xff; PACKET_LEN];
    let [high, low] = NULL_PID.to_be_bytes();
    packet[..4].copy_from_slice(&[SYNC, high, low, 0x10]);
    packet
}

#[cfg(test)]
mod tests {
    use super::super::packet::pcr_packet;
    use super::*;

    /// Clock values, with the places of their packets.
    fn clocks(stream: &[u8]) -> Vec<(u64, u64)> {
        let packets = (0u64..).zip(stream.chunks_exact(PACKET_LEN));
        packets.filter_map(|(at, bytes)| Some((Packet::new(bytes)?.adaptation().pcr?, at))).collect()
    }

    #[test]
    fn clock_values_are_those_of_their_places() {
        let mut constant = ConstantRate::new(Rate::from_kbps(1_504));
        let mut out = Vec::new();
        for frame in 0..100u64 {
            // Released up to 3 ms late, and with 1 to 30 packets behind.
            let at = Instant::ZERO + Duration::from_millis(40 * frame + frame % 4);
            let clock = pcr_packet(0x100, 0, PCR_VALUES - PCR_HZ + frame * PCR_HZ / 25);
            let packets = [&clock[..], &[0x47; PACKET_LEN].repeat(1 + 7 * frame as usize % 30)].concat();
            out.extend(constant.push(&packets, at));
        }
        let clocks = clocks(&out);
        assert_eq!(clocks.len(), 100);
        for pair in clocks.windows(2) {
            // A packet takes a millisecond: 27000 ticks.
            let ticks = (pair[1].0 + PCR_VALUES - pair[0].0) % PCR_VALUES;
            assert_eq!(ticks, (pair[1].1 - pair[0].1) * 27_000);
        }
        assert!(out.len() / PACKET_LEN >= 3_960 && out.len() / PACKET_LEN <= 4_000);
    }

    #[test]
    fn a_stream_above_the_rate_lags() {
        let mut constant = ConstantRate::new(Rate::from_kbps(1_504));
        for millis in 0..1_000 {
            constant.push(&[0x47; PACKET_LEN].repeat(2), Instant::ZERO + Duration::from_millis(millis));
        }
        assert!(constant.lag() > Duration::from_millis(990) && constant.lag() < Duration::from_millis(1_010));
        let mut below = ConstantRate::new(Rate::from_kbps(1_504));
        for millis in 0..1_000 {
            below.push(&[0x47; PACKET_LEN], Instant::ZERO + Duration::from_millis(2 * millis));
        }
        assert!(below.lag() < Duration::from_millis(10));
    }

    #[test]
    fn a_clock_that_begins_anew_and_a_long_silence_are_passed_on() {
        let mut constant = ConstantRate::new(Rate::from_kbps(1_504));
        constant.push(&pcr_packet(0x100, 0, 0), Instant::ZERO);
        let jump = constant.push(&pcr_packet(0x100, 0, 5 * PCR_HZ), Instant::ZERO + Duration::from_millis(50));
        assert_eq!(clocks(&jump), [(5 * PCR_HZ, 49)]);
        assert!(Packet::new(&jump[49 * PACKET_LEN..]).unwrap().adaptation().is_discontinuous);
        let after = constant.push(&[0x47; PACKET_LEN], Instant::ZERO + Duration::from_secs(3_600));
        assert!(after.len() < 10 * PACKET_LEN, "{} bytes", after.len());
    }

    #[test]
    fn a_burst_above_the_rate_leaves_whole_and_then_catches_up() {
        let mut constant = ConstantRate::new(Rate::from_kbps(1_504));
        assert_eq!(constant.push(&[0x47; PACKET_LEN].repeat(100), Instant::ZERO).len(), 100 * PACKET_LEN);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(constant.push(&[0x47; PACKET_LEN], at(50)).len(), PACKET_LEN, "still behind");
        assert_eq!(constant.push(&[0x47; PACKET_LEN], at(111)).len(), 11 * PACKET_LEN);
    }
}
