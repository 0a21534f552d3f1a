//! Keys of a URI: the one table that the parser, `--help` and the reference are made from.

use timeous_choice::QueueLimit;
use timeous_choice::dbat::DropRule;
use timeous_cm::Kind;
use timeous_core::units::{parse_bytes, parse_duration_within};
use timeous_core::{Duration, Priority, SubStream};
use timeous_engine::{TcpFraming, Unordered};

use crate::options::{Daemon, Encapsulation, Options, PlayoutName, Reconnect, RepairName, TransportName};
use crate::policy::{Marked, PolicyName};

use super::security;

/// Settings of a URI, as far as it is parsed.
pub(super) struct Parsed {
    pub(super) options: Options,
    pub(super) mode: Option<Mode>,
    pub(super) names_dccp_port: bool,
}

/// Value of the key `mode`.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    Caller,
    Listener,
}

impl Mode {
    fn parse(value: &str) -> Result<Self, String> {
        match value {
            "caller" => Ok(Self::Caller),
            "listener" => Ok(Self::Listener),
            _ => Err("use caller or listener".to_owned()),
        }
    }
}

/// Topic of a key, by which the reference is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topic {
    /// Latency, playout, timeouts.
    Time,
    /// What is dropped, and what is done about losses.
    Choice,
    /// Encryption, authentication, access.
    Security,
    /// Protocol, addresses, congestion control.
    Transport,
}

/// Key of a URI.
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// Topic.
    pub topic: Topic,
    /// Meaning and values, in Markdown.
    pub meaning: &'static str,
    /// Value without the key, in Markdown.
    pub default: &'static str,
    /// Sets the option, or returns what is accepted.
    pub(super) set: fn(&mut Parsed, &str) -> Result<(), String>,
}

/// Puts a parsed value in its place.
fn put<T>(place: &mut T, parsed: Result<T, String>) -> Result<(), String> {
    *place = parsed?;
    Ok(())
}

