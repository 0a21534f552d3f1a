//! Off-path attackers, who know addresses and ports but do not see the traffic (RFC 5961).

use timeous_cm::Manager;
use timeous_core::{AduSource, Duration, Ecn, Instant, NoAdus, Rng, Transport};
use timeous_tcp::{
    CloseReason, Config, Connection, ConnectionId, Endpoint, EndpointConfig, Event, Flags, Header, Sources, State,
};

use crate::duel::{Duel, MS, SEC, is_bare, targets};

/// A transfer in progress, without timestamps, which would make attacks harder.
fn busy() -> Duel {
    let config = Config { timestamps: false, ..Config::default() };
    let mut duel = Duel::connected(&config);
    for end in &mut duel.ends {
        end.send(1_000_000, true);
    }
    duel.run_for(MS * 65);
    duel
}

fn assert_undisturbed(mut duel: Duel) {
    duel.finish(SEC * 100);
}

/// A reset is accepted only with the exact expected number, and challenged otherwise (RFC 5961 §3.2).
#[test]
fn a_reset_within_the_window_is_asked_about() {
    let mut duel = busy();
    let (_, expected) = duel.numbers(1);
    let before = duel.count(1, is_bare);
    for ahead in [1, 1_000, 60_000] {
        duel.forge(1, Header { flags: Flags::RST, ..Header::new(0, 0, expected + ahead) }, &[]);
    }
    duel.assert_states([State::Established; 2]);
    assert_eq!(duel.ends[1].connection.statistics().challenges, 3);
    assert_eq!(duel.count(1, is_bare) - before, 3);
    for far in [10 << 20, 1 << 31, u32::MAX - 500_000] {
        duel.forge(1, Header { flags: Flags::RST, ..Header::new(0, 0, expected + far) }, &[]);
    }
    assert_eq!(duel.count(1, is_bare) - before, 3, "outside of the window it is not even answered");
    assert_undisturbed(duel);
}

#[test]
fn a_reset_that_hits_ends_the_connection() {
    let mut duel = Duel::connected(&Config::default());
    let (_, expected) = duel.numbers(1);
    duel.forge(1, Header { flags: Flags::RST, ..Header::new(0, 0, expected) }, &[]);
    assert_eq!(duel.ends[1].closed, Some(CloseReason::Reset));
}

/// A SYN on a connection is challenged, whatever its number (RFC 5961 §4.2).
#[test]
fn a_syn_is_asked_about() {
    for ahead in [0, 1, 5_000, 1 << 30, u32::MAX - 10] {
        let mut duel = busy();
        let (_, expected) = duel.numbers(1);
        let before = duel.count(1, is_bare);
        duel.forge(1, Header { flags: Flags::SYN, ..Header::new(0, 0, expected + ahead) }, &[]);
        assert_eq!(duel.count(1, is_bare) - before, 1, "{ahead}");
        assert_undisturbed(duel);
    }
}

/// Data needs an acknowledgement of recently sent data (RFC 5961 §5.2).
#[test]
fn data_with_a_wrong_acknowledgement_are_not_taken() {
    for wrong in [1u32 << 30, 1 << 31, 10 << 20, u32::MAX - (10 << 20)] {
        let mut duel = busy();
        let (next, expected) = duel.numbers(1);
        duel.forge(1, Header { ack: Some(next + wrong), window: 1, ..Header::new(0, 0, expected) }, &[0xff; 1_000]);
        duel.forge(1, Header { flags: Flags::FIN, ack: Some(next + wrong), ..Header::new(0, 0, expected) }, &[]);
        duel.forge(1, Header { window: 1, ..Header::new(0, 0, expected) }, &[0xff; 1_000]);
        assert_undisturbed(duel);
    }
}

