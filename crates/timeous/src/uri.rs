//! Parser of `timeous://host:port?key=value&…`: address and options of a stream.

mod error;
mod keys;
mod security;

use std::net::IpAddr;
use std::str::FromStr;

use timeous_core::LateChoice;
use timeous_seal::Access;

use crate::options::{Encapsulation, Options, Role};
use crate::own_choice::OwnChoice;
use crate::security::OwnAccess;
pub use error::UriError;
pub use keys::{KEYS, Key, Topic};
use keys::{Mode, Parsed};

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

impl Uri {
    /// Sets a late choice of one's own, in place of the key `policy`: it decides, whenever a packet may be sent, which
    /// queued ADUs are still worth sending. It holds for all that opens a stream by this URI: [`Sender`](crate::Sender),
    /// [`open_both`](crate::open_both), [`Listener`](crate::Listener), [`Dialer`](crate::Dialer), and those for tokio.
    ///
    /// ```no_run
    /// use timeous::core::Instant;
    /// use timeous::{DropReason, LateChoice, PathState, Queue, Sender, Uri};
    ///
    /// /// A sensor of which only the newest reading matters.
    /// struct Newest;
    ///
    /// impl LateChoice for Newest {
    ///     fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
    ///         for stale in 0..queue.len().saturating_sub(1) {
    ///             queue.drop_at(stale, DropReason::Policy);
    ///         }
    ///     }
    /// }
    ///
    /// let uri: Uri = "timeous://receiver.example:7000?passphrase=file:pass&latency=200ms".parse()?;
    /// let sender = Sender::open(&uri.with_choice(|| Newest))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The policies of [`choice`](crate::choice) can be composed, also with one of the application:
    ///
    /// ```
    /// use timeous::Uri;
    /// use timeous::choice::{Chain, Dependencies, Layers};
    /// let uri: Uri = "timeous://receiver.example:7000?passphrase=file:pass".parse()?;
    /// let uri = uri.with_choice(|| Chain::default().then(Layers::default()).then(Dependencies::default()));
    /// # assert!(uri.options.own_choice.is_some());
    /// # Ok::<(), timeous::UriError>(())
    /// ```
    ///
    /// Whatever it keeps, nothing is sent after its deadline. It runs on the engine's thread, which serves all streams
    /// of the process: it must neither block nor panic, and its time delays their packets.
    ///
    /// Opening fails with [`UriError::Contradiction`] if the URI also names a policy or a setting
    /// of one, or a daemon: the daemon's streams run in its process. `daemon=auto` stands for this process then.
    #[must_use]
    pub fn with_choice<C: LateChoice + 'static>(mut self, make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        self.options.own_choice = Some(OwnChoice::new(make));
        self
    }

    /// Sets who may call a listener, in place of the keys `passphrase` and `access`: it is asked once a call, with the
    /// stream ID and the intent of the caller, on the thread that serves all streams of the process. It must return at
    /// once: keys of passphrases are derived before.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use timeous::{Access, Admission, Call, Passphrase, Refusal, Uri};
    ///
    /// /// A passphrase for each stream, whether it is sent or received.
    /// #[derive(Debug)]
    /// struct ByStream(BTreeMap<String, Passphrase>);
    ///
    /// impl Access for ByStream {
    ///     fn admit(&self, call: &Call<'_>) -> Admission {
    ///         match self.0.get(call.stream_id) {
    ///             Some(passphrase) => Admission::With(passphrase.clone()),
    ///             None => Admission::Refused(Refusal::UnknownStream),
    ///         }
    ///     }
    /// }
    ///
    /// let streams = [("camera 1".to_owned(), Passphrase::derive("correct horse battery")?)];
    /// let uri = "timeous://:7000".parse::<Uri>()?.with_access(ByStream(streams.into()));
    /// # assert!(uri.options.security.has_credential());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`AccessList`](crate::AccessList) reads such a list from text. Opening fails with [`UriError::Contradiction`] if the URI
    /// calls, names a passphrase, an access list or a daemon's socket, or says `encryption=off`.
    #[must_use]
    pub fn with_access(mut self, access: impl Access + 'static) -> Self {
        self.options.security.own_access = Some(OwnAccess::new(access));
        self
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let rest = text.strip_prefix("timeous://").ok_or_else(|| not_timeous(text))?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = split_authority(authority.trim_end_matches('/'))?;
        let mut parsed = Parsed { options: Options::default(), mode: None, names_dccp_port: false };
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&key) {
                return Err(UriError::RepeatedKey { key: key.to_owned() });
            }
            seen.push(key);
            let known = KEYS.iter().find(|known| known.name == key);
            let known = known.ok_or_else(|| UriError::UnknownKey { key: key.to_owned() })?;
            // A passphrase is shown nowhere.
            let shown = if known.name == "passphrase" { "…" } else { value };
            (known.set)(&mut parsed, value).map_err(|expected| bad(known.name, shown, expected))?;
        }
        let Parsed { mut options, mode, names_dccp_port } = parsed;
        let mode = mode.unwrap_or(if host.is_empty() { Mode::Listener } else { Mode::Caller });
        let port = match (options.encapsulation, port) {
            (Encapsulation::Udp, port) => port.unwrap_or(DEFAULT_PORT),
            (Encapsulation::None, None) => options.dccp_port,
            (Encapsulation::None, Some(port)) => {
                let said = std::mem::replace(&mut options.dccp_port, port);
                if names_dccp_port && said != port {
                    let expected = format!("with encap=none there is one port, and the URI says {port} already");
                    return Err(bad("dport", &said.to_string(), expected));
                }
                port
            }
        };
        let role = role(mode, host, port)?;
        let listens = matches!(role, Role::Listener { .. });
        options.check_policy()?;
        options.check_transport(listens)?;
        options.check_security(listens)?;
        Ok(Self { role, options })
    }
}

