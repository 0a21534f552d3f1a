//! Datagrams of a sealed port.
//!
//! ```text
//! handshake  0x10 | version | to 4 | from 4 | offset 2 | acknowledged 2 | length 2 | token length | token | TLS bytes | zeros
//! retry      0x11 | to 4 | token 16
//! plain      0x12 | to 4
//! forgotten  0x13 | to 4
//! sealed     0x40 | to 4 | low bits of the packet number 4 | AEAD(packet) | tag 16
//! ```
//!
//! `to` is the receiver's own identifier of the association, which it chose at random; zero in a caller's first datagrams,
//! which are padded to 1200 bytes. A *plain* notice answers a handshake at a port that does not encrypt, a *forgotten*
//! notice a sealed datagram of an unknown association; both go to the sender's own identifier or repeat the one that it
//! used, prove nothing, and are believed only if the peer stays silent otherwise.

const HANDSHAKE: u8 = 0x10;
const RETRY: u8 = 0x11;
const PLAIN: u8 = 0x12;
const FORGOTTEN: u8 = 0x13;
const SEALED: u8 = 0x40;

const VERSION: u8 = 1;

/// Length of the header of a sealed datagram, in bytes, which the tag covers.
pub const SEALED_HEADER_LEN: usize = 9;
/// Length of a handshake datagram's header, without token.
pub(crate) const HANDSHAKE_HEADER_LEN: usize = 17;
/// Length of a caller's first datagrams, and the longest of a handshake, in bytes: what every path takes (RFC 9000 §14).
pub(crate) const HANDSHAKE_LEN: usize = 1200;
/// Length of a token, in bytes.
pub(crate) const TOKEN_LEN: usize = 16;

/// A datagram's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram<'a> {
    Handshake(Handshake<'a>),
    Retry { to: u32, token: [u8; TOKEN_LEN] },
    Plain { to: u32 },
    Forgotten { to: u32 },
    Sealed { to: u32 },
}

/// A piece of the handshake's stream, and the acknowledgement of the other direction's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake<'a> {
    pub(crate) to: u32,
    pub(crate) from: u32,
    pub(crate) offset: u16,
    pub(crate) acknowledged: u16,
    pub(crate) token: &'a [u8],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram; `None`: it is none of a sealed port's.
    pub(crate) fn read(datagram: &'a [u8]) -> Option<Self> {
        let (&kind, rest) = datagram.split_first()?;
        match kind {
            HANDSHAKE => Handshake::read(rest).map(Self::Handshake),
            RETRY => {
                let (to, token) = rest.split_first_chunk()?;
                Some(Self::Retry { to: u32::from_be_bytes(*to), token: token.try_into().ok()? })
            }
            PLAIN => Some(Self::Plain { to: u32::from_be_bytes(rest.try_into().ok()?) }),
            FORGOTTEN => Some(Self::Forgotten { to: u32::from_be_bytes(rest.try_into().ok()?) }),
            SEALED => read_sealed(datagram).map(|(_, (to, _), _)| Self::Sealed { to }),
            _ => None,
        }
    }
}

impl<'a> Handshake<'a> {
    fn read(rest: &'a [u8]) -> Option<Self> {
        let (header, rest) = rest.split_first_chunk::<{ HANDSHAKE_HEADER_LEN - 2 }>()?;
        // The token's length comes last in the header, and is its 17th byte.
        let (&token_len, rest) = rest.split_first()?;
        let &[version, t0, t1, t2, t3, f0, f1, f2, f3, o0, o1, a0, a1, l0, l1] = header;
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let (token, rest) = rest.split_at_checked(usize::from(token_len))?;
        (version == VERSION).then_some(())?;
        Some(Self {
            to: u32::from_be_bytes([t0, t1, t2, t3]),
            from: u32::from_be_bytes([f0, f1, f2, f3]),
            offset: u16::from_be_bytes([o0, o1]),
            acknowledged: u16::from_be_bytes([a0, a1]),
            token,
            bytes: rest.get(..len)?,
        })
    }

    /// Appends the datagram to the empty `out`, padded to `len` bytes.
    pub(crate) fn write(&self, len: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&[HANDSHAKE, VERSION]);
        out.extend_from_slice(&self.to.to_be_bytes());
        out.extend_from_slice(&self.from.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.acknowledged.to_be_bytes());
        out.extend_from_slice(&(self.bytes.len() as u16).to_be_bytes());
        out.push(self.token.len() as u8);
        out.extend_from_slice(self.token);
        out.extend_from_slice(self.bytes);
        if out.len() < len {
            out.resize(len, 0);
        }
    }
}

