//! Packets of one PID that are sent together, with the metadata for late choice.

use timeous_core::{AduMeta, Duration, FrameId, Priority, References, SubStream};

use super::stream::TsStream;
use crate::pictures::UnitKind;

/// Packets of one PES packet, or of tables: a part that can be sent before the rest is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TsUnit {
    /// Number of the PES packet in the stream, from one.
    pub frame: u32,
    /// Elementary stream, as far as tables tell.
    pub stream: TsStream,
    /// Number of the PES packet in its elementary stream.
    pub place: u32,
    /// Number of packets of the PES packet before this unit.
    pub first: u16,
    /// Whether the PES packet ends with this unit. It may then have no packets, if the end is recognised only later.
    pub last: bool,
    /// Kind of the PES packet.
    pub kind: UnitKind,
    /// PES packets that it refers to.
    pub references: References,
    /// Priority.
    pub priority: Priority,
    /// Sub-stream: one for each video, one for audio, one for the rest.
    pub substream: SubStream,
    /// Layer within the video, from the base: its temporal layer, and at least one for a frame that no other refers to.
    pub layer: u8,
    /// Time by the stream's clock since its start, if it has one.
    pub time: Option<Duration>,
    /// Whole packets.
    pub packets: Vec<u8>,
}

impl TsUnit {
    /// Metadata of its ADUs, without times.
    pub fn meta(&self) -> AduMeta {
        AduMeta {
            frame: FrameId(self.frame),
            references: self.references,
            priority: self.priority,
            substream: self.substream,
            ..AduMeta::default()
        }
    }
}
