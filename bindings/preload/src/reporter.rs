//! Receiver's side: subscriptions of senders, and reports of the datagrams that this program has received.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use timeous::core::{Duration, Instant, KeyedHash};

use crate::wire::{Ask, Key, MAX_HASHES, Message, Report, fingerprint};

/// Time for which a subscription lasts without being renewed. Chosen by us: three renewals may be lost. A higher value reports
/// for longer to a sender that is gone.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// Maximum number of subscriptions of a process. Chosen by us: bounds memory (4 kB each) and the time for each datagram.
const MAX_SUBSCRIPTIONS: usize = 64;
/// Maximum number of subscriptions of one address, so that one host cannot take all.
const MAX_OF_ADDRESS: usize = 16;
/// Maximum number of ports that are watched. Chosen by us: bounds memory.
const MAX_PORTS: usize = 256;
/// Datagrams for which a report is due at once (RFC 1122 §4.2.3.2).
const PER_REPORT: u32 = 2;
/// Maximum delay of a report; shorter than TCP's (RFC 9293 §3.8.6.3: below 500 ms), so that the sender can still respond to a
/// loss. A higher value sends fewer reports.
pub(crate) const REPORT_DELAY: Duration = Duration::from_millis(20);
/// Hashes of earlier reports that are repeated. Chosen by us: makes up for several lost reports; a higher value makes reports
/// longer.
const REPEATED: usize = 16;
/// Hashes of the newest datagrams that are kept for each subscription. Chosen by us: what comes while this library's thread does
/// not run. A higher value takes more memory; those beyond are lost to the sender.
const KEPT: usize = 1_024;
/// Time for which a cookie is valid: at least one of these periods, at most two. Chosen by us: longer than any round trip.
const COOKIE_PERIOD: Duration = Duration::from_secs(60);

/// Sender that gets reports about a port.
#[derive(Debug)]
struct Subscription {
    /// Address of the sender's control socket.
    address: SocketAddr,
    port: u16,
    key: Key,
    expires: Instant,
    /// Hashes of the newest datagrams.
    hashes: VecDeque<u32>,
    /// Number of datagrams that have arrived, modulo 2³².
    arrived: u32,
    /// Number of those that were reported.
    reported: u32,
    newest_at: Instant,
    /// Arrival of the first datagram that was not reported.
    unreported_since: Instant,
}

/// Answers senders' asks and reports to them.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Key of the cookies.
    secret: KeyedHash,
    /// Ports at which this process has received datagrams.
    ports: BTreeSet<u16>,
    subscriptions: Vec<Subscription>,
    /// Number of datagrams that were reported, for statistics.
    pub(crate) reported: u64,
    /// Number of subscriptions that were accepted, for statistics.
    pub(crate) accepted: u64,
}

impl Reporter {
    /// Creates a reporter without subscriptions; `secret` keys its cookies.
    pub(crate) fn new(secret: [u8; 16]) -> Self {
        Self {
            secret: KeyedHash::new(secret),
            ports: BTreeSet::new(),
            subscriptions: Vec::new(),
            reported: 0,
            accepted: 0,
        }
    }

    /// Notes that this process receives at `port`.
    pub(crate) fn watch(&mut self, port: u16) {
        if self.ports.len() < MAX_PORTS {
            self.ports.insert(port);
        }
    }

    /// Notes that this process no longer receives at `port`.
    pub(crate) fn unwatch(&mut self, port: u16) {
        self.ports.remove(&port);
        self.subscriptions.retain(|subscription| subscription.port != port);
    }

    /// Answers an ask from `from`. `None` if the port is another process's, or there is no room.
    pub(crate) fn handle_ask(&mut self, now: Instant, from: SocketAddr, ask: &Ask) -> Option<Message> {
        if !self.ports.contains(&ask.port) {
            return None;
        }
        let [current, previous] = self.cookies(now, from, ask);
        if ask.cookie != current && ask.cookie != previous {
            return Some(Message::Cookie(Ask { cookie: current, ..*ask }));
        }
        self.subscriptions.retain(|subscription| subscription.expires > now);
        let known = self.subscriptions.iter_mut().find(|known| known.key == ask.key && known.port == ask.port);
        match known {
            Some(known) => (known.address, known.expires) = (from, now + LEASE),
            None => {
                let same = self.subscriptions.iter().filter(|known| known.address.ip() == from.ip());
                if self.subscriptions.len() >= MAX_SUBSCRIPTIONS || same.count() >= MAX_OF_ADDRESS {
                    return None;
                }
                self.accepted += 1;
                self.subscriptions.push(Subscription {
                    address: from,
                    port: ask.port,
                    key: ask.key,
                    expires: now + LEASE,
                    hashes: VecDeque::new(),
                    arrived: 0,
                    reported: 0,
                    newest_at: now,
                    unreported_since: now,
                });
            }
        }
        Some(Message::Accepted(*ask))
    }

