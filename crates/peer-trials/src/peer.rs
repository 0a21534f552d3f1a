//! The peers compared, each set up as its own manual advises for the requested latency.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use timeous::core::Duration;
use timeous_net::emulator::Namespace;
use timeous_testbed::RunError;
use timeous_testbed::machine::machine;
use timeous_testbed::process::ChildProcess;

use crate::links::Setting;
use crate::member;

/// Address of the far end of the link.
pub(crate) const RIGHT: &str = "10.77.0.2";
/// The port across the link.
pub(crate) const PORT: u16 = 7_000;
/// Port where a program at the left takes datagrams.
pub(crate) const IN_PORT: u16 = 7_001;
/// Port where a program at the right delivers them.
pub(crate) const OUT_PORT: u16 = 7_002;
/// Margin in the buffer of a receiver with fixed playout delay, for timers. Chosen after 20 ms proved too little: SRT
/// and RIST delivered data up to 20 ms after their playout time.
const MARGIN: Duration = Duration::from_millis(50);

/// A peer: a way to send from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Name on the command line.
    pub(crate) name: String,
    /// Full title.
    pub(crate) title: String,
    /// Source of its setup.
    pub(crate) advice: String,
    /// Transport of the peer.
    pub(crate) way: Transport,
}

/// Transport of datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A UDP socket.
    Udp,
    /// Kernel TCP, with length-prefixed datagrams.
    Tcp {
        /// Congestion control.
        congestion: &'static str,
        /// Whether the kernel buffers little, and the application drops expired or undecodable datagrams.
        drops: bool,
    },
    /// Two programs, which take and deliver datagrams over loopback.
    Programs {
        /// Program at the right, started first.
        receiver: Program,
        /// Program at the left.
        sender: Program,
    },
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Path of the file, or a name to be searched in PATH.
    pub(crate) path: PathBuf,
    /// Arguments.
    pub(crate) words: Vec<String>,
}

impl Program {
    fn new(path: impl AsRef<Path>, words: &str) -> Self {
        let words = words.split_whitespace().map(str::to_owned).collect();
        Self { path: path.as_ref().to_owned(), words }
    }

    /// Whether it is installed.
    pub(crate) fn is_there(&self) -> bool {
        let places = std::env::var_os("PATH").unwrap_or_default();
        let found = |dir: PathBuf| dir.join(&self.path).is_file();
        self.path.is_file() || (self.path.components().count() == 1 && std::env::split_paths(&places).any(found))
    }
}

impl Peer {
    fn new(name: &str, title: &str, advice: &str, way: Transport) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), advice: advice.to_owned(), way }
    }

    /// Whether it is Timeous.
    pub(crate) fn is_timeous(&self) -> bool {
        self.name.starts_with("timeous")
    }

    /// First of its programs that is not installed.
    pub(crate) fn missing(&self) -> Option<&Path> {
        let Transport::Programs { receiver, sender } = &self.way else { return None };
        [receiver, sender].into_iter().find(|program| !program.is_there()).map(|program| program.path.as_path())
    }
}

/// All peers; `programs` is the output directory of `scripts/peers.sh`, `own` has additional setups of Timeous.
pub(crate) fn all(setting: &Setting, trials: &Path, programs: &Path, own: &[(String, String)]) -> Vec<Peer> {
    let mut peers = own_ways(setting, trials, own);
    peers.extend([
        Peer::new("udp", "UDP", "frames leave as they come: no control, no repair", Transport::Udp),
        tcp("tcp-cubic", "cubic", false),
        tcp("tcp-bbr", "bbr", false),
        tcp("tcp-drop", "cubic", true),
        tcp("tcp-drop-bbr", "bbr", true),
    ]);
    peers.extend(srt(setting));
    peers.extend([rist(setting), sctp(setting, programs)]);
    peers.extend(quic(setting, programs));
    peers.push(webrtc(setting, programs));
    peers
}

/// Default congestion control of this machine's TCP.
pub(crate) fn default_congestion() -> String {
    let told = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    told.map_or_else(|_| "reno".to_owned(), |name| name.trim().to_owned())
}

