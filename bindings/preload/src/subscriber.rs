//! Sender's side of a subscription: asks the receiving host for reports, and renews the subscription.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant};

use crate::wire::{Ask, Key, Message};

/// Number of ports of a host that are asked: each receiving process has one of them. Chosen by us: a higher value allows more
/// receiving programs per host, and sends more asks.
pub(crate) const PORTS: u16 = 8;
/// Time until the first ask is repeated; it doubles with each. Chosen by us: the receiver's library begins to listen after the
/// first datagrams. A higher value finds it later.
const FIRST_REPEAT: Duration = Duration::from_millis(100);
/// Asks without an answer after which there are no reports: 1.5 s in all. The Congestion Manager takes what is in flight for lost
/// after three seconds of silence. A higher value waits longer on paths without reports.
const TRIES: u32 = 4;
/// Time between renewals: three within a receiver's lease.
const RENEWAL: Duration = Duration::from_secs(3);
/// Time until the next ask on a path without reports, in case that the receiver starts later; as much more with each ask, up to
/// [`LATEST`] times. Chosen by us: a higher value finds it later, and asks less where nobody answers.
const LATER: Duration = Duration::from_secs(5);
/// Largest multiple of [`LATER`]: a minute.
const LATEST: u32 = 12;

/// Receiver's answer to the asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The receiver is being asked.
    Awaited,
    /// It reports.
    Accepted,
    /// It does not.
    Missing,
}

/// Subscription to the reports of one destination.
#[derive(Debug)]
pub(crate) struct Subscriber {
    destination: SocketAddr,
    /// First of the ports that are asked.
    base: u16,
    key: Key,
    answer: Answer,
    /// Cookie, and the port that gave it.
    proof: Option<(u64, SocketAddr)>,
    /// Asks without an answer.
    unanswered: u32,
    /// Time of the next ask.
    next: Instant,
}

impl Subscriber {
    /// Creates a subscription to reports about `destination`, asked for at `base` and the following ports of its host.
    pub(crate) fn new(now: Instant, destination: SocketAddr, base: u16, key: Key) -> Self {
        Self { destination, base, key, answer: Answer::Awaited, proof: None, unanswered: 0, next: now }
    }

    /// Key of the subscription.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Whether the receiver reports.
    pub(crate) fn answer(&self) -> Answer {
        self.answer
    }

    /// Returns the asks that are due, each with its address.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Vec<(SocketAddr, Message)> {
        if now < self.next {
            return Vec::new();
        }
        self.unanswered += 1;
        if self.unanswered > TRIES {
            (self.answer, self.proof) = (Answer::Missing, None);
        }
        self.next = now
            + match self.answer {
                Answer::Awaited => FIRST_REPEAT * (1 << (self.unanswered - 1)),
                Answer::Accepted => RENEWAL,
                Answer::Missing => LATER * u64::from((self.unanswered - TRIES).min(LATEST)),
            };
        self.asks()
    }

    fn asks(&self) -> Vec<(SocketAddr, Message)> {
        let ask = |cookie| Message::Ask(Ask { port: self.destination.port(), key: self.key, cookie });
        match self.proof {
            Some((cookie, at)) => vec![(at, ask(cookie))],
            None => {
                let ports = (0..PORTS).filter_map(|offset| self.base.checked_add(offset));
                ports.map(|port| (SocketAddr::new(self.destination.ip(), port), ask(0))).collect()
            }
        }
    }

    /// Handles an answer that has come from `from`; returns what is to be sent at once.
    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &Message,
    ) -> Vec<(SocketAddr, Message)> {
        match message {
            Message::Cookie(answer) if self.is_ours(answer) => {
                self.proof = Some((answer.cookie, from));
                self.asks()
            }
            Message::Accepted(answer) if self.is_ours(answer) => {
                (self.answer, self.unanswered, self.next) = (Answer::Accepted, 0, now + RENEWAL);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn is_ours(&self, answer: &Ask) -> bool {
        answer.key == self.key && answer.port == self.destination.port()
    }

    /// Time at which the next ask is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 5_004))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn subscriber() -> Subscriber {
        Subscriber::new(at(0), destination(), 6_512, [1; 16])
    }

    #[test]
    fn all_ports_are_asked_more_and_more_rarely() {
        let mut subscriber = subscriber();
        let mut times = Vec::new();
        while times.len() < 7 {
            let now = subscriber.poll_timeout();
            let asks = subscriber.poll_transmit(now);
            let ports: Vec<_> = asks.iter().map(|(to, _)| to.port()).collect();
            assert_eq!(ports, (6_512..6_520).collect::<Vec<_>>());
            times.push((now.as_nanos() / 1_000_000, subscriber.answer()));
        }
        let awaited = [0, 100, 300, 700].map(|time| (time, Answer::Awaited));
        assert_eq!(times[..4], awaited);
        assert_eq!(times[4..], [1_500, 6_500, 16_500].map(|time| (time, Answer::Missing)));
    }

    #[test]
    fn a_cookie_is_sent_back_and_renewals_follow() {
        let mut subscriber = subscriber();
        subscriber.poll_transmit(at(0));
        let from = SocketAddr::from(([192, 0, 2, 1], 6_514));
        let proof = Ask { port: 5_004, key: [1; 16], cookie: 77 };
        let stranger = Ask { key: [2; 16], ..proof };
        assert!(subscriber.handle_answer(at(40), from, &Message::Cookie(stranger)).is_empty());
        assert!(subscriber.handle_answer(at(40), from, &Message::Accepted(stranger)).is_empty());
        assert_eq!(subscriber.answer(), Answer::Awaited);
        let again = subscriber.handle_answer(at(40), from, &Message::Cookie(proof));
        assert_eq!(again, [(from, Message::Ask(proof))]);
        subscriber.handle_answer(at(80), from, &Message::Accepted(proof));
        assert_eq!((subscriber.answer(), subscriber.poll_timeout()), (Answer::Accepted, at(3_080)));
        assert_eq!(subscriber.poll_transmit(at(3_080)), [(from, Message::Ask(proof))]);
    }

    #[test]
    fn a_receiver_that_is_gone_is_noticed() {
        let mut subscriber = subscriber();
        subscriber.poll_transmit(at(0));
        let from = SocketAddr::from(([192, 0, 2, 1], 6_512));
        let proof = Ask { port: 5_004, key: [1; 16], cookie: 77 };
        subscriber.handle_answer(at(40), from, &Message::Cookie(proof));
        subscriber.handle_answer(at(80), from, &Message::Accepted(proof));
        while subscriber.answer() == Answer::Accepted {
            let now = subscriber.poll_timeout();
            assert!(now < at(30_000));
            subscriber.poll_transmit(now);
        }
        assert_eq!(subscriber.answer(), Answer::Missing);
        assert_eq!(subscriber.asks().len(), usize::from(PORTS), "another process may have its port now");
    }
}
