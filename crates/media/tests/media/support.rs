//! Test support: the clip, a network model without sockets, and ffmpeg as reference decoder.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use timeous_core::{Duration, Instant, Rng};
use timeous_media::{
    Frame, FrameFate, FrameKind, FrameRate, FrameReader, FrameReport, MediaAdu, Packetizer, PacketizerConfig, Playout,
    PlayoutConfig, PlayoutFrame,
};

pub(crate) const CLIP_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/clip.h264");

pub(crate) fn clip() -> Vec<u8> {
    std::fs::read(CLIP_PATH).expect("assets/clip.h264 is part of the repository")
}

/// Frames of the clip, read once.
pub(crate) fn frames() -> &'static [Frame] {
    static FRAMES: OnceLock<Vec<Frame>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        let mut reader = FrameReader::new(None);
        reader.push(&clip()).unwrap();
        let ending = reader.finish().unwrap();
        assert!(!ending.truncated && ending.unreadable_slices == 0);
        std::iter::from_fn(|| reader.next_frame()).collect()
    })
}

/// Stream from `tests/streams`.
pub(crate) fn stream(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/streams/{name}.h264", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("it is part of the repository")
}

/// Frames of a stream.
pub(crate) fn read(stream: &[u8], rate: Option<FrameRate>) -> Vec<Frame> {
    let mut reader = FrameReader::new(rate);
    reader.push(stream).unwrap();
    reader.finish().unwrap();
    std::iter::from_fn(|| reader.next_frame()).collect()
}

pub(crate) fn adus(frames: &[Frame]) -> Vec<MediaAdu> {
    adus_with_mtu(frames, 1200)
}

pub(crate) fn adus_with_mtu(frames: &[Frame], mtu: usize) -> Vec<MediaAdu> {
    let mut packetizer = Packetizer::new(PacketizerConfig { mtu, ..PacketizerConfig::default() }).unwrap();
    frames.iter().flat_map(|frame| packetizer.packetize(frame)).collect()
}

pub(crate) fn drain(playout: &mut Playout) -> Vec<PlayoutFrame> {
    std::iter::from_fn(|| playout.poll_frame()).collect()
}

pub(crate) fn reports(playout: &mut Playout) -> Vec<FrameReport> {
    std::iter::from_fn(|| playout.poll_report()).collect()
}

pub(crate) fn kind_letter(kind: FrameKind) -> char {
    match kind {
        FrameKind::Idr | FrameKind::I => 'I',
        FrameKind::P => 'P',
        FrameKind::B => 'B',
    }
}

/// Offset of the first start code at or after `from`.
pub(crate) fn find_frame_start(stream: &[u8], from: usize) -> usize {
    from + stream[from..].windows(4).position(|window| window == [0, 0, 0, 1]).expect("there is a start code")
}

/// Output of a playout.
#[derive(Default)]
pub(crate) struct Played {
    pub(crate) frames: Vec<PlayoutFrame>,
    pub(crate) reports: Vec<FrameReport>,
}

impl Played {
    pub(crate) fn take(&mut self, playout: &mut Playout) {
        self.frames.extend(drain(playout));
        self.reports.extend(reports(playout));
    }

    pub(crate) fn report_of(&self, ticks: u64) -> Option<&FrameReport> {
        self.reports.iter().find(|report| report.ticks == ticks as i64)
    }

    /// Checks that reports agree with frames, with one report per frame.
    pub(crate) fn check_reports(&self, seed: u64) {
        let decodable: Vec<i64> =
            self.reports.iter().filter(|r| r.fate == FrameFate::Decodable).map(|r| r.ticks).collect();
        let given: Vec<i64> = self.frames.iter().map(|frame| frame.ticks).collect();
        assert_eq!(decodable, given, "seed {seed}");
        let mut ticks: Vec<i64> = self.reports.iter().map(|report| report.ticks).collect();
        ticks.sort_unstable();
        assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: a frame was reported twice");
        for report in &self.reports {
            match report.fate {
                FrameFate::Decodable | FrameFate::ReferenceMissing => {
                    assert!(report.completed_at.is_some_and(|at| at <= report.playout_at), "seed {seed}: {report:?}");
                }
                FrameFate::Late => assert!(report.completed_at.is_some(), "seed {seed}: {report:?}"),
                FrameFate::Incomplete => assert_eq!(report.completed_at, None, "seed {seed}: {report:?}"),
                FrameFate::Unreadable => panic!("seed {seed}: {report:?}"),
            }
        }
    }

    /// Checks that ffmpeg reports no error, and decodes every frame to the same picture as in the whole clip.
    pub(crate) fn must_decode_cleanly(&self, test: &str, truth: &Pictures) {
        let stream: Vec<u8> = self.frames.iter().flat_map(|frame| frame.annexb.iter().copied()).collect();
        let Some(decoded) = Pictures::of(test, &stream) else { return };
        assert_eq!(decoded.complaint, "", "ffmpeg complains");
        let mut shown: Vec<i64> = self.frames.iter().map(|frame| frame.ticks).collect();
        shown.sort_unstable();
        assert_eq!(decoded.hashes.len(), shown.len());
        for (ticks, hash) in shown.into_iter().zip(&decoded.hashes) {
            let index = ticks as usize / 3_000;
            assert_eq!(hash, &truth.hashes[index], "the picture of frame {index} is another");
        }
    }
}

