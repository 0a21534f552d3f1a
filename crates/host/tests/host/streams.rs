//! Byte streams: TCP from a socket's buffer and from a packet ring, alone and beside other flows.

use timeous_choice::Age;
use timeous_cm::Kind;
use timeous_core::{Duration, Fate, Instant, Rng};
use timeous_host::sources::{Bulk, Cbr, OnFull, Web, WebTraffic};
use timeous_host::{
    Dccp, DccpSettings, Feed, Handle, SendBuffer, Sink, Socket, Stream, Tcp, TcpSession, TcpStatus, Udp,
};
use timeous_net::LinkConfig;
use timeous_net::link::Jitter;
use timeous_tcp::{CloseReason, Config};

use crate::support::{Dumbbell, PORT, at, link, lossy, ms, remote};

const MSS: usize = 1_448;

fn config() -> Config {
    Config::default()
}

/// Adds a TCP connection between a pair of machines.
fn connect(net: &mut Dumbbell, pair: usize, feed: impl Into<Feed>, start: Instant) -> (Handle<Tcp>, Handle<Tcp>) {
    let seed = 100 + pair as u64;
    let listener = net.network.with_host(net.rights[pair], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        host.add(PORT, own, Tcp::listener(Feed::none, config(), Rng::from_seed(seed)))
    });
    let caller = net.network.with_host(net.lefts[pair], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        let to = remote(pair as u8 + 1);
        host.add(9_000, own, Tcp::caller(to, start, feed, config(), Rng::from_seed(seed + 1)))
    });
    (caller, listener)
}

/// A TCP connection and its results.
struct Call {
    net: Dumbbell,
    ends: (Handle<Tcp>, Handle<Tcp>),
}

impl Call {
    fn new(seed: u64, path: LinkConfig, feed: impl Into<Feed>) -> Self {
        let mut net = Dumbbell::new(seed, 1, path);
        let ends = connect(&mut net, 0, feed, Instant::ZERO);
        Self { net, ends }
    }

    fn sender(&self) -> &TcpSession {
        self.net.network.host(self.net.lefts[0]).agent(self.ends.0).session().unwrap()
    }

    fn receiver(&self) -> &TcpSession {
        self.net.network.host(self.net.rights[0]).agent(self.ends.1).session().unwrap()
    }
}

#[test]
fn a_transfer_arrives_whole_over_a_lossy_path_and_ends_in_order() {
    let mut call = Call::new(1, lossy(link(5_000, 20, 60), 0.01), Socket::new(Bulk::of(3_000_000, MSS)));
    call.net.network.run_until(at(60_000));
    assert_eq!(call.receiver().arrivals().total(), 3_000_000);
    assert_eq!(call.sender().status(), TcpStatus::Closed(CloseReason::Finished));
    assert_eq!(call.receiver().status(), TcpStatus::Closed(CloseReason::Finished));
    let statistics = call.sender().statistics();
    assert!(statistics.retransmissions > 10, "{statistics:?}");
    // The journal records each copy: every retransmission carries an ADU's end in this test.
    let copies = call.sender().journal().copies() as u64;
    let adus = call.sender().journal().adus().len() as u64;
    assert!(copies >= adus + statistics.retransmissions * 9 / 10, "{copies} {adus} {statistics:?}");
}

#[test]
fn times_of_a_stream_are_those_of_its_packets() {
    let source = Cbr::new(ms(20), MSS, OnFull::Skip).for_packets(100);
    let mut call = Call::new(2, link(2_000, 30, 50), Socket::new(source));
    call.net.network.run_until(at(10_000));
    let journal = call.sender().journal();
    assert_eq!(journal.adus().len(), 100);
    let came = call.receiver().arrivals().of_stream(journal);
    // 1448 bytes of data and 52 of headers at 4 µs a byte, and the path's delay.
    let under_way = Duration::from_micros(4 * 1_500) + ms(30);
    // The first ADU waits for the acknowledgement that ends the handshake.
    for (adu, came) in journal.adus().iter().zip(came).skip(1) {
        assert_eq!(adu.left, [adu.meta.enqueued]);
        assert_eq!(came, Some(adu.left[0] + under_way));
    }
}

#[test]
fn a_sockets_buffer_delays_what_a_ring_gives_up() {
    // 580 kbit/s offered to 400 kbit/s.
    let source = |on_full| Cbr::new(ms(20), MSS, on_full).until(at(30_000));
    let waits = |session: &TcpSession| {
        let adus = session.journal().adus().iter();
        adus.filter_map(|adu| adu.in_sender()).max().unwrap()
    };
    let run = |feed: Feed| {
        let mut call = Call::new(3, link(400, 10, 20), feed);
        call.net.network.run_until(at(60_000));
        (waits(call.sender()), call.receiver().arrivals().bytes_between(at(0), at(30_000)))
    };
    let (small, _) = run(Socket::new(source(OnFull::Wait)).buffer(SendBuffer::Fixed(32 << 10)).into());
    let (tuned, bytes) = run(Socket::new(source(OnFull::Wait)).into());
    let (ring, chosen) = run(Stream::new(source(OnFull::Skip)).choice(Box::new(Age::new(ms(60)))).into());
    assert!(ring <= ms(60) && ring < small && small < tuned, "{ring:?} {small:?} {tuned:?}");
    assert!(chosen * 10 > bytes * 9, "choosing costs no throughput: {chosen} against {bytes}");
}

