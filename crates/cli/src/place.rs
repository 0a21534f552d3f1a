//! Parser for SOURCE, SINK and peer arguments: a file, `-`, an SDP file, or `udp://host:port`.

use std::net::{SocketAddr, ToSocketAddrs};

use timeous::Uri;

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
            Some(_) => Err(Failure::Usage(format!("'{text}': use a file, '-', or udp://host:port"))),
        }
    }
}

impl Place {
    fn file(path: &str) -> Self {
        if path.ends_with(".sdp") { Self::Sdp(path.to_owned()) } else { Self::File(path.to_owned()) }
    }
}

/// Peer of a stream.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one of an invocation, parsed once")]
pub(crate) enum Peer {
    /// A Timeous stream.
    Timeous(Uri),
    /// RTP over plain UDP without congestion control, for comparison or for one's own network.
    Udp(SocketAddr),
}

impl Peer {
    /// Parses an argument.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text.strip_prefix("udp://") {
            Some(address) => udp(address).map(Self::Udp),
            None => Ok(Self::Timeous(text.parse()?)),
        }
    }
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
    use super::*;

    #[test]
    fn places_and_peers() {
        assert_eq!(Place::parse("-").unwrap(), Place::Standard);
        assert_eq!(Place::parse("a/b.h264").unwrap(), Place::File("a/b.h264".to_owned()));
        assert_eq!(Place::parse("udp://:5004").unwrap(), Place::Udp("0.0.0.0:5004".parse().unwrap()));
        assert!(matches!(Place::parse("http://x"), Err(Failure::Usage(_))));
        assert!(matches!(Place::parse("udp://localhost"), Err(Failure::Usage(_))));
        assert!(matches!(Peer::parse("timeous://h?x=1"), Err(Failure::Usage(_))));
        assert!(matches!(Peer::parse("udp://127.0.0.1:9").unwrap(), Peer::Udp(_)));
    }
}
