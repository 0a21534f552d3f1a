//! Messages between the libraries of a sending and a receiving program: subscriptions to reports, and reports.
//!
//! All integers are in network byte order. A subscription begins with a proof of the return address: the receiver answers the
//! first ask with a cookie of the same length, and keeps no state before the cookie comes back.

use siphasher::sip::SipHasher24;
use timeous::core::Duration;

/// First bytes of each message.
const MAGIC: [u8; 4] = *b"TmRn";
/// Version of the protocol.
const VERSION: u8 = 1;
/// Size of all messages but reports, in bytes: magic, version, type, port, key, cookie.
#[cfg(test)]
pub(crate) const ASK_LEN: usize = 4 + 1 + 1 + 2 + 16 + 8;
/// Size of a report without hashes: magic, version, type, port, key, index of the first hash, delay.
const REPORT_HEADER: usize = 4 + 1 + 1 + 2 + 16 + 4 + 4;
/// Maximum number of hashes in a report. Chosen by us: a higher value repeats more in each report.
pub(crate) const MAX_HASHES: usize = 48;
/// Maximum size of a message in bytes.
pub(crate) const MAX_LEN: usize = REPORT_HEADER + 4 * MAX_HASHES;
/// Bytes at the beginning of a datagram that are hashed. Chosen by us: headers with numbers are there, and a program may read
/// less than the whole. A higher value takes more time.
pub(crate) const HASHED: usize = 128;

/// Key of a subscription: names it, and keys its hashes. Random, so that only hosts on the path know it.
pub(crate) type Key = [u8; 16];

/// Returns the hash of a datagram.
pub(crate) fn fingerprint(key: &Key, datagram: &[u8]) -> u32 {
    SipHasher24::new_with_key(key).hash(&datagram[..datagram.len().min(HASHED)]) as u32
}

/// Report of the datagrams that arrived at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Port at the receiver.
    pub(crate) port: u16,
    /// Key of the subscription.
    pub(crate) key: Key,
    /// Number of datagrams that arrived before the first one here, modulo 2³²: hashes come again in later reports.
    pub(crate) first: u32,
    /// Time since the newest one arrived.
    pub(crate) delay: Duration,
    /// Hashes of the datagrams, oldest first.
    pub(crate) hashes: Vec<u32>,
}

/// Message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Sender to receiver: asks for reports about a port; 0 as long as no cookie is known.
    Ask(Ask),
    /// Receiver to sender: the cookie to ask with.
    Cookie(Ask),
    /// Receiver to sender: reports will come.
    Accepted(Ask),
    /// Receiver to sender.
    Report(Report),
}

/// Subscription as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Port at the receiver.
    pub(crate) port: u16,
    /// Key of the subscription.
    pub(crate) key: Key,
    /// Proof of the return address.
    pub(crate) cookie: u64,
}

impl Message {
    /// Encodes the message as a datagram.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, port, key) = match self {
            Self::Ask(ask) => (0, ask.port, &ask.key),
            Self::Cookie(ask) => (1, ask.port, &ask.key),
            Self::Accepted(ask) => (2, ask.port, &ask.key),
            Self::Report(report) => (3, report.port, &report.key),
        };
        let mut bytes = Vec::with_capacity(MAX_LEN);
        bytes.extend(MAGIC);
        bytes.extend([VERSION, kind]);
        bytes.extend(port.to_be_bytes());
        bytes.extend(key);
        match self {
            Self::Ask(ask) | Self::Cookie(ask) | Self::Accepted(ask) => bytes.extend(ask.cookie.to_be_bytes()),
            Self::Report(report) => {
                bytes.extend(report.first.to_be_bytes());
                bytes.extend(u32::try_from(report.delay.as_micros()).unwrap_or(u32::MAX).to_be_bytes());
                report.hashes.iter().take(MAX_HASHES).for_each(|hash| bytes.extend(hash.to_be_bytes()));
            }
        }
        bytes
    }

    /// Decodes a datagram; `None` if it is none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(8)?;
        if head[..4] != MAGIC || head[4] != VERSION {
            return None;
        }
        let port = u16::from_be_bytes([head[6], head[7]]);
        let (key, rest) = rest.split_first_chunk::<16>()?;
        let key = *key;
        let ask = || Some(Ask { port, key, cookie: u64::from_be_bytes(rest.try_into().ok()?) });
        match head[5] {
            0 => ask().map(Self::Ask),
            1 => ask().map(Self::Cookie),
            2 => ask().map(Self::Accepted),
            3 => {
                let (first, rest) = rest.split_first_chunk::<4>()?;
                let (delay, rest) = rest.split_first_chunk::<4>()?;
                let (hashes, []) = rest.as_chunks::<4>() else { return None };
                let report = Report {
                    port,
                    key,
                    first: u32::from_be_bytes(*first),
                    delay: Duration::from_micros(u32::from_be_bytes(*delay).into()),
                    hashes: hashes.iter().map(|&hash| u32::from_be_bytes(hash)).collect(),
                };
                (report.hashes.len() <= MAX_HASHES).then_some(Self::Report(report))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Ask {
        Ask { port: 5_004, key: [9; 16], cookie: 0x0102_0304_0506_0708 }
    }

    #[test]
    fn messages_survive_the_wire() {
        let report =
            Report { port: 1, key: [3; 16], first: u32::MAX, delay: Duration::from_micros(77), hashes: vec![1, 2, 3] };
        for message in [Message::Ask(ask()), Message::Cookie(ask()), Message::Accepted(ask()), Message::Report(report)]
        {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn an_answer_is_as_long_as_the_question() {
        for message in [Message::Ask(ask()), Message::Cookie(ask()), Message::Accepted(ask())] {
            assert_eq!(message.encode().len(), ASK_LEN);
        }
    }

    #[test]
    fn other_datagrams_are_none_of_ours() {
        let whole = Message::Ask(ask()).encode();
        for len in 0..whole.len() {
            assert_eq!(Message::decode(&whole[..len]), None, "{len} bytes");
        }
        for at in 0..6 {
            let mut other = whole.clone();
            other[at] ^= 0x80;
            assert_eq!(Message::decode(&other), None, "byte {at}");
        }
        let full = vec![0; MAX_HASHES + 1];
        let mut long =
            Message::Report(Report { port: 1, key: [0; 16], first: 0, delay: Duration::ZERO, hashes: full }).encode();
        assert_eq!(long.len(), MAX_LEN, "no more is written");
        long.extend([0; 4]);
        assert_eq!(Message::decode(&long), None, "and no more is read");
    }

    #[test]
    fn a_datagram_read_in_part_has_the_same_fingerprint() {
        let datagram: Vec<u8> = (0..200).collect();
        assert_eq!(fingerprint(&[1; 16], &datagram), fingerprint(&[1; 16], &datagram[..150]));
        assert_ne!(fingerprint(&[1; 16], &datagram), fingerprint(&[2; 16], &datagram));
    }
}