#[test]
fn a_deadline_holds_over_tcp_for_what_leaves_first() {
    let source = Cbr::new(ms(10), MSS, OnFull::Skip).with_latency(ms(100)).for_packets(1_000);
    let mut call = Call::new(4, lossy(link(600, 20, 20), 0.01), Stream::new(source));
    call.net.network.run_until(at(40_000));
    let adus = call.sender().journal().adus();
    let late = adus.iter().filter(|adu| adu.left.first().is_some_and(|&left| adu.meta.is_expired(left)));
    assert_eq!(late.count(), 0);
    let sent: usize = adus.iter().filter(|adu| !adu.left.is_empty()).map(|adu| adu.len).sum();
    assert_eq!(call.receiver().arrivals().total(), sent as u64, "what has left arrives, sooner or later");
    assert_eq!(call.sender().journal().count(Fate::Acked) * MSS, sent);
}

#[test]
fn three_transports_share_a_bottleneck_and_udp_yields_to_nobody() {
    let mut net = Dumbbell::new(5, 3, link(3_000, 20, 40));
    let tcp = connect(&mut net, 0, Socket::new(Bulk::endless(MSS)), Instant::ZERO);
    let dccp = {
        let listener = net.network.with_host(net.rights[1], |_, host| {
            let own = host.add_manager(Kind::NewReno);
            host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), DccpSettings::default(), Rng::from_seed(7)))
        });
        net.network.with_host(net.lefts[1], |_, host| {
            let own = host.add_manager(Kind::NewReno);
            let stream = Stream::new(Bulk::endless(1_100));
            host.add(9_000, own, Dccp::caller(remote(2), stream, DccpSettings::default(), Rng::from_seed(8)))
        });
        listener
    };
    let udp = net.network.with_host(net.rights[2], |_, host| {
        let any = host.add_manager(Kind::Aimd);
        host.add(PORT, any, Udp::sink())
    });
    net.network.with_host(net.lefts[2], |_, host| {
        let any = host.add_manager(Kind::Aimd);
        host.add(9_000, any, Udp::sender(remote(3), Cbr::new(ms(10), 1_222, OnFull::Skip)))
    });
    net.network.run_until(at(60_000));
    let rate = |bytes: u64| bytes as f64 * 8.0 / 50.0 / 1e3;
    let (from, to) = (at(10_000), at(60_000));
    let host = |n: usize| net.network.host(net.rights[n]);
    let tcp = rate(host(0).agent(tcp.1).session().unwrap().arrivals().bytes_between(from, to));
    let dccp = rate(host(1).agent(dccp).session().unwrap().arrivals().bytes_between(from, to));
    let udp = rate(host(2).agent(udp).arrivals().bytes_between(from, to));
    assert!(udp > 940.0, "UDP has what it sends, up to a few losses: {udp}");
    assert!(tcp + dccp + udp > 0.93 * 2_850.0, "the path is full: {tcp} {dccp} {udp}");
    assert!((0.5..2.0).contains(&(tcp / dccp)), "and two of one kind share it: {tcp} {dccp}");
}

#[test]
fn two_kinds_of_transport_under_one_algorithm_share_evenly() {
    // A window of two dozen packets at most, so that unfairness per round trip shows. Jitter prevents the phase effects
    // of a drop-tail queue (Floyd & Jacobson 1992), by which one flow would take all places that the other's packets
    // leave.
    let access =
        LinkConfig { delay: ms(15), jitter: Jitter { spread: ms(15), ..Jitter::default() }, ..LinkConfig::default() };
    let mut net = Dumbbell::behind(8, 2, &access, link(400, 5, 20));
    let tcp = connect(&mut net, 0, Socket::new(Bulk::endless(MSS)), Instant::ZERO).1;
    let settings = || {
        let connection = timeous_dccp::Config {
            mps: MSS + 64,
            ecn: false,
            grows_in_lossy_windows: false,
            ..timeous_dccp::Config::default()
        };
        DccpSettings { connection, start: at(500), ..DccpSettings::default() }
    };
    let dccp = net.network.with_host(net.rights[1], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), settings(), Rng::from_seed(7)))
    });
    net.network.with_host(net.lefts[1], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        let stream = Stream::new(Bulk::endless(MSS));
        host.add(9_000, own, Dccp::caller(remote(2), stream, settings(), Rng::from_seed(8)))
    });
    net.network.run_until(at(320_000));
    let host = |n: usize| net.network.host(net.rights[n]);
    let came = [
        host(0).agent(tcp).session().unwrap().arrivals().bytes_between(at(20_000), at(320_000)),
        host(1).agent(dccp).session().unwrap().arrivals().bytes_between(at(20_000), at(320_000)),
    ];
    let share = came[1] as f64 / came.iter().sum::<u64>() as f64;
    assert!((0.4..0.6).contains(&share), "DCCP has {share} of what both have");
}

