//! Parser of `timeous://host:port?key=value&…`: address and options of a stream.

use std::net::IpAddr;
use std::str::FromStr;

use timeous_cm::Kind;
use timeous_core::Duration;
use timeous_core::units::{UnitError, parse_bytes, parse_duration};

use crate::options::{
    Daemon, Encapsulation, Options, PlayoutName, PolicyName, Reconnect, RepairName, Role, TransportName,
};
use timeous_choice::QueueLimit;
use timeous_engine::{Ccid, TcpFraming, Unordered};

/// Port of a URI without one, unless it says `encap=none` (RFC 6773 §3.8).
pub const DEFAULT_PORT: u16 = 6511;

/// A parsed `timeous://` URI.
///
/// With a host it calls, without one it listens; `mode=listener` listens at a given address.
///
/// ```
/// use timeous::{Role, Uri};
/// use timeous_core::Duration;
/// let uri: Uri = "timeous://example.org:7000?latency=120ms&policy=frames".parse()?;
/// assert_eq!(uri.options.latency, Duration::from_millis(120));
/// assert!(matches!(uri.role, Role::Caller { port: 7000, .. }));
/// let uri: Uri = "timeous://:7000".parse()?;
/// assert!(matches!(uri.role, Role::Listener { port: 7000, .. }));
/// # Ok::<(), timeous::UriError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Uri {
    /// Role: caller or listener.
    pub role: Role,
    /// Options of the stream.
    pub options: Options,
}

/// Error in a URI; always the caller's to fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// Another scheme.
    #[error("'{0}' is not a timeous:// URI")]
    NotTimeous(String),
    /// The port is not a number from 1 to 65535.
    #[error("'{0}' is not a port: use a number from 1 to 65535")]
    BadPort(String),
    /// Unknown key.
    #[error("unknown key '{key}' in the URI; known are {}", KEYS.map(|(key, _)| key).join(", "))]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// Repeated key.
    #[error("the key '{key}' is there twice in the URI: leave one of them out")]
    RepeatedKey {
        /// The key.
        key: String,
    },
    /// Invalid value of a key.
    #[error("{key}={value}: {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Accepted values.
        expected: String,
    },
    /// `mode=caller` without a host, or `mode=listener` with a name instead of an address.
    #[error("{0}")]
    BadMode(&'static str),
}

