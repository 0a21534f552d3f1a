//! `timeous emulate`: emulates a link (rate, delay, queue, loss) between real programs.

mod link;
mod report;

use std::fmt;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use clap::builder::RangedU64ValueParser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use timeous::core::units::parse_duration;
use timeous_core::{Duration, Instant};
use timeous_net::LinkConfig;
use timeous_net::capture::{Capture, CaptureError};
use timeous_net::emulator::router::Ipv4Interface;
use timeous_net::emulator::{Emulator, EmulatorError, Ended, Relay, RelayConfig, Router, RouterConfig, Stop};
use timeous_net::link::PacketLimit;

use crate::failure::Failure;
use crate::files::{check_distinct, create_log};
use crate::notice::put;
use link::{BackArgs, ForwardArgs, LinkArgsError};
use report::{Form, Report};

/// Largest packet that every path of IP takes (RFC 791 §3.2), in bytes.
const LEAST_MTU: i64 = 68;
const SECOND: Duration = Duration::from_secs(1);

/// Emulates a link in real time: between two UDP ports (--listen, --to) or two network namespaces (--netns)
///
/// By default the path has no limits but a queue of 1000 packets. Options without "back" apply to the direction from
/// the clients to the target, or from the left namespace to the right one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EmulateArgs {
    /// Address that clients send to, such as 127.0.0.1:7000
    #[arg(long, value_name = "ADDR", requires = "to", required_unless_present = "netns", conflicts_with = "netns")]
    listen: Option<SocketAddr>,
    /// Address that packets are forwarded to, such as 127.0.0.1:6511
    #[arg(long, value_name = "ADDR", requires = "listen")]
    to: Option<SocketAddr>,
    /// Maximum number of clients
    #[arg(long, value_name = "N", default_value_t = 256, conflicts_with = "netns")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_clients: usize,
    /// Two network namespaces, created (and removed at the end) if they do not exist; needs root
    #[arg(long, value_name = "LEFT,RIGHT", value_parser = parse_pair::<String>)]
    netns: Option<Pair<String>>,
    /// Addresses of the two namespaces
    #[arg(long, value_name = "LEFT,RIGHT", value_parser = parse_pair::<Ipv4Interface>, requires = "netns")]
    #[arg(default_value = "10.77.0.1/24,10.77.0.2/24")]
    addresses: Pair<Ipv4Interface>,
    /// Largest IP packet, in bytes. Larger ones are refused in the namespaces (1500 by default there), and vanish
    /// between two UDP ports
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(LEAST_MTU..))]
    mtu: Option<u16>,
    /// Another size from this time on, such as 10s,1280: larger packets vanish
    #[arg(long, value_name = "TIME,BYTES", value_parser = parse_change)]
    mtu_then: Option<(Duration, u16)>,
    #[command(flatten)]
    forward: ForwardArgs,
    /// Seed of random losses; the same seed and packets give the same losses
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write each packet to a pcapng file, once when it enters and once when it leaves
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Stop after this time; otherwise on Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Write the counters of each second to a file, as json or csv
    #[arg(long, num_args = 2, value_names = ["json|csv", "FILE"])]
    stats: Option<Vec<String>>,
    #[command(flatten)]
    back: BackArgs,
}

/// Reason for which the emulation cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmulateError {
    /// Error of the emulator.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// Invalid description of a link.
    #[error(transparent)]
    Link(#[from] LinkArgsError),
    /// The capture cannot be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Packets would go round and round.
    #[error(
        "--listen {listen} and --to {to} are one address: packets would come back to the emulator itself; give --to the receiver's"
    )]
    Loop {
        /// Address that clients send to.
        listen: SocketAddr,
        /// Address that packets are forwarded to.
        to: SocketAddr,
    },
    /// Unknown format of statistics.
    #[error("unknown format of statistics {0:?}: json or csv")]
    StatsForm(String),
    /// One file is two outputs.
    #[error("{0}")]
    Files(String),
    /// A file cannot be opened, or the statistics cannot be written.
    #[error("cannot write the {content} to {path}: {source}")]
    File {
        /// Content of the file.
        content: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Signal handlers cannot be registered.
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
}

impl From<EmulateError> for Failure {
    fn from(error: EmulateError) -> Self {
        let text = error.to_string();
        match error {
            EmulateError::StatsForm(_)
            | EmulateError::Files(_)
            | EmulateError::Loop { .. }
            | EmulateError::Link(LinkArgsError::NothingToSkip { .. } | LinkArgsError::BurstWithoutRate) => {
                Self::Usage(text)
            }
            _ => Self::Environment(text),
        }
    }
}

/// Pair of values, written `left,right`.
type Pair<T> = [T; 2];

fn parse_pair<T: std::str::FromStr>(text: &str) -> Result<Pair<T>, String>
where
    T::Err: fmt::Display,
{
    let (left, right) = text.split_once(',').ok_or("two values with a comma between them are needed")?;
    let parse = |one: &str| one.parse().map_err(|error: T::Err| error.to_string());
    Ok([parse(left)?, parse(right)?])
}

