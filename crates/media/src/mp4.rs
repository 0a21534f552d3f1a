//! MP4 writer: fragmented MP4 (ISO/IEC 14496-12 §8.8), playable up to the last whole fragment if it is cut off.

mod boxes;
mod error;
mod program;
mod samples;
mod samples_h265;

use self::boxes::{Fragment, Sample};
pub use self::error::Mp4Error;
pub use self::program::TsMp4Writer;
pub(crate) use self::samples::avc_configuration;
use self::samples::{CodedFrame, SampleFormat};
use crate::playout::PlayoutFrame;
use crate::rtp::RTP_CLOCK_HZ;

/// Longest fragment, in ticks: one second. Chosen by us: a higher value loses more media if the process is killed; a
/// lower one writes more headers.
const FRAGMENT_TICKS: i64 = RTP_CLOCK_HZ as i64;

/// Largest fragment, in bytes of media, unless a single frame is larger. Chosen by us: a higher value takes more
/// memory.
const FRAGMENT_BYTES: usize = 1 << 20;

/// The only track of a file of raw H.264.
const VIDEO: usize = 0;

/// Latest presentation time, in ticks since the start of the file: 99 years. Chosen by us: a later one is a damaged
/// timestamp, and would leave no room for the frames after it.
const LAST_TICK: i64 = 1 << 48;

/// Writer of frames into a fragmented MP4 file.
///
/// The file starts with the first entry point. A fragment ends before each entry point, and at the latest after a
/// second or a megabyte of media. Bytes are only appended, so that a truncated file plays up to its last whole
/// fragment.
///
/// Each frame keeps its own times; the frame before a gap lasts until the next one.
///
/// ```
/// # use timeous_media::{FrameReader, Packetizer, PacketizerConfig, Playout, PlayoutConfig, mp4::Mp4Writer};
/// # use timeous_core::{Duration, Instant};
/// # let mut reader = FrameReader::new(None);
/// # reader.push(&include_bytes!("../../../assets/clip.h264")[..200_000])?;
/// # let mut packetizer = Packetizer::new(PacketizerConfig::default())?;
/// # let mut playout = Playout::new(PlayoutConfig::new(Duration::from_millis(200)));
/// # while let Some(frame) = reader.next_frame() {
/// #     for adu in packetizer.packetize(&frame) {
/// #         playout.handle_packet(Instant::ZERO + frame.handover, &adu.rtp)?;
/// #     }
/// # }
/// let mut file = Vec::new();
/// let mut writer = Mp4Writer::new();
/// while let Some(frame) = playout.poll_frame() {
///     if let Err(error) = writer.push(&frame) {
///         eprintln!("{error}"); // of this frame only
///     }
///     file.extend(writer.take());
/// }
/// writer.finish();
/// file.extend(writer.take());
/// assert_eq!(&file[4..8], b"ftyp");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Mp4Writer {
    format: SampleFormat,
    /// Start time of the file, if the caller gave one.
    origin: Option<i64>,
    /// Caller's time that is zero in the file; `None` before the first frame.
    zero: Option<i64>,
    fragment: Fragment,
    /// Earliest decoding time of the next frame on the file's clock: decoding times must increase.
    earliest: i64,
    /// Typical frame interval; the duration of the last frame.
    interval: Option<i64>,
    out: Vec<u8>,
    frames: u64,
}

impl Mp4Writer {
    /// Creates a writer whose file starts with the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a writer whose file starts at this time ([`PlayoutFrame::ticks`]), the first frame shown from there on:
    /// files of several receivers are then in sync.
    pub fn from_origin(ticks: i64) -> Self {
        Self { origin: Some(ticks), ..Self::default() }
    }

    /// Adds a frame. An invalid one does not affect the others.
    ///
    /// # Errors
    /// [`Mp4Error`] if the frame cannot be stored.
    pub fn push(&mut self, frame: &PlayoutFrame) -> Result<(), Mp4Error> {
        self.push_annexb(&frame.annexb, frame.ticks, frame.decode_ticks, frame.is_entry, frame.reference)
    }

    /// Adds a frame as a byte stream; the arguments are the fields of [`PlayoutFrame`].
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_annexb(
        &mut self,
        annexb: &[u8],
        ticks: i64,
        decode_ticks: i64,
        is_entry: bool,
        is_reference: bool,
    ) -> Result<(), Mp4Error> {
        let coded = self.format.read(annexb, is_entry)?;
        let (zero, decode, shown) = self.times(ticks, decode_ticks)?;
        let offset = shown.checked_sub(decode).and_then(|offset| i32::try_from(offset).ok()).ok_or(Mp4Error::Time)?;
        let CodedFrame { data, track, .. } = self.format.accept(coded);
        self.zero = Some(zero);
        if let Some(track) = track {
            self.out.extend(boxes::header(vec![track])?);
        }
        if self.ends_before(decode, data.len(), is_entry) {
            self.end_fragment(decode);
        }
        self.fragment.push(VIDEO, Sample { decode, offset, size: data.len(), is_entry, is_reference }, &data);
        self.earliest = decode + 1;
        self.frames += 1;
        Ok(())
    }

    /// Returns the bytes to append to the file now.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Ends the last fragment, for [`take`](Self::take) to return. More frames may follow.
    pub fn finish(&mut self) {
        let Some((first, last)) = self.fragment.span(VIDEO) else { return };
        let fallback = self.interval.unwrap_or(i64::from(RTP_CLOCK_HZ) / 25);
        let gaps = i64::try_from(self.fragment.len(VIDEO) - 1).unwrap_or(i64::MAX);
        let interval = if gaps == 0 { fallback } else { (last - first) / gaps };
        self.end_fragment(last + interval.max(1));
    }

    /// Frames added so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Caller's time that is zero in the file; decoding and presentation time in the file.
    fn times(&self, ticks: i64, decode_ticks: i64) -> Result<(i64, i64, i64), Mp4Error> {
        let since = |ticks: i64, zero: i64| ticks.checked_sub(zero).ok_or(Mp4Error::Time);
        let (zero, decode, shown) = match (self.zero, self.origin) {
            (Some(zero), _) => (zero, since(decode_ticks, zero)?.max(self.earliest), since(ticks, zero)?),
            (None, None) => (decode_ticks, 0, since(ticks, decode_ticks)?),
            (None, Some(origin)) => (origin.min(decode_ticks), 0, since(origin.min(ticks), origin.min(decode_ticks))?),
        };
        let is_possible = (-LAST_TICK..=LAST_TICK).contains(&shown);
        is_possible.then_some((zero, decode, shown)).ok_or(Mp4Error::Time)
    }

    /// Whether the fragment must end before this frame.
    fn ends_before(&self, decode: i64, size: usize, is_entry: bool) -> bool {
        let Some((first, _)) = self.fragment.span(VIDEO) else { return false };
        is_entry || decode - first >= FRAGMENT_TICKS || self.fragment.bytes() + size > FRAGMENT_BYTES
    }

    /// Ends the fragment; its last frame lasts until `end`.
    fn end_fragment(&mut self, end: i64) {
        let Some((first, last)) = self.fragment.span(VIDEO) else { return };
        if self.fragment.len(VIDEO) > 1 {
            self.interval = Some((last - first) / (self.fragment.len(VIDEO) as i64 - 1));
        }
        self.earliest = end;
        self.fragment.write(&[end], &mut self.out);
    }
}
