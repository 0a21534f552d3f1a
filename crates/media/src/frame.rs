//! Frames: what each one is, what it depends on, what it is worth, and when it is due.

use timeous_core::{Duration, FrameId, Priority, References};

use crate::rtp::RTP_CLOCK_HZ;

/// What a frame is predicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Nothing, and nothing after it looks behind it: decoding can begin here.
    Idr,
    /// Nothing, but frames after it may look behind it.
    I,
    /// Frames that are shown before it.
    P,
    /// Frames that are shown before and after it.
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

/// Frames a second, as a fraction.
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
    /// What is taken where neither the caller nor the stream says anything: 25 frames a second, as ffmpeg does.
    pub const DEFAULT: Self = Self { frames: 25, seconds: 1 };

    /// `frames` in `seconds`; `None` outside of one to a thousand frames a second.
    pub fn new(frames: u32, seconds: u32) -> Option<Self> {
        let sensible = seconds > 0 && frames >= seconds && u64::from(frames) <= 1000 * u64::from(seconds);
        sensible.then_some(Self { frames, seconds })
    }

    /// When the frame with this number, counted from zero, is due.
    pub fn time_of(self, frame: u64) -> Duration {
        let nanos = u128::from(frame) * 1_000_000_000 * u128::from(self.seconds) / u128::from(self.frames);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The same in ticks of the RTP clock, without its wrap-around.
    pub fn ticks_of(self, frame: u64) -> u64 {
        let ticks = u128::from(frame) * u128::from(RTP_CLOCK_HZ) * u128::from(self.seconds);
        u64::try_from(ticks / u128::from(self.frames)).unwrap_or(u64::MAX)
    }

    /// Frames a second.
    pub fn per_second(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }

    /// From one frame to the next.
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

/// Picture that decoding can begin at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Reference frames after it until pictures are right; 0: at once. With gradual intra refresh, they become right
    /// part by part.
    pub recovery: u32,
}

/// Coded frame (one picture, or the two fields of one), with what a sender must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its place in decoding order, which is the order of transmission.
    pub index: u32,
    /// What it is predicted from.
    pub kind: FrameKind,
    /// Whether other frames refer to it (`nal_ref_idc`).
    pub reference: bool,
    /// H.264's own number of it, which counts reference frames since the last IDR frame.
    pub frame_num: u32,
    /// Whether decoding can begin with it: an IDR picture, a recovery point or, in a stream without either, an I
    /// picture.
    pub entry: Option<EntryPoint>,
    /// Reference frames since the last entry point.
    pub gop_position: u32,
    /// Its place in the order in which frames are shown.
    pub display_index: u64,
    /// Most frames by which pictures of the stream are shown later than they are decoded, as the SPS says
    /// (`max_num_reorder_frames`); zero where it does not.
    pub reorder: u32,
    /// When it is seen by the camera, counted from the beginning: its time on the screen, and what a latency counts
    /// from.
    pub capture: Duration,
    /// When an encoder can hand it over at the earliest, sending evenly: not before it, and whatever is sent before
    /// it, was captured. B frames are handed over later than they are captured, since they wait for a later frame.
    pub handover: Duration,
    /// Time to the next frame, by the frame rate in force.
    pub duration: Duration,
    /// `capture` in ticks of the RTP clock. No two frames have the same.
    pub rtp_ticks: u64,
    /// Frames without which it is useless, by its reference lists. Frames that these refer to themselves are left out.
    pub references: References,
    /// What it is worth beside others.
    pub priority: Priority,
    /// Its NAL units, parameter sets included, without start codes.
    pub nals: Vec<Vec<u8>>,
}

/// Part of a frame that can leave before the rest of it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePart {
    /// The frame as far as it has been seen, with the NAL units of this part only.
    pub frame: Frame,
    /// It is the frame's first part.
    pub first: bool,
    /// It is the frame's last part. It may hold no NAL units, where the end became known later than what is in it, and
    /// a frame that was taken for whole too early has a second last part. A frame that is left out has none.
    pub last: bool,
}

impl Frame {
    /// The name that its ADUs know it by.
    pub fn id(&self) -> FrameId {
        name(self.index)
    }

    /// Its size in bytes, without start codes.
    pub fn size(&self) -> usize {
        self.nals.iter().map(Vec::len).sum()
    }

    /// It as a byte stream (Annex B).
    pub fn annexb(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size() + 4 * self.nals.len());
        crate::h264::annexb::write(self.nals.iter().map(Vec::as_slice), &mut out);
        out
    }
}

/// Frames are counted from zero, which as a name would be that of no frame.
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
