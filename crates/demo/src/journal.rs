//! Records of a stream by its sender and receiver: times since 1970 by the host's clock.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use timeous::core::Instant;

/// Identity of an RTP packet; it is the same in a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RtpId {
    /// Timestamp of its frame, in ticks.
    pub(crate) timestamp: u32,
    /// Sequence number.
    pub(crate) sequence: u16,
}

/// Frame type, as named in the journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum Kind {
    /// Intra frame at which a stream can begin.
    Idr,
    /// Intra frame.
    I,
    /// Predicted from earlier frames.
    P,
    /// Predicted from frames on both sides.
    B,
}

impl Kind {
    /// Whether it is decodable on its own.
    pub(crate) fn is_intra(self) -> bool {
        matches!(self, Self::Idr | Self::I)
    }
}

/// A packet in the sender's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentPacket {
    /// Identity of the packet.
    pub(crate) id: RtpId,
    /// Type of its frame.
    pub(crate) kind: Kind,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Capture time of its frame.
    pub(crate) captured: Instant,
    /// Latest time to send it, if the sender had a deadline.
    pub(crate) deadline: Option<Instant>,
    /// Whether the sender dropped it by choice.
    pub(crate) given_up: bool,
}

/// A frame in the sender's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentFrame {
    /// RTP timestamp, which identifies it.
    pub(crate) timestamp: u32,
    /// Type of the frame.
    pub(crate) kind: Kind,
    /// Capture time.
    pub(crate) captured: Instant,
    /// Whether the sender dropped a part of it by choice.
    pub(crate) given_up: bool,
}

/// A frame in the receiver's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedFrame {
    /// RTP timestamp, which identifies it.
    pub(crate) timestamp: u32,
    /// Arrival time of its last packet, if all arrived.
    pub(crate) completed: Option<Instant>,
    /// Whether it was played out.
    pub(crate) shown: bool,
}

#[derive(Deserialize)]
struct SentRow {
    rtp_timestamp: u32,
    rtp_sequence: u16,
    kind: Kind,
    bytes: u64,
    captured: u64,
    deadline: Option<u64>,
    fate: String,
}

#[derive(Deserialize)]
struct ReceivedRow {
    rtp_timestamp: u32,
    fate: String,
    completed: Option<u64>,
}

/// Fates chosen by a sender; the others are the network's.
const CHOSEN: [&str; 7] = ["expired", "too_late", "reference_lost", "policy", "withdrawn", "too_large", "closed"];

fn rows<T: DeserializeOwned>(from: impl Read) -> impl Iterator<Item = Result<T, csv::Error>> {
    csv::Reader::from_reader(from).into_deserialize()
}

/// Reads the journal of `timeous send`.
///
/// # Errors
/// A line that does not belong to such a journal.
pub(crate) fn read_sent(from: impl Read) -> Result<Vec<SentPacket>, csv::Error> {
    let packet = |row: SentRow| SentPacket {
        id: RtpId { timestamp: row.rtp_timestamp, sequence: row.rtp_sequence },
        kind: row.kind,
        bytes: row.bytes,
        captured: Instant::from_nanos(row.captured),
        deadline: row.deadline.map(Instant::from_nanos),
        given_up: CHOSEN.contains(&row.fate.as_str()),
    };
    rows(from).map(|row| row.map(packet)).collect()
}

/// Reads the frames of `timeous recv`.
///
/// # Errors
/// A line that does not belong to such a file.
pub(crate) fn read_received(from: impl Read) -> Result<Vec<ReceivedFrame>, csv::Error> {
    let frame = |row: ReceivedRow| ReceivedFrame {
        timestamp: row.rtp_timestamp,
        completed: row.completed.map(Instant::from_nanos),
        shown: row.fate == "Decodable",
    };
    rows(from).map(|row| row.map(frame)).collect()
}

/// Groups packets into frames, in the order of capture.
pub(crate) fn frames_of(packets: &[SentPacket]) -> Vec<SentFrame> {
    let mut frames = BTreeMap::new();
    for packet in packets {
        let SentPacket { id: RtpId { timestamp, .. }, kind, captured, .. } = *packet;
        let frame = frames.entry(timestamp).or_insert(SentFrame { timestamp, kind, captured, given_up: false });
        frame.given_up |= packet.given_up;
    }
    let mut frames: Vec<SentFrame> = frames.into_values().collect();
    frames.sort_by_key(|frame| frame.captured);
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "rtp_timestamp,rtp_sequence,frame,kind,bytes,captured,enqueued,deadline,fate\n\
        4294967295,65535,0,Idr,1200,1000,1001,2000,acked\n\
        4294967295,0,0,Idr,300,1000,1002,2000,lost\n\
        2999,1,1,B,700,500,1003,,policy\n";

    #[test]
    fn a_senders_journal_is_read_and_gathered_into_frames() {
        let packets = read_sent(SENT.as_bytes()).unwrap();
        assert_eq!(packets.len(), 3);
        assert_eq!(packets[1].id, RtpId { timestamp: u32::MAX, sequence: 0 });
        assert_eq!(packets[0].deadline, Some(Instant::from_nanos(2000)));
        assert_eq!(packets.iter().map(|p| p.given_up).collect::<Vec<_>>(), [false, false, true]);

        let frames = frames_of(&packets);
        let order: Vec<_> = frames.iter().map(|frame| (frame.kind, frame.given_up)).collect();
        assert_eq!(order, [(Kind::B, true), (Kind::Idr, false)], "in the order of capture, not of the numbers");
    }

    #[test]
    fn a_receivers_frames_are_read() {
        let text = "rtp_timestamp,kind,fate,completed,playout,packets,bytes\n\
            7,Idr,Decodable,1500,1900,2,1500\n8,,Incomplete,,1900,1,700\n9,P,Late,2100,1900,1,700\n";
        let frames = read_received(text.as_bytes()).unwrap();
        let at = |nanos| Some(Instant::from_nanos(nanos));
        let seen: Vec<_> = frames.iter().map(|frame| (frame.completed, frame.shown)).collect();
        assert_eq!(seen, [(at(1500), true), (None, false), (at(2100), false)]);
    }

    #[test]
    fn a_broken_line_is_an_error_with_its_place() {
        let error = read_sent(format!("{SENT}x,1,1,B,700,500,1003,,policy\n").as_bytes()).unwrap_err();
        assert!(error.to_string().contains("line: 5"), "{error}");
        assert!(read_sent("other,columns\n1,2\n".as_bytes()).is_err());
    }
}