fn own_ways(setting: &Setting, trials: &Path, own: &[(String, String)]) -> Vec<Peer> {
    let over_tcp = format!("defaults, transport=tcp, the kernel's {}", default_congestion());
    let fixed = [("timeous", "", "defaults"), ("timeous-tcp", "transport=tcp", over_tcp.as_str())];
    let fixed = fixed.map(|(name, keys, advice)| (name.to_owned(), keys.to_owned(), advice.to_owned()));
    let asked = own.iter().map(|(name, keys)| (format!("timeous-{name}"), keys.clone(), keys.replace('&', ", ")));
    let peer = |(name, keys, advice): (String, String, String)| {
        let latency = setting.deadline.as_micros();
        let protection = if is_protected(&keys) { "" } else { "&encryption=off" };
        let keys = format!("latency={latency}us{protection}{}{keys}", if keys.is_empty() { "" } else { "&" });
        let program = |end: &str, words: String| Program::new(trials, &format!("{} {end} {words}", member::COMMAND));
        let receiver = format!("timeous://{RIGHT}:{PORT}?mode=listener&{keys} 127.0.0.1:{OUT_PORT}");
        let sender = format!("timeous://{RIGHT}:{PORT}?{keys} 127.0.0.1:{IN_PORT}");
        let way = Transport::Programs { receiver: program("receive", receiver), sender: program("send", sender) };
        let title = format!("Timeous ({advice})");
        Peer { name, title, advice: "docs/reference.md: latency is the deadline at the sender".to_owned(), way }
    };
    fixed.into_iter().chain(asked).map(peer).collect()
}

/// Whether the keys say how the stream is protected.
fn is_protected(keys: &str) -> bool {
    let security = format!("timeous://:1?{keys}").parse::<timeous::Uri>().map(|uri| uri.options.security);
    security.is_ok_and(|security| security.has_credential() || security.is_plain)
}

fn tcp(name: &str, congestion: &'static str, drops: bool) -> Peer {
    let title = if drops { format!("TCP {congestion}, the application drops") } else { format!("TCP {congestion}") };
    // tcp(7) gives no number; the text is Linux's Documentation/networking/ip-sysctl, tcp_notsent_lowat.
    let advice =
        if drops { "ip-sysctl: TCP_NOTSENT_LOWAT keeps unsent data in the application" } else { "tcp(7): TCP_NODELAY" };
    Peer::new(name, &title, advice, Transport::Tcp { congestion, drops })
}

/// Buffer of a receiver that plays out at a fixed time after the shortest delay.
fn buffer_millis(setting: &Setting) -> u64 {
    setting.deadline.saturating_sub(setting.rtt / 2).saturating_sub(MARGIN).as_millis()
}

/// A datagram is delivered `latency` after its arrival over an empty link, so the deadline is the one-way delay plus
/// the latency.
fn srt(setting: &Setting) -> [Peer; 2] {
    let (program, latency) = ("srt-live-transmit", buffer_millis(setting));
    let bytes = setting.rate.bytes_in(Duration::from_secs(1));
    // The manual recommends this for a nearly constant rate; the default differs.
    let shaped = format!("&maxbw=0&inputbw={bytes}&oheadbw=25");
    [("srt", shaped.as_str(), "SRTO_INPUTBW and SRTO_OHEADBW 25 %"), ("srt-open", "", "SRTO_MAXBW -1")].map(
        |(name, rate, words)| {
            let quiet = "-loglevel:error";
            let receiver = format!("{quiet} srt://:{PORT}?mode=listener&latency={latency} udp://127.0.0.1:{OUT_PORT}");
            let sender = format!("{quiet} udp://:{IN_PORT} srt://{RIGHT}:{PORT}?mode=caller&latency={latency}{rate}");
            let [receiver, sender] = [receiver, sender].map(|words| Program::new(program, &words));
            let title = format!("SRT live, latency {latency} ms, {words}");
            let advice = format!("SRT, API-socket-options: {words}; live mode drops what is too late");
            Peer::new(name, &title, &advice, Transport::Programs { receiver, sender })
        },
    )
}