/// All keys, by topic.
pub const KEYS: [Key; 35] = [
    Key {
        name: "latency",
        topic: Topic::Time,
        meaning: "time from capture to playout, on top of the path's shortest one-way delay; at the sender it is the \
                  deadline. The ends exchange theirs, and the larger one counts. Up to `1h`",
        default: "`300ms`",
        set: |parsed, value| put(&mut parsed.options.latency, time(value, LONGEST_LATENCY)),
    },
    Key {
        name: "playout",
        topic: Topic::Time,
        meaning: "of media, at the receiver: `constant` (each frame at the latency after its capture) or `immediate` \
                  (as soon as it can be decoded)",
        default: "`constant`",
        set: |parsed, value| put(&mut parsed.options.playout, named(&PlayoutName::ALL, PlayoutName::as_str, value)),
    },
    Key {
        name: "timeout",
        topic: Topic::Time,
        meaning: "how long a silent peer is waited for, up to `24h`",
        default: "`10s`",
        set: |parsed, value| put(&mut parsed.options.timeout, time(value, LONGEST_WAIT)),
    },
    Key {
        name: "keepalive",
        topic: Topic::Time,
        meaning: "silence after which the peer is probed (`15s`, or `off`), which also keeps a NAT's binding. A dead \
                  peer is noticed after this and half of the timeout",
        default: "a quarter of the timeout",
        set: |parsed, value| put(&mut parsed.options.keep_alive, keep_alive(value).map(Some)),
    },
    Key {
        name: "reconnect",
        topic: Topic::Time,
        meaning: "whether a caller calls again after a break (the tool, and the library's `Dialer`): `on`, `off`, or \
                  the longest wait between two calls (`5s`)",
        default: "`on`",
        set: |parsed, value| put(&mut parsed.options.reconnect, reconnect(value).map(Some)),
    },
    Key {
        name: "policy",
        topic: Topic::Choice,
        meaning: "what is dropped when the path is too slow: see [policies](#policies)",
        default: "`plan`; `frames` with `transport=tcp` or with `queue`",
        set: |parsed, value| {
            put(&mut parsed.options.policy, named(&PolicyName::ALL, PolicyName::as_str, value).map(Some))
        },
    },
    Key {
        name: "queue",
        topic: Topic::Choice,
        meaning: "with `policy=frames`, which it implies: limit of the send queue, as a time (`150ms`) or in packets \
                  (`3p`)",
        default: "what can arrive in time",
        set: |parsed, value| put(&mut parsed.options.queue, queue(value).map(Some)),
    },
    Key {
        name: "weights",
        topic: Topic::Choice,
        meaning: "with `policy=plan`: value of a frame of a sub-stream, in other frames: `0:4,2:8`; at most four \
                  sub-streams",
        default: "1 each",
        set: |parsed, value| put(&mut parsed.options.weights, weights(value)),
    },
    Key {
        name: "age",
        topic: Topic::Choice,
        meaning: "with `policy=age`: how long a datagram may wait, such as `90ms`",
        default: "the latency",
        set: |parsed, value| put(&mut parsed.options.age, time(value, LONGEST_LATENCY).map(Some)),
    },
    Key {
        name: "marked",
        topic: Topic::Choice,
        meaning: "with `policy=dbat`: what is sent even while the queue is overfull: a least priority, `0` to `255`, or \
                  the sub-streams up to one, `layer:0` to `layer:255`",
        default: "`255`",
        set: |parsed, value| put(&mut parsed.options.dbat.marked, marked(value)),
    },
    Key {
        name: "overfull",
        topic: Topic::Choice,
        meaning: "with `policy=dbat`: what is dropped while the queue is overfull: all that is not marked (`unmarked`), \
                  or of that the oldest frames until `Max_Th` is left (`excess`)",
        default: "`unmarked`",
        set: |parsed, value| put(&mut parsed.options.dbat.overfull, overfull(value)),
    },
    Key {
        name: "mindelay",
        topic: Topic::Choice,
        meaning: "with `policy=dbat`: shortest delay of the path for the thresholds, up to `10s`; with more, more is \
                  queued before the encoder is told",
        default: "`100ms`",
        set: |parsed, value| put(&mut parsed.options.dbat.least_delay, min_delay(value)),
    },
    Key {
        name: "maxth",
        topic: Topic::Choice,
        meaning: "with `policy=dbat`: upper bound of the threshold `Max_Th` in bytes, 1k to 1G (`64k`)",
        default: "none",
        set: |parsed, value| {
            put(&mut parsed.options.dbat.max_threshold, number(value, 1_000..=1_000_000_000).map(Some))
        },
    },
    Key {
        name: "repair",
        topic: Topic::Choice,
        meaning: "repair of losses over DCCP: `retransmit` (while in time), `fec` (rebuilt from parity), `auto` \
                  (retransmission, and parity only where there is no time for that or, if there is room to spare, time \
                  for one retransmission only), `off`. Off if the peer does not support it; streams of a daemon have \
                  no parity",
        default: "`auto`",
        set: |parsed, value| put(&mut parsed.options.repair, repair(value)),
    },
    Key {
        name: "passphrase",
        topic: Topic::Security,
        meaning: "passphrase that both ends know: `file:PATH` (its only line), `env:NAME` (an environment variable), or \
                  the passphrase itself (at least 10 characters, no `&`), which all users of the host can see (`ps`). \
                  `timeous passphrase` makes one",
        default: "none",
        set: |parsed, value| put(&mut parsed.options.security.passphrase, security::passphrase(value).map(Some)),
    },
    Key {
        name: "cert",
        topic: Topic::Security,
        meaning: "PEM file with this end's certificate; `timeous cert` makes it and its key",
        default: "none",
        set: |parsed, value| put(&mut parsed.options.security.certificate, security::file(value).map(Some)),
    },
    Key {
        name: "key",
        topic: Topic::Security,
        meaning: "PEM file with the private key of `cert`",
        default: "none",
        set: |parsed, value| put(&mut parsed.options.security.key, security::file(value).map(Some)),
    },
    Key {
        name: "ca",
        topic: Topic::Security,
        meaning: "authorities of which one must have signed the other end's certificate: `system`, or a PEM file. At a \
                  listener (a file only) callers must show a certificate",
        default: "none",
        set: |parsed, value| put(&mut parsed.options.security.authorities, security::authorities(value).map(Some)),
    },
    Key {
        name: "fingerprint",
        topic: Topic::Security,
        meaning: "at a caller, the listener's certificate: `sha256:` and 64 hexadecimal digits, as `timeous cert` prints \
                  them",
        default: "none",
        set: |parsed, value| put(&mut parsed.options.security.fingerprint, security::fingerprint(value).map(Some)),
    },
    Key {
        name: "streamid",
        topic: Topic::Security,
        meaning: "at a caller, ID of the stream that it asks for, at most 512 bytes; it travels encrypted",
        default: "none",
        set: |parsed, value| put(&mut parsed.options.security.stream_id, security::stream_id(value).map(Some)),
    },
    Key {
        name: "access",
        topic: Topic::Security,
        meaning: "at a listener, file with a line for each stream: its ID (`*`: any other), `publish` (the caller may \
                  send), `play` (it may receive) or `both`, and a passphrase; `#` begins a comment",
        default: "any stream ID, with the `passphrase`",
        set: |parsed, value| put(&mut parsed.options.security.access, security::file(value).map(Some)),
    },
    Key {
        name: "encryption",
        topic: Topic::Security,
        meaning: "`off`: no encryption and no authentication, also to and from other hosts",
        default: "with a credential encrypted; without one not, and to and from this host only",
        set: |parsed, value| put(&mut parsed.options.security.is_plain, security::encryption(value)),
    },
    Key {
        name: "mode",
        topic: Topic::Transport,
        meaning: "`caller` or `listener`; a listener may be given a local address",
        default: "with a host `caller`, without one `listener`",
        set: |parsed, value| put(&mut parsed.mode, Mode::parse(value).map(Some)),
    },
    Key {
        name: "local",
        topic: Topic::Transport,
        meaning: "at a caller, address of this host to call from, such as that of a second uplink; streams from another address \
                  than the route's own share no path state with others",
        default: "the route's own",
        set: |parsed, value| {
            let address = value.parse().map_err(|_| "use an IPv4 or IPv6 address of this host".to_owned());
            put(&mut parsed.options.local, address.map(Some))
        },
    },
    Key {
        name: "transport",
        topic: Topic::Transport,
        meaning: "`dccp` (in UDP), `tcp` (any TCP receiver can read it), or `auto`: `tcp` where UDP is blocked, from \
                  the beginning or later",
        default: "`dccp`",
        set: |parsed, value| {
            put(&mut parsed.options.transport, named(&TransportName::ALL, TransportName::as_str, value))
        },
    },
    Key {
        name: "framing",
        topic: Topic::Transport,
        meaning: "with `transport=tcp`: `records`; `rfc4571` for receivers of RTP over TCP; or `none`, where the byte \
                  stream is the application's own, for receivers that know nothing of Timeous",
        default: "`records`",
        set: |parsed, value| put(&mut parsed.options.framing, framing(value)),
    },
    Key {
        name: "unordered",
        topic: Topic::Transport,
        meaning: "over TCP, at the receiver: `auto` reads datagrams as their segments arrive, by a packet tap, where \
                  that is permitted (`CAP_NET_RAW`); `require` fails where it is not; `off` reads in order",
        default: "`off`",
        set: |parsed, value| put(&mut parsed.options.unordered, unordered(value)),
    },
    Key {
        name: "mtu",
        topic: Topic::Transport,
        meaning: "upper bound of a DCCP packet (UDP payload) in bytes, 200 to 65000; path MTU discovery finds what passes",
        default: "`8972`; over TCP `1200`",
        set: |parsed, value| put(&mut parsed.options.mtu, number(value, 200..=65_000).map(Some)),
    },
    Key {
        name: "slots",
        topic: Topic::Transport,
        meaning: "slots in the send queue (packet ring), rounded up to a power of two",
        default: "`1024`",
        set: |parsed, value| put(&mut parsed.options.slots, number(value, 2..=65_536)),
    },
    Key {
        name: "ccid",
        topic: Topic::Transport,
        meaning: "congestion control: `2` (like TCP), `3` (TFRC) or `4` (TFRC for small packets); the same at both ends",
        default: "`2`",
        set: |parsed, value| put(&mut parsed.options.ccid, value.parse().map_err(|_| "use 2, 3 or 4".to_owned())),
    },
    Key {
        name: "controller",
        topic: Topic::Transport,
        meaning: "congestion controller with `ccid=2`, and over TCP beside the kernel's: see [controllers](#controllers)",
        default: "`live`; with `policy=fifo` `aimd`, and over TCP the kernel's alone",
        set: |parsed, value| put(&mut parsed.options.controller, named(&Kind::ALL, Kind::name, value).map(Some)),
    },
    Key {
        name: "service",
        topic: Topic::Transport,
        meaning: "DCCP service code, four characters",
        default: "`RTPV`",
        set: |parsed, value| put(&mut parsed.options.service, service(value)),
    },
    Key {
        name: "dport",
        topic: Topic::Transport,
        meaning: "DCCP port behind the UDP port",
        default: "`5004`",
        set: |parsed, value| {
            parsed.names_dccp_port = true;
            put(&mut parsed.options.dccp_port, number(value, 1..=65_535))
        },
    },
    Key {
        name: "encap",
        topic: Topic::Transport,
        meaning: "`udp`, or `none`: DCCP in IP itself (protocol 33, needs `CAP_NET_RAW`); the URI's port is the DCCP \
                  port then",
        default: "`udp`",
        set: |parsed, value| put(&mut parsed.options.encapsulation, encapsulation(value)),
    },
    Key {
        name: "daemon",
        topic: Topic::Transport,
        meaning: "who runs the stream: `off` (this process), `auto` (the host's daemon, if it is running) or the path \
                  of its socket",
        default: "`off`",
        set: |parsed, value| put(&mut parsed.options.daemon, daemon(value)),
    },
];

