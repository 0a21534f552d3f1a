//! Datagrams over simulated hosts: DCCP from a packet ring, and UDP.

use timeous_choice::Age;
use timeous_cm::Kind;
use timeous_core::{AduSeq, DropReason, Fate, Instant, Priority, Rng};
use timeous_dccp::CloseReason;
use timeous_host::sources::{Bulk, Cbr, OnFull, Script};
use timeous_host::{Dccp, DccpSettings, Handle, Sink, Status, Stream, Udp, stamp};
use timeous_net::LinkConfig;
use timeous_seal::Secret;

use crate::support::{Dumbbell, PORT, at, link, lossy, ms, remote};

/// A DCCP stream from the first machine on the left to the first on the right.
struct Call {
    net: Dumbbell,
    caller: Handle<Dccp>,
    listener: Handle<Dccp>,
}

impl Call {
    fn new(seed: u64, path: LinkConfig, stream: Stream) -> Self {
        Self::sealed(seed, path, stream, [None, None])
    }

    /// Creates a call with the secrets of caller and listener.
    fn sealed(seed: u64, path: LinkConfig, stream: Stream, [near, far]: [Option<Secret>; 2]) -> Self {
        let settings = |secret| DccpSettings { secret, ..DccpSettings::default() };
        let mut net = Dumbbell::new(seed, 1, path);
        let listener = net.network.with_host(net.rights[0], |_, host| {
            let own = host.add_manager(Kind::Aimd);
            host.add(PORT, own, Dccp::listener(|| Stream::new(Sink), settings(far), Rng::from_seed(seed ^ 1)))
        });
        let caller = net.network.with_host(net.lefts[0], |_, host| {
            let own = host.add_manager(Kind::Aimd);
            host.add(9_000, own, Dccp::caller(remote(1), stream, settings(near), Rng::from_seed(seed)))
        });
        Self { net, caller, listener }
    }

    fn sender(&self) -> &timeous_host::Session {
        self.net.network.host(self.net.lefts[0]).agent(self.caller).session().unwrap()
    }

    fn receiver(&self) -> &timeous_host::Session {
        self.net.network.host(self.net.rights[0]).agent(self.listener).session().unwrap()
    }

    fn run_until(&mut self, until: Instant) {
        self.net.network.run_until(until);
    }
}

#[test]
fn a_dccp_stream_arrives_packet_for_packet_and_ends_in_order() {
    let source = Cbr::new(ms(20), 500, OnFull::Skip).for_packets(100);
    let mut call = Call::new(1, link(1_000, 40, 50), Stream::new(source));
    call.run_until(at(10_000));
    let (sent, received) = (call.sender().journal(), call.receiver().arrivals());
    assert_eq!(sent.adus().len(), 100);
    assert_eq!(sent.count(Fate::Acked), 100);
    assert!(received.list().iter().map(|arrival| arrival.seq).eq((0..100).map(|n| Some(AduSeq(n)))));
    for (adu, arrival) in sent.adus().iter().zip(received.list()) {
        assert_eq!(adu.left, [adu.meta.enqueued], "nothing holds a slow stream back");
        assert!(arrival.at >= adu.left[0] + ms(40));
    }
    assert_eq!(call.sender().status(), Status::Closed(CloseReason::Local));
    assert_eq!(call.receiver().status(), Status::Closed(CloseReason::Peer));
}

#[test]
fn nothing_leaves_after_its_deadline_and_every_adu_has_one_fate() {
    // 400 kbit/s offered to a lossy path of 200 kbit/s: most datagrams expire in the sender.
    for secret in [None, Some(Secret::new([7; 32]))] {
        let source = Cbr::new(ms(20), 1_000, OnFull::Skip).with_latency(ms(150)).for_packets(1_500);
        let path = lossy(link(200, 30, 20), 0.02);
        let stream = Stream::new(source).repair(Priority::NORMAL);
        let mut call = Call::sealed(2, path, stream, [secret.clone(), secret]);
        call.run_until(at(60_000));
        let sent = call.sender().journal();
        assert_eq!(sent.late().count(), 0);
        assert!(sent.adus().iter().all(|adu| adu.fate.is_some()));
        assert!(sent.count(Fate::Dropped(DropReason::Expired)) > 300, "the choice was exercised");
        assert!(call.receiver().arrivals().total() > 500_000, "and the path was used");
    }
}

