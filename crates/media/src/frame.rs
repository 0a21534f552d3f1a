//! Coded frames: type, references, priority, and capture and send times.

use timeous_core::{Duration, FrameId, Priority, References};

use crate::rtp::RTP_CLOCK_HZ;

/// Frame type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Intra-coded, and no later frame refers to an earlier one: decoding can start here.
    Idr,
    /// Intra-coded, but later frames may refer to earlier ones.
    I,
    /// Predicted from at most one reference per block, usually displayed earlier.
    P,
    /// Predicted from up to two references per block, usually one displayed earlier and one later.
    B,
}

impl std::fmt::Display for FrameKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Idr => "IDR",
            Self::I => "I",
            Self::P => "P",
            Self::B => "B",
        })
    }
}

/// Frame rate, as a fraction.
///
/// ```
/// use timeous_media::FrameRate;
/// use timeous_core::Duration;
/// let ntsc = FrameRate::new(30_000, 1_001).unwrap();
/// assert_eq!(ntsc.time_of(30_000), Duration::from_secs(1_001));
/// assert_eq!(ntsc.ticks_of(2), 6_006);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    frames: u32,
    seconds: u32,
}

impl FrameRate {
    /// Frame rate if neither the caller nor the stream gives one: 25 frames per second, as in ffmpeg.
    pub const DEFAULT: Self = Self { frames: 25, seconds: 1 };

    /// Frame rate of `frames` per `seconds`; `None` outside of 1 to 1000 frames per second.
    pub fn new(frames: u32, seconds: u32) -> Option<Self> {
        let sensible = seconds > 0 && frames >= seconds && u64::from(frames) <= 1000 * u64::from(seconds);
        sensible.then_some(Self { frames, seconds })
    }

    /// Time of the frame with this number, counted from zero.
    pub fn time_of(self, frame: u64) -> Duration {
        let nanos = u128::from(frame) * 1_000_000_000 * u128::from(self.seconds) / u128::from(self.frames);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Time of a frame in RTP ticks, without wrap-around.
    pub fn ticks_of(self, frame: u64) -> u64 {
        let ticks = u128::from(frame) * u128::from(RTP_CLOCK_HZ) * u128::from(self.seconds);
        u64::try_from(ticks / u128::from(self.frames)).unwrap_or(u64::MAX)
    }

    /// Frames per second.
    pub fn per_second(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }

    /// Time from one frame to the next.
    pub fn interval(self) -> Duration {
        self.time_of(1)
    }
}

impl std::fmt::Display for FrameRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.frames.is_multiple_of(self.seconds) {
            write!(f, "{}", self.frames / self.seconds)
        } else {
            write!(f, "{:.2}", self.per_second())
        }
    }
}

/// Picture at which decoding can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Reference frames until pictures are correct (`recovery_frame_cnt`); 0 if at once. Above 0 with gradual intra
    /// refresh.
    pub recovery: u32,
}

/// Coded frame (one picture, or the two fields of one) with its metadata for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Position in decoding order, which is the order of transmission.
    pub index: u32,
    /// Frame type.
    pub kind: FrameKind,
    /// Whether it is a reference frame (`nal_ref_idc`).
    pub reference: bool,
    /// `frame_num` of H.264, which counts reference frames since the last IDR frame.
    pub frame_num: u32,
    /// Set if decoding can start here: an IDR picture, a recovery point or, in a stream without either, an I picture.
    pub entry: Option<EntryPoint>,
    /// Reference frames since the last entry point.
    pub gop_position: u32,
    /// Position in display order.
    pub display_index: u64,
    /// Largest delay from decoding to display, in frames, by the SPS (`max_num_reorder_frames`); zero if absent.
    pub reorder: u32,
    /// Capture time since the start of the stream; equals its display time, and the latency counts from it.
    pub capture: Duration,
    /// Earliest time at which an encoder can send it: when this frame and all frames sent before it are captured. For B
    /// frames it is later than the capture, since they wait for a later frame.
    pub handover: Duration,
    /// Time to the next frame, by the current frame rate.
    pub duration: Duration,
    /// `capture` in RTP ticks; unique to the frame.
    pub rtp_ticks: u64,
    /// Frames that it refers to directly, by its reference lists. References of those frames are not repeated.
    pub references: References,
    /// Priority.
    pub priority: Priority,
    /// NAL units without start codes, parameter sets included.
    pub nals: Vec<Vec<u8>>,
}

/// Part of a frame that can be sent before the rest is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePart {
    /// The frame as known so far, with the NAL units of this part only.
    pub frame: Frame,
    /// Whether this is the frame's first part.
    pub first: bool,
    /// Whether this is the frame's last part. It may have no NAL units, if the end is recognised only later; and a
    /// frame ended too early by a pause has a second last part. A frame that is dropped as too large has none.
    pub last: bool,
}

impl Frame {
    /// Frame id in the metadata of its ADUs.
    pub fn id(&self) -> FrameId {
        name(self.index)
    }

    /// Layer, from the base: its temporal layer of SVC, and at least one for a frame that no other refers to.
    pub fn layer(&self) -> u8 {
        let told = self.nals.iter().find_map(|nal| crate::h264::svc::temporal_layer(nal));
        told.unwrap_or(0).max(u8::from(!self.reference))
    }

    /// Size in bytes, without start codes.
    pub fn size(&self) -> usize {
        self.nals.iter().map(Vec::len).sum()
    }

    /// The frame as a byte stream (Annex B).
    pub fn annexb(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size() + 4 * self.nals.len());
        crate::h264::annexb::write(self.nals.iter().map(Vec::as_slice), &mut out);
        out
    }
}

/// Frame id for an index; counted from one, since zero stands for no frame.
pub(crate) fn name(index: u32) -> FrameId {
    FrameId(index.wrapping_add(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_rates_out_of_range_are_refused() {
        assert_eq!(FrameRate::new(0, 1), None);
        assert_eq!(FrameRate::new(1, 0), None);
        assert_eq!(FrameRate::new(u32::MAX, 1), None);
        assert_eq!(FrameRate::new(25, 1), Some(FrameRate::DEFAULT));
    }
}
