//! `--adapt`: a live encoder as another process, whose bitrate follows what the stream advises.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::Args;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use timeous::core::units::parse_rate;
use timeous::core::{Advice, Duration, Instant, Rate};
use timeous::{PolicyName, Uri};

use crate::failure::Failure;

/// How an encoder is driven.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdaptArgs {
    /// Encode SOURCE live, at a bitrate that follows the path: x264 (by GStreamer), or a command that encodes
    ///
    /// With x264, SOURCE is a file, a camera such as /dev/video0, or "test". A command finds SOURCE in $TIMEOUS_SOURCE and
    /// the bitrate to begin with in $TIMEOUS_BITRATE; it writes raw H.264 to its standard output, and reads lines from its
    /// standard input: "bitrate N", in bit/s, and "keyframe". The end of its input is its own. The stream has policy=dbat.
    #[arg(long, value_name = "ENCODER")]
    adapt: Option<String>,
    /// With --adapt: the bitrate to begin with
    #[arg(long, value_name = "RATE", default_value = "600k", value_parser = parse_rate, requires = "adapt")]
    bitrate: Rate,
    /// With --adapt: the least bitrate
    #[arg(long, value_name = "RATE", default_value = "100k", value_parser = parse_rate, requires = "adapt")]
    min_bitrate: Rate,
    /// With --adapt: the most
    #[arg(long, value_name = "RATE", default_value = "4M", value_parser = parse_rate, requires = "adapt")]
    max_bitrate: Rate,
}

/// The encoder that comes along.
const X264: &str = include_str!("adapt/x264.py");
/// Where distributions have the Python that their GStreamer belongs to.
const PYTHON: &str = "/usr/bin/python3";
/// A frame that stands for itself costs as much as many others: not more often than this.
const KEYFRAMES: Duration = Duration::from_millis(500);

/// An encoder at work. It ends with this.
pub(crate) struct Encoder {
    child: Child,
    commands: ChildStdin,
    range: (Rate, Rate),
    bitrate: Rate,
    keyframe: Option<Instant>,
}

impl AdaptArgs {
    /// Starts the encoder, if one is asked for; what it encodes comes from its output.
    pub(crate) fn start(&self, source: &str) -> Result<Option<(Encoder, ChildStdout)>, Failure> {
        let Some(adapt) = &self.adapt else { return Ok(None) };
        if self.min_bitrate > self.bitrate || self.bitrate > self.max_bitrate {
            return Err(Failure::Usage("--bitrate must be from --min-bitrate to --max-bitrate".to_owned()));
        }
        let mut command = command(adapt);
        command.env("TIMEOUS_SOURCE", source).env("TIMEOUS_BITRATE", self.bitrate.as_bps().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let no_encoder = |error| Failure::Environment(format!("the encoder cannot be started: {error}"));
        let mut child = command.spawn().map_err(no_encoder)?;
        let (commands, output) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
        // An encoder that does not read is not waited for.
        fcntl_getfl(&commands)
            .and_then(|flags| fcntl_setfl(&commands, flags | OFlags::NONBLOCK))
            .map_err(|error| no_encoder(error.into()))?;
        let range = (self.min_bitrate, self.max_bitrate);
        Ok(Some((Encoder { child, commands, range, bitrate: self.bitrate, keyframe: None }, output)))
    }

    /// Gives the stream the policy that advises, unless `text`, as which it was written, names another: that is a mistake.
    pub(crate) fn set_policy(&self, text: &str, uri: &mut Uri) -> Result<(), Failure> {
        if self.adapt.is_some() {
            if text.contains("policy=") && uri.options.policy != PolicyName::Dbat {
                return Err(Failure::Usage("--adapt needs policy=dbat, which is the one that advises".to_owned()));
            }
            uri.options.policy = PolicyName::Dbat;
        }
        Ok(())
    }

    /// Refuses what an encoder cannot follow.
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

impl Encoder {
    /// What it encodes at.
    pub(crate) fn bitrate(&self) -> Rate {
        self.bitrate
    }

    /// Takes the advice as far as it can; what it encodes at now.
    pub(crate) fn follow(&mut self, advice: &Advice) -> Rate {
        let (least, most) = self.range;
        self.bitrate = advice.rate.clamp(least, most);
        self.tell(&format!("bitrate {}\n", self.bitrate.as_bps()));
        self.bitrate
    }

    /// Asks for a frame that stands for itself, since one on which others depend does not arrive.
    pub(crate) fn ask_for_keyframe(&mut self, now: Instant) {
        if self.keyframe.is_none_or(|last| now.saturating_since(last) >= KEYFRAMES) {
            self.keyframe = Some(now);
            self.tell("keyframe\n");
        }
    }

    /// A line that does not fit is left out: the next one says more.
    fn tell(&mut self, line: &str) {
        if let Err(error) = self.commands.write_all(line.as_bytes()) {
            tracing::debug!(%error, line, "telling the encoder");
        }
    }

    /// Its own end, if that is why there is nothing to send.
    pub(crate) fn explain(&mut self, failure: Failure) -> Failure {
        match self.child.wait() {
            Ok(status) if !status.success() => Failure::Environment(format!("the encoder failed ({status})")),
            _ => failure,
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // Both do nothing to one that has been waited for.
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
        AdaptArgs { adapt: Some(adapt.to_owned()), bitrate, min_bitrate, max_bitrate }
    }

    fn advice(kbps: u64) -> Advice {
        let rate = Rate::from_kbps(kbps);
        Advice {
            at: Instant::ZERO,
            reason: timeous::core::Reason::Room,
            queued: 0,
            average: 0,
            thresholds: timeous::core::Thresholds::default(),
            stream: rate,
            rate,
            path: None,
        }
    }

    #[test]
    fn a_command_is_told_what_to_do_and_does_it_in_its_range() {
        let script = "echo \"$TIMEOUS_SOURCE at $TIMEOUS_BITRATE\"; head -n 4";
        let (mut encoder, mut output) = args(script).start("the camera").unwrap().unwrap();
        assert_eq!(encoder.follow(&advice(700)), Rate::from_kbps(700));
        assert_eq!(encoder.follow(&advice(5)), Rate::from_kbps(100));
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        for millis in [0, 499, 500] {
            encoder.ask_for_keyframe(at(millis));
        }
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        assert_eq!(said, "the camera at 600000\nbitrate 700000\nbitrate 100000\nkeyframe\nkeyframe\n");
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
            args("x264").set_policy(text, &mut uri).map(|()| uri.options.policy)
        };
        assert_eq!(set("timeous://h").unwrap(), PolicyName::Dbat);
        assert_eq!(set("timeous://h?policy=dbat").unwrap(), PolicyName::Dbat);
        assert!(matches!(set("timeous://h?policy=age"), Err(Failure::Usage(_))));
    }
}
