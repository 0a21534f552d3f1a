//! MP4 of a transport stream: its H.264 or H.265, and AAC, in step.

use std::collections::{BTreeSet, VecDeque};

use super::boxes::{self, Fragment, Sample, aac_track};
use super::error::Mp4Error;
use super::samples::{CodedFrame, SampleFormat};
use super::samples_h265::H265Format;
use crate::aac::adts::AdtsFrames;
use crate::aac::{AacFormat, FRAME_SAMPLES};
use crate::rtp::RTP_CLOCK_HZ;
use crate::ts::TsStream;
use crate::ts::demux::{Demuxer, Elementary, Pes, PesTimes};
use crate::ts::pes_clock::{FileClock, wrapped};

/// Tracks of the file.
const VIDEO: usize = 0;
const AUDIO: usize = 1;
/// Longest fragment, as of files without audio.
const FRAGMENT_TICKS: i64 = RTP_CLOCK_HZ as i64;
const FRAGMENT_BYTES: usize = 4 << 20;
/// Most PES packets that wait for the first picture and sound. Chosen by us: over five seconds.
const MOST_WAITING: usize = 256;
/// Writes a transport stream's first H.264 or H.265, and AAC into a fragmented MP4 file.
///
/// The file begins with the first entry point of the video, with the sound from there on. What was given up is a gap: the picture before
/// it stays, and the sound is silent.
///
/// ```
/// use timeous_media::mp4::TsMp4Writer;
/// let mut writer = TsMp4Writer::default();
/// writer.push(&[0x47; 188])?; // packets of whole PES packets, as `TsPlayout` gives them out
/// writer.finish();
/// assert!(writer.take().is_empty(), "no picture came");
/// # Ok::<(), timeous_media::mp4::Mp4Error>(())
/// ```
#[derive(Debug, Default)]
pub struct TsMp4Writer {
    demuxer: Demuxer,
    h264: SampleFormat,
    h265: H265Format,
    fragment: Fragment,
    clock: FileClock,
    frames: AdtsFrames,
    /// Frames until the format of the audio is known.
    first_frames: AdtsFrames,
    /// Codec of the file's video.
    codec: Option<Elementary>,
    /// Time that is zero in the file.
    zero: Option<i64>,
    /// Format of the audio; `None` before a frame of it has come.
    audio: Option<AacFormat>,
    /// Whether the file has a track of audio.
    has_audio_track: bool,
    /// What waits for the first picture, and for the first sound if the tables name some.
    waiting: VecDeque<Pes>,
    /// Earliest decoding time of the next sample of each track, and its usual duration.
    earliest: [i64; 2],
    usual: [i64; 2],
    out: Vec<u8>,
    /// PIDs that were told to be left out.
    told: BTreeSet<u16>,
}

impl TsMp4Writer {
    /// Takes whole packets of whole PES packets.
    ///
    /// # Errors
    /// [`Mp4Error`]: a picture cannot be stored. The others are.
    pub fn push(&mut self, packets: &[u8]) -> Result<(), Mp4Error> {
        let pes = self.demuxer.push(packets);
        pes.into_iter().map(|pes| self.take_pes(pes)).fold(Ok(()), Result::and)
    }

    /// Whether the stream has H.264 or H.265, which the file needs; `None` before its tables have come.
    pub fn has_video(&self) -> Option<bool> {
        self.demuxer.has_video()
    }

    /// Returns elementary streams that are not written, each once: all but the first video and the first AAC.
    pub fn take_left_out(&mut self) -> Vec<TsStream> {
        self.demuxer.left_out().filter(|stream| self.told.insert(stream.pid)).collect()
    }

    /// Whether packets are of elementary streams that are not written, as far as the tables have come.
    pub fn leaves_out(&self, packets: &[u8]) -> bool {
        self.demuxer.leaves_out(packets)
    }

    /// Returns the bytes to append to the file now.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Ends the last fragment, for [`take`](Self::take) to return.
    pub fn finish(&mut self) {
        self.end_fragment();
    }

    fn take_pes(&mut self, pes: Pes) -> Result<(), Mp4Error> {
        if self.zero.is_some() {
            return self.store(pes);
        }
        if pes.of == Elementary::Audio && self.audio.is_none() {
            self.audio = self.first_frames.push(&pes.data, Some(0)).first().map(|frame| frame.format);
        }
        self.waiting.push_back(pes);
        if self.waiting.len() > MOST_WAITING {
            self.waiting.pop_front();
        }
        if self.waits_for_audio() {
            return Ok(());
        }
        // The sound of the first picture came before it.
        let (pictures, sound): (Vec<Pes>, Vec<Pes>) =
            self.waiting.drain(..).partition(|pes| pes.of != Elementary::Audio);
        let stored = pictures.into_iter().map(|pes| self.store(pes)).fold(Ok(()), Result::and);
        if self.zero.is_some() {
            sound.into_iter().map(|pes| self.store(pes)).fold(stored, Result::and)
        } else {
            self.waiting = sound.into();
            stored
        }
    }

