//! An association: the keys that two ends share, and the sealed datagram.

use std::net::SocketAddr;

use crate::keys::{Cipher, Opened, OpeningKey, SealingKey, Secret, TAG_LEN};
use crate::wire::{SEALED_HEADER_LEN, read_sealed, sealed_header};

/// Bytes that sealing adds to a packet.
pub const OVERHEAD: usize = SEALED_HEADER_LEN + TAG_LEN;

/// Secrets of an association, as one end sees them.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Cipher of both directions.
    pub cipher: Cipher,
    /// Secret of packets to the peer.
    pub sealing: Secret,
    /// Secret of packets from the peer.
    pub opening: Secret,
}

impl Secrets {
    /// Derives the secrets between two addresses from one that both ends were given, for AES-128-GCM: for simulations and
    /// measurements. At most one connection between two addresses may use a `secret`: the next would repeat its nonces.
    ///
    /// ```
    /// use timeous_seal::{Secret, Secrets};
    /// let (secret, local, remote) = (Secret::new([7; 32]), "10.0.0.1:80".parse()?, "10.0.0.2:80".parse()?);
    /// let secrets = Secrets::between(&secret, local, remote);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn between(secret: &Secret, local: SocketAddr, remote: SocketAddr) -> Self {
        let direction = |from: SocketAddr, to: SocketAddr| secret.derive(format!("timeous {from} {to}").as_bytes());
        Self { cipher: Cipher::Aes128Gcm, sealing: direction(local, remote), opening: direction(remote, local) }
    }
}

/// Keys of both directions, and the peer's name for the association.
#[derive(Debug)]
pub(crate) struct Association {
    peer_id: u32,
    sealing: SealingKey,
    opening: OpeningKey,
}

impl Association {
    pub(crate) fn new(peer_id: u32, secrets: &Secrets) -> Self {
        Self::with_integrity_limit(peer_id, secrets, secrets.cipher.integrity_limit())
    }

    /// Creates an association that ends when `limit` packets have failed authentication.
    pub(crate) fn with_integrity_limit(peer_id: u32, secrets: &Secrets, limit: u64) -> Self {
        let Secrets { cipher, ref sealing, ref opening } = *secrets;
        Self {
            peer_id,
            sealing: SealingKey::new(cipher, sealing.clone()),
            opening: OpeningKey::with_integrity_limit(cipher, opening.clone(), limit),
        }
    }

    /// Seals the packet behind the room for a header in `datagram`.
    pub(crate) fn seal(&mut self, datagram: &mut Vec<u8>) {
        let peer_id = self.peer_id;
        let number = self.sealing.seal(|number| sealed_header(peer_id, number), datagram, SEALED_HEADER_LEN);
        datagram[..SEALED_HEADER_LEN].copy_from_slice(&sealed_header(peer_id, number));
    }

    /// Returns whether the integrity limit is reached: no packet opens any more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.opening.is_exhausted()
    }

    /// Opens a datagram, and appends its packet to `packet`.
    pub(crate) fn open(&mut self, datagram: &[u8], packet: &mut Vec<u8>) -> Option<Opened> {
        let (header, (_, number), sealed) = read_sealed(datagram)?;
        self.opening.open(number, header, sealed, packet)
    }
}
