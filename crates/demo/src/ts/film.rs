//! Film of the comparison: a transport stream by ffmpeg, cut into datagrams with the times of its program clock.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use timeous::core::{Duration, Rate};

use super::decoded::Decoded;
use super::packets::{PACKET, Packets};
use crate::chain::DATAGRAM;
use crate::error::DemoError;
use crate::ffmpeg::ffmpeg;

/// Frames a second.
const FRAMES_PER_SECOND: u64 = 25;
/// Samples of sound a second.
const SAMPLES_PER_SECOND: u64 = 48_000;
/// Ticks of the program clock a second (ISO/IEC 13818-1 §2.4.3.5).
const CLOCK_HZ: u64 = 27_000_000;

/// Codecs of video and audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codecs {
    video: &'static str,
    audio: &'static str,
    /// Samples of a frame of audio.
    samples: u64,
}

impl FromStr for Codecs {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (video, audio) = name.split_once('+').ok_or("video and audio, such as h264+aac")?;
        let video = match video {
            "h264" => "libx264 -preset veryfast -profile:v main -bf 2 -sc_threshold 0",
            "h265" => "libx265 -preset veryfast -x265-params log-level=error:scenecut=0",
            "mpeg2" => "mpeg2video -bf 2 -sc_threshold 1000000000",
            _ => return Err(format!("the video is h264, h265 or mpeg2, not {video}")),
        };
        let (audio, samples) = match audio {
            "aac" => ("aac", 1_024),
            "ac3" => ("ac3", 1_536),
            "mp2" => ("mp2", 1_152),
            _ => return Err(format!("the audio is aac, ac3 or mp2, not {audio}")),
        };
        Ok(Self { video, audio, samples })
    }
}

/// Transport stream to send.
#[derive(Clone, Debug)]
pub(super) struct Film {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Time of each datagram since the first, by the program clock.
    pub(super) times: Vec<Duration>,
    pub(super) packets: Packets,
    /// What a decoder makes of it.
    pub(super) decoded: Decoded,
    /// Duration of a frame of audio.
    pub(super) audio_frame: Duration,
}

impl Film {
    /// Encodes a film of `seconds` in `directory`.
    ///
    /// # Errors
    /// ffmpeg is not there, or fails.
    pub(super) fn make(directory: &Path, seconds: u64, codecs: Codecs) -> Result<Self, DemoError> {
        let path = directory.join("film.ts");
        let Codecs { video, audio, samples } = codecs;
        // Noise, so that no two frames of the sound are the same.
        ffmpeg(
            &format!(
                "-f lavfi -i testsrc2=size=640x360:rate={FRAMES_PER_SECOND},noise=alls=6:allf=t -f lavfi -i \
                 anoisesrc=color=pink:amplitude=0.3:sample_rate={SAMPLES_PER_SECOND}:seed=1 -t {seconds} -pix_fmt \
                 yuv420p -c:v {video} -b:v 1M -maxrate 1M -bufsize 250k -g {FRAMES_PER_SECOND} -keyint_min \
                 {FRAMES_PER_SECOND} -c:a {audio} -b:a 128k -f mpegts"
            ),
            None,
            &path,
        )?;
        let bytes = fs::read(&path).map_err(DemoError::file(&path))?;
        let packets = Packets::read(&bytes);
        let times = times(&packets.clocks, bytes.len()).ok_or_else(|| DemoError::record(&path, "it has no clock"))?;
        let decoded = Decoded::by_ffmpeg(&path)?;
        let audio_frame = Duration::from_nanos(samples * 1_000_000_000 / SAMPLES_PER_SECOND);
        Ok(Self { bytes, times, packets, decoded, audio_frame })
    }

    /// Mean rate.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bytes_in(self.bytes.len() as u64, self.length())
    }

    /// Duration, from the first to the last datagram.
    pub(super) fn length(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }
}

/// Time of each datagram since the first clock value, by the clock at the end of its last packet.
fn times(clocks: &[(u64, usize)], len: usize) -> Option<Vec<Duration>> {
    let begin = clocks.first()?.0;
    let time = |end: usize| {
        let next = clocks.partition_point(|&(_, at)| at < end).min(clocks.len() - 1);
        let (after, before) = (clocks[next], clocks[next.saturating_sub(1)]);
        let share = (end.clamp(before.1, after.1) - before.1) as u64;
        let ticks = (after.0 - before.0) * share / (after.1 - before.1).max(1) as u64;
        Duration::from_nanos((before.0 - begin + ticks) * 1_000 / (CLOCK_HZ / 1_000_000))
    };
    let ends = (0..len.div_ceil(DATAGRAM)).map(|index| ((index + 1) * DATAGRAM).min(len / PACKET * PACKET) - 1);
    Some(ends.map(time).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_paced_by_the_clock_between_its_values() {
        let clocks = [(CLOCK_HZ, DATAGRAM - 1), (2 * CLOCK_HZ, 3 * DATAGRAM - 1)];
        let times = times(&clocks, 4 * DATAGRAM).unwrap();
        let [zero, half, one] = [0, 500, 1_000].map(Duration::from_millis);
        assert_eq!(times, [zero, half, one, one], "after the last value there is no more time");
        assert_eq!(super::times(&[], 188), None);
    }

    #[test]
    fn codecs_are_named() {
        assert_eq!("h265+ac3".parse::<Codecs>().unwrap().samples, 1_536);
        assert!("h264".parse::<Codecs>().is_err() && "h264+flac".parse::<Codecs>().is_err());
    }
}