fn parse_change(text: &str) -> Result<(Duration, u16), String> {
    let (at, bytes) = text.split_once(',').ok_or("a time and a size with a comma between them are needed")?;
    let at = parse_duration(at).map_err(|error| error.to_string())?;
    Ok((at, bytes.parse().map_err(|error| format!("{error}"))?))
}

/// Runs the emulation until its time is up, or until SIGINT, SIGTERM or SIGHUP.
pub(crate) fn run(args: EmulateArgs) -> Result<(), EmulateError> {
    let written = args.stats.as_deref().and_then(|stats| stats.get(1)).map(String::as_str);
    check_distinct(&[("--capture", args.capture.as_deref().and_then(Path::to_str)), ("--stats", written)])
        .map_err(|failure| EmulateError::Files(failure.to_string()))?;
    let stats = args.stats.as_deref().map(StatsFile::create).transpose()?;
    let duration = args.duration;
    let stop = listen_for_signals().map_err(EmulateError::Signals)?;
    let mut emulator = open(args)?;
    let mut report = Report::new();
    let ran = carry(emulator.as_mut(), duration, &stop, &mut report);
    // Even after an error, everything captured so far is written.
    let flushed = emulator.flush();
    report.finish(emulator.as_ref());
    drop(emulator);
    let written = stats.map_or(Ok(()), |stats| stats.write(&report));
    ran?;
    flushed?;
    written
}

fn open(args: EmulateArgs) -> Result<Box<dyn Emulator>, EmulateError> {
    let packets = match (args.mtu, args.mtu_then) {
        (None, None) => PacketLimit::None,
        (Some(most), None) => PacketLimit::Bytes(most.into()),
        (first, Some((at, then))) => {
            PacketLimit::Changes { first: first.map_or(usize::MAX, usize::from), at, then: then.into() }
        }
    };
    let forward = LinkConfig { packets, ..LinkConfig::try_from(args.forward)? };
    let back = LinkConfig { packets, ..LinkConfig::try_from(ForwardArgs::from(args.back))? };
    let capture =
        args.capture.as_deref().map(|path| Ok::<_, EmulateError>(Capture::to_file(create("capture", path)?)?));
    let capture = capture.transpose()?;
    if let (Some(listen), Some(to)) = (args.listen, args.to) {
        if is_own(listen, to) {
            return Err(EmulateError::Loop { listen, to });
        }
        let (seed, max_clients) = (args.seed, args.max_clients);
        let relay = Relay::bind(RelayConfig { listen, target: to, forward, back, seed, max_clients, capture })?;
        put(format_args!("{} -> {to}\n", relay.local_addr()));
        return Ok(Box::new(relay));
    }
    // Without this, the namespaces would outlive a script that started us and died.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    let [left, right] = args.netns.unwrap_or_default();
    let mut config = RouterConfig::new(&left, &right);
    [config.left.address, config.right.address] = args.addresses;
    let mtu = args.mtu.unwrap_or(config.mtu);
    let router = Router::open(RouterConfig { mtu, forward, back, seed: args.seed, capture, ..config })?;
    put(format_args!("namespaces {left} ({}) and {right} ({})\n", args.addresses[0], args.addresses[1]));
    Ok(Box::new(router))
}

/// Whether what is sent to an address comes to a socket that listens.
fn is_own(listen: SocketAddr, to: SocketAddr) -> bool {
    // An address of this host can be bound.
    let reaches = listen.ip() == to.ip() || (listen.ip().is_unspecified() && UdpSocket::bind((to.ip(), 0)).is_ok());
    listen.port() == to.port() && listen.port() > 0 && reaches
}

fn listen_for_signals() -> io::Result<Stop> {
    let stop = Stop::new()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, stop.stopper()?)?;
    }
    Ok(stop)
}

fn carry(
    emulator: &mut dyn Emulator,
    duration: Option<Duration>,
    stop: &Stop,
    report: &mut Report,
) -> Result<(), EmulatorError> {
    let end = duration.map_or(Instant::FAR_FUTURE, |duration| emulator.now() + duration);
    let mut next = emulator.now();
    while next < end {
        next = (next + SECOND).min(end);
        if emulator.run_until(next, stop)? == Ended::Stopped {
            break;
        }
        if next < end {
            report.tick(emulator);
        }
    }
    Ok(())
}

/// Creates a file before the emulation begins.
fn create(content: &'static str, path: &Path) -> Result<File, EmulateError> {
    create_log(path).map_err(|source| EmulateError::File { content, path: path.to_owned(), source })
}

/// Statistics file, written at the end.
#[derive(Debug)]
struct StatsFile {
    form: Form,
    path: PathBuf,
    file: File,
}

impl StatsFile {
    const CONTENT: &str = "statistics";

    /// Creates the file of the option's values.
    fn create(arguments: &[String]) -> Result<Self, EmulateError> {
        let [form, path] = arguments else { return Err(EmulateError::StatsForm(arguments.join(" "))) };
        let form = match form.as_str() {
            "json" => Form::Json,
            "csv" => Form::Csv,
            _ => return Err(EmulateError::StatsForm(form.clone())),
        };
        let path = PathBuf::from(path);
        Ok(Self { form, file: create(Self::CONTENT, &path)?, path })
    }

