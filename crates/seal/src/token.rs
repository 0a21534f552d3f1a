//! Numbers that others must not guess: identifiers of associations, and tokens that prove an address without state
//! (RFC 9000 §8.1.2).

use std::net::SocketAddr;

use ring::hmac;
use subtle::ConstantTimeEq as _;
use timeous_core::{Duration, Instant};

use crate::wire::TOKEN_LEN;

/// Time for which a token is good, at least; at most twice that. Chosen by us: a caller repeats its first datagram within a
/// round trip, and a longer time serves only who collects tokens.
const PERIOD: Duration = Duration::from_secs(10);

/// Maker of such numbers, from a secret that is never sent.
pub(crate) struct Mint {
    key: hmac::Key,
    made: u64,
}

impl Mint {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), made: 0 }
    }

    /// Makes an identifier; never zero.
    pub(crate) fn identifier(&mut self) -> u32 {
        loop {
            self.made += 1;
            let tag = self.sign(b"identifier", &self.made.to_be_bytes());
            let identifier = u32::from_be_bytes(*tag.first_chunk().expect("a tag is longer"));
            if identifier != 0 {
                return identifier;
            }
        }
    }

    /// Makes the token of a caller.
    pub(crate) fn token(&self, now: Instant, caller: SocketAddr, id: u32) -> [u8; TOKEN_LEN] {
        self.token_of(period(now), caller, id)
    }

    /// Returns whether a token is the caller's.
    pub(crate) fn is_token(&self, now: Instant, caller: SocketAddr, id: u32, token: &[u8]) -> bool {
        let period = period(now);
        [Some(period), period.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|period| bool::from(self.token_of(period, caller, id)[..].ct_eq(token)))
    }

    fn token_of(&self, period: u64, caller: SocketAddr, id: u32) -> [u8; TOKEN_LEN] {
        let mut text = Vec::with_capacity(30);
        match caller {
            SocketAddr::V4(caller) => text.extend_from_slice(&caller.ip().octets()),
            SocketAddr::V6(caller) => text.extend_from_slice(&caller.ip().octets()),
        }
        text.extend_from_slice(&caller.port().to_be_bytes());
        text.extend_from_slice(&id.to_be_bytes());
        text.extend_from_slice(&period.to_be_bytes());
        *self.sign(b"token", &text).first_chunk().expect("a tag is longer")
    }

    /// Derives the key of the calls' [`HostRateLimit`](timeous_core::HostRateLimit).
    pub(crate) fn host_key(&self) -> [u8; 16] {
        *self.sign(b"host", &[]).first_chunk().expect("a tag is longer")
    }

    fn sign(&self, purpose: &[u8], text: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(purpose);
        context.update(text);
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mint(..)")
    }
}

fn period(now: Instant) -> u64 {
    (now - Instant::ZERO).as_nanos() / PERIOD.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_caller_and_soon_stale() {
        let mint = Mint::new(&[1; 32]);
        let (now, caller, other) = (Instant::ZERO, "192.0.2.1:9".parse().unwrap(), "192.0.2.1:8".parse().unwrap());
        let token = mint.token(now, caller, 5);
        assert!(mint.is_token(now + PERIOD, caller, 5, &token));
        assert!(!mint.is_token(now + PERIOD + PERIOD, caller, 5, &token));
        assert!(!mint.is_token(now, other, 5, &token));
        assert!(!mint.is_token(now, caller, 6, &token));
        assert!(!Mint::new(&[2; 32]).is_token(now, caller, 5, &token));
        assert!(!mint.is_token(now, caller, 5, &[]));
    }

    #[test]
    fn identifiers_are_of_the_secret() {
        let (mut one, mut other) = (Mint::new(&[1; 32]), Mint::new(&[2; 32]));
        let made: Vec<_> = (0..100).map(|_| one.identifier()).collect();
        assert!(made.iter().all(|&identifier| identifier != 0 && identifier != other.identifier()));
    }
}