/// Finds the value with this name.
fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, value: &str) -> Result<T, String> {
    all.iter().copied().find(|known| name(*known) == value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|known| name(*known)).collect();
        format!("use one of {}", names.join(", "))
    })
}

/// Longest latency, and what follows it: the ends exchange it in 32 bits of microseconds (docs/live-video.md), and frames' times have 32
/// bits of 90 kHz.
const LONGEST_LATENCY: &str = "1h";
/// Longest wait for the other end. Chosen by us: the kernel's own of TCP has 32 bits of milliseconds.
const LONGEST_WAIT: &str = "24h";

fn time(value: &str, most: &str) -> Result<Duration, String> {
    // Plain numbers are milliseconds, as in SRT's URIs.
    let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let with_unit = if is_plain { format!("{value}ms") } else { value.to_owned() };
    parse_duration_within(&with_unit, "1us", most)
}

fn number<N: TryFrom<u64>>(value: &str, range: std::ops::RangeInclusive<u64>) -> Result<N, String> {
    let number = parse_bytes(value).ok().filter(|number| range.contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| format!("use a number from {} to {}", range.start(), range.end()))
}

fn keep_alive(value: &str) -> Result<Duration, String> {
    if matches!(value, "off" | "0") { Ok(Duration::ZERO) } else { time(value, LONGEST_WAIT) }
}