/// Challenge ACKs are rate-limited (RFC 5961 §7).
#[test]
fn challenges_are_rationed() {
    let mut duel = busy();
    duel.run_until(SEC * 100, |duel| duel.ends.iter().all(|end| end.received == 1_000_000));
    let mut duel = Duel::connected(&Config { timestamps: false, ..Config::default() });
    let (next, expected) = duel.numbers(1);
    let before = duel.count(1, |_| true);
    for n in 0..1_000 {
        duel.forge(1, Header { flags: Flags::RST, ..Header::new(0, 0, expected + 1 + n) }, &[]);
        duel.forge(1, Header { flags: Flags::SYN, ..Header::new(0, 0, expected + 1 + n) }, &[]);
        duel.forge(1, Header { ack: Some(next + (1 << 30)), ..Header::new(0, 0, expected + n) }, &[1]);
    }
    let answers = duel.count(1, |_| true) - before;
    assert!(answers <= 10, "{answers} answers to 3000 strangers within an instant");
    duel.assert_states([State::Established; 2]);
}

/// Two desynchronized ends do not answer each other for ever.
#[test]
fn ends_that_disagree_do_not_talk_for_ever() {
    let mut duel = Duel::connected(&Config { timestamps: false, ..Config::default() });
    let (next, expected) = duel.numbers(1);
    duel.ends[1].reads = (0, SEC);
    // The server accepts data that the client has not sent (§3.10.7.4, "acks something not yet sent"): each answer
    // would cause another.
    duel.forge(1, Header { ack: Some(next), window: 9, ..Header::new(0, 0, expected) }, &[7; 100]);
    let before = duel.sent.len();
    duel.run_for(SEC * 10);
    let spoken = duel.sent.len() - before;
    assert!(spoken <= 250, "{spoken} segments in ten seconds");
}

/// Random segments with the right addresses and ports, and with numbers far from the expected ones.
#[test]
fn a_flood_of_anything_disturbs_nobody() {
    let mut rng = Rng::from_seed(5);
    for round in 0..4 {
        let mut duel = busy();
        for n in 0..5_000 {
            let to = n % 2;
            let (next, expected) = duel.numbers(to);
            // Either the sequence number or the acknowledgement is wrong.
            let wrong = (20 << 20) + rng.below((1 << 32) - (40 << 20)) as u32;
            let (seq, ack) = if round % 2 == 0 { (expected + wrong, next) } else { (expected, next + wrong) };
            let flags = Flags::from_bits(rng.next_u32() as u8);
            let is_reset_that_hits = flags.contains(Flags::RST) && round % 2 == 1;
            if is_reset_that_hits {
                continue;
            }
            let header = Header {
                ack: rng.chance(0.9).then_some(ack),
                flags,
                window: rng.next_u32() as u16,
                ..Header::new(0, 0, seq)
            };
            duel.forge(to, header, &vec![0xff; rng.below(1_400) as usize]);
            if n % 100 == 0 {
                duel.run_for(MS);
            }
        }
        assert_undisturbed(duel);
    }
}

/// All segments of an earlier connection between the same ports are replayed.
#[test]
fn an_earlier_connections_segments_do_no_harm() {
    for timestamps in [false, true] {
        let config = Config { timestamps, ..Config::default() };
        let mut earlier = Duel::new([config.clone(), config.clone()], crate::duel::good(MS * 10), 50);
        for end in &mut earlier.ends {
            end.send(100_000, true);
        }
        earlier.finish(SEC * 10);
        let mut duel = Duel::connected(&config);
        for end in &mut duel.ends {
            end.send(300_000, true);
        }
        for sent in &earlier.sent {
            duel.arrive(1 - sent.from, &sent.bytes, Ecn::NotEct);
            duel.run_for(MS / 4);
        }
        assert_undisturbed(duel);
    }
}

struct Quiet(NoAdus);

impl Sources for Quiet {
    fn source(&mut self, _: ConnectionId) -> &mut dyn AduSource {
        &mut self.0
    }
}