/// Writes a retry.
pub(crate) fn retry(to: u32, token: &[u8; TOKEN_LEN]) -> Vec<u8> {
    [&[RETRY][..], &to.to_be_bytes(), token].concat()
}

/// Writes a notice that an association is unknown.
pub(crate) fn forgotten(to: u32) -> Vec<u8> {
    [&[FORGOTTEN][..], &to.to_be_bytes()].concat()
}

/// Returns the header of a sealed datagram.
pub(crate) fn sealed_header(to: u32, number: u64) -> [u8; SEALED_HEADER_LEN] {
    let ([a, b, c, d], [.., w, x, y, z]) = (to.to_be_bytes(), number.to_be_bytes());
    [SEALED, a, b, c, d, w, x, y, z]
}

/// Header of a sealed datagram, its receiver's identifier and the low bits of its number, and the sealed packet.
type Sealed<'a> = (&'a [u8], (u32, u32), &'a [u8]);

/// Splits a sealed datagram.
pub(crate) fn read_sealed(datagram: &[u8]) -> Option<Sealed<'_>> {
    let (header, sealed) = datagram.split_at_checked(SEALED_HEADER_LEN)?;
    let &[SEALED, a, b, c, d, w, x, y, z] = header else { return None };
    Some((header, (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([w, x, y, z])), sealed))
}

/// Returns the identifier that the sender of a quoted handshake datagram, perhaps cut, has chosen for itself.
pub(crate) fn quoted_caller(quoted: &[u8]) -> Option<u32> {
    match quoted.first_chunk()? {
        &[HANDSHAKE, VERSION, _, _, _, _, a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Returns whether a datagram begins an encrypted call: for ports that take none.
#[must_use]
pub fn is_call(datagram: &[u8]) -> bool {
    datagram.len() >= HANDSHAKE_LEN
        && matches!(Datagram::read(datagram), Some(Datagram::Handshake(Handshake { to: 0, offset: 0, .. })))
}

/// Writes the answer of a port that does not encrypt to a datagram that [`is_call`] into the empty `notice`.
pub fn write_plain_notice(call: &[u8], notice: &mut Vec<u8>) {
    if let Some(Datagram::Handshake(handshake)) = Datagram::read(call) {
        notice.push(PLAIN);
        notice.extend_from_slice(&handshake.from.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn handshakes_come_back(
            (to, from, offset, acknowledged) in any::<(u32, u32, u16, u16)>(),
            token in prop::collection::vec(any::<u8>(), 0..40),
            bytes in prop::collection::vec(any::<u8>(), 0..1300),
        ) {
            let handshake = Handshake { to, from, offset, acknowledged, token: &token, bytes: &bytes };
            let mut out = Vec::new();
            handshake.write(HANDSHAKE_LEN, &mut out);
            prop_assert!(out.len() >= HANDSHAKE_LEN);
            prop_assert_eq!(Datagram::read(&out), Some(Datagram::Handshake(handshake)));
        }

        #[test]
        fn nothing_that_arrives_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            Datagram::read(&bytes);
            for kind in [HANDSHAKE, RETRY, PLAIN, FORGOTTEN, SEALED] {
                Datagram::read(&[&[kind, VERSION][..], &bytes].concat());
            }
        }
    }

    #[test]
    fn notices_come_back() {
        assert_eq!(Datagram::read(&retry(7, &[1; TOKEN_LEN])), Some(Datagram::Retry { to: 7, token: [1; TOKEN_LEN] }));
        assert_eq!(Datagram::read(&forgotten(9)), Some(Datagram::Forgotten { to: 9 }));
        let (mut call, mut notice) = (Vec::new(), Vec::new());
        Handshake { to: 0, from: 5, offset: 0, acknowledged: 0, token: &[], bytes: b"hi" }
            .write(HANDSHAKE_LEN, &mut call);
        assert!(is_call(&call) && !is_call(&call[..HANDSHAKE_LEN - 1]));
        write_plain_notice(&call, &mut notice);
        assert_eq!(Datagram::read(&notice), Some(Datagram::Plain { to: 5 }));
        let header = sealed_header(3, (7 << 32) + 1);
        assert_eq!(read_sealed(&[&header[..], b"x"].concat()), Some((&header[..], (3, 1), &b"x"[..])));
    }
}
