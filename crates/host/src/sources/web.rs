//! Web-like traffic: users who fetch objects of heavy-tailed sizes, with think times.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::{Duration, Instant, Rng};

use super::bulk::Bulk;
use crate::socket::Socket;
use crate::tcp::{Dialer, Ended, Feed};

/// Parameters of web-like traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebTraffic {
    /// Number of users.
    pub users: u32,
    /// Mean number of objects that a user fetches in sequence (geometric).
    pub objects: f64,
    /// Mean object size in bytes.
    pub mean_size: u64,
    /// Shape of the Pareto distribution of sizes: between 1 and 2 the variance is infinite.
    pub shape: f64,
    /// Maximum object size in bytes, so that runs of some minutes are comparable.
    pub max_size: u64,
    /// Mean think time of a user after a page (exponential).
    pub think: Duration,
}

impl Default for WebTraffic {
    /// Returns ten users; pages of five objects of 12 kB, shape 1.2 (Crovella and Bestavros 1997 measured 1.0 to 1.3),
    /// ten seconds apart.
    fn default() -> Self {
        Self {
            users: 10,
            objects: 5.0,
            mean_size: 12_000,
            shape: 1.2,
            max_size: 10_000_000,
            think: Duration::from_secs(10),
        }
    }
}

impl WebTraffic {
    /// Draws the size of an object.
    fn size(&self, rng: &mut Rng) -> u64 {
        let least = self.mean_size as f64 * (self.shape - 1.0) / self.shape;
        let size = least * (1.0 - rng.unit()).powf(-1.0 / self.shape);
        (size as u64).clamp(1, self.max_size)
    }

    fn thinks(&self, rng: &mut Rng) -> Duration {
        Duration::from_secs_f64(-self.think.as_secs_f64() * (1.0 - rng.unit()).ln())
    }
}

/// Web users with one connection at a time: a new one for each object, which the caller's side sends.
pub struct Web {
    traffic: WebTraffic,
    rng: Rng,
    chunk: usize,
    /// Next request times of thinking users.
    wanting: BTreeSet<(Instant, u32)>,
    /// Users by the connection that they wait for.
    fetching: BTreeMap<u64, u32>,
    complete: u64,
    failed: u64,
    bytes: u64,
}

impl Web {
    /// Creates users who begin at random times within the first think time from `start` on. Objects are written in
    /// pieces of `chunk` bytes.
    pub fn new(traffic: WebTraffic, start: Instant, chunk: usize, mut rng: Rng) -> Self {
        let mut begin = |user| {
            let after = Duration::from_secs_f64(traffic.think.as_secs_f64() * rng.unit());
            (start + after, user)
        };
        let wanting = (0..traffic.users).map(&mut begin).collect();
        Self { traffic, rng, chunk, wanting, fetching: BTreeMap::new(), complete: 0, failed: 0, bytes: 0 }
    }

    /// Returns the number of completely transferred objects.
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// Returns the number of failed transfers.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns the total size of all requested objects, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Dialer for Web {
    fn poll_call(&mut self, now: Instant, call: u64) -> Option<Feed> {
        let &(at, user) = self.wanting.first()?;
        if at > now {
            return None;
        }
        self.wanting.pop_first();
        self.fetching.insert(call, user);
        let size = self.traffic.size(&mut self.rng);
        self.bytes += size;
        Some(Socket::new(Bulk::of(size, self.chunk)).into())
    }

    fn on_ended(&mut self, now: Instant, call: u64, ended: Ended) {
        let Some(user) = self.fetching.remove(&call) else { return };
        match ended.complete {
            true => self.complete += 1,
            false => self.failed += 1,
        }
        let page_goes_on = self.rng.chance(1.0 - 1.0 / self.traffic.objects.max(1.0));
        let pause = if page_goes_on { Duration::ZERO } else { self.traffic.thinks(&mut self.rng) };
        self.wanting.insert((now + pause, user));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wanting.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_heavy_tailed_around_their_mean() {
        let traffic = WebTraffic { shape: 1.8, ..WebTraffic::default() };
        let mut rng = Rng::from_seed(1);
        let mut sizes: Vec<u64> = (0..200_000).map(|_| traffic.size(&mut rng)).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!((mean / 12_000.0 - 1.0).abs() < 0.1, "{mean}");
        sizes.sort_unstable();
        let least = 12_000.0 * 0.8 / 1.8;
        assert!((sizes[0] as f64 / least - 1.0).abs() < 0.01);
        // P(X > x) = (least / x)^1.8
        let beyond = sizes.iter().filter(|&&size| size as f64 > 10.0 * least).count() as f64 / sizes.len() as f64;
        assert!((beyond / 10_f64.powf(-1.8) - 1.0).abs() < 0.1, "{beyond}");
    }
}
