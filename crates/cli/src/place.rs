//! Where media comes from and goes to: a file, `-`, or `udp://host:port`.

use std::net::{SocketAddr, ToSocketAddrs};

use timeous::Uri;

use crate::failure::Failure;

/// A SOURCE or a SINK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Standard input or output.
    Standard,
    /// A file.
    File(String),
    /// RTP as a session description says: a file that ends with .sdp.
    Sdp(String),
    /// RTP over plain UDP: from this local address, or to this remote one.
    Udp(SocketAddr),
}

impl Place {
    /// Reads what the user wrote.
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

/// The other end of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Peer {
    /// A Timeous stream.
    Timeous(Uri),
    /// RTP over plain UDP, without congestion control: to compare with, or for a network of one's own.
    Udp(SocketAddr),
}

impl Peer {
    /// Reads what the user wrote.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text.strip_prefix("udp://") {
            Some(address) => udp(address).map(Self::Udp),
            None => Ok(Self::Timeous(text.parse()?)),
        }
    }
}

/// `host:port`; an empty host is every local address.
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
