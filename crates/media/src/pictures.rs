//! Kinds of frames, of any carrier, and kinds and references of video frames by the headers at their start.

mod frames;
mod kind;

pub(crate) use self::frames::{Description, VideoCodec, VideoFrames};
pub use self::kind::UnitKind;
