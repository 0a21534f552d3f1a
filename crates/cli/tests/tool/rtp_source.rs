//! RTP source for tests, with configurable clock, SSRC, markers, packet order and payload type.

use std::net::UdpSocket;

use timeous::clock;
use timeous::core::Duration;

use crate::feeder::Sent;
use crate::pictures::{Picture, first_slice};
use crate::support::sleep_until;

/// Bytes of a NAL unit per packet.
const FRAGMENT: usize = 1_200;
/// NAL unit type of a fragment (RFC 6184 §5.8).
const FU_A: u8 = 28;

/// Source of H.264 over RTP (RFC 6184), one NAL unit or fragment per packet.
pub(crate) struct RtpSource {
    socket: UdpSocket,
    pub(crate) sequence: u16,
    pub(crate) ssrc: u32,
    pub(crate) payload_type: u8,
    /// Sets the marker bit on every NAL unit instead of only the last of a picture.
    pub(crate) marks_all: bool,
    /// Sends every seventh packet after the next one.
    pub(crate) reorders: bool,
    /// Sends every fifth packet twice.
    pub(crate) repeats: bool,
    held: Option<Vec<u8>>,
    count: usize,
}

impl RtpSource {
    pub(crate) fn new(port: u16) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", port)).unwrap();
        Self {
            socket,
            sequence: 100,
            ssrc: 1,
            payload_type: 96,
            marks_all: false,
            reorders: false,
            repeats: false,
            held: None,
            count: 0,
        }
    }

    /// Sends `pictures` at `fps`; returns their send times. `each` gives each picture's 90 kHz timestamp, and may
    /// change the source or wait.
    pub(crate) fn play(
        mut self,
        pictures: &[Picture],
        fps: f64,
        mut each: impl FnMut(&mut Self, u32) -> u32,
    ) -> Vec<Sent> {
        let mut next = clock::now();
        let mut sent = Vec::new();
        for (picture, index) in pictures.iter().zip(0..) {
            sleep_until(next);
            let before = clock::now();
            let timestamp = each(&mut self, index);
            let at = clock::now();
            next += at.saturating_since(before) + Duration::from_secs_f64(1.0 / fps);
            self.picture(picture, timestamp);
            sent.push(Sent { slice: first_slice(picture).to_vec(), at });
        }
        if let Some(held) = self.held.take() {
            self.socket.send(&held).unwrap();
        }
        sent
    }

    fn picture(&mut self, picture: &Picture, timestamp: u32) {
        for (index, nal) in picture.iter().enumerate() {
            let marker = self.marks_all || index + 1 == picture.len();
            if nal.len() <= FRAGMENT {
                self.packet(nal, timestamp, marker);
                continue;
            }
            let count = (nal.len() - 1).div_ceil(FRAGMENT);
            for (part, bytes) in nal[1..].chunks(FRAGMENT).enumerate() {
                let edges = u8::from(part == 0) << 7 | u8::from(part + 1 == count) << 6;
                let payload = [&[nal[0] & 0xe0 | FU_A, edges | nal[0] & 0x1f], bytes].concat();
                self.packet(&payload, timestamp, marker && part + 1 == count);
            }
        }
    }

    /// Sends a packet (RFC 3550 §5.1).
    pub(crate) fn packet(&mut self, payload: &[u8], timestamp: u32, marker: bool) {
        let mut packet = vec![0x80, u8::from(marker) << 7 | self.payload_type];
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend(self.ssrc.to_be_bytes());
        packet.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.count += 1;
        if self.reorders && self.count.is_multiple_of(7) && self.held.is_none() {
            self.held = Some(packet);
            return;
        }
        let times = if self.repeats && self.count.is_multiple_of(5) { 2 } else { 1 };
        for packet in std::iter::repeat_n(packet, times).chain(self.held.take()) {
            // There may be no receiver, which the test notices.
            let _ = self.socket.send(&packet);
        }
    }
}