#[test]
fn agents_of_one_manager_share_a_window_and_take_turns() {
    let mut net = Dumbbell::new(9, 2, link(2_000, 20, 40));
    let own = net.network.with_host(net.lefts[0], |_, host| host.add_manager(Kind::NewReno));
    let other = connect(&mut net, 1, Socket::new(Bulk::endless(MSS)), Instant::ZERO).1;
    let members: Vec<_> = (0..4_u16)
        .map(|n| {
            let listener = net.network.with_host(net.rights[0], |_, host| {
                let own = host.add_manager(Kind::NewReno);
                host.add(PORT + n, own, Tcp::listener(Feed::none, config(), Rng::from_seed(20 + u64::from(n))))
            });
            net.network.with_host(net.lefts[0], |_, host| {
                let to = (remote(1).ip(), PORT + n).into();
                let feed = Socket::new(Bulk::endless(MSS));
                host.add(9_000 + n, own, Tcp::caller(to, at(100), feed, config(), Rng::from_seed(30 + u64::from(n))))
            });
            listener
        })
        .collect();
    net.network.run_until(at(120_000));
    let (from, to) = (at(20_000), at(120_000));
    let ensemble = members.iter().map(|&member| {
        let host = net.network.host(net.rights[0]);
        host.agent(member).session().unwrap().arrivals().bytes_between(from, to)
    });
    let ensemble: Vec<u64> = ensemble.collect();
    let one = net.network.host(net.rights[1]).agent(other).session().unwrap().arrivals().bytes_between(from, to);
    let (least, most) = (ensemble.iter().min().unwrap(), ensemble.iter().max().unwrap());
    assert!(*most < least + least / 5, "turns are fair: {ensemble:?}");
    let share = ensemble.iter().sum::<u64>() as f64 / (ensemble.iter().sum::<u64>() + one) as f64;
    // Four flows with separate windows would have four fifths.
    assert!((0.3..0.7).contains(&share), "together they are about as aggressive as one: {share}");
}

#[test]
fn web_traffic_comes_in_objects_each_on_a_connection_of_its_own() {
    let mut net = Dumbbell::new(6, 1, link(4_000, 15, 60));
    let traffic = WebTraffic { think: ms(1_000), ..WebTraffic::default() };
    net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::Cubic);
        host.add(PORT, own, Tcp::listener(Feed::none, config(), Rng::from_seed(1)).forgetting())
    });
    let users = net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(Kind::Cubic);
        let web = Web::new(traffic, Instant::ZERO, MSS, Rng::from_seed(2));
        host.add(9_000, own, Tcp::dialer(remote(1), web, config(), Rng::from_seed(3)))
    });
    net.network.run_until(at(60_000));
    let users = net.network.host(net.lefts[0]).agent(users);
    let web: &Web = users.dialer_of().unwrap();
    assert!(web.complete() > 500 && web.failed() == 0, "{} {}", web.complete(), web.failed());
    assert!(users.sessions().count() <= 10, "what is over is forgotten");
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| {
        let source = Cbr::new(ms(10), MSS, OnFull::Wait).until(at(20_000));
        let mut call = Call::new(seed, lossy(link(800, 20, 20), 0.01), Socket::new(source));
        call.net.network.run_until(at(30_000));
        (call.sender().journal().clone(), call.receiver().arrivals().clone())
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}

#[test]
fn nobody_at_the_port_is_a_refusal_and_a_pulled_cable_a_timeout() {
    let mut net = Dumbbell::new(7, 1, link(1_000, 10, 50));
    let call = |net: &mut Dumbbell, port: u16| {
        net.network.with_host(net.lefts[0], |now, host| {
            let own = host.add_manager(Kind::NewReno);
            let config = Config { syn_retries: 2, ..config() };
            host.add(port, own, Tcp::caller(remote(1), now, Feed::none(), config, Rng::from_seed(port.into())))
        })
    };
    // The address has a host, but no agent at this port.
    net.network.with_host(net.rights[0], |_, host| {
        let own = host.add_manager(Kind::NewReno);
        host.add(PORT, own, Tcp::caller(remote(9), at(1_000_000), Feed::none(), config(), Rng::from_seed(9)))
    });
    let refused = call(&mut net, 9_001);
    net.network.run_until(at(1_000));
    let status =
        |net: &Dumbbell, handle: Handle<Tcp>| net.network.host(net.lefts[0]).agent(handle).session().unwrap().status();
    assert_eq!(status(&net, refused), TcpStatus::Closed(CloseReason::Refused));
    net.network.with_host(net.rights[0], |_, host| host.set_unplugged(true));
    let silent = call(&mut net, 9_002);
    net.network.run_until(at(20_000));
    assert_eq!(status(&net, silent), TcpStatus::Closed(CloseReason::Timeout));
}