    /// Whether a track of audio is expected of which nothing has come: a file's tracks stand at its beginning.
    fn waits_for_audio(&self) -> bool {
        self.demuxer.has_audio() && self.audio.is_none() && self.waiting.len() < MOST_WAITING / 2
    }

    fn store(&mut self, pes: Pes) -> Result<(), Mp4Error> {
        let times = pes.times.map(|PesTimes { presented, decode }| {
            let counted = self.clock.count(decode);
            (counted, counted + wrapped(presented as i64 - decode as i64))
        });
        match (pes.of, times) {
            (Elementary::Audio, _) => {
                self.store_sound(&pes, times.map(|(_, presented)| presented));
                Ok(())
            }
            (Elementary::H264 | Elementary::H265, Some((decode, presented))) => {
                self.store_picture(&pes, decode, presented)
            }
            // A picture without a time cannot be stored.
            (Elementary::H264 | Elementary::H265, None) => Ok(()),
        }
    }

    fn store_picture(&mut self, pes: &Pes, decode: i64, presented: i64) -> Result<(), Mp4Error> {
        if self.codec.is_some_and(|codec| codec != pes.of) {
            return Err(Mp4Error::Format("its codec changed within the stream, and a file has one".to_owned()));
        }
        let frame = if pes.of == Elementary::H265 {
            self.h265.sample(&pes.data, pes.is_entry)?
        } else {
            let frame = self.h264.read(&pes.data, pes.is_entry)?;
            self.h264.accept(frame)
        };
        let CodedFrame { data, track, is_entry } = frame;
        if let Some(video) = track {
            let audio = self.audio.map(aac_track);
            self.has_audio_track = audio.is_some();
            self.out.extend(boxes::header([video].into_iter().chain(audio).collect())?);
            (self.zero, self.codec) = (Some(decode), Some(pes.of));
        }
        let zero = self.zero.unwrap_or(decode);
        let at = (decode - zero).max(self.earliest[VIDEO]);
        let offset = i32::try_from(presented - zero - at).map_err(|_| Mp4Error::Time)?;
        let span = self.fragment.span(VIDEO);
        let is_long = span.is_some_and(|(first, _)| at - first >= FRAGMENT_TICKS);
        if span.is_some() && (is_entry || is_long || self.fragment.bytes() + data.len() > FRAGMENT_BYTES) {
            self.end_fragment_at(at);
        }
        let sample = Sample { decode: at, offset, size: data.len(), is_entry, is_reference: true };
        self.add(VIDEO, sample, &data);
        Ok(())
    }

    /// Stores the frames that end in a PES packet of audio.
    fn store_sound(&mut self, pes: &Pes, presented: Option<i64>) {
        let frames = self.frames.push(&pes.data, presented);
        let Some(zero) = self.zero.filter(|_| self.has_audio_track) else { return };
        for frame in frames {
            let duration = FRAME_SAMPLES * i64::from(RTP_CLOCK_HZ) / i64::from(frame.format.hz());
            let at = frame.at - zero;
            // Rounding and jitter of time stamps do not leave gaps.
            let at = if (at - self.earliest[AUDIO]).abs() < duration / 2 { self.earliest[AUDIO] } else { at };
            if at < self.earliest[AUDIO] || self.audio != Some(frame.format) {
                continue;
            }
            self.usual[AUDIO] = duration;
            let sample = Sample { decode: at, offset: 0, size: frame.data.len(), is_entry: true, is_reference: true };
            self.add(AUDIO, sample, &frame.data);
            self.earliest[AUDIO] = at + duration;
        }
    }

    fn add(&mut self, track: usize, sample: Sample, data: &[u8]) {
        let last = self.fragment.span(track).map(|(_, last)| last);
        self.fragment.push(track, sample, data);
        if track == VIDEO {
            self.usual[VIDEO] = last.map_or(self.usual[VIDEO], |last| sample.decode - last);
            self.earliest[VIDEO] = sample.decode + 1;
        }
    }

    /// Ends the fragment before a picture.
    fn end_fragment_at(&mut self, picture: i64) {
        self.earliest[VIDEO] = picture;
        self.fragment.write(&[picture, self.earliest[AUDIO]], &mut self.out);
    }

    fn end_fragment(&mut self) {
        let last = self.fragment.span(VIDEO).map_or(0, |(_, last)| last);
        self.end_fragment_at(last + self.usual[VIDEO].max(1));
    }
}
