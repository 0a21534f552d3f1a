//! Parser for SOURCE, SINK and peer arguments: a file, `-`, an SDP file, `udp://host:port`, or a player's address.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use timeous::{TcpFraming, Uri, UriError};

use crate::failure::Failure;

/// SOURCE or SINK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Standard input or output.
    Standard,
    /// A file.
    File(String),
    /// RTP described by a session description (a file ending with .sdp).
    Sdp(String),
    /// RTP over plain UDP, at this local or to this remote address.
    Udp(SocketAddr),
}

impl Place {
    /// Parses an argument.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text.split_once("://") {
            None if text == "-" => Ok(Self::Standard),
            None => Ok(Self::file(text)),
            Some(("file", path)) => Ok(Self::file(path)),
            Some(("udp", address)) => udp(address).map(Self::Udp),
            Some(("rtp", address)) => {
                Err(Failure::Usage(format!("'{text}': use udp://{address}, with or without RTP, or an SDP file")))
            }
            Some(_) => Err(Failure::Usage(format!("'{text}': use a file, '-', or udp://host:port"))),
        }
    }
}

impl Place {
    /// Path of the file.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::File(path) | Self::Sdp(path) => Some(path),
            Self::Standard | Self::Udp(_) => None,
        }
    }

    fn file(path: &str) -> Self {
        if path.ends_with(".sdp") { Self::Sdp(path.to_owned()) } else { Self::File(path.to_owned()) }
    }
}

/// Peer of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Peer {
    /// A Timeous stream.
    Timeous(Uri),
    /// RTP over plain UDP without congestion control, for comparison or for one's own network.
    Udp(SocketAddr),
    /// A byte stream of FLV or MPEG-TS over TCP, for receivers that know nothing of Timeous.
    Player(Uri, Player),
}

/// Receiver that knows nothing of Timeous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Player {
    pub(crate) protocol: Protocol,
    /// Container of the byte stream; `None`: as the source has it.
    pub(crate) container: Option<StreamContainer>,
}

/// How a player gets the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// It reads as soon as it has connected.
    Tcp,
    /// It asks by HTTP first.
    Http,
}

/// Container of a byte stream for players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamContainer {
    Flv,
    Ts,
}

/// Keys of a stream to a player, which its address implies.
const TO_PLAYER: [(&str, &str); 3] = [("transport", "tcp"), ("framing", "none"), ("encryption", "off")];
/// Key of a stream to players that ask by HTTP.
const LISTENS: (&str, &str) = ("mode", "listener");

impl Peer {
    /// Parses an argument.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text.split_once("://") {
            Some(("udp", address)) => udp(address).map(Self::Udp),
            Some(("tcp", address)) => {
                let (address, container) = container_of(address)?;
                Ok(Self::Player(to_player("tcp", &address, &TO_PLAYER)?, Player { protocol: Protocol::Tcp, container }))
            }
            Some(("http", address)) => {
                let (address, container) = container_of(address)?;
                let address = address.as_str();
                // An address of this host is where to listen; a name would be whom to call.
                let end = address.split_once('?').map_or(address, |(end, _)| end).trim_end_matches('/');
                let host = end.rsplit_once(':').map_or(end, |(host, _)| host);
                let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
                if !host.is_empty() && !is_address {
                    let how =
                        "players ask for the stream: write http://:8080, and open http://this-host:8080 in the player";
                    return Err(Failure::Usage(format!("'http://{end}': {how}")));
                }
                let uri = to_player("http", address, &[&TO_PLAYER[..], &[LISTENS]].concat())?;
                Ok(Self::Player(uri, Player { protocol: Protocol::Http, container }))
            }
            Some(("timeous", _)) => {
                let uri: Uri = text.parse()?;
                let is_plain = uri.options.framing == TcpFraming::None;
                let player = Player { protocol: Protocol::Tcp, container: None };
                Ok(if is_plain { Self::Player(uri, player) } else { Self::Timeous(uri) })
            }
            _ => {
                // Its keys may hold a secret.
                let end = text.split('?').next().unwrap_or_default();
                Err(Failure::Usage(format!(
                    "'{end}': use timeous://host:port or udp://host:port; `timeous send` also serves players, by \
                     http://:port or tcp://host:port"
                )))
            }
        }
    }
}

/// Takes the container out of the keys of a player's address.
fn container_of(address: &str) -> Result<(String, Option<StreamContainer>), Failure> {
    let Some((host, keys)) = address.split_once('?') else { return Ok((address.to_owned(), None)) };
    let mut container = None;
    let mut others = Vec::new();
    for key in keys.split('&') {
        match key.split_once('=') {
            Some(("as", "flv")) => container = Some(StreamContainer::Flv),
            Some(("as", "ts")) => container = Some(StreamContainer::Ts),
            Some(("as", other)) => return Err(Failure::Usage(format!("as={other}: use as=flv or as=ts"))),
            _ => others.push(key),
        }
    }
    Ok((format!("{host}?{}", others.join("&")), container))
}

/// Parses `host:port?key=value&…` with these keys, which the scheme implies: refusals speak of those that were written.
fn to_player(scheme: &str, address: &str, implied: &[(&str, &str)]) -> Result<Uri, Failure> {
    let (host, keys) = address.split_once('?').unwrap_or((address, ""));
    let host = host.trim_end_matches('/');
    let refuse = |key: &str| {
        let what =
            if key == LISTENS.0 { "listens for players" } else { "is a byte stream over TCP, without encryption" };
        Failure::Usage(format!("{scheme}://{host}: it {what}: leave out {key}"))
    };
    let mut others = Vec::new();
    for pair in keys.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match implied.iter().find(|(name, _)| *name == key) {
            None => others.push(pair.to_owned()),
            Some((_, same)) if *same == value => {}
            Some(_) => return Err(refuse(key)),
        }
    }
    let pairs: Vec<_> = implied.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let uri = format!("timeous://{host}?{}", [&pairs[..], &others].concat().join("&"));
    uri.parse().map_err(|error| match error {
        UriError::Contradiction(found) if implied.iter().any(|(key, _)| found.keys.contains(key)) => {
            let mut written = others.iter().filter_map(|pair| pair.split('=').next());
            written.find(|key| found.keys.contains(key)).map_or_else(|| error.into(), refuse)
        }
        _ => error.into(),
    })
}