    /// Cookies for an ask: of this period and of the one before.
    fn cookies(&self, now: Instant, from: SocketAddr, ask: &Ask) -> [u64; 2] {
        let period = now.as_nanos() / COOKIE_PERIOD.as_nanos();
        // 0 is the sign for no cookie.
        [period, period.wrapping_sub(1)].map(|period| self.secret.of(&(from, ask.port, ask.key, period)).max(1))
    }

    /// Notes a datagram that came from `source` to `port`. Returns whether it will be reported.
    pub(crate) fn observe(&mut self, now: Instant, source: IpAddr, port: u16, datagram: &[u8]) -> bool {
        let source = source.to_canonical();
        let mut is_reported = false;
        for subscription in &mut self.subscriptions {
            // A subscriber learns only of datagrams from its own address.
            if subscription.port != port || subscription.address.ip().to_canonical() != source {
                continue;
            }
            if subscription.arrived == subscription.reported {
                subscription.unreported_since = now;
            }
            subscription.newest_at = now;
            subscription.arrived = subscription.arrived.wrapping_add(1);
            subscription.hashes.push_back(fingerprint(&subscription.key, datagram));
            if subscription.hashes.len() > KEPT {
                subscription.hashes.pop_front();
            }
            is_reported = true;
        }
        is_reported
    }

    /// Returns the next report that is due, with its address.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<(SocketAddr, Message)> {
        self.subscriptions.retain(|subscription| subscription.expires > now);
        let due =
            self.subscriptions.iter_mut().find(|subscription| subscription.due().is_some_and(|due| due <= now))?;
        let before = due.reported;
        let report = due.report(now);
        self.reported += u64::from(due.reported.wrapping_sub(before));
        Some((due.address, Message::Report(report)))
    }

    /// Time at which the next report is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.subscriptions.iter().filter_map(Subscription::due).min()
    }
}

impl Subscription {
    fn unreported(&self) -> u32 {
        self.arrived.wrapping_sub(self.reported)
    }

    fn due(&self) -> Option<Instant> {
        match self.unreported() {
            0 => None,
            1..PER_REPORT => Some(self.unreported_since + REPORT_DELAY),
            _ => Some(Instant::ZERO),
        }
    }

