//! Errors of this crate: unusable input, invalid packetizer settings, refused RTP packets.

/// Error in the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The input does not begin with a start code.
    #[error(
        "the input is of an unknown format, and not a raw H.264 (Annex B) stream: it begins with {found:02x?} in place of a \
         start code; convert it first, such as by `ffmpeg -i FILE -c:v libx264 -c:a aac -f mpegts OUT.ts`"
    )]
    NotAnnexB {
        /// First bytes of the input.
        found: Vec<u8>,
    },
    /// The input ended, or went on for long, without a picture that could be parsed.
    #[error("no H.264 picture was found in {bytes} bytes of input: is it H.264, and does it contain SPS, PPS and IDR?")]
    NoPicture {
        /// Bytes read.
        bytes: u64,
    },
    /// The input is H.265, and ended without a picture that could be parsed.
    #[error("no H.265 picture was found in {bytes} bytes of input: does it contain VPS, SPS, PPS and a keyframe?")]
    NoH265Picture {
        /// Bytes read.
        bytes: u64,
    },
    /// The input began as a transport stream, and then had no packet of one for a megabyte.
    #[error("no packet of MPEG-TS was found in a megabyte of the input: is it whole, and is each packet of 188 bytes?")]
    NotTransportStream,
}

/// Invalid packetizer configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketizeError {
    /// The packet size is out of range.
    #[error("an RTP packet of {mtu} bytes is out of range: choose {min} to {max}")]
    Mtu {
        /// Packet size requested, in bytes.
        mtu: usize,
        /// Smallest packet size.
        min: usize,
        /// Largest packet size.
        max: usize,
    },
    /// The payload type is outside 96 to 127.
    #[error("RTP payload type {0} is out of range: choose 96 to 127")]
    PayloadType(u8),
}

/// Reason for which a packet was refused. The stream goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtpError {
    /// The packet is not RTP.
    #[error("not an RTP packet: {0}")]
    NotRtp(String),
    /// The packet has another payload type than agreed.
    #[error("RTP payload type {found}, while {expected} is being played: --pt {found} would choose it")]
    PayloadType {
        /// Payload type of the packet.
        found: u8,
        /// Payload type agreed.
        expected: u8,
    },
    /// The payload type is a static one, of another format (RFC 3551 §6).
    #[error("RTP payload type {0} is not video of a dynamic payload type: name it with --pt, or give an SDP file")]
    NotDynamic(u8),
    /// The packet is from another source (SSRC) than the one being played.
    #[error("RTP source {found:#010x}, while {expected:#010x} is being played")]
    Source {
        /// SSRC of the packet.
        found: u32,
        /// SSRC being played.
        expected: u32,
    },
    /// The payload violates RFC 6184.
    #[error("H.264 payload breaks RFC 6184 §{section}: {what}")]
    Payload {
        /// Section of RFC 6184 that is violated.
        section: &'static str,
        /// Description of the violation.
        what: &'static str,
    },
    /// The sequence number is far from all others. A second such packet in sequence counts as a restart of the sender.
    #[error("RTP sequence number {found} is far from the {expected} that was expected")]
    SequenceJump {
        /// Sequence number of the packet.
        found: u16,
        /// Sequence number after the highest so far.
        expected: u16,
    },
    /// The payload is not whole packets of a transport stream (RFC 2250 §2).
    #[error("the payload is not whole packets of MPEG-TS")]
    NotTransportStream,
    /// The packet does not carry a packet of a stream that is passed through.
    #[error("the packet carries no RTP packet that is passed through")]
    NotPassthrough,
}

impl RtpError {
    /// Name of the error's kind, independent of the packet's contents.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotRtp(_) => "not RTP",
            Self::PayloadType { .. } => "another payload type",
            Self::NotDynamic(_) => "a static payload type",
            Self::Source { .. } => "another source",
            Self::Payload { .. } => "not H.264",
            Self::SequenceJump { .. } => "a jump of the sequence number",
            Self::NotTransportStream => "not MPEG-TS",
            Self::NotPassthrough => "not RTP passed through",
        }
    }
}