/// Parses `host:port`; an empty host means all local addresses.
fn udp(address: &str) -> Result<SocketAddr, Failure> {
    let address = address.trim_end_matches('/');
    let whole = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
    if !whole.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err(Failure::Usage(format!("udp://{address}: use udp://host:port, with a port from 1 to 65535")));
    }
    let unknown = |why: String| Failure::Environment(format!("unknown host in udp://{address}: {why}"));
    let mut found = whole.to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    found.next().ok_or_else(|| unknown("it has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use timeous::Role;

    use super::*;

    #[test]
    fn places() {
        assert_eq!(Place::parse("-").unwrap(), Place::Standard);
        assert_eq!(Place::parse("a/b.h264").unwrap(), Place::File("a/b.h264".to_owned()));
        assert_eq!(Place::parse("udp://:5004").unwrap(), Place::Udp("0.0.0.0:5004".parse().unwrap()));
        assert!(matches!(Place::parse("http://x"), Err(Failure::Usage(_))));
        assert!(matches!(Place::parse("rtp://:5004"), Err(Failure::Usage(text)) if text.contains("use udp://:5004")));
        assert!(matches!(Place::parse("udp://localhost"), Err(Failure::Usage(_))));
    }

    #[test]
    fn peers() {
        assert!(matches!(Peer::parse("timeous://h?x=1"), Err(Failure::Usage(_))));
        assert!(matches!(Peer::parse("udp://127.0.0.1:9").unwrap(), Peer::Udp(_)));
        let is = |peer: &Peer, of| matches!(peer, Peer::Player(_, player) if player.protocol == of);
        assert!(is(&Peer::parse("tcp://127.0.0.1:9/").unwrap(), Protocol::Tcp));
        let Peer::Player(uri, player) = Peer::parse("tcp://h:9?as=flv&latency=1s").unwrap() else { panic!() };
        assert_eq!((player.container, uri.options.latency.as_millis()), (Some(StreamContainer::Flv), 1_000));
        assert!(Peer::parse("tcp://h:9?as=ogg").is_err());
        assert!(matches!(Peer::parse("timeous://h?transport=tcp&framing=none").unwrap(), Peer::Player(..)));
        let Peer::Player(uri, _) = Peer::parse("http://:8080/?latency=300ms").unwrap() else { panic!() };
        assert_eq!((uri.options.framing, uri.options.latency.as_millis()), (TcpFraming::None, 300));
        for address in ["http://127.0.0.1:80", "http://[::1]:80/?latency=1s&queue=1s"] {
            let peer = Peer::parse(address).unwrap();
            assert!(is(&peer, Protocol::Http), "{address}");
            let Peer::Player(uri, _) = peer else { panic!("{address}") };
            assert!(matches!(uri.role, Role::Listener { address: Some(_), port: 80 }), "{:?}", uri.role);
        }
        assert!(matches!(Peer::parse("http://camera:80"), Err(Failure::Usage(_))));
    }

    /// Refusals spoke of keys that the tool had added itself, such as encryption=off.
    #[test]
    fn refusals_speak_of_what_was_written() {
        let refusal = |address: &str| match Peer::parse(address) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{address}: {other:?}"),
        };
        for end in ["http://127.0.0.1:80", "http://:80", "tcp://h:9"] {
            for pair in [
                "transport=dccp",
                "framing=records",
                "encryption=on",
                "passphrase=file:secret",
                "ca=system",
                "streamid=a",
                "cert=c",
                "unordered=require",
                "encap=none",
                "daemon=/run/socket",
                "key=k",
                "access=list",
                "ccid=3",
            ] {
                let (key, text) = (pair.split('=').next().unwrap(), refusal(&format!("{end}?latency=1s&{pair}")));
                assert!(text.contains(end) && text.ends_with(&format!("leave out {key}")), "{pair}: {text}");
                assert!(!text.contains("secret"), "{text}");
            }
            assert!(Peer::parse(&format!("{end}?transport=tcp&framing=none&encryption=off")).is_ok());
            assert!(refusal(&format!("{end}?latency=1s&latency=2s")).contains("'latency' is there twice"));
        }
        // Contradictions among other keys keep the library's words.
        assert!(refusal("http://:80?policy=plan&queue=1s").contains("queue is of policy=frames"));
        assert!(refusal("http://:80?local=127.0.0.1").contains("in front of the port"));
        assert!(refusal("http://127.0.0.1:80?mode=caller").contains("leave out mode"));
        assert!(refusal("http://:80?mode=caller").contains("leave out mode"));
        assert!(Peer::parse("http://:80?mode=listener").is_ok());
        assert!(refusal("http://localhost:80?mode=listener").contains("players ask for the stream"));
        for other in ["https://h", "srt://h:1?passphrase=secret", "rtmp://h/live", "h:6511"] {
            let text = refusal(other);
            assert!(["timeous://", "udp://", "http://", "tcp://"].iter().all(|known| text.contains(known)), "{text}");
            assert!(text.contains(other.split('?').next().unwrap()) && !text.contains("secret"), "{text}");
        }
    }
}