    /// Reports the oldest datagrams that were not reported yet, after some that were.
    fn report(&mut self, now: Instant) -> Report {
        let known = self.hashes.len();
        let unreported = (self.unreported() as usize).min(known);
        let begin = known - (unreported + REPEATED).min(known);
        let end = (begin + MAX_HASHES).min(known);
        self.reported = self.arrived.wrapping_sub((known - end) as u32);
        Report {
            port: self.port,
            key: self.key,
            first: self.arrived.wrapping_sub((known - begin) as u32),
            delay: now.saturating_since(self.newest_at),
            hashes: self.hashes.range(begin..end).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ASK_LEN;

    const PORT: u16 = 5_004;
    const KEY: Key = [5; 16];

    fn sender(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 40_000))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1_000) + Duration::from_millis(millis)
    }

    fn reporter() -> Reporter {
        let mut reporter = Reporter::new([1; 16]);
        reporter.watch(PORT);
        reporter
    }

    fn subscribe(reporter: &mut Reporter, now: Instant, from: SocketAddr, key: Key) -> Option<Message> {
        let ask = Ask { port: PORT, key, cookie: 0 };
        match reporter.handle_ask(now, from, &ask)? {
            Message::Cookie(ask) => reporter.handle_ask(now, from, &ask),
            other => panic!("{other:?} without a proof of the address"),
        }
    }

    fn next(reporter: &mut Reporter, now: Instant) -> Option<Report> {
        match reporter.poll_transmit(now)? {
            (to, Message::Report(report)) if to == sender(1) => Some(report),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_is_proven_before_anything_is_kept_or_sent_to_it() {
        let mut reporter = reporter();
        let ask = Ask { port: PORT, key: KEY, cookie: 0 };
        let Some(Message::Cookie(proof)) = reporter.handle_ask(at(0), sender(1), &ask) else { panic!("no cookie") };
        assert_eq!(Message::Cookie(proof).encode().len(), ASK_LEN, "no longer than the ask");
        assert!(reporter.subscriptions.is_empty());
        // Another address cannot use it, nor another key; nor is it valid for ever.
        for (now, from, ask) in [
            (at(0), sender(2), proof),
            (at(0), sender(1), Ask { key: [6; 16], ..proof }),
            (at(121_000), sender(1), proof),
        ] {
            assert!(matches!(reporter.handle_ask(now, from, &ask), Some(Message::Cookie(_))));
        }
        assert_eq!(reporter.handle_ask(at(100), sender(1), &proof), Some(Message::Accepted(proof)));
        assert_eq!(reporter.handle_ask(at(100), sender(1), &Ask { port: 9, ..proof }), None, "another process's port");
    }

    #[test]
    fn every_other_datagram_is_reported_at_once_and_a_single_one_after_a_while() {
        let mut reporter = reporter();
        subscribe(&mut reporter, at(0), sender(1), KEY).unwrap();
        assert!(reporter.observe(at(1), sender(1).ip(), PORT, b"a"));
        assert_eq!(next(&mut reporter, at(1)), None);
        assert!(reporter.observe(at(3), sender(1).ip(), PORT, b"b"));
        let first = next(&mut reporter, at(5)).unwrap();
        let hash = |datagram: &[u8]| fingerprint(&KEY, datagram);
        assert_eq!((first.first, first.delay), (0, Duration::from_millis(2)));
        assert_eq!(first.hashes, [hash(b"a"), hash(b"b")]);
        reporter.observe(at(10), sender(1).ip(), PORT, b"c");
        assert_eq!(reporter.poll_timeout(), Some(at(30)));
        assert_eq!(next(&mut reporter, at(29)), None);
        let second = next(&mut reporter, at(30)).unwrap();
        assert_eq!(second.hashes, [hash(b"a"), hash(b"b"), hash(b"c")], "repeated, in case that the first was lost");
        assert_eq!((second.first, second.delay), (0, Duration::from_millis(20)));
        assert_eq!(next(&mut reporter, at(100)), None);
        assert_eq!(reporter.reported, 3);
    }

    #[test]
    fn what_came_in_a_burst_is_reported_in_several_reports() {
        let mut reporter = reporter();
        subscribe(&mut reporter, at(0), sender(1), KEY).unwrap();
        assert!((0..100).all(|byte: u8| reporter.observe(at(1), sender(1).ip(), PORT, &[byte])));
        let mut told = Vec::new();
        while let Some(report) = next(&mut reporter, at(1)) {
            told.extend((report.first..).zip(report.hashes));
        }
        told.sort_unstable();
        told.dedup();
        assert_eq!(told, (0..).zip((0..100).map(|byte| fingerprint(&KEY, &[byte]))).collect::<Vec<_>>());
        assert_eq!(reporter.reported, 100);
    }

    #[test]
    fn a_subscriber_learns_of_its_own_datagrams_only() {
        let mut reporter = reporter();
        subscribe(&mut reporter, at(0), sender(1), KEY).unwrap();
        assert!(!reporter.observe(at(1), sender(2).ip(), PORT, b"a"));
        assert!(!reporter.observe(at(1), sender(1).ip(), 9, b"b"));
        assert_eq!(reporter.poll_timeout(), None);
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        reporter.observe(at(1), mapped, PORT, b"c");
        assert!(reporter.poll_timeout().is_some(), "an IPv6 socket shows the same host otherwise");
    }

    #[test]
    fn a_subscription_ends_unless_it_is_renewed_and_with_its_port() {
        let mut reporter = reporter();
        subscribe(&mut reporter, at(0), sender(1), KEY).unwrap();
        subscribe(&mut reporter, at(9_000), sender(1), KEY).unwrap();
        reporter.observe(at(18_000), sender(1).ip(), PORT, b"a");
        assert!(next(&mut reporter, at(18_020)).is_some());
        reporter.observe(at(18_500), sender(1).ip(), PORT, b"b");
        assert_eq!(next(&mut reporter, at(19_000)), None, "expired");
        subscribe(&mut reporter, at(20_000), sender(1), KEY).unwrap();
        reporter.unwatch(PORT);
        assert!(reporter.subscriptions.is_empty());
        assert_eq!(subscribe(&mut reporter, at(20_000), sender(1), KEY), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut reporter = reporter();
        let of_one = (0..200).filter_map(|key| subscribe(&mut reporter, at(0), sender(1), [key; 16])).count();
        assert_eq!(of_one, MAX_OF_ADDRESS);
        for host in 2..200 {
            subscribe(&mut reporter, at(0), sender(host), [host; 16]);
        }
        assert_eq!(reporter.subscriptions.len(), MAX_SUBSCRIPTIONS);
        for _ in 0..2_000 {
            reporter.observe(at(1), sender(1).ip(), PORT, b"a");
        }
        assert_eq!(reporter.subscriptions.iter().map(|known| known.hashes.len()).max(), Some(KEPT));
        (0..=u16::MAX).for_each(|port| reporter.watch(port));
        assert_eq!(reporter.ports.len(), MAX_PORTS);
    }
}