/// All keys and their meaning.
pub const KEYS: [(&str, &str); 22] = [
    ("mode", "caller or listener; without it, a URI with a host calls and one without listens"),
    ("transport", "dccp (in UDP, the default), tcp, or auto: tcp where UDP does not pass, or passes no more"),
    (
        "framing",
        "with transport=tcp: records, which any TCP receiver can tell apart, or rfc4571 for a receiver of RTP over TCP",
    ),
    (
        "unordered",
        "over TCP, at the receiver: off, auto or require; whether datagrams are received as they come, before what is \
         missing, by a packet tap, which takes CAP_NET_RAW",
    ),
    ("latency", "from the moment of handing over to playout, such as 300ms; a plain number is milliseconds"),
    (
        "playout",
        "of media, at the receiver: constant (the default): each frame at the latency after its capture, on top of the \
         shortest way; or immediate: as soon as it can be decoded",
    ),
    (
        "policy",
        "plan, frames, deadline, age, dbat or fifo: what is given up when the path is too slow; plan unless given, over tcp frames",
    ),
    (
        "queue",
        "with policy=frames, the default then: how much may wait, such as 150ms or 3p (packets), in place of what can arrive in time",
    ),
    ("weights", "with policy=plan: how many others a frame of a sub-stream is worth, such as 0:4,2:8"),
    ("age", "with policy=age: how long an ADU may wait, such as 90ms"),
    (
        "repair",
        "auto, retransmit, fec or off: whether what was lost is sent again or, where there is no time, rebuilt from parity",
    ),
    ("mtu", "the largest DCCP packet; 1200 unless given"),
    ("slots", "places in the packet ring"),
    ("timeout", "how long a silent peer is waited for, such as 10s"),
    (
        "keepalive",
        "after how long a silent peer is asked whether it lives, such as 15s, or off; a quarter of the timeout unless given",
    ),
    ("ccid", "the congestion control: 2 (like TCP), 3 (TFRC) or 4 (TFRC for small packets), the same at both ends"),
    (
        "controller",
        "with ccid=2, what decides how fast this end sends: copa (keeps queues short; the default of live streams), \
         scream, bbr (a model of the path), aimd (the default of others), newreno, cubic or tfrc; all streams to one host have the same",
    ),
    ("service", "the DCCP service code, four characters such as RTPV"),
    ("dport", "the DCCP port behind the UDP port"),
    ("encap", "udp, or none: DCCP in IP itself, where the URI's port is the DCCP port; it takes CAP_NET_RAW"),
    ("daemon", "off, auto or the path of a daemon's socket: who runs the stream, this process or the host's daemon"),
    ("reconnect", "on (the default), off, or the longest wait such as 5s: whether a caller calls again after a break"),
];

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let rest = text.strip_prefix("timeous://").ok_or_else(|| UriError::NotTimeous(text.to_owned()))?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = split_authority(authority.trim_end_matches('/'))?;
        let mut options = Options::default();
        let mut mode = if host.is_empty() { Mode::Listener } else { Mode::Caller };
        let mut names_dport = false;
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&key) {
                return Err(UriError::RepeatedKey { key: key.to_owned() });
            }
            seen.push(key);
            if key == "mode" {
                mode = Mode::parse(value)?;
            } else {
                names_dport |= key == "dport";
                set(&mut options, key, value)?;
            }
        }
        let port = match (options.encapsulation, port) {
            (Encapsulation::Udp, port) => port.unwrap_or(DEFAULT_PORT),
            (Encapsulation::None, None) => options.dccp_port,
            (Encapsulation::None, Some(port)) => {
                let said = std::mem::replace(&mut options.dccp_port, port);
                if names_dport && said != port {
                    let expected = format!("with encap=none there is one port, and the URI says {port} already");
                    return Err(bad("dport", &said.to_string(), expected));
                }
                port
            }
        };
        if options.transport != TransportName::Dccp && matches!(options.daemon, Daemon::At(_)) {
            return Err(UriError::BadMode("the daemon runs streams over DCCP only: leave out transport or daemon"));
        }
        if options.transport == TransportName::Auto && options.framing != TcpFraming::Records {
            return Err(UriError::BadMode("transport=auto has records over TCP: leave out framing"));
        }
        if options.unordered == Unordered::Require && options.transport == TransportName::Dccp {
            return Err(UriError::BadMode("DCCP delivers as packets come: leave out unordered, or add transport=tcp"));
        }
        if options.unordered == Unordered::Require && options.framing != TcpFraming::Records {
            return Err(UriError::BadMode("what lies behind lengths is read in order: leave out framing or unordered"));
        }
        if options.transport != TransportName::Dccp && options.encapsulation == Encapsulation::None {
            return Err(UriError::BadMode("encap=none is DCCP: leave out transport or encap"));
        }
        if options.controller.is_some() && options.transport != TransportName::Tcp && options.ccid != Ccid::Ccid2 {
            return Err(UriError::BadMode(
                "with ccid=3 and 4 the receiver decides on the rate: leave out ccid or controller",
            ));
        }
        Ok(Self { role: mode.role(host, port)?, options })
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Caller,
    Listener,
}

impl Mode {
    fn parse(value: &str) -> Result<Self, UriError> {
        match value {
            "caller" => Ok(Self::Caller),
            "listener" => Ok(Self::Listener),
            _ => Err(bad("mode", value, "use caller or listener")),
        }
    }

    fn role(self, host: &str, port: u16) -> Result<Role, UriError> {
        match self {
            Self::Caller if host.is_empty() => Err(UriError::BadMode("mode=caller needs a host to call")),
            Self::Caller => Ok(Role::Caller { host: host.to_owned(), port }),
            Self::Listener if host.is_empty() => Ok(Role::Listener { address: None, port }),
            Self::Listener => {
                let address: IpAddr =
                    host.parse().map_err(|_| UriError::BadMode("mode=listener needs an IP address, or none"))?;
                Ok(Role::Listener { address: Some(address), port })
            }
        }
    }
}