fn reconnect(value: &str) -> Result<Reconnect, String> {
    match value {
        "on" => Ok(Reconnect::UpTo(Reconnect::LONGEST)),
        "off" => Ok(Reconnect::Off),
        _ => time(value, LONGEST_WAIT)
            .map(Reconnect::UpTo)
            .map_err(|_| format!("use on, off or the longest wait such as 5s, up to {LONGEST_WAIT}")),
    }
}

fn repair(value: &str) -> Result<RepairName, String> {
    match value {
        "on" | "1" | "true" | "yes" => Ok(RepairName::Auto),
        "0" | "false" | "no" => Ok(RepairName::Off),
        _ => named(&RepairName::ALL, RepairName::as_str, value),
    }
}

fn weights(value: &str) -> Result<Vec<(u8, u32)>, String> {
    let weight = |pair: &str| {
        let (substream, weight) = pair.split_once(':')?;
        let weight = weight.parse().ok().filter(|weight| (1..=1_000).contains(weight))?;
        Some((substream.parse().ok()?, weight))
    };
    let weights: Option<Vec<_>> = value.split(',').map(weight).collect();
    weights
        .filter(|weights| weights.len() <= Options::MOST_WEIGHTS)
        .ok_or_else(|| "use up to four sub-streams with the weight of each, from 1 to 1000, such as 0:4,2:8".to_owned())
}

