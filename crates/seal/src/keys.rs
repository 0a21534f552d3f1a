//! Keys of one direction: AEAD, nonces, and the ratchet of key phases (as in RFC 9001 §5, §6).

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::window::{ReplayWindow, expand};

/// Length of the authentication tag, in bytes: 128 bits for each cipher (RFC 9001 §5.3).
pub const TAG_LEN: usize = 16;
/// Packets sealed with one key. AES-GCM keeps its confidentiality bound up to 2^23 (RFC 9001 §6.6); half of that leaves
/// room for the packets in flight.
const PACKETS_PER_PHASE_BITS: u32 = 22;

/// Authenticated encryption of packets: the AEAD of the TLS cipher suite that the ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305, for machines without AES instructions.
    ChaCha20Poly1305,
}

impl Cipher {
    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    /// Returns the integrity limit in packets: how many may fail authentication in one direction, under all its keys
    /// (RFC 9001 §6.6).
    pub(crate) fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }
}

/// Secret of one direction, from which its keys are derived. Erased when dropped, and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Takes 32 bytes that nobody else knows.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn expand(&self, label: &[u8], out: &mut [u8]) {
        struct Length(usize);
        impl KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let prk = Prk::new_less_safe(HKDF_SHA256, &self.0);
        let label = [label];
        let okm = prk.expand(&label, Length(out.len())).expect("a key is shorter than 255 hashes");
        okm.fill(out).expect("the length is the one asked for");
    }

    /// Derives the secret of another use.
    pub(crate) fn derive(&self, label: &[u8]) -> Self {
        let mut derived = [0; 32];
        self.expand(label, &mut derived);
        Self(derived)
    }

    fn next_phase(&self) -> Self {
        self.derive(b"timeous next phase")
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Key and nonce mask of one phase.
struct PhaseKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl PhaseKey {
    fn of(cipher: Cipher, secret: &Secret) -> Self {
        let algorithm = cipher.algorithm();
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..algorithm.key_len()];
        secret.expand(b"timeous key", bytes);
        let key = UnboundKey::new(algorithm, bytes).expect("the key has the cipher's length");
        bytes.zeroize();
        let mut iv = [0; NONCE_LEN];
        secret.expand(b"timeous iv", &mut iv);
        Self { key: LessSafeKey::new(key), iv }
    }

    /// Returns the nonce of a packet: its number, masked (RFC 9001 §5.3).
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Appends a packet's plaintext to `out`, which stays as it was if the packet does not open.
    fn open(&self, number: u64, authenticated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(len) = sealed.len().checked_sub(TAG_LEN) else { return false };
        let start = out.len();
        out.extend_from_slice(sealed);
        let (nonce, aad) = (self.nonce(number), Aad::from(authenticated));
        let is_open = self.key.open_in_place(nonce, aad, &mut out[start..]).is_ok();
        out.truncate(if is_open { start + len } else { start });
        is_open
    }
}

fn phase_of(number: u64) -> u64 {
    number >> PACKETS_PER_PHASE_BITS
}

/// Keys that seal one direction's packets. Each call of [`seal`](Self::seal) uses a packet number of its own, so that no
/// nonce is used twice.
pub struct SealingKey {
    cipher: Cipher,
    secret: Secret,
    key: PhaseKey,
    next: u64,
}

impl SealingKey {
    /// Creates the keys of a direction; packet numbers start at zero.
    #[must_use]
    pub fn new(cipher: Cipher, secret: Secret) -> Self {
        Self { cipher, key: PhaseKey::of(cipher, &secret), secret, next: 0 }
    }

    /// Returns the number of the next packet.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Seals the bytes of `packet` from `start` on in place, appends the tag, and returns the packet's number.
    /// `authenticated` bytes are covered by the tag; it is told the number first, which they may contain.
    pub fn seal<A: AsRef<[u8]>>(
        &mut self,
        authenticated: impl FnOnce(u64) -> A,
        packet: &mut Vec<u8>,
        start: usize,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        if number > 0 && phase_of(number) != phase_of(number - 1) {
            self.secret = self.secret.next_phase();
            self.key = PhaseKey::of(self.cipher, &self.secret);
        }
        let aad = authenticated(number);
        let tag = self
            .key
            .key
            .seal_in_place_separate_tag(self.key.nonce(number), Aad::from(aad.as_ref()), &mut packet[start..])
            .expect("a packet is shorter than the cipher's bound");
        packet.extend_from_slice(tag.as_ref());
        number
    }