/// ffmpeg's decoding of a stream.
#[derive(Default)]
pub(crate) struct Pictures {
    /// Hash of each picture, in display order.
    pub(crate) hashes: Vec<String>,
    /// Error messages.
    pub(crate) complaint: String,
}

impl Pictures {
    /// Pictures of the whole clip; empty without ffmpeg.
    pub(crate) fn of_clip(test: &str) -> &'static Self {
        static PICTURES: OnceLock<Pictures> = OnceLock::new();
        PICTURES.get_or_init(|| {
            let pictures = Self::of(test, &clip()).unwrap_or_default();
            assert_eq!(pictures.complaint, "");
            pictures
        })
    }

    /// Pictures of a stream; `None` without ffmpeg.
    pub(crate) fn of(test: &str, stream: &[u8]) -> Option<Self> {
        Self::by(test, stream, &["-xerror", "-err_detect", "explode"])
    }

    /// Pictures from a decoder that continues after errors.
    pub(crate) fn leniently_of(test: &str, stream: &[u8]) -> Option<Self> {
        Self::by(test, stream, &["-flags", "+output_corrupt", "-flags2", "+showall"])
    }

    fn by(test: &str, stream: &[u8], options: &[&str]) -> Option<Self> {
        let output = decode(test, stream, options)?;
        let mut complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && complaint.is_empty() {
            complaint = output.status.to_string();
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let hash = |line: &str| line.rsplit(',').next().map(|hash| hash.trim().to_owned());
        let hashes = lines.lines().filter(|line| !line.starts_with('#')).filter_map(hash).collect();
        Some(Self { hashes, complaint })
    }
}

/// Runs the playout's clock up to `now`.
pub(crate) fn let_time_pass(playout: &mut Playout, now: Instant, played: &mut Played) {
    while let Some(due) = playout.poll_timeout().filter(|&due| due <= now) {
        playout.handle_timeout(due);
        played.take(playout);
        assert!(playout.poll_timeout().is_none_or(|next| next > due), "a timeout that is not used up");
    }
}

/// Network model with burst loss, delay and duplicates.
pub(crate) struct Network {
    pub(crate) loss: f64,
    pub(crate) burst: u64,
    pub(crate) jitter: Duration,
    pub(crate) copies: f64,
}

impl Network {
    pub(crate) fn play(&self, adus: &[MediaAdu], rng: &mut Rng, latency: Duration) -> Played {
        let mut arrivals = Vec::new();
        let mut losing = 0;
        for adu in adus {
            if losing == 0 && rng.chance(self.loss) {
                losing = 1 + rng.below(2 * self.burst);
            }
            if losing > 0 {
                losing -= 1;
                continue;
            }
            let sent = Instant::ZERO + Duration::from_millis(30) + adu.handover;
            let mut jitter = || Duration::from_nanos(rng.below(self.jitter.as_nanos() + 1));
            arrivals.push((sent + jitter(), &adu.rtp));
            let copy = sent + jitter();
            if rng.chance(self.copies) {
                arrivals.push((copy, &adu.rtp));
            }
        }
        arrivals.sort_by_key(|&(at, _)| at);
        let mut playout = Playout::new(PlayoutConfig::new(latency));
        let mut played = Played::default();
        for (at, rtp) in arrivals {
            let_time_pass(&mut playout, at, &mut played);
            playout.handle_packet(at, rtp).unwrap();
            played.take(&mut playout);
        }
        let_time_pass(&mut playout, Instant::from_nanos(u64::MAX / 2), &mut played);
        assert_eq!(playout.poll_timeout(), None);
        played
    }
}

fn decode(test: &str, stream: &[u8], options: &[&str]) -> Option<Output> {
    let input = ["-f", "h264", "-i", "-"];
    let output = ["-vsync", "passthrough", "-f", "framemd5", "-"];
    let mut command = Command::new("ffmpeg");
    command
        .args(["-v", "error"])
        .args(options)
        .args(input)
        .args(output)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return skip(test, "ffmpeg", &error),
    };
    let mut stdin = child.stdin.take().unwrap();
    let stream = stream.to_vec();
    let feeder = std::thread::spawn(move || {
        // ffmpeg stops reading at its first error, as requested.
        let _ = stdin.write_all(&stream);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Some(output)
}

/// Standard output of a tool; `None` if it is not installed.
pub(crate) fn run_tool(test: &str, tool: &str, args: &[&str]) -> Option<String> {
    match Command::new(tool).args(args).output() {
        Ok(output) => {
            assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => skip(test, tool, &error),
    }
}

fn skip<T>(test: &str, tool: &str, error: &std::io::Error) -> Option<T> {
    assert!(std::env::var_os("TIMEOUS_REQUIRE_ALL").is_none(), "{test} needs {tool}: {error}");
    eprintln!("SKIPPED {test}: needs {tool}");
    None
}

/// Index of the frame that a packet belongs to.
pub(crate) fn frame_of(adu: &MediaAdu) -> usize {
    frames().iter().position(|frame| frame.id() == adu.meta.frame).expect("every packet is part of a frame")
}
