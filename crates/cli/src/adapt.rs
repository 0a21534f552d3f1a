//! `--adapt`: runs a live encoder as a child process; its bitrate, or choice of encodings, follows the rate advice.

mod encodings;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use clap::Args;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use timeous::core::units::parse_rate_within;
use timeous::core::{Advice, Duration, Instant, Rate};
use timeous::{PolicyName, Uri};

use crate::failure::Failure;
use crate::source::DueFrame;
use encodings::{Encodings, names, pipes};

/// Options for a live encoder.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdaptArgs {
    /// Encode SOURCE live, at a bitrate that follows the path: x264 (by GStreamer), or a command that encodes
    ///
    /// With x264, SOURCE is a file, a camera such as /dev/video0, or "test". A command finds SOURCE in $TIMEOUS_SOURCE
    /// and the initial bitrate in $TIMEOUS_BITRATE, writes raw H.264 to its standard output, and reads lines from its
    /// standard input: "bitrate N" (in bit/s) and "keyframe"; it must exit when its input ends. The stream uses
    /// policy=dbat.
    #[arg(long, value_name = "ENCODER")]
    adapt: Option<String>,
    /// With --adapt: the initial bitrate
    #[arg(long, value_name = "RATE", default_value = "600k", value_parser = bitrate, requires = "adapt")]
    bitrate: Rate,
    /// With --adapt: the lowest bitrate
    #[arg(long, value_name = "RATE", default_value = "100k", value_parser = bitrate, requires = "adapt")]
    min_bitrate: Rate,
    /// With --adapt: the highest bitrate
    #[arg(long, value_name = "RATE", default_value = "4M", value_parser = bitrate, requires = "adapt")]
    max_bitrate: Rate,
    /// With --adapt: encode at each of these increasing bitrates, and send the one that fits the path, such as
    /// 200k,400k,800k
    ///
    /// The stream goes up by one step after a second with room for it, and down at once, each time at a keyframe. A
    /// step should at most double the bitrate. A command finds the bitrates in $TIMEOUS_BITRATES and as many output
    /// files in $TIMEOUS_OUTPUTS; it may read lines "keyframe N" for the Nth one, so that ffmpeg can be used, too.
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = bitrate, requires = "adapt")]
    #[arg(conflicts_with_all = ["bitrate", "min_bitrate", "max_bitrate"])]
    encodings: Vec<Rate>,
}

/// Built-in encoder: a Python script that runs GStreamer's x264.
const X264: &str = include_str!("adapt/x264.py");
/// Python of the distribution, which its GStreamer bindings belong to.
const PYTHON: &str = "/usr/bin/python3";
/// Minimum interval of keyframe requests, since a keyframe costs as much as many other frames.
const KEYFRAMES: Duration = Duration::from_millis(500);

/// Running encoder, killed when dropped.
pub(crate) struct Encoder {
    child: Child,
    commands: ChildStdin,
    has: EncoderControl,
    /// Time and encoding of the last keyframe request.
    keyframe: Option<(Instant, Option<usize>)>,
}

/// Encoder output that follows the advice.
enum EncoderControl {
    /// One encoding, with a bitrate within a range.
    Bitrate { rate: Rate, range: (Rate, Rate) },
    /// Several encodings, of which one is sent.
    Encodings(Box<Encodings>),
}

/// Parses a bitrate of an encoder.
fn bitrate(text: &str) -> Result<Rate, String> {
    parse_rate_within(text, "1k", "1G")
}

impl AdaptArgs {
    /// Starts the encoder, if requested; its outputs deliver the encoded video.
    pub(crate) fn start(&self, source: &str) -> Result<Option<(Encoder, Vec<File>)>, Failure> {
        let Some(adapt) = &self.adapt else { return Ok(None) };
        let has = self.has()?;
        let no_encoder = |error| Failure::Environment(format!("the encoder cannot be started: {error}"));
        let mut command = command(adapt);
        command.env("TIMEOUS_SOURCE", source).env("TIMEOUS_BITRATE", has.rate().as_bps().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut outputs, inherited) = pipes(self.encodings.len()).map_err(no_encoder)?;
        if !inherited.is_empty() {
            let rates: Vec<String> = self.encodings.iter().map(|rate| rate.as_bps().to_string()).collect();
            command.env("TIMEOUS_BITRATES", rates.join(" ")).env("TIMEOUS_OUTPUTS", names(&inherited));
            command.stdout(Stdio::null());
        }
        let mut child = command.spawn().map_err(no_encoder)?;
        // Close our copies of the pipes' write ends, so that the encoder's end is seen.
        drop(inherited);
        let commands = child.stdin.take().expect("it is piped");
        outputs.extend(child.stdout.take().map(|output| File::from(OwnedFd::from(output))));
        // Writes must not block on an encoder that does not read.
        fcntl_getfl(&commands)
            .and_then(|flags| fcntl_setfl(&commands, flags | OFlags::NONBLOCK))
            .map_err(|error| no_encoder(error.into()))?;
        Ok(Some((Encoder { child, commands, has, keyframe: None }, outputs)))
    }