/// Returns the role of the stream at this host and port.
fn role(mode: Mode, host: &str, port: u16) -> Result<Role, UriError> {
    match mode {
        Mode::Caller if host.is_empty() => Err(UriError::BadMode("mode=caller needs a host to call")),
        Mode::Caller => Ok(Role::Caller { host: host.to_owned(), port }),
        Mode::Listener if host.is_empty() => Ok(Role::Listener { address: None, port }),
        Mode::Listener => {
            let address: IpAddr =
                host.parse().map_err(|_| UriError::BadMode("mode=listener needs an IP address, or none"))?;
            Ok(Role::Listener { address: Some(address), port })
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

/// Names a text that is no URI of ours, without its query, which may hold a passphrase.
fn not_timeous(text: &str) -> UriError {
    UriError::NotTimeous(text.split('?').next().unwrap_or_default().to_owned())
}

fn bad(key: &'static str, value: &str, expected: impl Into<String>) -> UriError {
    UriError::BadValue { key, value: value.to_owned(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use timeous_choice::QueueLimit;
    use timeous_choice::dbat::DropRule;
    use timeous_cm::Kind;
    use timeous_core::{Duration, Priority, SubStream};
    use timeous_engine::{Ccid, TcpFraming};

    use super::*;
    use crate::options::{Daemon, Reconnect, RepairName, TransportName};
    use crate::policy::{DbatSettings, Marked, PolicyName};

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
        for (query, words) in [
            ("transport=tcp&weights=0:4", "policy=plan"),
            ("policy=fifo&weights=0:4", "policy=plan"),
            ("age=90ms", "policy=age"),
            ("policy=plan&queue=100ms", "policy=frames"),
            ("transport=tcp&ccid=3", "ccid is of DCCP"),
        ] {
            assert!(error(&format!("timeous://h?{query}")).contains(words), "{query}");
        }
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
        let uri: Uri = "timeous://h:1?latency=1s&policy=age&age=90ms&repair=off&mtu=1200&slots=64\
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
        let limited: Uri = "timeous://h?queue=3p".parse().unwrap();
        assert_eq!(limited.options.queue, Some(QueueLimit::Packets(3)));
        assert_eq!((options.mtu, options.slots, options.dccp_port), (Some(1200), 64, 7));
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
        assert_eq!(options("timeous://h?transport=tcp&framing=none").framing, TcpFraming::None);
        assert!(error("timeous://h?transport=tcp&daemon=/a/b").contains("DCCP only"));
        assert!(error("timeous://h?transport=tcp&encap=none").contains("is DCCP"));
    }

    #[test]
    fn a_stream_plans_unless_told() {
        let chooses_by = |query: &str| format!("timeous://h?{query}").parse::<Uri>().unwrap().options.chooses_by();
        assert_eq!(["", "transport=auto", "ccid=3", "weights=0:4"].map(chooses_by), [PolicyName::Plan; 4]);
        assert_eq!(["transport=tcp", "queue=3p", "policy=frames"].map(chooses_by), [PolicyName::Frames; 3]);
        assert_eq!(
            ["transport=tcp&policy=plan", "transport=tcp&policy=plan&weights=0:4"].map(chooses_by),
            [PolicyName::Plan; 2]
        );
        assert_eq!(["policy=deadline", "policy=fifo"].map(chooses_by), [PolicyName::Deadline, PolicyName::Fifo]);
    }

    #[test]
    fn every_policy_is_chosen_by_its_name() {
        for policy in PolicyName::ALL {
            let uri: Uri = format!("timeous://h?policy={}", policy.as_str()).parse().unwrap();
            assert_eq!((uri.options.policy, uri.options.chooses_by()), (Some(policy), policy));
        }
    }

    #[test]
    fn settings_of_dbat_have_bounds_and_defaults() {
        let dbat = |query: &str| format!("timeous://h?policy=dbat&{query}").parse::<Uri>().map(|uri| uri.options.dbat);
        assert_eq!(dbat(""), Ok(DbatSettings::default()));
        assert_eq!(dbat("marked=255&overfull=unmarked&mindelay=100ms"), Ok(DbatSettings::default()));
        let set = dbat("marked=layer:1&overfull=excess&mindelay=10s&maxth=64k").unwrap();
        assert_eq!((set.marked, set.overfull), (Marked::Layers(SubStream(1)), DropRule::Excess));
        assert_eq!((set.least_delay, set.max_threshold), (Duration::from_secs(10), Some(64_000)));
        assert_eq!(dbat("marked=7").unwrap().marked, Marked::Priority(Priority(7)));
        let wrong = ["marked=256", "marked=layer:", "marked=layer:256", "marked=-1", "overfull=all", "mindelay=11s"];
        for query in wrong.into_iter().chain(["mindelay=0", "maxth=999", "maxth=2G", "maxth=none"]) {
            let error = dbat(query).unwrap_err();
            assert!(matches!(error, UriError::BadValue { .. }), "{query}: {error}");
        }
        let ignored = "timeous://h?policy=plan&maxth=64k".parse::<Uri>().unwrap_err();
        assert!(ignored.to_string().contains("policy=dbat"), "{ignored}");
    }

    #[test]
    fn an_own_choice_equals_its_clones_only() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let one = uri("timeous://h").with_choice(|| timeous_choice::Deadlines);
        assert_eq!(one, one.clone());
        assert_ne!(one, uri("timeous://h").with_choice(|| timeous_choice::Deadlines));
        assert_ne!(one, uri("timeous://h"));
        assert!(format!("{one:?}").contains("OwnChoice"));
    }

    #[test]
    fn an_unknown_key_names_the_known_ones() {
        let message = error("timeous://h?latencey=1s");
        assert!(message.contains("'latencey'") && KEYS.iter().all(|key| message.contains(key.name)), "{message}");
    }

    #[test]
    fn mistakes_say_what_to_write_instead() {
        assert!(error("srt://h:1").contains("not a timeous:// URI"));
        assert!(error("timeous://h:0").contains("from 1 to 65535"));
        assert!(error("timeous://h:99999").contains("'99999'"));
        assert!(error("timeous://h?latency=soon").contains("120ms"));
        // The wire carries 32 bits of microseconds: 100 hours arrived as 4 294 967 ms.
        for (key, range) in [
            ("latency=0", "1us to 1h"),
            ("latency=100h", "1us to 1h"),
            ("latency=99999999999999999999", "120ms"),
            ("timeout=25h", "1us to 24h"),
            ("keepalive=25h", "1us to 24h"),
            ("reconnect=25h", "up to 24h"),
            ("policy=age&age=2h", "1us to 1h"),
            ("queue=2h", "1us to 1h"),
            ("queue=0p", "1p to 65536p"),
            ("queue=99999p", "1p to 65536p"),
            ("mindelay=11s", "1us to 10s"),
        ] {
            assert!(
                error(&format!("timeous://h?{key}")).contains(range),
                "{key}: {}",
                error(&format!("timeous://h?{key}"))
            );
        }
        assert!(
            error("timeous://h?policy=best")
                .contains("plan, frames, layers, deadline, punctual, dependencies, age, dbat, fifo")
        );
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