    /// Opens a packet that these keys have sealed, and appends its plaintext to `out`: for a copy under another number. Returns
    /// `false`, and leaves `out` as it was, for one of an earlier phase, and for one that is not theirs.
    pub fn reopen(&self, number: u64, authenticated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> bool {
        self.next.checked_sub(1).is_some_and(|last| phase_of(last) == phase_of(number))
            && self.key.open(number, authenticated, sealed, out)
    }
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealingKey").field("next", &self.next).finish_non_exhaustive()
    }
}

/// Authenticated packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub number: u64,
    /// Whether no packet with a higher number was opened before.
    pub is_newest: bool,
}

/// Keys that open one direction's packets: each of them once, except by [`open_at`](Self::open_at). They open none any more when
/// as many packets have failed authentication as the cipher's integrity limit (RFC 9001 §6.6): 2^52, for ChaCha20-Poly1305 2^36.
pub struct OpeningKey {
    cipher: Cipher,
    /// Secret of the next phase.
    ahead: Secret,
    phase: u64,
    key: PhaseKey,
    previous: Option<PhaseKey>,
    /// Derived when the first packet claims it; in use when the first packet proves it.
    next: Option<PhaseKey>,
    window: ReplayWindow,
    rejected: u64,
    /// Packets that may still fail authentication.
    forgeries_left: u64,
}

impl OpeningKey {
    /// Creates the keys of a direction.
    #[must_use]
    pub fn new(cipher: Cipher, secret: Secret) -> Self {
        Self::with_integrity_limit(cipher, secret, cipher.integrity_limit())
    }

    /// Creates the keys of a direction that ends when `limit` packets have failed authentication.
    pub(crate) fn with_integrity_limit(cipher: Cipher, secret: Secret, limit: u64) -> Self {
        Self {
            cipher,
            ahead: secret.next_phase(),
            phase: 0,
            key: PhaseKey::of(cipher, &secret),
            previous: None,
            next: None,
            window: ReplayWindow::default(),
            rejected: 0,
            forgeries_left: limit,
        }
    }

