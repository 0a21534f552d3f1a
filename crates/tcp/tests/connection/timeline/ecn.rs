//! Explicit congestion notification (RFC 3168 §6.1).

use timeous_core::Ecn;
use timeous_tcp::{Config, EcnMode, Flags, Header, Seq};

use crate::script::{IRS, RTT, Timeline, offer, plain};

fn marked() -> Config {
    Config { ecn: EcnMode::Request, ..plain() }
}

#[test]
fn a_server_agrees_if_it_was_asked_and_not_otherwise() {
    for (mode, asked, agreed) in
        [(EcnMode::Accept, true, true), (EcnMode::Accept, false, false), (EcnMode::Off, true, false)]
    {
        let mut line = Timeline::server(Config { ecn: mode, ..plain() });
        let marks = Flags::when(asked, Flags::ECE | Flags::CWR);
        let syn = Header { ack: None, flags: Flags::SYN | marks, seq: Seq::new(IRS), ..line.peer_header(0) };
        line.inject(&syn, &offer(&plain()), b"", Ecn::NotEct);
        line.expect(Flags::SYN | Flags::when(agreed, Flags::ECE));
        line.ack(0, &[]);
        line.write(1_000);
        assert_eq!(line.take()[0].ecn, if agreed { Ecn::Ect0 } else { Ecn::NotEct });
    }
}

#[test]
fn new_data_are_capable_and_nothing_else_is() {
    let mut line = Timeline::established(marked());
    line.write(12_000);
    assert!(line.take().iter().all(|seen| seen.ecn == Ecn::Ect0));
    line.pass(RTT);
    line.ack(0, &[(1_000, 4_000)]);
    let repeated = line.take();
    assert_eq!((repeated[0].offset(), repeated[0].ecn), (0, Ecn::NotEct), "§6.1.5");
    line.data(b"data", Flags::NONE, Ecn::Ect0);
    let ack = line.expect(Flags::NONE);
    assert_eq!(ack.ecn, Ecn::NotEct, "§6.1.4");
    let mut line = Timeline::established(marked());
    line.close();
    assert_eq!(line.expect(Flags::FIN).ecn, Ecn::NotEct);
}

#[test]
fn an_echo_halves_the_window_once_a_window_and_the_next_new_data_say_so() {
    let mut line = Timeline::established(marked());
    line.write(100_000);
    line.take();
    line.pass(RTT);
    line.ack_with(1_000, &[], Flags::ECE);
    assert_eq!(line.cwnd(), 5_000);
    for acked in 2..=9 {
        line.ack_with(acked * 1_000, &[], Flags::ECE);
    }
    assert_eq!(line.cwnd(), 5_000, "the same window of data");
    let first = line.expect(Flags::CWR);
    assert_eq!(first.offset(), 10_000);
    assert!(line.take().iter().all(|seen| !seen.has(Flags::CWR)));
    line.pass(RTT);
    line.ack_with(10_000, &[], Flags::ECE);
    assert_eq!(line.cwnd(), 5_000);
    line.ack_with(11_000, &[], Flags::ECE);
    assert_eq!(line.cwnd(), 2_500, "data of the next window");
    assert_eq!(line.connection.statistics().ecn_reductions, 2);
}

#[test]
fn a_loss_reduces_too_and_is_told_by_cwr() {
    let mut line = Timeline::established(marked());
    line.write(100_000);
    line.take();
    line.pass(RTT);
    line.ack_with(0, &[(1_000, 4_000)], Flags::ECE);
    assert_eq!(line.cwnd(), 5_000, "one event");
    line.ack_with(0, &[(1_000, 9_000)], Flags::ECE);
    assert_eq!(line.cwnd(), 5_000);
    let seen = line.take();
    let repeated = seen.iter().find(|seen| seen.offset() == 0).unwrap();
    assert!(!repeated.has(Flags::CWR));
    let fresh = seen.iter().find(|seen| seen.offset() == 10_000).unwrap();
    assert!(fresh.has(Flags::CWR));
}

#[test]
fn a_mark_is_echoed_until_the_peer_says_that_it_has_reduced() {
    let mut line = Timeline::established(marked());
    line.data(b"1", Flags::NONE, Ecn::Ce);
    line.expect(Flags::ECE);
    line.data(b"2", Flags::NONE, Ecn::Ect0);
    line.expect(Flags::ECE);
    line.write(10);
    line.expect(Flags::ECE);
    line.data(b"3", Flags::CWR, Ecn::Ect0);
    line.expect(Flags::NONE);
    assert_eq!(line.connection.statistics().ce_received, 1);
}