fn marked(value: &str) -> Result<Marked, String> {
    let marked = match value.strip_prefix("layer:") {
        Some(layer) => layer.parse().map(|layer| Marked::Layers(SubStream(layer))),
        None => value.parse().map(|least| Marked::Priority(Priority(least))),
    };
    marked.map_err(|_| "use a least priority from 0 to 255, or the sub-streams up to one such as layer:0".to_owned())
}

fn overfull(value: &str) -> Result<DropRule, String> {
    match value {
        "unmarked" => Ok(DropRule::OnlyMarked),
        "excess" => Ok(DropRule::Excess),
        _ => Err("use unmarked or excess".to_owned()),
    }
}

fn min_delay(value: &str) -> Result<Duration, String> {
    time(value, "10s")
}

fn queue(value: &str) -> Result<QueueLimit, String> {
    match value.strip_suffix('p') {
        Some(packets) => {
            let packets = packets.parse().ok().filter(|packets| (1..=65_536).contains(packets));
            packets.map(QueueLimit::Packets).ok_or_else(|| "use a number of packets from 1p to 65536p".to_owned())
        }
        None => time(value, LONGEST_LATENCY).map(QueueLimit::Time),
    }
}

fn service(value: &str) -> Result<[u8; 4], String> {
    let code: Option<[u8; 4]> = value.as_bytes().try_into().ok();
    code.filter(|code| code.iter().all(u8::is_ascii_graphic))
        .ok_or_else(|| "use four printable ASCII characters such as RTPV (RFC 4340 §8.1.2)".to_owned())
}

fn encapsulation(value: &str) -> Result<Encapsulation, String> {
    match value {
        "udp" => Ok(Encapsulation::Udp),
        "none" => Ok(Encapsulation::None),
        _ => Err("use udp or none".to_owned()),
    }
}

fn framing(value: &str) -> Result<TcpFraming, String> {
    match value {
        "records" => Ok(TcpFraming::Records),
        "rfc4571" => Ok(TcpFraming::Rfc4571),
        "none" => Ok(TcpFraming::None),
        _ => Err("use records, rfc4571 or none".to_owned()),
    }
}

fn unordered(value: &str) -> Result<Unordered, String> {
    match value {
        "off" => Ok(Unordered::Off),
        "auto" => Ok(Unordered::Auto),
        "require" => Ok(Unordered::Require),
        _ => Err("use off, auto or require".to_owned()),
    }
}

fn daemon(value: &str) -> Result<Daemon, String> {
    match value {
        "off" => Ok(Daemon::Off),
        "auto" => Ok(Daemon::Auto),
        path if path.contains('/') => Ok(Daemon::At(path.into())),
        _ => Err("use off, auto, or a path such as /run/timeous/daemon.sock".to_owned()),
    }
}
