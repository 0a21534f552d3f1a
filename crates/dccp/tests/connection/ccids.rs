//! Tests of CCID selection for each direction (RFC 4340 §6.3.1, §10).

use timeous_core::Duration;
use timeous_dccp::{Ccid, CloseReason, Config, State};

use crate::link::LinkConfig;
use crate::pair::{End, Pair};

const SEC: Duration = Duration::from_secs(1);

fn pair(client: Config, server: Config, loss: f64, seed: u64) -> Pair {
    let link = LinkConfig { loss, ..LinkConfig::default() };
    Pair::with(client, server, [link.clone(), link], seed)
}

fn speaking(ccids: &[Ccid]) -> Config {
    Config { connect_timeout: SEC * 3_600, ..Config::default() }.with_ccids(ccids)
}

#[track_caller]
fn settle(pair: &mut Pair) {
    let is_open = |end: &End| end.connection.state() == State::Open && !end.connection.features().is_negotiating();
    assert!(pair.run_until(SEC * 3_600, |pair| is_open(&pair.client) && is_open(&pair.server)));
}

#[test]
fn the_server_chooses_among_what_both_can_do() {
    use Ccid::{Ccid2, Ccid3, Ccid4};
    let cases: [(&[Ccid], &[Ccid], Ccid); 6] = [
        (&[Ccid2], &[Ccid2], Ccid2),
        (&[Ccid2], &[Ccid3, Ccid2], Ccid2),
        (&[Ccid2, Ccid3], &[Ccid3, Ccid2], Ccid3),
        (&[Ccid4, Ccid3], &[Ccid3, Ccid4, Ccid2], Ccid3),
        (&[Ccid4], &[Ccid3, Ccid4, Ccid2], Ccid4),
        (&[Ccid2, Ccid3, Ccid4], &[Ccid4], Ccid4),
    ];
    for (client, server, expected) in cases {
        for seed in 0..8 {
            let mut pair = pair(speaking(client), speaking(server), if seed == 0 { 0.0 } else { 0.3 }, seed);
            settle(&mut pair);
            let ends = [&pair.client.connection, &pair.server.connection];
            let found = ends.map(|end| [end.ccid(), end.peer_ccid()]);
            assert_eq!(found, [[expected; 2]; 2], "{client:?}, {server:?}, seed {seed}");
        }
    }
}

#[test]
fn each_direction_may_have_its_own() {
    for up in Ccid::ALL {
        for down in Ccid::ALL {
            let client = Config { ccids: vec![up], peer_ccids: vec![down], ..Config::default() };
            let mut pair = pair(client, speaking(&Ccid::ALL), 0.0, 1);
            settle(&mut pair);
            let (client, server) = (&pair.client.connection, &pair.server.connection);
            assert_eq!((client.ccid(), client.peer_ccid()), (up, down));
            assert_eq!((server.ccid(), server.peer_ccid()), (down, up));
        }
    }
}

#[test]
fn ends_with_nothing_in_common_do_not_talk() {
    for (client, server) in [(Ccid::Ccid2, Ccid::Ccid3), (Ccid::Ccid3, Ccid::Ccid2), (Ccid::Ccid3, Ccid::Ccid4)] {
        let mut pair = pair(speaking(&[client]), speaking(&[server]), 0.0, 1);
        assert!(pair.run_until(SEC * 10, |pair| pair.client.closed.is_some() || pair.server.closed.is_some()));
        pair.run_for(SEC * 10);
        let reasons = [pair.client.closed, pair.server.closed];
        let resets =
            |reason: &Option<CloseReason>| matches!(reason, Some(CloseReason::Reset(_) | CloseReason::Misbehaved(_)));
        assert!(reasons.iter().any(resets), "{client} and {server}: {reasons:?}");
        assert!(pair.client.connection.state() != State::Open && pair.server.connection.state() != State::Open);
    }
}