/// Splits an authority into host (without brackets) and port, if present.
fn split_authority(authority: &str) -> Result<(&str, Option<u16>), UriError> {
    let (host, port) = match authority.rfind(']') {
        Some(end) => (authority[..end].trim_start_matches('['), &authority[end + 1..]),
        None => match authority.rfind(':') {
            Some(colon) => (&authority[..colon], &authority[colon..]),
            None => (authority, ""),
        },
    };
    let port = match port.strip_prefix(':') {
        None => None,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err(UriError::BadPort(port.to_owned())),
        },
    };
    Ok((host, port))
}

fn set(options: &mut Options, key: &str, value: &str) -> Result<(), UriError> {
    match key {
        "transport" => options.transport = transport(value)?,
        "framing" => options.framing = framing(value)?,
        "unordered" => options.unordered = unordered(value)?,
        "latency" => options.latency = time("latency", value)?,
        "playout" => options.playout = playout(value)?,
        "policy" => options.policy = Some(policy(value)?),
        "queue" => options.queue = Some(queue(value)?),
        "age" => options.age = Some(time("age", value)?),
        "repair" => options.repair = repair(value)?,
        "weights" => options.weights = weights(value)?,
        "mtu" => options.mtu = number("mtu", value, 200..=65_000)?,
        "slots" => options.slots = number("slots", value, 2..=65_536)?,
        "timeout" => options.timeout = time("timeout", value)?,
        "keepalive" if matches!(value, "off" | "0") => options.keep_alive = Some(Duration::ZERO),
        "keepalive" => options.keep_alive = Some(time("keepalive", value)?),
        "ccid" => options.ccid = value.parse().map_err(|_| bad("ccid", value, "use 2, 3 or 4"))?,
        "controller" => options.controller = Some(controller(value)?),
        "service" => options.service = service(value)?,
        "dport" => options.dccp_port = number("dport", value, 1..=65_535)?,
        "encap" => options.encapsulation = encapsulation(value)?,
        "daemon" => options.daemon = daemon(value)?,
        "reconnect" => options.reconnect = Some(reconnect(value)?),
        _ => return Err(UriError::UnknownKey { key: key.to_owned() }),
    }
    Ok(())
}

fn bad(key: &'static str, value: &str, expected: impl Into<String>) -> UriError {
    UriError::BadValue { key, value: value.to_owned(), expected: expected.into() }
}

fn unit(key: &'static str, value: &str) -> impl Fn(UnitError) -> UriError {
    move |error| bad(key, value, error.to_string())
}

fn time(key: &'static str, value: &str) -> Result<Duration, UriError> {
    // SRT writes plain numbers for milliseconds.
    let time = match value.parse() {
        Ok(millis) => Duration::from_millis(millis),
        Err(_) => parse_duration(value).map_err(unit(key, value))?,
    };
    if time.is_zero() { Err(bad(key, value, "must be more than nothing")) } else { Ok(time) }
}

fn playout(value: &str) -> Result<PlayoutName, UriError> {
    let named = PlayoutName::ALL.into_iter().find(|name| name.as_str() == value);
    named.ok_or_else(|| bad("playout", value, "use constant or immediate"))
}

fn reconnect(value: &str) -> Result<Reconnect, UriError> {
    match value {
        "on" => Ok(Reconnect::UpTo(Reconnect::LONGEST)),
        "off" => Ok(Reconnect::Off),
        _ => match time("reconnect", value) {
            Ok(longest) => Ok(Reconnect::UpTo(longest)),
            Err(_) => Err(bad("reconnect", value, "use on, off or the longest wait such as 5s")),
        },
    }
}

fn repair(value: &str) -> Result<RepairName, UriError> {
    match value {
        "on" | "1" | "true" | "yes" => Ok(RepairName::Auto),
        "0" | "false" | "no" => Ok(RepairName::Off),
        _ => {
            let named = RepairName::ALL.into_iter().find(|name| name.as_str() == value);
            named.ok_or_else(|| bad("repair", value, "use auto, retransmit, fec or off"))
        }
    }
}

