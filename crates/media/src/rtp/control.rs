//! RTCP messages between the two ends of a stream: clock, latency, keyframe requests (RFC 3550 §6, RFC 4585, RFC 5506).
//!
//! They share the connection with RTP, and differ in the second byte (RFC 5761 §4).

use rtcp_types::{
    App, Compound, Packet, PayloadFeedback, Pli, RtcpPacketParserExt as _, RtcpPacketWriter, RtcpPacketWriterExt as _,
    Sdes, SdesChunk, SdesItem, SenderReport,
};
use timeous_core::{Duration, Instant};

/// Name of Timeous's APP packets (RFC 3550 §6.7).
const NAME: &str = "TMUS";
/// Subtype of APP packets with latency and excess.
const TERMS: u8 = 1;
/// Subtype of APP packets with the description of a stream.
const STREAM: u8 = 2;
/// Subtype of APP packets with the frames that the sender handed over.
const FRAMES: u8 = 3;
/// Most streams of which frames are told: a packet of a kilobyte.
const MOST_STREAMS: usize = 128;
/// Length of the data of terms: latency and excess, 32 bits each, in microseconds.
const TERMS_LEN: usize = 8;
/// Value for an unknown excess.
const UNKNOWN: u32 = u32::MAX;

/// RTCP message between the ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Sender report: one instant on the sender's wall clock (NTP format) and on its media clock.
    SenderClock {
        /// Synchronisation source (SSRC) of the sender.
        ssrc: u32,
        /// Wall clock: seconds since 1900 and their fraction, 32 bits each.
        ntp: u64,
        /// RTP timestamp of the same instant.
        timestamp: u32,
    },
    /// Latency that an end wants, and extra delay that it measured.
    Terms {
        /// Latency that this end wants; the larger one of both ends applies.
        latency: Duration,
        /// From a receiver: extra delay of the fastest frames of the last second, against its clock.
        excess: Option<Duration>,
    },
    /// Keyframe request: nothing can be decoded before the next entry point (picture loss indication, RFC 4585 §6.3.1).
    KeyframeWanted {
        /// Synchronisation source (SSRC) of the video.
        ssrc: u32,
    },
    /// Description of a stream that is passed through.
    Stream {
        /// Number of the stream, from zero.
        number: u8,
        /// Number of streams.
        of: u8,
        /// Its lines of SDP, beginning with `m=`.
        lines: String,
    },
    /// Frames that the sender has handed over, at its end: the last ones may have been given up, and no later one tells of them.
    /// Before that, without streams, it promises the message of the end: a connection that ends without it was cut off.
    Frames {
        /// Number of each stream, as both ends count them, and of its frames; empty: the end is not there yet.
        streams: Vec<(u32, u32)>,
    },
}

/// Converts Unix nanoseconds to NTP time (RFC 5905 §6): seconds since 1900 and their fraction.
pub fn ntp(unix: Instant) -> u64 {
    const FROM_1900_TO_1970: u64 = 2_208_988_800;
    let (seconds, nanos) = (unix.as_nanos() / 1_000_000_000, unix.as_nanos() % 1_000_000_000);
    ((seconds + FROM_1900_TO_1970) << 32) | ((nanos << 32) / 1_000_000_000)
}

/// Sender report for a player, with the name that streams of one clock share (RFC 3550 §6.1: a compound packet with CNAME).
pub(crate) struct Report<'a> {
    pub(crate) ssrc: u32,
    pub(crate) ntp: u64,
    pub(crate) timestamp: u32,
    pub(crate) packets: u32,
    pub(crate) octets: u32,
    pub(crate) name: &'a str,
}

impl Report<'_> {
    pub(crate) fn write(&self) -> Vec<u8> {
        let report = SenderReport::builder(self.ssrc)
            .ntp_timestamp(self.ntp)
            .rtp_timestamp(self.timestamp)
            .packet_count(self.packets)
            .octet_count(self.octets);
        let name = SdesChunk::builder(self.ssrc).add_item(SdesItem::builder(SdesItem::CNAME, self.name));
        written(Compound::builder().add_packet(report).add_packet(Sdes::builder().add_chunk(name)))
    }
}

/// Whether a packet is RTCP and not RTP, where both share a port (RFC 5761 §4).
pub fn is_control(packet: &[u8]) -> bool {
    packet.len() >= 8 && packet[0] >> 6 == 2 && (192..=223).contains(&packet[1])
}

