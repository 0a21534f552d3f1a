//! RTP packet of a source, with the metadata for late choice of its frame.

use timeous_core::{AduMeta, FrameId, Instant, Priority, References, SubStream};

use crate::pictures::UnitKind;

/// RTP packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassthroughUnit {
    /// Stream of the source, from zero.
    pub stream: u8,
    /// Number of the frame over all streams, from one.
    pub frame: u32,
    /// Number of the frame in its stream.
    pub place: u32,
    /// Number of packets of the frame before this one.
    pub first: u16,
    /// Whether the frame ends with this packet.
    pub last: bool,
    /// Whether the frame ends with this packet, and one of an upper spatial layer of the same picture follows.
    pub is_below: bool,
    /// Whether packets of the stream were lost on the way to this reader, just before this one.
    pub has_gap: bool,
    /// Kind of the frame.
    pub kind: UnitKind,
    /// Frames that it refers to.
    pub references: References,
    /// Priority.
    pub priority: Priority,
    /// Sub-stream: one for each video, one for audio.
    pub substream: SubStream,
    /// Layer within the video, from the base: temporal layers of the lowest spatial layer, then those of the next one. At least one for
    /// a frame that no other refers to.
    pub layer: u8,
    /// Restarts of the source.
    pub restarts: u32,
    /// Capture time of the frame.
    pub captured: Instant,
    /// The packet as it came; empty if only the end of the frame is told.
    pub packet: Vec<u8>,
}

impl PassthroughUnit {
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