fn number<N: TryFrom<u64>>(
    key: &'static str,
    value: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<N, UriError> {
    let expected = || format!("use a number from {} to {}", range.start(), range.end());
    let number = parse_bytes(value).ok().filter(|n| range.contains(n)).ok_or_else(|| bad(key, value, expected()))?;
    N::try_from(number).map_err(|_| bad(key, value, expected()))
}

fn policy(value: &str) -> Result<PolicyName, UriError> {
    PolicyName::ALL.into_iter().find(|policy| policy.as_str() == value).ok_or_else(|| {
        bad("policy", value, format!("use one of {}", PolicyName::ALL.map(PolicyName::as_str).join(", ")))
    })
}

fn weights(value: &str) -> Result<Vec<(u8, u32)>, UriError> {
    let expected = "use up to four sub-streams with the weight of each, from 1 to 1000, such as 0:4,2:8";
    let weight = |pair: &str| {
        let (substream, weight) = pair.split_once(':')?;
        let weight = weight.parse().ok().filter(|weight| (1..=1_000).contains(weight))?;
        Some((substream.parse().ok()?, weight))
    };
    let weights: Option<Vec<_>> = value.split(',').map(weight).collect();
    weights.filter(|weights| weights.len() <= Options::MOST_WEIGHTS).ok_or_else(|| bad("weights", value, expected))
}

fn queue(value: &str) -> Result<QueueLimit, UriError> {
    match value.strip_suffix('p') {
        Some(packets) => {
            let packets = packets.parse().map_err(|_| bad("queue", value, "use a number of packets such as 3p"))?;
            Ok(QueueLimit::Packets(packets))
        }
        None => Ok(QueueLimit::Time(time("queue", value)?)),
    }
}

fn service(value: &str) -> Result<[u8; 4], UriError> {
    let expected = "use four printable ASCII characters such as RTPV (RFC 4340 §8.1.2)";
    let code: [u8; 4] = value.as_bytes().try_into().map_err(|_| bad("service", value, expected))?;
    if code.iter().all(u8::is_ascii_graphic) { Ok(code) } else { Err(bad("service", value, expected)) }
}

fn controller(value: &str) -> Result<Kind, UriError> {
    let names = Kind::ALL.map(Kind::name).join(", ");
    value.parse().map_err(|_| bad("controller", value, format!("use one of {names}")))
}

fn encapsulation(value: &str) -> Result<Encapsulation, UriError> {
    match value {
        "udp" => Ok(Encapsulation::Udp),
        "none" => Ok(Encapsulation::None),
        _ => Err(bad("encap", value, "use udp or none")),
    }
}

fn transport(value: &str) -> Result<TransportName, UriError> {
    TransportName::ALL.into_iter().find(|transport| transport.as_str() == value).ok_or_else(|| {
        bad("transport", value, format!("use one of {}", TransportName::ALL.map(TransportName::as_str).join(", ")))
    })
}

fn framing(value: &str) -> Result<TcpFraming, UriError> {
    match value {
        "records" => Ok(TcpFraming::Records),
        "rfc4571" => Ok(TcpFraming::Rfc4571),
        _ => Err(bad("framing", value, "use records or rfc4571")),
    }
}

fn unordered(value: &str) -> Result<Unordered, UriError> {
    match value {
        "off" => Ok(Unordered::Off),
        "auto" => Ok(Unordered::Auto),
        "require" => Ok(Unordered::Require),
        _ => Err(bad("unordered", value, "use off, auto or require")),
    }
}

fn daemon(value: &str) -> Result<Daemon, UriError> {
    match value {
        "off" => Ok(Daemon::Off),
        "auto" => Ok(Daemon::Auto),
        path if path.contains('/') => Ok(Daemon::At(path.into())),
        _ => Err(bad("daemon", value, "use off, auto, or a path such as /run/timeous/daemon.sock")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(uri: &str) -> String {
        uri.parse::<Uri>().unwrap_err().to_string()
    }

    #[test]
    fn hosts_ports_and_their_defaults() {
        let role = |uri: &str| uri.parse::<Uri>().unwrap().role;
        let caller = |host: &str, port| Role::Caller { host: host.to_owned(), port };
        assert_eq!(role("timeous://a.example"), caller("a.example", 6511));
        assert_eq!(role("timeous://[::1]:80/"), caller("::1", 80));
        assert_eq!(role("timeous://"), Role::Listener { address: None, port: 6511 });
        assert_eq!(role("timeous://:9"), Role::Listener { address: None, port: 9 });
        let loopback = Some("127.0.0.1".parse().unwrap());
        assert_eq!(role("timeous://127.0.0.1:9?mode=listener"), Role::Listener { address: loopback, port: 9 });
    }

    #[test]
    fn keys_that_would_be_ignored_are_refused() {
        assert!(error("timeous://h?latency=1s&latency=2s").contains("'latency' is there twice"));
        assert!(error("timeous://h?mode=caller&mtu=1000&mode=listener").contains("'mode' is there twice"));
        assert!(error("timeous://:9?unordered=require").contains("transport=tcp"));
        assert!("timeous://:9?unordered=require&transport=tcp".parse::<Uri>().is_ok());
    }

    #[test]
    fn a_controller_is_named_where_this_end_decides() {
        let options = |uri: &str| uri.parse::<Uri>().unwrap().options;
        assert_eq!(options("timeous://h?controller=cubic").controller, Some(Kind::Cubic));
        assert_eq!(options("timeous://h").controller, None);
        assert!(error("timeous://h?controller=reno").contains("newreno"));
        assert!(error("timeous://h?controller=copa&ccid=3").contains("ccid=3"));
        assert_eq!(options("timeous://h?controller=copa&transport=tcp").controller, Some(Kind::Copa));
    }

    #[test]
    fn without_udp_there_is_one_port() {
        let parsed = |uri: &str| uri.parse::<Uri>().unwrap();
        for (uri, port) in [
            ("timeous://h:7?encap=none", 7),
            ("timeous://h:7?dport=7&encap=none", 7),
            ("timeous://h?encap=none", 5004),
            ("timeous://h?encap=none&dport=9", 9),
        ] {
            let Uri { role, options } = parsed(uri);
            assert_eq!((role, options.dccp_port), (Role::Caller { host: "h".to_owned(), port }, port), "{uri}");
            assert_eq!(options.encapsulation, Encapsulation::None);
        }
        assert_eq!(parsed("timeous://h:7?encap=udp").options.dccp_port, 5004);
        assert!(error("timeous://h:7?encap=none&dport=9").contains("says 7 already"));
        assert!(error("timeous://h?encap=ip").contains("udp or none"));
    }

    #[test]
    fn every_key_is_understood() {
        let uri: Uri = "timeous://h:1?latency=1s&policy=age&queue=3p&age=90ms&repair=off&mtu=1200&slots=64\
                        &timeout=5s&service=TEST&dport=7&encap=udp&unordered=auto&keepalive=15s&ccid=4&mode=caller&daemon=/a/b"
            .parse()
            .unwrap();
        let options = uri.options;
        assert_eq!(options.age, Some(Duration::from_millis(90)));
        let plain: Uri = "timeous://h?latency=120".parse().unwrap();
        assert_eq!(plain.options.latency, Duration::from_millis(120));
        assert_eq!(options.policy, Some(PolicyName::Age));
        let planned: Uri = "timeous://h?policy=plan&weights=0:4,2:8".parse().unwrap();
        assert_eq!((planned.options.policy, planned.options.weights), (Some(PolicyName::Plan), vec![(0, 4), (2, 8)]));
        assert_eq!(options.queue, Some(QueueLimit::Packets(3)));
        assert_eq!((options.mtu, options.slots, options.dccp_port), (1200, 64, 7));
        assert_eq!((options.keep_alive, options.ccid), (Some(Duration::from_secs(15)), Ccid::Ccid4));
        assert_eq!(plain.options.asks_after(), Some(Duration::from_millis(2_500)));
        let never: Uri = "timeous://h?keepalive=off".parse().unwrap();
        assert_eq!(never.options.asks_after(), None);
        assert_eq!(&options.service, b"TEST");
        assert_eq!(options.repair, RepairName::Off);
        assert_eq!(plain.options.repair, RepairName::Auto);
        assert_eq!(options.daemon, Daemon::At("/a/b".into()));
        assert_eq!(plain.options.reconnect, None);
        for (value, reconnect) in [
            ("on", Reconnect::UpTo(Duration::from_secs(5))),
            ("off", Reconnect::Off),
            ("30s", Reconnect::UpTo(Duration::from_secs(30))),
        ] {
            let uri: Uri = format!("timeous://h?reconnect={value}").parse().unwrap();
            assert_eq!(uri.options.reconnect, Some(reconnect));
        }
        assert!(error("timeous://h?reconnect=never").contains("on, off or"));
        assert_eq!(plain.options.daemon, Daemon::Off, "nobody depends on a daemon without having said so");
    }

    #[test]
    fn the_transport_is_dccp_unless_told_and_another_one_is_not_the_daemons() {
        let options = |uri: &str| uri.parse::<Uri>().unwrap().options;
        assert_eq!(options("timeous://h").transport, TransportName::Dccp);
        let tcp = options("timeous://h?transport=tcp&framing=rfc4571");
        assert_eq!((tcp.transport, tcp.framing), (TransportName::Tcp, TcpFraming::Rfc4571));
        assert!(error("timeous://h?transport=sctp").contains("dccp, tcp, auto"));
        assert!(error("timeous://h?framing=lines").contains("rfc4571"));
        assert!(error("timeous://h?transport=tcp&daemon=/a/b").contains("DCCP only"));
        assert!(error("timeous://h?transport=tcp&encap=none").contains("is DCCP"));
    }

    #[test]
    fn a_stream_plans_unless_told() {
        let chooses_by = |query: &str| format!("timeous://h?{query}").parse::<Uri>().unwrap().options.chooses_by();
        assert_eq!(["", "transport=auto", "ccid=3", "weights=0:4"].map(chooses_by), [PolicyName::Plan; 4]);
        assert_eq!(["transport=tcp", "queue=3p", "policy=frames"].map(chooses_by), [PolicyName::Frames; 3]);
        assert_eq!(["transport=tcp&policy=plan", "queue=3p&policy=plan"].map(chooses_by), [PolicyName::Plan; 2]);
        assert_eq!(["policy=deadline", "policy=fifo"].map(chooses_by), [PolicyName::Deadline, PolicyName::Fifo]);
    }

    #[test]
    fn an_unknown_key_names_the_known_ones() {
        let message = error("timeous://h?latencey=1s");
        assert!(message.contains("'latencey'") && KEYS.iter().all(|(key, _)| message.contains(key)), "{message}");
    }

    #[test]
    fn mistakes_say_what_to_write_instead() {
        assert!(error("srt://h:1").contains("not a timeous:// URI"));
        assert!(error("timeous://h:0").contains("from 1 to 65535"));
        assert!(error("timeous://h:99999").contains("'99999'"));
        assert!(error("timeous://h?latency=soon").contains("120ms"));
        assert!(error("timeous://h?latency=0").contains("more than nothing"));
        assert!(error("timeous://h?policy=best").contains("frames, deadline, age, dbat, fifo"));
        for wrong in ["1", "1:0", "1:2000", "300:1", "0:1,1:1,2:1,3:1,4:1", ""] {
            assert!(error(&format!("timeous://h?weights={wrong}")).contains("0:4,2:8"), "{wrong}");
        }
        assert!(error("timeous://h?mtu=10").contains("from 200"));
        assert!(error("timeous://:1?mode=caller").contains("needs a host"));
        assert!(error("timeous://name:1?mode=listener").contains("IP address"));
        assert!(error("timeous://h?ccid=5").contains("2, 3 or 4"));
        assert!(error("timeous://h?keepalive=never").contains("120ms"));
        assert!(error("timeous://h?daemon=on").contains("off, auto"));
        assert!(error("timeous://h?service=TOOLONG").contains("four printable"));
    }
}
