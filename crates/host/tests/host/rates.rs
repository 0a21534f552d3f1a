//! DCCP's CCID 3 beside TCP: smoothness and fairness.

use timeous_cm::Kind;
use timeous_core::{Instant, Rng};
use timeous_dccp::{Ccid, Config};
use timeous_host::sources::Bulk;
use timeous_host::{Dccp, DccpSettings, Feed, Sink, Socket, Stream, Tcp};
use timeous_net::LinkConfig;
use timeous_net::link::Jitter;

use crate::support::{Dumbbell, PORT, at, link, ms, remote};

const MSS: usize = 1_448;

/// Returns the bytes delivered by TCP and by DCCP from second 20 to 220, with separate managers, over 2 Mbit/s with 50
/// ms of RTT. Jitter prevents the phase effects of a drop-tail queue (Floyd & Jacobson 1992).
fn beside_tcp(ccid: Ccid, seed: u64) -> [u64; 2] {
    let jitter = Jitter { spread: ms(6), ..Jitter::default() };
    let access = LinkConfig { delay: ms(5), jitter, ..LinkConfig::default() };
    let mut net = Dumbbell::behind(seed, 2, &access, link(2_000, 15, 25));
    let rng = |n| Rng::from_seed(seed * 100 + n);
    let tcp = net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        host.add(PORT, own, Tcp::listener(Feed::none, timeous_tcp::Config::default(), rng(1)))
    });
    net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        let feed = Socket::new(Bulk::endless(MSS));
        host.add(9_000, own, Tcp::caller(remote(1), Instant::ZERO, feed, timeous_tcp::Config::default(), rng(2)))
    });
    let connection = Config { mps: MSS + 64, ecn: false, ..Config::default() }.with_ccids(&[ccid]);
    let settings = || DccpSettings { connection: connection.clone(), start: at(500), ..DccpSettings::default() };
    let dccp = net.network.with_host(net.rights[1], |_, host| {
        let own = host.add_manager(Kind::Aimd);
        host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), settings(), rng(3)))
    });
    net.network.with_host(net.lefts[1], |_, host| {
        let own = host.add_manager(Kind::Aimd);
        let stream = Stream::new(Bulk::endless(MSS));
        host.add(9_000, own, Dccp::caller(remote(2), stream, settings(), rng(4)))
    });
    net.network.run_until(at(220_000));
    let host = |n: usize| net.network.host(net.rights[n]);
    let (from, to) = (at(20_000), at(220_000));
    [
        host(0).agent(tcp).session().unwrap().arrivals().bytes_between(from, to),
        host(1).agent(dccp).session().unwrap().arrivals().bytes_between(from, to),
    ]
}

#[test]
fn ccid_3_and_tcp_have_between_half_and_twice_of_each_other() {
    for seed in 1..=4 {
        let [tcp, dccp] = beside_tcp(Ccid::Ccid3, seed);
        let share = dccp as f64 / tcp as f64;
        println!("seed {seed}: CCID 3 has {share:.3} of TCP's");
        assert!((0.5..=2.0).contains(&share), "seed {seed}: CCID 3 has {share} of TCP's");
        assert!(tcp + dccp > 200 * 2_000_000 / 8 * 85 / 100, "seed {seed}: the path is used: {tcp} and {dccp}");
    }
}
