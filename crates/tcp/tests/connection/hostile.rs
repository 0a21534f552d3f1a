//! A hostile peer that sends arbitrary segments: the connection stays consistent.

use proptest::prelude::*;
use timeous_core::{Duration, Ecn};
use timeous_tcp::{Config, EcnMode, Flags, LossDetection, Options, SackBlock, Seq, State, Timestamps};

use crate::script::{ISS, Timeline, plain};

#[derive(Clone, Debug)]
enum Act {
    /// Sends a segment with these fields.
    Segment {
        ack: u32,
        blocks: Vec<(u32, u32)>,
        window: u16,
        flags: u8,
        seq: u32,
        len: usize,
        echo: u32,
    },
    Write(usize),
    Wait(u64),
    Close,
}

/// Offsets near the data in flight, at segment boundaries and between them, and rarely any offset.
fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => (0_u32..60).prop_map(|n| n * 1_000),
        4 => 0_u32..60_000,
        1 => any::<u32>(),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let blocks = prop::collection::vec((offset(), offset()), 0..3);
    let bits = prop_oneof![12 => Just(0_u8), 3 => Just(Flags::ECE.bits()), 1 => any::<u8>()];
    let window = prop_oneof![4 => Just(60_000_u16), 1 => any::<u16>(), 1 => Just(0)];
    let segment = (offset(), blocks, window, bits, (0_u32..4, 0_usize..3), any::<u32>()).prop_map(
        |(ack, blocks, window, flags, (seq, len), echo)| Act::Segment {
            ack,
            blocks,
            window,
            flags,
            seq: seq * 700,
            len: len * 700,
            echo,
        },
    );
    prop_oneof![
        12 => segment,
        3 => (1_usize..20_000).prop_map(Act::Write),
        3 => (0_u64..2_000).prop_map(Act::Wait),
        1 => Just(Act::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_peer_says_the_books_stay_right(
        (sack, rack, timestamps) in (any::<bool>(), any::<bool>(), any::<bool>()),
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let config = Config {
            sack,
            timestamps,
            loss_detection: if rack { LossDetection::Rack } else { LossDetection::DupThresh },
            tail_loss_probe: rack,
            ecn: EcnMode::Request,
            ..plain()
        };
        let mut line = Timeline::established(config);
        line.write(15_000);
        for act in acts {
            match act {
                Act::Write(bytes) => line.write(bytes),
                Act::Wait(millis) => line.pass(Duration::from_millis(millis)),
                Act::Close => line.close(),
                Act::Segment { ack, blocks, window, flags, seq, len, echo } => {
                    line.peer_acks = ack;
                    line.window = window;
                    let mut header = line.peer_header(seq);
                    // Resets and SYNs are rare, since they end the connection.
                    header.flags = Flags::from_bits(flags);
                    let at = |offset: u32| Seq::new(ISS + 1) + offset;
                    let sack = blocks.iter().map(|&(left, right)| SackBlock { left: at(left), right: at(right) }).collect();
                    let timestamps = timestamps.then_some(Timestamps { value: 2, echo });
                    line.inject(&header, &Options { sack, timestamps, ..Options::default() }, &vec![1; len], Ecn::NotEct);
                }
            }
            let connection = &line.connection;
            prop_assert!(connection.unacknowledged() <= connection.statistics().bytes_sent);
            if let Some(flow) = connection.flow() {
                prop_assert_eq!(line.cm.query(flow).unwrap().outstanding, connection.outstanding());
            } else {
                prop_assert!(!connection.state().is_alive() || connection.state() < State::Established);
                prop_assert_eq!(connection.outstanding(), 0);
            }
        }
    }
}
