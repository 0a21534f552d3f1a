//! Identity of a DCCP connection, known to its two ends alone: a secret of its handshake or, without encryption, its initial
//! sequence numbers. By it the listener recognises a stream that moves to TCP.

use timeous_seal::MigrationSecret;
use timeous_tcp::record;

/// Tolerated loss of first packets, in packets: if they were lost, the peer saw a later sequence number. Chosen by us:
/// a higher value accepts more wrong streams.
const LOST: u64 = 64;
/// Message types of the caller's first record over TCP: a new stream, or an existing one, plain or encrypted.
const IS_NEW: u8 = 0;
const GOES_ON: u8 = 1;
const GOES_ON_SEALED: u8 = 2;
const LEN: usize = 17;
/// Content of the last record of an encrypted stream. An end without it may be forged: TCP does not authenticate its own.
pub(crate) const END: &[u8] = &[3];

/// Identity of a stream's DCCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Initial sequence numbers of a plain stream, unknown off the path.
    Numbers(SequenceNumbers),
    /// Secret of the handshake that has admitted the caller of an encrypted stream.
    Secret(MigrationSecret),
}

/// Initial sequence numbers of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// The caller's.
    pub caller: u64,
    /// The listener's.
    pub listener: u64,
}

impl SequenceNumbers {
    /// Returns whether the numbers as seen by the caller may be those of this connection of the listener.
    pub fn are_seen_as(self, by_caller: Self) -> bool {
        const MASK: u64 = (1 << 48) - 1;
        let later = |late: u64, early: u64| late.wrapping_sub(early) & MASK < LOST;
        later(self.caller, by_caller.caller) && later(by_caller.listener, self.listener)
    }
}

/// First record of a caller over TCP: the stream that moves there, or `None` for a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello(pub Option<Identity>);

impl Hello {
    /// Maximum length of the record in the stream, in bytes.
    pub(crate) const LONGEST_RECORD: usize = record::encrypted_len(LEN);

    /// Returns the length of the record in the stream, in bytes.
    pub(crate) fn record_len(is_sealed: bool) -> usize {
        if is_sealed { Self::LONGEST_RECORD } else { record::numbered_len(LEN) }
    }

    /// Returns the content of the record.
    pub(crate) fn body(&self) -> [u8; LEN] {
        let mut body = [IS_NEW; LEN];
        match &self.0 {
            None => {}
            Some(Identity::Numbers(numbers)) => {
                body[0] = GOES_ON;
                body[1..9].copy_from_slice(&numbers.caller.to_be_bytes());
                body[9..].copy_from_slice(&numbers.listener.to_be_bytes());
            }
            Some(Identity::Secret(secret)) => {
                body[0] = GOES_ON_SEALED;
                body[1..].copy_from_slice(secret.as_bytes());
            }
        }
        body
    }

    /// Parses the content; `None` if it is malformed, or names a plain stream where records are encrypted, or an encrypted one
    /// where they are plain.
    pub(crate) fn read(body: &[u8], is_sealed: bool) -> Option<Self> {
        let (&kind, identity) = body.split_first()?;
        let identity: [u8; MigrationSecret::LEN] = identity.try_into().ok()?;
        let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
        match (kind, is_sealed) {
            (IS_NEW, _) => Some(Self(None)),
            (GOES_ON, false) => {
                let (caller, listener) = (number(&identity[..8])?, number(&identity[8..])?);
                Some(Self(Some(Identity::Numbers(SequenceNumbers { caller, listener }))))
            }
            (GOES_ON_SEALED, true) => Some(Self(Some(Identity::Secret(MigrationSecret::new(identity))))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_known_though_first_packets_were_lost_and_no_other_is() {
        let listener = SequenceNumbers { caller: 1_002, listener: 5 };
        assert!(listener.are_seen_as(SequenceNumbers { caller: 1_000, listener: 6 }));
        assert!(listener.are_seen_as(SequenceNumbers { caller: 1_002, listener: 5 }));
        assert!(!listener.are_seen_as(SequenceNumbers { caller: 1_003, listener: 5 }), "nobody sees what was not sent");
        assert!(!listener.are_seen_as(SequenceNumbers { caller: 1_000, listener: 4 }));
        assert!(!listener.are_seen_as(SequenceNumbers { caller: 1_000 - LOST, listener: 5 }));
        let around = SequenceNumbers { caller: 3, listener: 5 };
        assert!(around.are_seen_as(SequenceNumbers { caller: (1 << 48) - 1, listener: 5 }));
    }

    #[test]
    fn a_hello_is_read_as_it_was_written_and_only_in_its_own_kind_of_stream() {
        let numbers = Hello(Some(Identity::Numbers(SequenceNumbers { caller: 0, listener: u64::MAX })));
        let secret = Hello(Some(Identity::Secret(MigrationSecret::new([7; 16]))));
        for (hello, plain, sealed) in [(Hello(None), true, true), (numbers, true, false), (secret, false, true)] {
            for (is_sealed, is_read) in [(false, plain), (true, sealed)] {
                assert_eq!(Hello::read(&hello.body(), is_sealed), is_read.then(|| hello.clone()));
            }
        }
        assert_eq!(Hello::read(&[9; LEN], false), None);
        assert_eq!(Hello::read(&[], true), None);
    }

    #[test]
    fn a_hello_has_the_length_of_its_record() {
        let mut wire = Vec::new();
        record::numbered(record::CONTROL, 0, &Hello(None).body(), &mut wire);
        assert_eq!(wire.len(), Hello::record_len(false));
    }
}
