//! Transport packets of datagrams, with or without RTP: those with RTP in the order of their sequence numbers.

use std::collections::VecDeque;

use rtp_types::RtpPacket;
use timeous_core::Instant;

use super::packetize::packets_of;
use crate::rtp::reorder::Reorder;

/// Reader of datagrams of a transport stream.
///
/// Datagrams with RTP (RFC 2250) that come in another order wait for those before them, for a short time; repeated ones are left out.
///
/// ```
/// use timeous_core::Instant;
/// use timeous_media::ts::TsDatagrams;
/// let mut datagrams = TsDatagrams::default();
/// datagrams.push(Instant::ZERO, &[0x47; 188]);
/// assert_eq!(datagrams.next(Instant::ZERO), Some(vec![0x47; 188]));
/// ```
#[derive(Debug, Default)]
pub struct TsDatagrams {
    ssrc: Option<u32>,
    reorder: Reorder,
    ready: VecDeque<Vec<u8>>,
    has_restarted: bool,
}

impl TsDatagrams {
    /// Takes a datagram. Others than of a transport stream are left out.
    pub fn push(&mut self, now: Instant, datagram: &[u8]) {
        let Some(packets) = packets_of(datagram) else { return };
        let Some(rtp) = RtpPacket::parse(datagram).ok().filter(|_| packets.len() < datagram.len()) else {
            return self.ready.push_back(packets.to_vec());
        };
        let (ssrc, number, timestamp) = (rtp.ssrc(), rtp.sequence_number(), rtp.timestamp());
        if self.ssrc.replace(ssrc).is_some_and(|before| before != ssrc) {
            self.begin_anew(Reorder::default());
        }
        if !self.reorder.push(now, number, timestamp, packets) {
            let reorder = self.reorder.restarted();
            self.begin_anew(reorder);
            self.reorder.push(now, number, timestamp, packets);
        }
    }

    /// Returns the transport packets of the next datagram, if it is in order or was waited for.
    pub fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.ready.pop_front().or_else(|| self.reorder.next(now).map(|ordered| ordered.packet))
    }

    /// Whether the source has begun anew since the last call: with another SSRC, or with other sequence numbers.
    pub fn take_has_restarted(&mut self) -> bool {
        std::mem::take(&mut self.has_restarted)
    }

    /// Returns when [`next`](Self::next) has one at the latest that waits for others.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.reorder.poll_timeout()
    }

    /// Begins another source; nothing is waited for any more.
    fn begin_anew(&mut self, reorder: Reorder) {
        self.ready.extend(std::iter::from_fn(|| self.reorder.next(Instant::FAR_FUTURE)).map(|ordered| ordered.packet));
        self.reorder = reorder;
        self.has_restarted = true;
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::Duration;

    use super::*;

    /// RTP with a transport packet that has the number in it.
    fn rtp(ssrc: u8, number: u16) -> Vec<u8> {
        let header = [&[0x80, 33][..], &number.to_be_bytes(), &[0; 7], &[ssrc]].concat();
        [&header[..], &[0x47], &[number as u8; 187]].concat()
    }

    fn came(datagrams: &mut TsDatagrams, ms: u64) -> Vec<u8> {
        let now = Instant::ZERO + Duration::from_millis(ms);
        std::iter::from_fn(|| datagrams.next(now)).map(|packets| packets[1]).collect()
    }

    /// A pair that was swapped was an error of continuity, and its PES packet was damaged.
    #[test]
    fn datagrams_come_out_in_the_order_of_their_numbers_and_once() {
        let mut datagrams = TsDatagrams::default();
        for number in [1, 3, 2, 2, 4] {
            datagrams.push(Instant::ZERO, &rtp(1, number));
        }
        assert_eq!(came(&mut datagrams, 0), [1, 2, 3, 4]);
        assert_eq!(datagrams.poll_timeout(), None);
        // The sixth is lost.
        for number in [5, 7, 8] {
            datagrams.push(Instant::ZERO, &rtp(1, number));
        }
        assert_eq!(came(&mut datagrams, 10), [5]);
        let due = datagrams.poll_timeout().unwrap();
        assert_eq!(came(&mut datagrams, due.as_nanos() / 1_000_000), [7, 8]);
        // It comes of late, and another source begins.
        for datagram in [rtp(1, 6), rtp(1, 10), rtp(2, 99)] {
            datagrams.push(due, &datagram);
        }
        assert_eq!(came(&mut datagrams, 100), [10, 99]);
    }

    /// A source that restarted with lower numbers was lost whole, until it caught up.
    #[test]
    fn a_source_that_restarts_with_lower_numbers_begins_anew() {
        for (fall, pause) in [(3_000, 4_000), (3_000, 700), (200, 4_000), (100, 700)] {
            let mut datagrams = TsDatagrams::default();
            for number in 0..=200 {
                datagrams.push(Instant::ZERO, &rtp(1, 30_000 + number));
            }
            assert_eq!(came(&mut datagrams, 0).len(), 201);
            assert!(!datagrams.take_has_restarted());
            let now = Instant::ZERO + Duration::from_millis(pause);
            for number in 0..50 {
                datagrams.push(now, &rtp(1, 30_200 - fall + number));
            }
            let numbers: Vec<u8> = (0..50).map(|number| (30_200 - fall + number) as u8).collect();
            assert_eq!(came(&mut datagrams, pause), numbers, "{fall}");
            assert!(datagrams.take_has_restarted() && !datagrams.take_has_restarted());
        }
    }
}
