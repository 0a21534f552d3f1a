//! The clip, a network without a socket, and ffmpeg as the judge.

use std::io::Write;
use std::process::{Command, Stdio};

use timeous::media::{
    Frame, FrameFate, FrameKind, FrameReader, FrameReport, MediaAdu, Packetizer, PacketizerConfig, Playout, PlayoutConfig,
    PlayoutFrame,
};
use timeous_core::{Duration, Instant, Rng};

pub(crate) const CLIP_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/clip.h264");

pub(crate) fn clip() -> Vec<u8> {
    std::fs::read(CLIP_PATH).expect("assets/clip.h264 is part of the repository")
}

pub(crate) fn frames() -> Vec<Frame> {
    let mut reader = FrameReader::new(None);
    reader.push(&clip()).unwrap();
    let ending = reader.finish().unwrap();
    assert!(!ending.truncated && ending.unreadable_slices == 0);
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

/// Where the start code at or after `from` begins.
pub(crate) fn find_frame_start(stream: &[u8], from: usize) -> usize {
    from + stream[from..].windows(4).position(|window| window == [0, 0, 0, 1]).expect("there is a start code")
}

/// What came out of a playout.
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

    /// Reports agree with frames, and no frame has two.
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

    /// ffmpeg has nothing to say about it, and finds every frame.
    pub(crate) fn must_decode_cleanly(&self, test: &str) {
        let stream: Vec<u8> = self.frames.iter().flat_map(|frame| frame.annexb.iter().copied()).collect();
        if let Some(complaint) = decode(test, &stream) {
            assert_eq!(complaint, "", "ffmpeg complains");
        }
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

/// A network that loses in bursts, delays and duplicates.
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

/// What ffmpeg says on decoding `stream`; `None` if there is no ffmpeg.
pub(crate) fn decode(test: &str, stream: &[u8]) -> Option<String> {
    let args = ["-v", "error", "-xerror", "-err_detect", "explode", "-f", "h264", "-i", "-", "-f", "null", "-"];
    let mut child = match Command::new("ffmpeg")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => return skip(test, "ffmpeg", &error),
    };
    let mut stdin = child.stdin.take().unwrap();
    let stream = stream.to_vec();
    let feeder = std::thread::spawn(move || {
        // It stops reading at its first error, which is what is asked for.
        let _ = stdin.write_all(&stream);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && said.is_empty() {
        said = output.status.to_string();
    }
    Some(said)
}

/// The standard output of a tool; `None` if it is not there.
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