/// A client that has crashed connects again from the same port (RFC 9293 §3.5.1, figures 9 and 10).
#[test]
fn a_client_that_has_forgotten_gets_a_new_connection() {
    let [there, _] = targets();
    let mut rng = Rng::from_seed(3);
    let mut server = Endpoint::new(EndpointConfig::default(), Rng::from_seed(4));
    server.listen(there.remote.port());
    let (mut cm, mut client_cm, mut quiet) = (Manager::default(), Manager::default(), Quiet(NoAdus));
    let mut now = Instant::ZERO;
    let mut closed = Vec::new();
    for life in 0..2 {
        let mut client = Connection::connect(now, Config::default(), there, &mut rng);
        for _ in 0..400 {
            let mut packet = Vec::new();
            client.handle_timeout(now, &mut client_cm).unwrap();
            while client.poll_transmit(now, &mut client_cm, &mut NoAdus, &mut packet).unwrap().is_some() {
                let (from, to) = (there.local.ip(), there.remote.ip());
                server.handle_segment(now, &mut cm, from, to, &packet, Ecn::NotEct).unwrap();
                packet.clear();
            }
            server.handle_timeout(now, &mut cm).unwrap();
            while server.poll_transmit(now, &mut cm, &mut quiet, &mut packet).unwrap().is_some() {
                client.handle_datagram(now, &mut client_cm, &packet, Ecn::NotEct).unwrap();
                packet.clear();
            }
            while let Some((_, event)) = server.poll_event() {
                closed.extend(match event {
                    Event::Closed { reason } => Some(reason),
                    _ => None,
                });
            }
            now += Duration::from_millis(10);
        }
        assert_eq!(client.state(), State::Established, "life {life}");
    }
    assert_eq!(closed, [CloseReason::Reset], "the forgotten one was given up");
    assert_eq!(server.connections().count(), 1);
}

/// Regression, found by the fuzzer: a pending answer was never sent, so that the driver was called back at once, for
/// ever.
#[test]
fn a_half_open_connection_answers_a_stranger_and_then_rests() {
    let config = Config { timestamps: false, ..Config::default() };
    let mut duel = Duel::new([config.clone(), config], crate::duel::good(MS * 10), 1);
    duel.run_for(MS * 15);
    duel.assert_states([State::SynSent, State::SynReceived]);
    let (next, expected) = duel.numbers(1);
    let before = duel.sent.len();
    duel.forge(1, Header { ack: Some(next), ..Header::new(0, 0, expected + (1 << 30)) }, &[1]);
    assert_eq!(duel.sent.len() - before, 1);
    assert!(is_bare(&duel.sent[before].segment()));
    let timeout = duel.ends[1].connection.poll_timeout().unwrap();
    assert!(timeout.is_some_and(|at| at > duel.now), "{timeout:?}");
    duel.run_for(MS * 30);
    duel.assert_states([State::Established; 2]);
}

/// Data received before the end needs no acknowledgement after it, and neither does reading it.
#[test]
fn an_ended_connection_rests() {
    let config = Config { timestamps: false, receive_buffer: 3_000, ..Config::default() };
    let mut duel = Duel::connected(&config);
    duel.ends[1].reads = (0, SEC);
    let (next, expected) = duel.numbers(1);
    let reset = Header { flags: Flags::RST, ..Header::new(0, 0, expected + 2_900) };
    for (at, len) in [(0, 1_400), (1_400, 1_400), (2_800, 100)] {
        duel.forge(1, Header { ack: Some(next), window: 9, ..Header::new(0, 0, expected + at) }, &vec![0; len]);
    }
    duel.forge(1, reset, &[]);
    let end = &mut duel.ends[1];
    assert_eq!(end.closed, Some(CloseReason::Reset));
    assert_eq!(end.connection.read(usize::MAX, &mut Vec::new()), 2_900);
    assert_eq!(end.connection.poll_timeout(), Ok(None));
}
