//! Transfers over good and bad links.

use timeous_core::{Duration, Rate};
use timeous_tcp::{Config, LossDetection};

use crate::link::LinkConfig;
use crate::pair::Pair;

const SEC: Duration = Duration::from_secs(1);

fn by_the_book() -> Config {
    Config { loss_detection: LossDetection::DupThresh, tail_loss_probe: false, ..Config::default() }
}

fn new_reno() -> Config {
    Config { sack: false, timestamps: false, ..by_the_book() }
}

fn all() -> [Config; 4] {
    let rack_only = Config { tail_loss_probe: false, ..Config::default() };
    [Config::default(), rack_only, by_the_book(), new_reno()]
}

#[test]
fn a_megabyte_each_way_over_a_good_link() {
    for config in all() {
        let mut pair = Pair::new(&config, &LinkConfig::default(), 1);
        pair.connect();
        assert_eq!(pair.client.connected_at.unwrap().as_nanos(), 40_000_000, "one round trip");
        pair.transfer(1_000_000, 1_000_000, SEC * 10);
        let sent = pair.client.connection.statistics();
        assert_eq!((sent.retransmissions, sent.timeouts), (0, 0));
    }
}

#[test]
fn a_megabyte_each_way_over_bad_links() {
    for config in all() {
        for (loss, reorder, duplicate) in [(0.01, 0.0, 0.0), (0.05, 0.0, 0.0), (0.0, 0.05, 0.0), (0.03, 0.03, 0.03)] {
            let link = LinkConfig {
                rate: Some(Rate::from_kbps(20_000)),
                queue: Duration::from_millis(100),
                loss,
                reorder,
                duplicate,
                ..LinkConfig::default()
            };
            for seed in 0..3 {
                let mut pair = Pair::new(&config, &link, seed);
                pair.connect();
                pair.transfer(1_000_000, 500_000, SEC * 200);
            }
        }
    }
}
