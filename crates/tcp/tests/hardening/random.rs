//! Random links, settings and sequence numbers: data is read once and in order, and both ends close cleanly.

use proptest::prelude::*;
use timeous_core::{Duration, Ecn, Rng};
use timeous_tcp::receiver::DelayedAck;
use timeous_tcp::{Config, EcnMode, LossDetection, Seq};

use crate::duel::{Duel, MS, Rule, SEC};

/// Random behaviour of a link; probabilities in parts of a thousand.
#[derive(Clone, Debug)]
struct Weather {
    delay: u64,
    loss: u32,
    duplicate: u32,
    late: u32,
    corrupt: u32,
    marked: u32,
    seed: u64,
}

fn rule(weather: Weather) -> Rule {
    let mut rng = Rng::from_seed(weather.seed);
    let delay = MS * weather.delay;
    Box::new(move |_, _, bytes, ecn| {
        let mut chance = |parts: u32| rng.below(1_000) < u64::from(parts);
        let copies = if chance(weather.loss) { 0 } else { 1 + usize::from(chance(weather.duplicate)) };
        let (late, corrupt, marked) = (chance(weather.late), chance(weather.corrupt), chance(weather.marked));
        let ecn = if marked && ecn == Ecn::Ect0 { Ecn::Ce } else { ecn };
        (0..copies)
            .map(|_| {
                let mut bytes = bytes.to_vec();
                if corrupt {
                    let bit = rng.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                let more =
                    if late { Duration::from_nanos(rng.below(delay.as_nanos() * 2 + 1)) } else { Duration::ZERO };
                (delay + more, bytes, ecn)
            })
            .collect()
    })
}

fn any_weather() -> impl Strategy<Value = Weather> {
    let parts = |most: u32| prop_oneof![Just(0), 0..most];
    (1..200u64, parts(150), parts(200), parts(300), parts(50), parts(100), any::<u64>()).prop_map(
        |(delay, loss, duplicate, late, corrupt, marked, seed)| Weather {
            delay,
            loss,
            duplicate,
            late,
            corrupt,
            marked,
            seed,
        },
    )
}

/// Any initial sequence number, or one that wraps soon.
fn any_initial() -> impl Strategy<Value = Option<Seq>> {
    prop_oneof![(0..200_000u32).prop_map(|before| Some(Seq::new(0) - before)), Just(None)]
}

fn any_config() -> impl Strategy<Value = Config> {
    let switches = any::<(bool, bool, bool, bool, bool)>();
    let ecn = prop_oneof![Just(EcnMode::Off), Just(EcnMode::Accept), Just(EcnMode::Request)];
    let buffer = prop_oneof![500..5_000usize, 5_000..200_000usize, Just(6 << 20)];
    (switches, ecn, 48..9_000u16, buffer, 0..60u64, any_initial()).prop_map(
        |((timestamps, sack, window_scaling, rack, tail_loss_probe), ecn, mss, receive_buffer, delay, initial_seq)| {
            Config {
                mss,
                receive_buffer,
                timestamps,
                sack,
                window_scaling,
                ecn,
                delayed_ack: DelayedAck { delay: MS * delay, ..DelayedAck::default() },
                loss_detection: if rack { LossDetection::Rack } else { LossDetection::DupThresh },
                tail_loss_probe,
                initial_seq,
                // Timeouts are long enough for the worst link, and TIME-WAIT outlasts the other end's retransmissions.
                time_wait: SEC * 10_000,
                syn_retries: 30,
                syn_ack_retries: 30,
                retries: 60,
                ..Config::default()
            }
        },
    )
}

/// Size of an application's reads, and the pause after each.
fn any_reader() -> impl Strategy<Value = (usize, Duration)> {
    prop_oneof![
        3 => Just((usize::MAX, Duration::ZERO)),
        1 => (200..20_000usize, 0..100u64).prop_map(|(gulp, pause)| (gulp, MS * pause)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read(
        configs in [any_config(), any_config()],
        weather in any_weather(),
        readers in [any_reader(), any_reader()],
        sizes in [0..60_000u64, 0..60_000u64],
        pauses in [0..5_000u64, 0..5_000u64],
    ) {
        let mut duel = Duel::new(configs, rule(weather), 1);
        for who in [0, 1] {
            duel.ends[who].reads = readers[who];
            duel.ends[who].send(sizes[who] / 2, false);
        }
        duel.run_for(MS * pauses[0]);
        duel.ends[0].send(sizes[0] - sizes[0] / 2, true);
        duel.run_for(MS * pauses[1]);
        duel.ends[1].send(sizes[1] - sizes[1] / 2, true);
        duel.finish(SEC * 100_000);
    }
}

/// Sequence numbers wrap within a stream, with every method of loss detection.
#[test]
fn the_numbers_go_round() {
    let with = |sack, loss_detection| Config {
        sack,
        loss_detection,
        initial_seq: Some(Seq::new(0) - 150_000),
        ..Config::default()
    };
    for config in
        [with(true, LossDetection::Rack), with(true, LossDetection::DupThresh), with(false, LossDetection::Rack)]
    {
        for loss in [0, 30] {
            let weather = Weather { delay: 20, loss, duplicate: loss, late: loss, corrupt: 0, marked: 0, seed: 7 };
            let mut duel = Duel::new([config.clone(), config.clone()], rule(weather), 1);
            for end in &mut duel.ends {
                end.send(1_000_000, true);
            }
            duel.finish(SEC * 1_000);
            let last = duel.numbers(0).0;
            assert!(last.is_after(Seq::new(800_000)) && last.value() < 900_000, "{last}");
        }
    }
}
