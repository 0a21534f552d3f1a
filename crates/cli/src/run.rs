//! `timeous run`: runs another program with congestion control for its UDP sockets, by a preloaded library.

mod program;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use timeous::core::units::{parse_duration, parse_rate};

use crate::failure::Failure;
use program::Program;

/// File name of the library.
const LIBRARY: &str = "libtimeous_run.so";
/// Environment variable that names the library, if it is elsewhere.
const LIBRARY_VARIABLE: &str = "TIMEOUS_RUN_LIBRARY";
/// Environment variable with the library's settings, as `key=value` pairs with commas between them.
const SETTINGS_VARIABLE: &str = "TIMEOUS_RUN";
/// Environment variable of the dynamic loader.
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Runs a program with congestion control for the UDP datagrams that it sends
///
/// The program is not changed, and datagrams keep their format. They leave as the Congestion Manager grants them: the
/// host's daemon's, if one runs, else the program's own. Run the receiving program under 'timeous run', too: then it
/// reports what arrives. The first four datagrams to each destination leave as they are, as do TCP and multicast.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Without reports a program keeps to what other flows of the host learn of the path, or to --rate, or sends one datagram \
every three seconds (RFC 8085); a line on standard error says so.

The exit status is the program's. Signals reach it, since it takes the place of this process.

Examples:
  timeous run iperf3 -s                                          # at the receiver
  timeous run --stats -- iperf3 -u -b 50M -c receiver.example    # at the sender
  timeous run ffmpeg -re -i clip.mp4 -f mpegts udp://receiver.example:9000")]
pub(crate) struct RunArgs {
    /// Maximum age of a datagram when it leaves; older ones are dropped
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    latency: String,
    /// Rate on paths without reports, which you know the path to bear
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// First of eight UDP ports at which the receiving host is asked for reports; the same at both ends
    #[arg(long, value_name = "PORT", default_value_t = 6_512)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=65_528))]
    feedback_port: u16,
    /// Also control datagrams to and from this host itself
    #[arg(long)]
    loopback: bool,
    /// Print a line of figures for each destination when the program ends
    #[arg(long)]
    stats: bool,
    /// Program to run, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let settings = settings(args)?;
    let library = library()?;
    let (name, arguments) =
        args.command.split_first().ok_or_else(|| Failure::Usage("a program is missing".to_owned()))?;
    let program = Program::find(name)?;
    program.check()?;
    let mut command = Command::new(program.path());
    command.arg0(name).args(arguments);
    command.env(SETTINGS_VARIABLE, settings).env(PRELOAD_VARIABLE, preload(&library)?);
    let error = command.exec();
    Err(Failure::Environment(format!("cannot run {}: {error}", program.path().display())))
}

/// Settings for the library; it trusts that they were checked here.
fn settings(args: &RunArgs) -> Result<String, Failure> {
    let wrong = |option: &str, error: &dyn std::fmt::Display| Failure::Usage(format!("{option}: {error}"));
    let latency = parse_duration(&args.latency).map_err(|error| wrong("--latency", &error))?;
    if latency.is_zero() {
        return Err(Failure::Usage("--latency: every datagram is older than that".to_owned()));
    }
    let mut settings = format!("latency={},feedback-port={}", args.latency, args.feedback_port);
    if let Some(rate) = &args.rate {
        if parse_rate(rate).map_err(|error| wrong("--rate", &error))?.as_bps() == 0 {
            return Err(Failure::Usage("--rate: nothing would be sent".to_owned()));
        }
        settings += &format!(",rate={rate}");
    }
    for (is_set, key) in [(args.loopback, ",loopback"), (args.stats, ",stats")] {
        settings += if is_set { key } else { "" };
    }
    Ok(settings)
}

/// Finds the library: beside this program, as it was built, or where `make install` puts it.
fn library() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        let named = PathBuf::from(named);
        return match named.is_file() {
            true => Ok(named),
            false => Err(Failure::Environment(format!("{LIBRARY_VARIABLE}: there is no file {}", named.display()))),
        };
    }
    let own =
        std::env::current_exe().map_err(|error| Failure::Environment(format!("cannot find this program: {error}")))?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(LIBRARY), directory.join("../lib/timeous").join(LIBRARY)];
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        Failure::Environment(format!(
            "{LIBRARY} is neither in {} nor in ../lib/timeous beside it: 'make install' puts it there, and \
             {LIBRARY_VARIABLE} names another place",
            directory.display()
        ))
    })
}

/// Value for the dynamic loader: the library before those that are there already.
fn preload(library: &Path) -> Result<OsString, Failure> {
    let library = library.canonicalize().map_err(|error| Failure::file(&library.display().to_string(), &error))?;
    if library.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return Err(Failure::Environment(format!(
            "the dynamic loader takes no path with a space or a colon: {}",
            library.display()
        )));
    }
    let mut all = library.into_os_string();
    if let Some(others) = std::env::var_os(PRELOAD_VARIABLE).filter(|others| !others.is_empty()) {
        all.push(OsStr::new(":"));
        all.push(others);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    fn parse(line: &str) -> RunArgs {
        Line::parse_from(line.split_whitespace()).args
    }

    #[test]
    fn options_end_at_the_program() {
        let args = parse("run --rate 2M --stats iperf3 -u --rate 7");
        assert_eq!(args.command, ["iperf3", "-u", "--rate", "7"]);
        assert_eq!(settings(&args).unwrap(), "latency=200ms,feedback-port=6512,rate=2M,stats");
        assert_eq!(parse("run --loopback -- ls -l").command, ["ls", "-l"]);
    }

    #[test]
    fn wrong_values_are_refused_before_the_program_starts() {
        for line in ["run --latency soon ls", "run --latency 0 ls", "run --rate fast ls", "run --rate 0 ls"] {
            assert!(matches!(settings(&parse(line)), Err(Failure::Usage(_))), "{line}");
        }
        assert!(Line::try_parse_from("run --feedback-port 65530 ls".split(' ')).is_err());
        assert!(Line::try_parse_from(["run"]).is_err());
    }

    #[test]
    fn a_library_with_a_space_in_its_path_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("a b.so");
        std::fs::write(&library, "").unwrap();
        assert!(matches!(preload(&library), Err(Failure::Environment(text)) if text.contains("space")));
    }
}
