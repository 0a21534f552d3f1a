//! Rate advice: DBAT over the packet ring of each transport.

use timeous_choice::dbat::{Dbat, Marking, Settings};
use timeous_cm::Kind;
use timeous_core::{AduMeta, Advice, Duration, Instant, Rate, Reason, Rng};
use timeous_host::{Application, Dccp, DccpSettings, Feed, Outlet, Refused, Sink, Stream, Tcp, stamp};
use timeous_net::LinkConfig;
use timeous_net::link::Capacity;

use crate::support::{Dumbbell, PORT, at, link, ms, remote};

/// Maximum rate of the encoder.
const TOP: Rate = Rate::from_kbps(900);
const INTERVAL: Duration = Duration::from_millis(10);

/// A source with a packet every 10 ms, sized by its rate, which follows the advice if `follows`.
struct Follower {
    rate: Rate,
    next: Instant,
    begun: bool,
    follows: bool,
    advised: Option<Rate>,
    heard: Vec<Advice>,
}

impl Follower {
    fn new(rate: Rate, follows: bool) -> Self {
        Self { rate, next: Instant::ZERO, begun: false, follows, advised: None, heard: Vec::new() }
    }
}

impl Application for Follower {
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet) {
        if !std::mem::replace(&mut self.begun, true) {
            self.next = now;
            outlet.set_rate(self.rate);
        }
        if let Some(rate) = self.advised.take() {
            self.rate = rate;
            outlet.set_rate(rate);
        }
        while self.next <= now {
            let mut packet = Vec::new();
            stamp::write(outlet.next_seq(), self.rate.bytes_in(INTERVAL) as usize, &mut packet);
            let deadline = Some(now + ms(1_000));
            match outlet.send(AduMeta { enqueued: now, deadline, ..AduMeta::default() }, &packet) {
                Ok(_) | Err(Refused::Full) => {}
                Err(other) => panic!("{other}"),
            }
            self.next += INTERVAL;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn on_advice(&mut self, _: Instant, advice: &Advice) {
        self.heard.push(*advice);
        self.advised = self.follows.then_some(advice.rate.min(TOP));
    }
}

fn stream(follows: bool) -> Stream {
    let dbat = Dbat::new(Settings::default(), Marking::default());
    Stream::new(Follower::new(Rate::from_kbps(400), follows)).choice(Box::new(dbat))
}

/// 600 kbit/s, an outage from 5 to 8 s, then 600 kbit/s again.
fn pausing() -> LinkConfig {
    LinkConfig { capacity: Capacity::Trace("0 600\n5 0\n8 600\n".parse().unwrap()), ..link(600, 30, 50) }
}

/// 600 kbit/s, and a third of it from 10 to 20 s.
fn falling() -> LinkConfig {
    LinkConfig { capacity: Capacity::Trace("0 600\n10 200\n20 600\n".parse().unwrap()), ..link(600, 30, 20) }
}

/// Runs DCCP; returns the advice that the application got, and the transmission times of packets.
fn over_dccp(path: LinkConfig, follows: bool) -> (Vec<Advice>, Vec<Instant>) {
    let mut net = Dumbbell::new(1, 1, path);
    net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::Aimd);
        host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), DccpSettings::default(), Rng::from_seed(1)))
    });
    let caller = net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(Kind::Aimd);
        host.add(9_000, own, Dccp::caller(remote(1), stream(follows), DccpSettings::default(), Rng::from_seed(2)))
    });
    net.network.run_until(at(30_000));
    let session = net.network.host(net.lefts[0]).agent(caller).session().unwrap();
    let left = session.journal().adus().iter().flat_map(|adu| adu.left.clone()).collect();
    (session.application::<Follower>().unwrap().heard.clone(), left)
}

/// Runs the same source over TCP.
fn over_tcp(path: LinkConfig, follows: bool) -> (Vec<Advice>, Vec<Instant>) {
    let mut net = Dumbbell::new(1, 1, path);
    net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        host.add(PORT, own, Tcp::listener(Feed::none, timeous_tcp::Config::default(), Rng::from_seed(1)))
    });
    let caller = net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        let config = timeous_tcp::Config::default();
        host.add(9_000, own, Tcp::caller(remote(1), at(0), stream(follows), config, Rng::from_seed(2)))
    });
    net.network.run_until(at(30_000));
    let session = net.network.host(net.lefts[0]).agent(caller).session().unwrap();
    let left = session.journal().adus().iter().flat_map(|adu| adu.left.clone()).collect();
    (session.application::<Follower>().unwrap().heard.clone(), left)
}

#[test]
fn a_source_is_told_while_its_path_stands_still() {
    for (heard, left) in [over_dccp(pausing(), false), over_tcp(pausing(), false)] {
        let still =
            |at: Instant| left.iter().all(|left| left.saturating_since(at).max(at.saturating_since(*left)) > ms(20));
        let told: Vec<_> = heard.iter().filter(|advice| still(advice.at)).collect();
        assert!(told.iter().any(|advice| advice.reason == Reason::Overfull), "{heard:?}");
        assert!(told.len() >= 5, "{told:?}");
        assert!(heard.windows(2).all(|pair| pair[1].at - pair[0].at >= ms(60)), "{heard:?}");
        assert!(heard.iter().all(|advice| advice.stream == Rate::from_kbps(400)));
    }
}

#[test]
fn a_source_that_follows_has_the_paths_rate_over_each_transport() {
    for (name, (heard, _)) in [("dccp", over_dccp(falling(), true)), ("tcp", over_tcp(falling(), true))] {
        // Returns the mean rate over a time, in kbit/s.
        let mean = |from: Instant, until: Instant| {
            let steps = heard.windows(2).map(|pair| (pair[0].rate, pair[0].at.max(from), pair[1].at.min(until)));
            let kbit: u64 = steps.map(|(rate, from, until)| rate.bytes_in(until.saturating_since(from)) / 125).sum();
            kbit * 1_000 / (until - from).as_millis()
        };
        let [before, low, after] =
            [(2, 10), (12, 20), (22, 29)].map(|(from, until)| mean(at(from * 1_000), at(until * 1_000)));
        assert!((400..700).contains(&before), "{name}: {before}, {low}, {after}");
        assert!((100..230).contains(&low), "{name}: {before}, {low}, {after}");
        assert!((400..700).contains(&after), "{name}: {before}, {low}, {after}");
    }
}
