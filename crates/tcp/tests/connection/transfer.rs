//! Transfers over good and bad links.

use proptest::prelude::*;
use timeous_core::{Duration, Rate};
use timeous_tcp::{Config, EcnMode, LossDetection, Seq};

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

#[test]
fn marks_take_the_place_of_losses() {
    let link = LinkConfig {
        rate: Some(Rate::from_kbps(10_000)),
        queue: Duration::from_millis(200),
        mark_above: Some(Duration::from_millis(20)),
        ..LinkConfig::default()
    };
    let config = Config { ecn: EcnMode::Request, ..Config::default() };
    let mut pair = Pair::new(&config, &link, 1);
    pair.connect();
    let took = pair.transfer(4_000_000, 0, SEC * 20);
    let statistics = pair.client.connection.statistics();
    assert!(statistics.ecn_reductions >= 3, "{statistics:?}");
    assert_eq!((statistics.retransmissions, pair.links[0].dropped), (0, 0));
    assert!(took < SEC * 5, "{took:?}: 3.3 s at the rate of the link");
}

/// A link with these rates of loss, reordering and duplication, in percent.
fn bad_link(loss: u32, reorder: u32, duplicate: u32, kbps: u64) -> LinkConfig {
    LinkConfig {
        rate: Some(Rate::from_kbps(kbps)),
        queue: Duration::from_millis(200),
        loss: f64::from(loss) / 100.0,
        reorder: f64::from(reorder) / 100.0,
        duplicate: f64::from(duplicate) / 100.0,
        mark_above: Some(Duration::from_millis(20)),
        ..LinkConfig::default()
    }
}

fn any_config() -> impl Strategy<Value = Config> {
    let features = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let sizes = (prop_oneof![Just(536_u16), Just(1_460), Just(100)], 1_000_usize..100_000, any::<u32>());
    (features, sizes, 0_u32..3).prop_map(|((sack, timestamps, scaling, rack, probe), (mss, buffer, seq), ecn)| Config {
        mss,
        sack,
        timestamps,
        window_scaling: scaling,
        receive_buffer: buffer,
        loss_detection: if rack { LossDetection::Rack } else { LossDetection::DupThresh },
        tail_loss_probe: probe,
        ecn: [EcnMode::Off, EcnMode::Accept, EcnMode::Request][ecn as usize],
        // In half of the cases, sequence numbers wrap within the transfer.
        initial_seq: Some(Seq::new(if seq % 2 == 0 { seq } else { 0_u32.wrapping_sub(seq % 50_000) })),
        retries: 40,
        // Retransmissions may be two minutes apart (RFC 6298 §2.5). After TIME-WAIT they would be answered by a reset.
        time_wait: SEC * 600,
        ..Config::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_link_does_all_bytes_arrive_once_and_in_order(
        configs in [any_config(), any_config()],
        (up, down) in (0_u64..120_000, 0_u64..120_000),
        (loss, reorder, duplicate) in (0_u32..20, 0_u32..30, 0_u32..20),
        kbps in 300_u64..50_000,
        seed: u64,
    ) {
        let link = bad_link(loss, reorder, duplicate, kbps);
        let mut pair = Pair::with(configs, [link.clone(), link], seed);
        pair.connect();
        pair.transfer(up, down, SEC * 4_000);
    }
}