    fn write(self, report: &Report) -> Result<(), EmulateError> {
        let written = report.write(self.file, self.form);
        written.map_err(|source| EmulateError::File { content: Self::CONTENT, path: self.path, source })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use timeous_core::Rate;
    use timeous_net::link::{Capacity, Limit, Loss};

    use super::*;

    #[derive(Debug, Parser)]
    struct Tool {
        #[command(flatten)]
        emulate: EmulateArgs,
    }

    fn parse(line: &str) -> Result<EmulateArgs, String> {
        let words = ["emulate"].into_iter().chain(line.split_whitespace());
        Tool::try_parse_from(words).map(|tool| tool.emulate).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_command_line_is_read() {
        let args = parse(
            "--listen 127.0.0.1:7000 --to 127.0.0.1:6511 --rate 1.5M --delay 40ms --queue 100ms --loss 1% --seed 1 \
             --back-rate 400k --back-delay 20ms --back-queue 30p --back-loss-burst 1%,25% --duration 30s \
             --stats json out.json --capture out.pcapng",
        )
        .unwrap();
        let forward = LinkConfig::try_from(args.forward).unwrap();
        assert_eq!(forward.capacity, Capacity::Fixed(Rate::from_kbps(1_500)));
        assert_eq!(forward.delay, Duration::from_millis(40));
        assert_eq!(forward.queue, Limit::Time(Duration::from_millis(100)));
        assert_eq!(forward.loss, Loss::Bernoulli { p: 0.01 });
        let back = LinkConfig::try_from(ForwardArgs::from(args.back)).unwrap();
        assert_eq!(back.queue, Limit::Packets(30));
        assert_eq!(back.loss, Loss::GilbertElliott { p: 0.01, r: 0.25, bad_loss: 1.0, good_loss: 0.0 });
        assert_eq!(args.duration, Some(Duration::from_secs(30)));
    }

    #[test]
    fn namespaces_are_read_as_pairs() {
        let args = parse("--netns left,right --addresses 10.1.0.1/30,10.1.0.2/30 --mtu 1280").unwrap();
        assert_eq!(args.netns, Some(["left".to_owned(), "right".to_owned()]));
        assert_eq!(args.addresses.map(|address| address.to_string()), ["10.1.0.1/30", "10.1.0.2/30"]);
        assert_eq!(args.mtu, Some(1_280));
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        let relay = "--listen 127.0.0.1:1 --to 127.0.0.1:2";
        let cases = [
            (format!("{relay} --rate fast"), "400k, 1.5M"),
            (format!("{relay} --rate 0"), "nothing would pass"),
            (format!("{relay} --back-rate 0k"), "nothing would pass"),
            (format!("{relay} --mtu 67"), "68"),
            (format!("{relay} --max-clients 0"), "1.."),
            (format!("{relay} --delay 40"), "120ms"),
            (format!("{relay} --queue much"), "30p (packets)"),
            (format!("{relay} --loss 1"), "1% or 0.01"),
            (format!("{relay} --rate 1M --trace x"), "--trace"),
            ("--listen 127.0.0.1:1".to_owned(), "--to"),
            (String::new(), "--listen"),
            ("--netns left".to_owned(), "comma"),
            (format!("{relay} --netns left,right"), "--netns"),
        ];
        for (line, expected) in cases {
            let error = parse(&line).expect_err(&line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        let stats = StatsFile::create(&["xml".to_owned(), "x".to_owned()]).unwrap_err();
        assert_eq!(stats.to_string(), "unknown format of statistics \"xml\": json or csv");
    }

    /// Its first packet went round and round.
    #[test]
    fn packets_are_not_forwarded_to_the_emulator_itself() {
        for listen in ["127.0.0.1:7001", "0.0.0.0:7001"] {
            let error = run(parse(&format!("--listen {listen} --to 127.0.0.1:7001")).unwrap()).unwrap_err();
            assert!(matches!(Failure::from(error), Failure::Usage(text) if text.contains("are one address")));
        }
        let other = ["127.0.0.1:7001", "127.0.0.1:7003"].map(|address| address.parse().unwrap());
        assert!(!is_own(other[0], other[1]));
    }

    #[test]
    fn a_run_ends_by_itself_and_leaves_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        for (form, begins) in [("csv", "seconds,direction,packets_in,bytes_in,"), ("json", "[\n  {\n    \"seconds\"")] {
            let (stats, capture) = (file(form), file("capture"));
            let line = format!(
                "--listen 127.0.0.1:0 --to 127.0.0.1:9 --duration 20ms --capture {} --stats {form} {}",
                capture.display(),
                stats.display()
            );
            run(parse(&line).unwrap()).unwrap();
            let written = std::fs::read_to_string(&stats).unwrap();
            assert!(written.starts_with(begins), "{written}");
            assert_eq!(written.matches("forward").count(), 1);
            assert!(capture.metadata().unwrap().len() > 0);
        }
    }
}
