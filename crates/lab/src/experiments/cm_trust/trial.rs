//! Trial: three users of one host and its manager, over one path.

use std::net::SocketAddr;

use timeous::core::{Duration, Instant, Rate, Rng};
use timeous_cm::{Kind, User};
use timeous_host::Machine;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};
use timeous_net::sim::Network;

use super::super::cm::receiver::{AckPolicy, Receiver};
use super::sender::{FalseFeedback, Sender, SenderConfig};

pub(super) const RATE: Rate = Rate::from_bps(6_000_000);
/// Highest sending rate of each user.
pub(super) const MOST: Rate = Rate::from_bps(9_000_000);
pub(super) const RTT: Duration = Duration::from_millis(60);
pub(super) const QUEUE: usize = 45;
pub(super) const WARM_UP: Duration = Duration::from_secs(5);
pub(super) const TIME: Duration = Duration::from_secs(15);
/// Duration where the path has room for all.
pub(super) const SHORT: Duration = Duration::from_secs(2);
/// Every n-th of the third user's packets is lost there, behind the shared path.
pub(super) const LOST_EACH: u64 = 40;
const LEN: usize = 1_000;

/// Path, and sharing of macroflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// Bottleneck; one macroflow per user.
    Apart,
    /// Bottleneck; all users share one macroflow, as in the paper.
    Together,
    /// Path with room for all; one macroflow per user.
    Room,
    /// Path with room for all; all users share one macroflow.
    RoomTogether,
}

impl Setting {
    pub(super) const ALL: [Self; 4] = [Self::Apart, Self::Together, Self::Room, Self::RoomTogether];

    fn is_narrow(self) -> bool {
        matches!(self, Self::Apart | Self::Together)
    }

    fn is_shared(self) -> bool {
        matches!(self, Self::Together | Self::RoomTogether)
    }
}

/// Parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) lie: FalseFeedback,
    pub(super) setting: Setting,
    pub(super) seed: u64,
}

/// Outcome of a trial, by user; the third is the liar.
pub(super) struct Outcome {
    pub(super) trial: Trial,
    pub(super) kbps: [f64; 3],
    /// Largest window of the other users, and of the liar.
    pub(super) window: [u64; 2],
    pub(super) refused: u64,
    /// Departure times of the other users' packets, where all arrive.
    pub(super) left: [Vec<Instant>; 2],
}

impl Outcome {
    /// Returns the mean rate of the other users.
    pub(super) fn others(&self) -> f64 {
        (self.kbps[0] + self.kbps[1]) / 2.0
    }
}

impl Trial {
    pub(super) fn run(&self) -> Outcome {
        let narrow = self.setting.is_narrow();
        let mut rng = Rng::from_seed(self.seed);
        let mut network = Network::new(rng.next_u64());
        let (here, there): (SocketAddr, SocketAddr) = (([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 6_000).into());
        let from = network.add_host(here.ip(), Machine::new(here.ip()));
        let to = network.add_host(there.ip(), Machine::new(there.ip()));
        let way = LinkConfig { delay: RTT / 2, ..LinkConfig::default() };
        let bottleneck = LinkConfig { capacity: Capacity::Fixed(RATE), queue: Limit::Packets(QUEUE), ..way.clone() };
        network.connect(from, to, if narrow { bottleneck } else { way.clone() }, way);
        let manager = network.with_host(from, |_, machine| machine.add_manager(Kind::Aimd));
        let any = network.with_host(to, |_, machine| machine.add_manager(Kind::Aimd));
        let users = [0u16, 1, 2].map(|n| {
            let remote = SocketAddr::new(there.ip(), there.port() + n);
            let within = if narrow { Duration::from_secs(1) } else { RTT };
            let third = n == 2;
            let manner = SenderConfig {
                len: LEN,
                most: MOST,
                start: Instant::ZERO + Duration::from_nanos(rng.below(within.as_nanos())),
                user: (!self.setting.is_shared()).then_some(User(1_000 + u32::from(n))),
                lie: if third { self.lie } else { FalseFeedback::None },
                half: RTT / 2,
                lost_each: if third && !narrow { LOST_EACH } else { 0 },
            };
            let sender = Sender::new(remote, manner);
            let sender = network.with_host(from, |_, machine| machine.add(here.port() + n, manager, sender));
            let receiver = Receiver::new(AckPolicy::Soon);
            (sender, network.with_host(to, |_, machine| machine.add(remote.port(), any, receiver)))
        });
        let (begin, time) = if narrow { (WARM_UP, TIME) } else { (Duration::ZERO, SHORT) };
        network.run_until(Instant::ZERO + begin + time);
        let arrivals = users.map(|(_, receiver)| network.host(to).agent(receiver).arrivals());
        let counted = |at: Instant| at >= Instant::ZERO + begin;
        let kbps = arrivals.map(|all| {
            let bytes: usize = all.iter().filter(|arrival| counted(arrival.at)).map(|arrival| arrival.packet.len).sum();
            bytes as f64 * 8e-3 / time.as_secs_f64()
        });
        let left = |user: usize| arrivals[user].iter().filter(|_| !narrow).map(|arrival| arrival.packet.made).collect();
        let left = [left(0), left(1)];
        let [one, two, liar] = users.map(|(sender, _)| network.host(from).agent(sender));
        let window = [one.window().max(two.window()), liar.window()];
        Outcome { trial: *self, kbps, window, refused: liar.refused(), left }
    }
}