    fn has(&self) -> Result<EncoderControl, Failure> {
        let wrong = |why: &str| Failure::Usage(why.to_owned());
        if !self.encodings.is_empty() {
            let encodings = Encodings::new(&self.encodings);
            return encodings
                .map(|encodings| EncoderControl::Encodings(Box::new(encodings)))
                .ok_or_else(|| wrong("--encodings must be bitrates that rise"));
        }
        if self.min_bitrate > self.bitrate || self.bitrate > self.max_bitrate {
            return Err(wrong("--bitrate must be from --min-bitrate to --max-bitrate"));
        }
        Ok(EncoderControl::Bitrate { rate: self.bitrate, range: (self.min_bitrate, self.max_bitrate) })
    }

    /// Selects the policy that advises the encoder (dbat); fails if the URI names another.
    pub(crate) fn set_policy(&self, uri: &mut Uri) -> Result<(), Failure> {
        if self.adapt.is_some() {
            if uri.options.policy.is_some_and(|policy| policy != PolicyName::Dbat) {
                return Err(Failure::Usage("--adapt needs policy=dbat, which is the one that advises".to_owned()));
            }
            uri.options.policy = Some(PolicyName::Dbat);
        }
        Ok(())
    }

    /// Fails if `--adapt` is used with a peer that gives no rate advice.
    pub(crate) fn refuse(&self, peer: &str) -> Result<(), Failure> {
        match self.adapt {
            Some(_) => Err(Failure::Usage(format!("--adapt needs a timeous:// URI: {peer} advises nobody"))),
            None => Ok(()),
        }
    }
}