    /// Returns whether the integrity limit is reached: no packet opens any more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.forgeries_left == 0
    }

    /// Opens a packet whose number has the low 32 bits `number`, and appends its plaintext to `out`. Returns `None`,
    /// and leaves `out` and all state as they were, for a packet that is forged, damaged, repeated or too old.
    pub fn open(&mut self, number: u32, authenticated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> Option<Opened> {
        let number = expand(number, self.window.next());
        let opened = self.try_open(number, authenticated, sealed, out);
        self.rejected += u64::from(opened.is_none());
        opened
    }

    /// Opens a packet by its whole number, however often it comes: its content has to tell repetitions apart. The number may lie
    /// one phase before the newest one, and one behind it. Returns `false`, and leaves `out` as it was, for a packet that is
    /// forged or damaged.
    pub fn open_at(&mut self, number: u64, authenticated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> bool {
        let is_open = self.open_in_phase(number, authenticated, sealed, out);
        self.rejected += u64::from(!is_open);
        is_open
    }

    fn try_open(&mut self, number: u64, authenticated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> Option<Opened> {
        if !self.window.may_be_new(number) || !self.open_in_phase(number, authenticated, sealed, out) {
            return None;
        }
        Some(Opened { number, is_newest: self.window.insert(number) })
    }

    /// Opens a packet, and moves to the next phase with the first packet of it.
    fn open_in_phase(&mut self, number: u64, authenticated: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> bool {
        if self.is_exhausted() {
            return false;
        }
        let phase = phase_of(number);
        let key = if phase == self.phase {
            Some(&self.key)
        } else if phase + 1 == self.phase {
            self.previous.as_ref()
        } else if phase == self.phase + 1 {
            Some(&*self.next.get_or_insert_with(|| PhaseKey::of(self.cipher, &self.ahead)))
        } else {
            None
        };
        let Some(key) = key else { return false };
        if !key.open(number, authenticated, sealed, out) {
            self.forgeries_left -= 1;
            return false;
        }
        if phase > self.phase
            && let Some(next) = self.next.take()
        {
            self.previous = Some(std::mem::replace(&mut self.key, next));
            self.ahead = self.ahead.next_phase();
            self.phase = phase;
        }
        true
    }

    /// Returns the number of packets that did not open.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected
    }
}

impl std::fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpeningKey").field("window", &self.window).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

    fn pair(cipher: Cipher) -> (SealingKey, OpeningKey) {
        let secret = Secret::new([7; 32]);
        (SealingKey::new(cipher, secret.clone()), OpeningKey::new(cipher, secret))
    }

    fn sealed(key: &mut SealingKey, text: &[u8]) -> (u32, Vec<u8>) {
        let mut packet = text.to_vec();
        let number = key.seal(|_| b"header", &mut packet, 0);
        (number as u32, packet)
    }

    #[test]
    fn what_was_sealed_opens_once_in_any_order() {
        for cipher in CIPHERS {
            let (mut sealing, mut opening) = pair(cipher);
            let packets: Vec<_> = (0..4).map(|i| sealed(&mut sealing, &[i; 9])).collect();
            for at in [2, 0, 3, 1] {
                let mut out = Vec::new();
                let (number, packet) = &packets[at];
                let opened = opening.open(*number, b"header", packet, &mut out).unwrap();
                assert_eq!((opened.is_newest, out), (at == 2 || at == 3, vec![at as u8; 9]));
                assert_eq!(opening.open(*number, b"header", packet, &mut Vec::new()), None, "a repetition");
            }
        }
    }

    #[test]
    fn a_changed_bit_anywhere_does_not_open() {
        let (mut sealing, mut opening) = pair(Cipher::Aes128Gcm);
        let (number, packet) = sealed(&mut sealing, b"hello");
        for bit in 0..packet.len() * 8 {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opening.open(number, b"header", &forged, &mut Vec::new()), None);
        }
        assert_eq!(opening.open(number, b"HEADER", &packet, &mut Vec::new()), None);
        assert_eq!(opening.open(number + 1, b"header", &packet, &mut Vec::new()), None);
        assert_eq!(opening.rejected(), packet.len() as u64 * 8 + 2);
        assert!(opening.open(number, b"header", &packet, &mut Vec::new()).is_some(), "forgeries change nothing");
    }

    #[test]
    fn a_key_phase_ends_after_its_packets_and_both_ends_follow() {
        for cipher in CIPHERS {
            let (mut sealing, mut opening) = pair(cipher);
            let last = (1 << PACKETS_PER_PHASE_BITS) - 1;
            // Both ends just before the end of the first phase.
            sealing.next = last - 1;
            let packets: Vec<_> = (0..4).map(|i| sealed(&mut sealing, &[i; 5])).collect();
            let mut out = Vec::new();
            opening.window.insert(last - 2);
            for at in [0, 2, 1, 3] {
                let (number, packet) = &packets[at];
                assert!(opening.open(*number, b"header", packet, &mut out).is_some(), "packet {at}");
            }
            assert_eq!(opening.phase, 1);
            assert_ne!(packets[1].1[..5], packets[2].1[..5]);
        }
    }

    #[test]
    fn by_its_whole_number_a_packet_opens_again_also_across_a_phase() {
        let (mut sealing, mut opening) = pair(Cipher::Aes128Gcm);
        let last = (1 << PACKETS_PER_PHASE_BITS) - 1;
        sealing.next = last;
        let packets: Vec<_> = (0..2).map(|i| (sealing.next_number(), sealed(&mut sealing, &[i; 5]).1)).collect();
        let mut out = Vec::new();
        for at in [1, 0, 0, 1] {
            let (number, packet) = &packets[at];
            assert!(opening.open_at(*number, b"header", packet, &mut out));
            assert!(!opening.open_at(number + 1, b"header", packet, &mut out), "another number");
            assert!(!opening.open_at(number + (2 << PACKETS_PER_PHASE_BITS), b"header", packet, &mut out), "far away");
        }
        assert_eq!(out, [[1; 5], [0; 5], [0; 5], [1; 5]].concat());
        assert_eq!(opening.rejected(), 8);
    }

    #[test]
    fn its_own_packets_open_within_the_phase() {
        let (mut sealing, _) = pair(Cipher::Aes128Gcm);
        let (number, packet) = sealed(&mut sealing, b"hello");
        let mut out = Vec::new();
        assert!(sealing.reopen(number.into(), b"header", &packet, &mut out));
        assert!(!sealing.reopen(u64::from(number) + 1, b"header", &packet, &mut out));
        assert_eq!(out, b"hello");
        sealing.next = 1 << PACKETS_PER_PHASE_BITS;
        sealed(&mut sealing, b"next");
        assert!(!sealing.reopen(number.into(), b"header", &packet, &mut out));
    }
}
