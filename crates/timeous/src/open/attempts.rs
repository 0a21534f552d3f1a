//! Call of a host by name: races its addresses, alternating between address families (RFC 8305).

use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use timeous_core::{Duration, Instant};
use timeous_engine::{CloseReason, Status, Stream, Waker, clock};
use timeous_seal::SealError;

use crate::error::{Culprit, Error};
use crate::options::Options;

/// Connection Attempt Delay: time between attempts, unless one fails before (RFC 8305 §5 recommends 250 ms).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Cancellation of a call in progress.
#[derive(Clone, Copy)]
pub(crate) struct Cancel<'a> {
    pub(crate) wanted: &'a AtomicBool,
    /// Rings when `wanted` has changed.
    pub(crate) waker: &'a Waker,
}

/// A call without an answer yet.
struct Attempt {
    remote: SocketAddr,
    stream: Stream,
    until: Instant,
}

/// Resolves the host, calls its addresses, and returns the first stream that is answered; the other calls end. `None`:
/// cancelled.
pub(super) fn call(
    (host, port): (&str, u16),
    options: &Options,
    cancel: Option<Cancel<'_>>,
    connect: impl FnMut(SocketAddr) -> Result<Stream, Error>,
) -> Result<Option<Stream>, Error> {
    let unknown = |error| Error::UnknownHost { host: host.to_owned(), error };
    let addresses = interleaved((host, port).to_socket_addrs().map_err(unknown)?);
    if addresses.is_empty() {
        return Err(unknown(std::io::Error::other("the name has no address")));
    }
    race(addresses, options.timeout, cancel, connect).map_err(|tried| Error::all(host, tried))
}

/// Orders addresses as the resolver does (RFC 6724), but alternating between families (RFC 8305 §4), without
/// duplicates.
fn interleaved(addresses: impl Iterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut rest: Vec<SocketAddr> = addresses.collect();
    let mut turns = VecDeque::new();
    while !rest.is_empty() {
        let is_turn = |one: &SocketAddr| turns.back().is_none_or(|last: &SocketAddr| last.is_ipv4() != one.is_ipv4());
        let next = rest.remove(rest.iter().position(is_turn).unwrap_or(0));
        rest.retain(|one| *one != next);
        turns.push_back(next);
    }
    turns
}