#[test]
fn a_sealed_datagram_is_longer_by_25_bytes_and_leaves_and_arrives_as_a_plain_one() {
    let run = |secret: Option<Secret>| {
        let source = Cbr::new(ms(20), 500, OnFull::Skip).for_packets(100);
        let mut call = Call::sealed(1, link(1_000_000, 40, 50), Stream::new(source), [secret.clone(), secret]);
        call.run_until(at(10_000));
        assert_eq!(call.receiver().status(), Status::Closed(CloseReason::Peer));
        assert!(call.sender().journal().adus().iter().all(|adu| adu.left == [adu.meta.enqueued]));
        let came: Vec<_> = call.receiver().arrivals().list().iter().map(|arrival| arrival.seq).collect();
        (came, *call.net.network.link(call.net.bottleneck).counters())
    };
    let (plain, sealed) = (run(None), run(Some(Secret::new([7; 32]))));
    assert_eq!(plain.0, sealed.0);
    assert_eq!(plain.0.len(), 100);
    assert_eq!(plain.1.packets_in, sealed.1.packets_in);
    assert_eq!(plain.1.bytes_in + 25 * plain.1.packets_in, sealed.1.bytes_in);
}

#[test]
fn another_secret_and_none_are_no_answer() {
    for far in [None, Some(Secret::new([8; 32]))] {
        let source = Cbr::new(ms(20), 500, OnFull::Skip).for_packets(100);
        let near = Some(Secret::new([7; 32]));
        let mut call = Call::sealed(1, link(1_000, 40, 50), Stream::new(source), [near, far]);
        call.run_until(at(90_000));
        assert_eq!(call.sender().status(), Status::Closed(CloseReason::Timeout));
        let listener = call.net.network.host(call.net.rights[0]).agent(call.listener);
        assert_eq!(listener.sessions().count(), 0);
    }
}

#[test]
fn what_was_lost_leaves_again_while_it_can_still_arrive() {
    // The rate is so low that congestion control never limits it, in spite of the losses.
    let source = Cbr::new(ms(20), 200, OnFull::Skip).with_latency(ms(400)).for_packets(1_500);
    let mut call = Call::new(9, lossy(link(2_000, 30, 60), 0.02), Stream::new(source).repair(Priority::NORMAL));
    call.run_until(at(60_000));
    let sent = call.sender().journal();
    assert_eq!(sent.late().count(), 0);
    let again: u64 = sent.adus().iter().map(|adu| adu.left.len().saturating_sub(1) as u64).sum();
    assert_eq!(again, call.sender().repaired(), "the journal has each copy");
    assert!(again > 15);
    let came = call.receiver().arrivals().first_by_seq(1_500);
    let in_time = came.iter().zip(sent.adus()).filter(|(at, adu)| at.is_some_and(|at| !adu.meta.is_expired(at)));
    let in_time = in_time.count();
    assert!(
        in_time > 1_490,
        "of 30 that are lost at first, few are lost for good: {in_time}, {:?} {again}",
        sent.count(Fate::Lost)
    );
}

#[test]
fn a_late_choice_holds_to_the_nanosecond() {
    let source = Cbr::new(ms(10), 1_000, OnFull::Skip).for_packets(2_000);
    let mut call = Call::new(3, link(300, 20, 30), Stream::new(source).choice(Box::new(Age::new(ms(60)))));
    call.run_until(at(30_000));
    let sent = call.sender().journal();
    let waited = |adu: &timeous_host::AduRecord| adu.in_sender().is_some_and(|waited| waited > ms(60));
    assert_eq!(sent.adus().iter().filter(|adu| waited(adu)).count(), 0);
    let longest = sent.adus().iter().filter_map(|adu| adu.in_sender()).max().unwrap();
    assert!(longest > ms(45), "data waited, and left at an age of {longest:?} at most");
}

#[test]
fn an_application_pulls_back_what_has_not_left() {
    let script = Script::default()
        .at(at(1_000), |now, outlet| {
            for _ in 0..200 {
                let mut payload = Vec::new();
                stamp::write(outlet.next_seq(), 1_000, &mut payload);
                let meta = timeous_core::AduMeta { enqueued: now, ..Default::default() };
                outlet.send(meta, &payload).unwrap();
            }
        })
        .at(at(1_500), |_, outlet| {
            let mut pulled = outlet.ring().unwrap().pull_back_all().unwrap();
            assert!(pulled.places() > 50, "a path of 400 kbit/s has not taken 200 packets in half a second");
            for place in 0..pulled.places() {
                pulled.withdraw(place);
            }
        })
        .at(at(5_000), |_, outlet| outlet.finish());
    let mut call = Call::new(4, link(400, 20, 30), Stream::new(script));
    call.run_until(at(10_000));
    let sent = call.sender().journal();
    let withdrawn = sent.count(Fate::Dropped(DropReason::Withdrawn));
    assert!(withdrawn > 50);
    assert_eq!(withdrawn + sent.count(Fate::Acked) + sent.count(Fate::Lost), 200);
    let left_late = sent.adus().iter().filter(|adu| adu.left.iter().any(|&left| left > at(1_500))).count();
    assert_eq!(left_late, 0, "what was withdrawn at 1.5 s did not leave");
}