fn rist(setting: &Setting) -> Peer {
    let (buffer, rtt) = (buffer_millis(setting), setting.rtt.as_millis());
    let keys = format!("buffer={buffer}&rtt-min={rtt}&rtt-max={buffer}");
    let quiet = "-p 1 -v 4 -S 0";
    let receiver = format!("{quiet} -i rist://@{RIGHT}:{PORT}?{keys} -o udp://127.0.0.1:{OUT_PORT}");
    let sender = format!("{quiet} -i udp://@127.0.0.1:{IN_PORT} -o rist://{RIGHT}:{PORT}?{keys}");
    let way = Transport::Programs {
        receiver: Program::new("ristreceiver", &receiver),
        sender: Program::new("ristsender", &sender),
    };
    let advice = "librist wiki, rist URL syntax: buffer in milliseconds, rtt-min the least expected";
    Peer::new("rist", &format!("RIST main profile, buffer {buffer} ms"), advice, way)
}

fn sctp(setting: &Setting, programs: &Path) -> Peer {
    let program = programs.join("timeous-sctp");
    let millis = setting.deadline.as_millis();
    let receiver = format!("receive {PORT} 127.0.0.1 {OUT_PORT}");
    let sender = format!("send {IN_PORT} {RIGHT} {PORT} {millis}");
    let way =
        Transport::Programs { receiver: Program::new(&program, &receiver), sender: Program::new(&program, &sender) };
    let advice = "RFC 3758 §4.1: timed reliability, the lifetime is the deadline; unordered (RFC 6458 §5.3.4)";
    Peer::new("sctp", "PR-SCTP (usrsctp)", advice, way)
}

fn quic(setting: &Setting, programs: &Path) -> [Peer; 2] {
    let program = programs.join("timeous-peers");
    // Old datagrams are replaced by new ones when the buffer is full; the default is 1 MB, here what the deadline
    // holds.
    let buffer = setting.rate.bytes_in(setting.deadline);
    [("quic", "cubic", "quinn's default, CUBIC"), ("quic-bbr", "bbr", "BBR")].map(|(name, congestion, words)| {
        let receiver = format!("quic-receive {RIGHT}:{PORT} 127.0.0.1:{OUT_PORT}");
        let sender = format!("quic-send 127.0.0.1:{IN_PORT} {RIGHT}:{PORT} {congestion} {buffer}");
        let way = Transport::Programs {
            receiver: Program::new(&program, &receiver),
            sender: Program::new(&program, &sender),
        };
        let advice = "quinn, TransportConfig::datagram_send_buffer_size: as much as may wait within the deadline";
        Peer::new(name, &format!("QUIC datagrams ({words})"), advice, way)
    })
}

fn webrtc(setting: &Setting, programs: &Path) -> Peer {
    let program = programs.join("timeous-peers");
    let rate = setting.rate.as_bps();
    let receiver = format!("rtc-receive {RIGHT}:{PORT} 127.0.0.1:{OUT_PORT}");
    let millis = setting.deadline.as_millis();
    let sender = format!("rtc-send 127.0.0.1:{IN_PORT} {RIGHT}:{PORT} {rate} {millis}");
    let way =
        Transport::Programs { receiver: Program::new(&program, &receiver), sender: Program::new(&program, &sender) };
    let advice = "str0m, Bwe: the stream's rate desired, paced by the estimate; NACK, RTX; what the pacer cannot hold is given up";
    Peer::new("webrtc", "WebRTC media (str0m)", advice, way)
}

/// Starts a program in a namespace; its output goes to `log`.
pub(crate) fn start(program: &Program, namespace: &Namespace, log: &Path) -> Result<ChildProcess, RunError> {
    let out = File::create(log).map_err(RunError::file(log))?;
    let err = out.try_clone().map_err(RunError::file(log))?;
    let mut command = Command::new(&program.path);
    command.args(&program.words).stdin(Stdio::null()).stdout(out).stderr(err);
    // A child is in the namespace of the thread that starts it.
    let child = namespace.within(move || command.spawn()).map_err(machine)?;
    child.map(ChildProcess::from).map_err(RunError::file(&program.path))
}