/// Returns the first stream that opens, `None` if cancelled, or else the error of each attempt.
fn race(
    mut addresses: VecDeque<SocketAddr>,
    timeout: Duration,
    cancel: Option<Cancel<'_>>,
    mut connect: impl FnMut(SocketAddr) -> Result<Stream, Error>,
) -> Result<Option<Stream>, Vec<(SocketAddr, Error)>> {
    let (mut attempts, mut failed): (Vec<Attempt>, Vec<_>) = Default::default();
    let mut next = clock::now();
    loop {
        if cancel.is_some_and(|cancel| cancel.wanted.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let now = clock::now();
        if now >= next
            && let Some(remote) = addresses.pop_front()
        {
            match connect(remote) {
                Ok(stream) => {
                    attempts.push(Attempt { remote, stream, until: now + timeout });
                    next = now + ATTEMPT_DELAY;
                }
                // Another address would fail as well.
                Err(error) if error.culprit() == Culprit::Caller => return Err(vec![(remote, error)]),
                Err(error) => failed.push((remote, error)),
            }
        }
        let mut at = 0;
        while let Some(attempt) = attempts.get(at) {
            match attempt.outcome(now, timeout) {
                Some(Ok(())) => return Ok(Some(attempts.swap_remove(at).stream)),
                // The listener refuses our credential: its other addresses would as well.
                Some(Err(error @ Error::Sealing(_))) if error.culprit() == Culprit::Caller => {
                    return Err(vec![(attempts.remove(at).remote, error)]);
                }
                Some(Err(error)) => {
                    failed.push((attempts.remove(at).remote, error));
                    next = now;
                }
                None => at += 1,
            }
        }
        match (attempts.iter().map(|attempt| attempt.until).min(), addresses.is_empty()) {
            (None, true) => return Err(failed),
            (None, false) => next = now,
            (Some(until), true) => wait(&attempts, cancel, until),
            (Some(until), false) => wait(&attempts, cancel, until.min(next)),
        }
    }
}

impl Attempt {
    fn outcome(&self, now: Instant, timeout: Duration) -> Option<Result<(), Error>> {
        let remote = self.remote;
        match self.stream.status() {
            // A peer that has already closed may have sent data.
            Status::Open | Status::Closed(CloseReason::Peer) => Some(Ok(())),
            Status::Closed(CloseReason::Timeout) => Some(Err(Error::NoAnswer { remote, after: timeout })),
            Status::Closed(reason) => Some(Err(match self.stream.seal_error() {
                Some(SealError::NoAnswer) => Error::NoAnswer { remote, after: timeout },
                sealing => Error::ended(reason, Some(remote), sealing),
            })),
            _ if now < self.until => None,
            _ => Some(Err(Error::NoAnswer { remote, after: timeout })),
        }
    }
}

/// Sleeps until an attempt's state changes, at most until `deadline`.
fn wait(attempts: &[Attempt], cancel: Option<Cancel<'_>>, deadline: Instant) {
    const NANOS: u64 = 1_000_000_000;
    let left = deadline.saturating_since(clock::now()).as_nanos();
    // A single attempt is waited for without descriptors: thousands of streams may be opened.
    if let (&[Attempt { ref stream, .. }], None) = (attempts, cancel) {
        stream.waker().wait(Some(Duration::from_nanos(left)));
        return;
    }
    let timeout = Timespec { tv_sec: (left / NANOS) as i64, tv_nsec: (left % NANOS) as i64 };
    let wakers = || attempts.iter().map(|attempt| attempt.stream.waker()).chain(cancel.map(|cancel| cancel.waker));
    let mut fds: Vec<PollFd<'_>> = wakers().map(|waker| PollFd::new(waker, PollFlags::IN)).collect();
    // Interrupted or not, all attempts are checked.
    let _ = rustix::event::poll(&mut fds, Some(&timeout));
    wakers().for_each(|waker| {
        waker.clear();
    });
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use timeous_engine::{Carrier, Engine, Listener, StreamConfig};

    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn families_take_turns_and_no_address_is_tried_twice() {
        let resolved = ["[::1]:7", "[::2]:7", "1.1.1.1:7", "[::1]:7", "[::3]:7", "2.2.2.2:7"].map(at);
        let turns = ["[::1]:7", "1.1.1.1:7", "[::2]:7", "2.2.2.2:7", "[::3]:7"].map(at);
        assert_eq!(interleaved(resolved.into_iter()), turns);
        assert!(interleaved([].into_iter()).is_empty());
    }

    struct Scene {
        engine: Engine,
        /// Somebody who hears and says nothing.
        silent: UdpSocket,
        listener: Listener,
    }

    impl Scene {
        fn new() -> Self {
            let engine = Engine::start().unwrap();
            let listener = engine.listen(at("127.0.0.1:0"), StreamConfig::new(Carrier::Udp)).unwrap();
            Self { engine, silent: UdpSocket::bind("127.0.0.2:0").unwrap(), listener }
        }

        fn race(&self, addresses: &[SocketAddr]) -> (Result<Stream, Vec<(SocketAddr, Error)>>, Duration) {
            let began = clock::now();
            let connect = |remote| Ok(self.engine.connect(remote, StreamConfig::new(Carrier::Udp))?);
            let outcome = race(addresses.iter().copied().collect(), Duration::from_millis(900), None, connect);
            (outcome.map(|stream| stream.expect("nobody cancels")), clock::now() - began)
        }
    }

    #[test]
    fn the_next_address_is_tried_after_a_quarter_of_a_second_or_at_once_when_one_fails() {
        let scene = Scene::new();
        let (there, silent) = (scene.listener.local_addr(), scene.silent.local_addr().unwrap());
        let nobody = SocketAddr::from(([127, 0, 0, 3], silent.port()));
        let (first, took) = scene.race(&[silent, there]);
        assert_eq!(first.unwrap().peer(), Some(there));
        assert!((ATTEMPT_DELAY..ATTEMPT_DELAY * 3).contains(&took), "{took:?}");
        let (first, took) = scene.race(&[nobody, there]);
        assert_eq!(first.unwrap().peer(), Some(there));
        assert!(took < ATTEMPT_DELAY, "{took:?}");
    }

    #[test]
    fn where_all_fail_each_is_named_with_what_became_of_it() {
        let scene = Scene::new();
        let silent = scene.silent.local_addr().unwrap();
        let nobody = SocketAddr::from(([127, 0, 0, 3], silent.port()));
        let (outcome, took) = scene.race(&[silent, nobody]);
        let error = Error::all("host.example", outcome.unwrap_err());
        let words = error.to_string();
        assert!(
            ["host.example", &silent.to_string(), &nobody.to_string(), "no answer", "nobody listens"]
                .iter()
                .all(|part| words.contains(part)),
            "{words}"
        );
        assert_eq!(error.culprit(), Culprit::Peer);
        assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(3), "{took:?}");
        // One alone says it in its own words.
        let (outcome, _) = scene.race(&[nobody]);
        assert!(matches!(Error::all("host.example", outcome.unwrap_err()), Error::NobodyListens { .. }));
    }
}
