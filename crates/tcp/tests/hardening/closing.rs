//! Begin and end of connections: simultaneous, half-open, and after the peer's end.

use timeous_core::{Instant, Rng};
use timeous_tcp::{CloseReason, Config, Connection, Event, Flags, State};

use crate::duel::{Duel, MS, SEC, good, targets};

/// Simultaneous open (RFC 9293 §3.5, figure 7).
#[test]
fn both_ask_at_the_same_time() {
    let mut rng = Rng::from_seed(1);
    let ends = targets().map(|target| Connection::connect(Instant::ZERO, Config::default(), target, &mut rng));
    let mut duel = Duel::of(ends, good(MS * 10));
    duel.run_for(MS * 15);
    duel.assert_states([State::SynReceived; 2]);
    duel.run_for(MS * 15);
    duel.assert_states([State::Established; 2]);
    for end in &mut duel.ends {
        end.send(50_000, true);
    }
    duel.finish(SEC * 10);
}

/// Simultaneous close (RFC 9293 §3.6, figure 13).
#[test]
fn both_close_at_the_same_time() {
    let mut duel = Duel::connected(&Config::default());
    for end in &mut duel.ends {
        end.send(0, true);
    }
    duel.run_for(MS * 5);
    duel.assert_states([State::FinWait1; 2]);
    duel.run_for(MS * 10);
    duel.assert_states([State::Closing; 2]);
    duel.run_for(MS * 10);
    duel.assert_states([State::TimeWait; 2]);
    duel.finish(MS);
    duel.run_for(SEC * 61);
    duel.assert_states([State::Closed; 2]);
    assert!(duel.ends.iter().all(|end| end.connection.is_finished()));
}

#[test]
fn one_direction_may_go_on_long_after_the_other_has_ended() {
    let mut duel = Duel::connected(&Config::default());
    duel.ends[0].send(10_000, true);
    duel.run_for(SEC * 600);
    duel.assert_states([State::FinWait2, State::CloseWait]);
    duel.ends[1].send(300_000, false);
    duel.run_for(SEC * 600);
    assert_eq!(duel.ends[0].received, 300_000);
    duel.ends[1].send(300_000, true);
    duel.finish(SEC * 10);
    duel.assert_states([State::TimeWait, State::Closed]);
}

/// The last ACK is lost: TIME-WAIT sends it again (RFC 9293 §3.6.1).
#[test]
fn time_wait_answers_a_fin_that_comes_again() {
    let mut duel = Duel::connected(&Config::default());
    duel.ends[0].send(0, true);
    duel.run_for(MS * 50);
    let mut to_lose = 2;
    duel.rule = Box::new(move |_, from, bytes, ecn| {
        if from == 0 && to_lose > 0 {
            to_lose -= 1;
            return vec![];
        }
        vec![(MS * 10, bytes.to_vec(), ecn)]
    });
    duel.ends[1].send(0, true);
    duel.run_for(MS * 15);
    duel.assert_states([State::TimeWait, State::LastAck]);
    duel.finish(SEC * 10);
    assert_eq!(duel.count(1, |segment| segment.has(Flags::FIN)), 3);
    duel.run_for(SEC * 58);
    assert_eq!(duel.states()[0], State::TimeWait, "each FIN starts its time anew");
    duel.run_for(SEC * 5);
    assert_eq!(duel.states()[0], State::Closed);
}

#[test]
fn an_abort_ends_the_other_side_too_and_tells_of_what_was_lost() {
    let mut duel = Duel::connected(&Config::default());
    for end in &mut duel.ends {
        end.send(500_000, false);
    }
    duel.run_for(MS * 45);
    let now = duel.now;
    duel.ends[0].connection.abort(now).unwrap();
    duel.run_for(SEC);
    assert_eq!(duel.ends.each_ref().map(|end| end.closed), [Some(CloseReason::Aborted), Some(CloseReason::Reset)]);
    for end in &duel.ends {
        let fates = end.events.iter().filter(|event| matches!(event, Event::Acked { .. } | Event::Lost { .. })).count();
        assert_eq!(fates as u64, end.connection.statistics().data_sent, "each pull has one fate");
        assert!(end.connection.is_finished());
    }
    let resets = duel.count(0, |segment| segment.has(Flags::RST));
    assert!((1..=11).contains(&resets), "{resets} for all that was still under way");
    assert_eq!(duel.count(1, |segment| segment.has(Flags::RST)), 0, "a reset is not answered");
}

/// The reset is lost: later segments of the other end find no connection, and are answered by another reset.
#[test]
fn who_has_not_heard_of_the_end_is_told_again() {
    let mut duel = Duel::connected(&Config::default());
    duel.rule = Box::new(|_, _, _, _| vec![]);
    let now = duel.now;
    duel.ends[0].connection.abort(now).unwrap();
    duel.run_for(SEC);
    duel.assert_states([State::Closed, State::Established]);
    duel.rule = good(MS * 10);
    duel.ends[1].send(10, false);
    duel.run_for(MS * 25);
    assert_eq!(duel.ends[1].closed, Some(CloseReason::Reset));
}

/// A reset instead of the last acknowledgement is a clean end only if all data was acknowledged.
#[test]
fn a_reset_in_the_end_is_peace_only_if_all_data_were_acknowledged() {
    for (bytes, expected) in [(0, CloseReason::Finished), (1_000, CloseReason::Reset)] {
        let mut duel = Duel::connected(&Config::default());
        duel.ends[0].send(0, true);
        duel.run_for(MS * 50);
        // The server's segments arrive; the client's are lost, until the client has forgotten the connection.
        duel.rule =
            Box::new(|_, from, bytes, ecn| if from == 0 { vec![] } else { vec![(MS * 10, bytes.to_vec(), ecn)] });
        duel.ends[1].send(bytes, true);
        duel.run_until(SEC * 10_000, |duel| duel.states()[0] == State::Closed);
        duel.assert_states([State::Closed, State::LastAck]);
        duel.rule = good(MS * 10);
        duel.run_for(SEC * 1_000);
        assert_eq!(duel.ends[0].received, bytes);
        assert_eq!(duel.ends[1].closed, Some(expected));
    }
}

#[test]
fn a_peer_that_fell_silent_is_given_up() {
    let config = Config { user_timeout: Some(SEC * 30), ..Config::default() };
    let mut duel = Duel::connected(&config);
    duel.rule = Box::new(|_, _, _, _| vec![]);
    let before = duel.now;
    duel.ends[0].send(10_000, true);
    duel.run_until(SEC * 100, |duel| duel.ends[0].closed.is_some());
    assert_eq!(duel.ends[0].closed, Some(CloseReason::Timeout));
    let took = duel.now - before;
    assert!(took >= SEC * 30 && took < SEC * 31, "{took:?}");
    // Without a user timeout, the default is like Linux's tcp_retries2: 13 to 30 minutes.
    let mut duel = Duel::connected(&Config::default());
    duel.rule = Box::new(|_, _, _, _| vec![]);
    duel.ends[0].send(10_000, true);
    let before = duel.now;
    duel.run_until(SEC * 10_000, |duel| duel.ends[0].closed.is_some());
    let took = duel.now - before;
    assert!(took >= SEC * 13 * 60 && took < SEC * 30 * 60, "{took:?}");
    assert_eq!(duel.ends[0].connection.statistics().timeouts, 15);
}