#[test]
fn a_bulk_transfer_fills_the_path_and_delivers_all() {
    let mut call = Call::new(5, link(2_000, 20, 60), Stream::new(Bulk::of(2_000_000, 1_000)));
    call.run_until(at(15_000));
    assert_eq!(call.sender().status(), Status::Closed(CloseReason::Local));
    let arrivals = call.receiver().arrivals();
    let last = arrivals.list().last().unwrap().at;
    assert!(last < at(12_000), "8.4 s at the rate of the link, and was {last:?}");
}

#[test]
fn a_caller_of_nobody_gives_up_and_one_that_is_aborted_hears_it() {
    let mut net = Dumbbell::new(6, 1, link(1_000, 10, 50));
    let mut settings = DccpSettings::default();
    settings.connection.connect_timeout = ms(5_000);
    let caller = net.network.with_host(net.lefts[0], |_, host| {
        let own = host.add_manager(Kind::Aimd);
        host.add(9_000, own, Dccp::caller(remote(1), Stream::new(Sink), settings, Rng::from_seed(6)))
    });
    net.network.run_until(at(20_000));
    let status = net.network.host(net.lefts[0]).agent(caller).session().unwrap().status();
    assert_eq!(status, Status::Closed(CloseReason::Timeout));

    let source = Cbr::new(ms(20), 500, OnFull::Skip);
    let mut call = Call::new(7, link(1_000, 10, 50), Stream::new(source));
    call.run_until(at(2_000));
    let (node, listener) = (call.net.rights[0], call.listener);
    call.net.network.with_host(node, |now, host| host.agent_mut(listener).abort(now));
    call.run_until(at(3_000));
    assert!(matches!(call.sender().status(), Status::Closed(CloseReason::Reset(_))));
    assert!(call.sender().journal().adus().iter().all(|adu| adu.fate.is_some()));
}

#[test]
fn udp_leaves_at_once_and_the_queue_of_the_link_shows() {
    let mut net = Dumbbell::new(8, 1, link(400, 10, 10));
    let sink = net.network.with_host(net.rights[0], |_, host| {
        let any = host.add_manager(Kind::Aimd);
        host.add(PORT, any, Udp::sink())
    });
    let sender = net.network.with_host(net.lefts[0], |_, host| {
        let any = host.add_manager(Kind::Aimd);
        host.add(9_000, any, Udp::sender(remote(1), Cbr::new(ms(10), 972, OnFull::Skip).for_packets(400)))
    });
    net.network.run_until(at(10_000));
    let sent = net.network.host(net.lefts[0]).agent(sender).journal();
    assert!(sent.adus().iter().all(|adu| adu.in_sender() == Some(ms(0))));
    let arrivals = net.network.host(net.rights[0]).agent(sink).arrivals();
    // 1000 bytes every 10 ms to a link that takes 20 ms for each: every second packet is dropped.
    let drops = net.network.link(net.bottleneck).counters().queue_drops;
    assert_eq!(arrivals.list().len() as u64 + drops, 400);
    let first = arrivals.first_by_seq(400);
    assert_eq!(first[0], Some(at(30)));
    // The packet in transmission, ten waiting ones and its own transmission: the delay of a full queue.
    let longest = (0..400).filter_map(|n| first[n].map(|at| at - sent.adus()[n].meta.enqueued)).max().unwrap();
    assert!((ms(220)..=ms(250)).contains(&longest), "{longest:?}");
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| {
        let source = Cbr::new(ms(10), 1_000, OnFull::Skip).with_latency(ms(100)).for_packets(1_000);
        let mut call = Call::new(seed, lossy(link(400, 30, 20), 0.01), Stream::new(source));
        call.run_until(at(20_000));
        (call.sender().journal().clone(), call.receiver().arrivals().clone())
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}