fn command(adapt: &str) -> Command {
    let with = |program: &str, arguments: [&str; 2]| {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    match adapt {
        "x264" => with(if Path::new(PYTHON).exists() { PYTHON } else { "python3" }, ["-c", X264]),
        other => with("sh", ["-c", other]),
    }
}

impl EncoderControl {
    fn rate(&self) -> Rate {
        match self {
            Self::Bitrate { rate, .. } => *rate,
            Self::Encodings(encodings) => encodings.rate(),
        }
    }
}

impl Encoder {
    /// Bitrate of the encoding to send.
    pub(crate) fn bitrate(&self) -> Rate {
        self.has.rate()
    }

    /// Follows the advice as far as possible; returns the bitrate that is encoded now.
    pub(crate) fn follow(&mut self, advice: &Advice) -> Rate {
        match &mut self.has {
            EncoderControl::Bitrate { rate, range: (least, most) } => {
                *rate = advice.rate.clamp(*least, *most);
                let line = format!("bitrate {}\n", rate.as_bps());
                self.send_line(&line);
            }
            EncoderControl::Encodings(encodings) => {
                encodings.follow(advice);
                self.look_after(advice.at);
            }
        }
        self.has.rate()
    }

    /// Handles a frame from the encoder; returns the frames to send. Frame ids are unique across encodings.
    pub(crate) fn pass(&mut self, due: DueFrame) -> Vec<DueFrame> {
        match &mut self.has {
            EncoderControl::Bitrate { .. } => vec![due],
            EncoderControl::Encodings(encodings) => encodings.pass(due),
        }
    }

    /// Requests a keyframe after a reference frame was lost or dropped.
    pub(crate) fn ask_for_keyframe(&mut self, now: Instant) {
        match &self.has {
            EncoderControl::Bitrate { .. } => self.ask_for(now, None),
            EncoderControl::Encodings(encodings) => {
                if let Some(encoding) = encodings.to_begin(true) {
                    self.ask_for(now, Some(encoding));
                }
            }
        }
    }

    /// Requests a keyframe if a switch of encodings waits for one. To be called regularly.
    pub(crate) fn look_after(&mut self, now: Instant) {
        if let EncoderControl::Encodings(encodings) = &self.has
            && let Some(encoding) = encodings.to_begin(false)
        {
            self.ask_for(now, Some(encoding));
        }
    }

    fn ask_for(&mut self, now: Instant, encoding: Option<usize>) {
        let asked = |(last, of): (Instant, Option<usize>)| of == encoding && now.saturating_since(last) < KEYFRAMES;
        if !self.keyframe.is_some_and(asked) {
            self.keyframe = Some((now, encoding));
            self.send_line(
                &encoding.map_or("keyframe\n".to_owned(), |encoding| format!("keyframe {}\n", encoding + 1)),
            );
        }
    }

    /// Writes a line to the encoder; if the pipe is full it is dropped, as later lines supersede it.
    fn send_line(&mut self, line: &str) {
        if let Err(error) = self.commands.write_all(line.as_bytes()) {
            tracing::debug!(%error, line, "telling the encoder");
        }
    }

    /// Replaces the failure by the encoder's exit status, if that is the cause.
    pub(crate) fn explain(&mut self, failure: Failure) -> Failure {
        match self.child.wait() {
            Ok(status) if !status.success() => Failure::Environment(format!("the encoder failed ({status})")),
            _ => failure,
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // Both fail harmlessly if the process has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn args(adapt: &str) -> AdaptArgs {
        let [bitrate, min_bitrate, max_bitrate] = [600, 100, 900].map(Rate::from_kbps);
        AdaptArgs { adapt: Some(adapt.to_owned()), bitrate, min_bitrate, max_bitrate, encodings: Vec::new() }
    }

    fn advice(kbps: u64) -> Advice {
        let rate = Rate::from_kbps(kbps);
        let mut advice = Advice::new(Instant::ZERO, timeous::core::Reason::Room);
        (advice.stream, advice.rate) = (rate, rate);
        advice
    }

    #[test]
    fn a_command_is_told_what_to_do_and_does_it_in_its_range() {
        let script = "echo \"$TIMEOUS_SOURCE at $TIMEOUS_BITRATE\"; head -n 4";
        let (mut encoder, mut outputs) = args(script).start("the camera").unwrap().unwrap();
        assert_eq!(encoder.follow(&advice(700)), Rate::from_kbps(700));
        assert_eq!(encoder.follow(&advice(5)), Rate::from_kbps(100));
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for millis in [0, 499, 500] {
            encoder.ask_for_keyframe(at(millis));
        }
        let mut said = String::new();
        outputs[0].read_to_string(&mut said).unwrap();
        assert_eq!(said, "the camera at 600000\nbitrate 700000\nbitrate 100000\nkeyframe\nkeyframe\n");
    }

    #[test]
    fn a_command_has_an_output_for_each_encoding_and_is_asked_for_the_one_that_is_to_begin() {
        let script = "set -- $TIMEOUS_OUTPUTS; echo $TIMEOUS_BITRATES > $1; head -n 3 > $2";
        let encodings = [200, 400].map(Rate::from_kbps).to_vec();
        let (mut encoder, mut outputs) = AdaptArgs { encodings, ..args(script) }.start("x").unwrap().unwrap();
        assert_eq!(encoder.bitrate(), Rate::from_kbps(200));
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for millis in [0, 499] {
            encoder.look_after(at(millis));
        }
        let room = |millis| {
            let mut advice = advice(250);
            (advice.at, advice.path) = (at(millis), Some(Rate::from_kbps(900)));
            advice
        };
        let rates = [600, 1_600].map(|millis| encoder.follow(&room(millis)).as_bps());
        assert_eq!(rates, [200_000, 400_000]);
        let said = [0, 1].map(|n: usize| {
            let mut said = String::new();
            outputs[n].read_to_string(&mut said).unwrap();
            said
        });
        assert_eq!(said, ["200000 400000\n", "keyframe 1\nkeyframe 1\nkeyframe 2\n"]);
    }

    #[test]
    fn encodings_that_do_not_rise_are_a_mistake() {
        let encodings = [400, 400].map(Rate::from_kbps).to_vec();
        assert!(matches!(AdaptArgs { encodings, ..args("x264") }.start("x"), Err(Failure::Usage(_))));
    }

    #[test]
    fn an_encoder_that_does_not_read_is_not_waited_for() {
        let (mut encoder, _output) = args("exec sleep 60").start("x").unwrap().unwrap();
        for n in 0..20_000 {
            encoder.follow(&advice(100 + n % 800));
        }
    }

    #[test]
    fn one_that_fails_is_the_reason() {
        let (mut encoder, _output) = args("exit 3").start("x").unwrap().unwrap();
        let failure = encoder.explain(Failure::Input("no picture".to_owned()));
        assert!(matches!(&failure, Failure::Environment(why) if why.contains('3')), "{failure}");
    }

    #[test]
    fn the_policy_is_the_one_that_advises() {
        let set = |text: &str| {
            let mut uri: Uri = text.parse().unwrap();
            args("x264").set_policy(&mut uri).map(|()| uri.options.policy)
        };
        assert_eq!(set("timeous://h").unwrap(), Some(PolicyName::Dbat));
        assert_eq!(set("timeous://h?policy=dbat").unwrap(), Some(PolicyName::Dbat));
        assert!(matches!(set("timeous://h?policy=age"), Err(Failure::Usage(_))));
    }
}
