//! What can go wrong with media, by whose fault.

/// The input is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// It does not begin with a start code.
    #[error(
        "the input is not a raw H.264 (Annex B) stream: it begins with {found:02x?} in place of a start code; \
         convert it first, such as by `ffmpeg -i FILE -c:v copy -an -f h264 OUT.h264`"
    )]
    NotAnnexB {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// It ended, or went on long enough, without a picture that can be understood.
    #[error("no H.264 picture was found in {bytes} bytes of input: is it H.264, and does it contain SPS, PPS and IDR?")]
    NoPicture {
        /// How much was read.
        bytes: u64,
    },
}

/// The caller asked for a packetizer that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketizeError {
    /// The packet size is out of range.
    #[error("an RTP packet of {mtu} bytes is out of range: choose {min} to {max}")]
    Mtu {
        /// What was asked for.
        mtu: usize,
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// A payload type has seven bits.
    #[error("RTP payload type {0} is out of range: choose 96 to 127")]
    PayloadType(u8),
}

/// A packet that is not taken. It leaves no trace but a counter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtpError {
    /// It is not RTP.
    #[error("not an RTP packet: {0}")]
    NotRtp(String),
    /// It has another payload type than agreed.
    #[error("RTP payload type {found} where {expected} was agreed")]
    PayloadType {
        /// What it has.
        found: u8,
        /// What it should have.
        expected: u8,
    },
    /// Its payload type is that of another kind of media (RFC 3551 §6).
    #[error("RTP payload type {0} is not video of a dynamic payload type: name it with pt=, or give an SDP file")]
    NotDynamic(u8),
    /// It is from another source than the first one that was heard.
    #[error("RTP source {found:#010x}, while {expected:#010x} is being played")]
    Source {
        /// Its source.
        found: u32,
        /// The one that is being played.
        expected: u32,
    },
    /// Its payload breaks RFC 6184.
    #[error("H.264 payload breaks RFC 6184 §{section}: {what}")]
    Payload {
        /// The section that it breaks.
        section: &'static str,
        /// How.
        what: &'static str,
    },
    /// Its sequence number is far from all others. A second one beside it is taken for the sender's restart.
    #[error("RTP sequence number {found} is far from the {expected} that was expected")]
    SequenceJump {
        /// What it has.
        found: u16,
        /// The one after the highest so far.
        expected: u16,
    },
}

impl RtpError {
    /// Name of the error's kind, the same whatever the packet held.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotRtp(_) => "not RTP",
            Self::PayloadType { .. } => "another payload type",
            Self::NotDynamic(_) => "a static payload type",
            Self::Source { .. } => "another source",
            Self::Payload { .. } => "not H.264",
            Self::SequenceJump { .. } => "a jump of the sequence number",
        }
    }
}
