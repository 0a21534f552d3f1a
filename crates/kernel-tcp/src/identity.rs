//! Identity of a DCCP connection: its initial sequence numbers, known to both ends alone. By it the listener recognises
//! a stream that moves to TCP.

use timeous_tcp::record;

/// Sub-stream of control messages between the two engines. Not available to applications.
pub(crate) const CONTROL: u8 = record::MAX_SUBSTREAM;
/// Tolerated loss of first packets, in packets: if they were lost, the peer saw a later sequence number. Chosen by us:
/// a higher value accepts more wrong streams.
const LOST: u64 = 64;
/// Message types of the caller's first record over TCP: an existing stream, or a new one.
const GOES_ON: u8 = 1;
const IS_NEW: u8 = 0;
const LEN: usize = 17;

/// Initial sequence numbers of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The caller's.
    pub caller: u64,
    /// The listener's.
    pub listener: u64,
}

impl Identity {
    /// Returns whether the identity as seen by the caller may be that of this connection of the listener.
    pub fn is_seen_as(self, by_caller: Self) -> bool {
        const MASK: u64 = (1 << 48) - 1;
        let later = |late: u64, early: u64| late.wrapping_sub(early) & MASK < LOST;
        later(self.caller, by_caller.caller) && later(by_caller.listener, self.listener)
    }
}

/// First record of a caller over TCP: the stream that moves there, or `None` for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello(pub Option<Identity>);

impl Hello {
    /// Length of the record in the stream, in bytes.
    pub(crate) const RECORD: usize = record::numbered_len(LEN);

    /// Appends the message as a record.
    pub(crate) fn write(self, number: u32, out: &mut Vec<u8>) {
        let (kind, Identity { caller, listener }) = match self.0 {
            Some(identity) => (GOES_ON, identity),
            None => (IS_NEW, Identity { caller: 0, listener: 0 }),
        };
        let body = [&[kind][..], &caller.to_be_bytes(), &listener.to_be_bytes()].concat();
        record::numbered(CONTROL, number, &body, out);
    }

    /// Parses the message; `None` if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let (&kind, numbers) = body.split_first()?;
        let (caller, listener) = numbers.split_first_chunk()?;
        let identity =
            Identity { caller: u64::from_be_bytes(*caller), listener: u64::from_be_bytes(listener.try_into().ok()?) };
        match kind {
            GOES_ON => Some(Self(Some(identity))),
            IS_NEW => Some(Self(None)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_known_though_first_packets_were_lost_and_no_other_is() {
        let listener = Identity { caller: 1_002, listener: 5 };
        assert!(listener.is_seen_as(Identity { caller: 1_000, listener: 6 }));
        assert!(listener.is_seen_as(Identity { caller: 1_002, listener: 5 }));
        assert!(!listener.is_seen_as(Identity { caller: 1_003, listener: 5 }), "nobody sees what was not sent");
        assert!(!listener.is_seen_as(Identity { caller: 1_000, listener: 4 }));
        assert!(!listener.is_seen_as(Identity { caller: 1_000 - LOST, listener: 5 }));
        let around = Identity { caller: 3, listener: 5 };
        assert!(around.is_seen_as(Identity { caller: (1 << 48) - 1, listener: 5 }));
    }

    #[test]
    fn a_hello_is_read_as_it_was_written() {
        for hello in [Hello(None), Hello(Some(Identity { caller: 0, listener: u64::MAX }))] {
            let mut wire = Vec::new();
            hello.write(0, &mut wire);
            assert_eq!(wire.len(), Hello::RECORD);
            let mut reader = record::Ordered::default();
            let mut read = None;
            reader.push(&wire, |datagram| read = Hello::read(datagram.payload));
            assert_eq!(read, Some(hello));
        }
        assert_eq!(Hello::read(&[9; LEN]), None);
        assert_eq!(Hello::read(&[]), None);
    }
}