impl Control {
    /// Writes the message as an RTCP packet.
    pub fn write(&self) -> Vec<u8> {
        match self {
            &Self::SenderClock { ssrc, ntp, timestamp } => {
                written(SenderReport::builder(ssrc).ntp_timestamp(ntp).rtp_timestamp(timestamp))
            }
            &Self::Terms { latency, excess } => {
                let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(UNKNOWN - 1);
                let mut data = [0; TERMS_LEN];
                data[..4].copy_from_slice(&micros(latency).to_be_bytes());
                data[4..].copy_from_slice(&excess.map_or(UNKNOWN, micros).to_be_bytes());
                written(App::builder(0, NAME).subtype(TERMS).data(&data))
            }
            Self::Stream { number, of, lines } => {
                let mut data = vec![*number, *of];
                data.extend_from_slice(lines.as_bytes());
                // RTCP has whole words.
                data.resize(data.len().next_multiple_of(4), b'\n');
                written(App::builder(0, NAME).subtype(STREAM).data(&data))
            }
            Self::Frames { streams } => {
                let words = streams.iter().take(MOST_STREAMS).flat_map(|&(number, frames)| [number, frames]);
                let data: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
                written(App::builder(0, NAME).subtype(FRAMES).data(&data))
            }
            &Self::KeyframeWanted { ssrc } => written(PayloadFeedback::builder_owned(Pli::builder()).media_ssrc(ssrc)),
        }
    }

    /// Reads the messages of a packet, compound or not; others are ignored.
    pub fn read(packet: &[u8]) -> Vec<Self> {
        let Ok(compound) = rtcp_types::Compound::parse(packet) else { return Vec::new() };
        compound.filter_map(|part| part.ok().and_then(|part| Self::of(&part))).collect()
    }

    fn of(part: &Packet<'_>) -> Option<Self> {
        match part {
            Packet::Sr(report) => Some(Self::SenderClock {
                ssrc: report.ssrc(),
                ntp: report.ntp_timestamp(),
                timestamp: report.rtp_timestamp(),
            }),
            // rtcp-types panics on padding longer than the packet; Timeous's packets have none.
            Packet::App(app) if app.padding().is_none() && app.name() == NAME.as_bytes() && app.subtype() == TERMS => {
                let (latency, rest) = app.data().split_first_chunk::<4>()?;
                let excess = u32::from_be_bytes(*rest.first_chunk()?);
                let micros = |value: u32| Duration::from_micros(value.into());
                let latency = micros(u32::from_be_bytes(*latency));
                Some(Self::Terms { latency, excess: (excess != UNKNOWN).then(|| micros(excess)) })
            }
            Packet::App(app) if app.padding().is_none() && app.name() == NAME.as_bytes() && app.subtype() == STREAM => {
                let (&[number, of], lines) = app.data().split_first_chunk::<2>()?;
                let lines = std::str::from_utf8(lines).ok()?.trim_end().to_owned();
                Some(Self::Stream { number, of, lines })
            }
            Packet::App(app) if app.padding().is_none() && app.name() == NAME.as_bytes() && app.subtype() == FRAMES => {
                let word = |bytes: &[u8]| Some(u32::from_be_bytes(*bytes.first_chunk()?));
                let pairs = app.data().chunks_exact(2 * size_of::<u32>());
                let streams = pairs.filter_map(|pair| Some((word(pair)?, word(&pair[4..])?))).collect();
                Some(Self::Frames { streams })
            }
            Packet::PayloadFeedback(feedback) => {
                let wanted = feedback.parse_fci::<Pli<'_>>().is_ok();
                wanted.then(|| Self::KeyframeWanted { ssrc: feedback.media_ssrc() })
            }
            _ => None,
        }
    }
}

/// All fields passed to these builders are within their ranges.
fn written(builder: impl RtcpPacketWriter) -> Vec<u8> {
    let mut packet = vec![0; builder.calculate_size().expect("its fields are in range")];
    builder.write_into(&mut packet).expect("it has the room that it asked for");
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let latency = Duration::from_millis(300);
        let messages = [
            Control::SenderClock { ssrc: 7, ntp: 0x0123_4567_89ab_cdef, timestamp: 90_000 },
            Control::Terms { latency, excess: None },
            Control::Terms { latency, excess: Some(Duration::from_micros(1_500)) },
            Control::KeyframeWanted { ssrc: 9 },
            Control::Stream { number: 1, of: 2, lines: "m=audio 0 RTP/AVP 0".to_owned() },
            Control::Frames { streams: vec![(256, 100), (1 << 16 | 257, 13)] },
            Control::Frames { streams: Vec::new() },
        ];
        for message in messages {
            let packet = message.write();
            assert!(is_control(&packet), "{message:?}: {packet:?}");
            assert_eq!(Control::read(&packet), [message]);
        }
        assert!(!is_control(&[0x80, 0xe0, 0, 1, 0, 0, 0, 0]), "RTP of payload type 96 with its marker");
    }

    #[test]
    fn messages_in_one_packet_are_read() {
        let latency = Duration::from_millis(300);
        let messages = [Control::Terms { latency, excess: None }, Control::Frames { streams: Vec::new() }];
        let packet = messages.each_ref().map(Control::write).concat();
        assert!(is_control(&packet));
        assert_eq!(Control::read(&packet), messages);
    }

    /// Input found by the fuzz target `media_control`: padding of 83 bytes, longer than the packet.
    #[test]
    fn padding_that_is_longer_than_its_packet_is_no_message() {
        assert_eq!(Control::read(b"\xa1\xcc\0\x02\0\0\0\0TMUS"), []);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(kind in 192u8..=223, bytes: Vec<u8>) {
            let _ = Control::read(&[&[0x81, kind][..], &bytes].concat());
            let _ = Control::read(&bytes);
        }
    }
}
