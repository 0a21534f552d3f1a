//! Init Cookies: handshakes of which a server under load keeps no state (RFC 4340 §8.1.4).

use timeous_core::{HostRateLimit, Instant, KeyedHash, Rng};

use super::route::FlowKey;
use crate::options::MAX_OPTION_DATA;
use crate::packet::{Body, Encapsulation, Header, begin_encoded, finish};
use crate::seq::Seq;
use crate::service::ServiceCode;

/// Lifetime of a cookie, in seconds. Chosen by us: a client's first acknowledgements take one round trip; a higher value
/// lets a recorded handshake be repeated for longer.
const LIFETIME: u32 = 10;
/// Size of a cookie without the options: time, ISS and GSR, Service Code, hash.
const FIXED: usize = 4 + 6 + 6 + 4 + 8;

/// Responses with a cookie per second to the hosts of one token bucket. Chosen by us: with all buckets 16 384 Requests are
/// answered a second; a higher value reflects more towards a host in whose name Requests are forged.
const PER_SECOND: u32 = 64;
/// Number of token buckets. Chosen by us: a higher value takes more memory, with a lower one more hosts share a bucket.
const BUCKETS: usize = 256;

/// Issuer and verifier of cookies.
#[derive(Debug)]
pub(super) struct Cookies {
    hash: KeyedHash,
    responses: HostRateLimit,
}

/// Contents of a cookie: the Request, and the first number of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie<'a> {
    pub(super) iss: Seq,
    pub(super) request: Seq,
    pub(super) service: ServiceCode,
    /// Options of the Request.
    pub(super) options: &'a [u8],
}

impl Cookies {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let (mut key, mut host_key) = ([0; 16], [0; 16]);
        rng.fill(&mut key);
        rng.fill(&mut host_key);
        let responses = HostRateLimit::per_second(host_key, BUCKETS, PER_SECOND);
        Self { hash: KeyedHash::new(key), responses }
    }

    /// Returns whether a Response to the client at `key` may leave now.
    pub(super) fn may_answer(&mut self, now: Instant, key: &FlowKey) -> bool {
        self.responses.take(now, key.route.remote().ip())
    }

    /// Returns the cookie for the client at `key`; `None` if its Request has more options than a cookie can hold.
    pub(super) fn seal(&self, now: Instant, key: &FlowKey, cookie: &Cookie<'_>) -> Option<Vec<u8>> {
        let mut bytes = seconds(now).to_be_bytes().to_vec();
        bytes.extend_from_slice(&cookie.iss.value().to_be_bytes()[2..]);
        bytes.extend_from_slice(&cookie.request.value().to_be_bytes()[2..]);
        bytes.extend_from_slice(&cookie.service.number().to_be_bytes());
        bytes.extend_from_slice(cookie.options);
        let hash = self.hash.of(&(key, &bytes));
        bytes.extend_from_slice(&hash.to_be_bytes());
        (bytes.len() <= MAX_OPTION_DATA).then_some(bytes)
    }

    /// Returns what this end told the client at `key` in a cookie; `None` if it did not, or too long ago.
    pub(super) fn open<'a>(&self, now: Instant, key: &FlowKey, bytes: &'a [u8]) -> Option<Cookie<'a>> {
        let (body, hash) = bytes.split_last_chunk()?;
        // A wrong hash costs the attacker a packet, and tells nothing: it is compared as a whole.
        if bytes.len() < FIXED || self.hash.of(&(key, body)) != u64::from_be_bytes(*hash) {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let (at, rest) = body.split_at(4);
        let (iss, rest) = rest.split_at(6);
        let (request, rest) = rest.split_at(6);
        let (service, options) = rest.split_at(4);
        let age = seconds(now).wrapping_sub(number(at) as u32);
        let service = ServiceCode::new(number(service) as u32);
        let cookie = Cookie { iss: Seq::new(number(iss)), request: Seq::new(number(request)), service, options };
        (age <= LIFETIME).then_some(cookie)
    }
}

impl Cookie<'_> {
    /// Returns the Request again, without its data.
    pub(super) fn request(&self, key: &FlowKey, encapsulation: Encapsulation) -> Vec<u8> {
        let (body, mut bytes) = (Body::Request { service: self.service }, Vec::new());
        let header = Header::new(key.remote_port, key.local_port, self.request, body);
        let start = begin_encoded(&header, self.options, &mut bytes).expect("a cookie is shorter than a header");
        finish(&mut bytes, start, encapsulation).expect("no data need be covered");
        bytes
    }
}

fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}
