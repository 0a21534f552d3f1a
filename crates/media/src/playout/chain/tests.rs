//! Tests of decodability by slice headers, with hand-made streams.

use super::*;
use crate::h264::parameters::ParameterSets;
use crate::h264::testing::{Slice, pps, sps};

/// RTP ticks per two counts: one frame at 25 frames per second.
const FRAME: i64 = 3_600;

/// Recovery points with these counts, and one with a broken link.
const RECOVERY_0: [u8; 4] = [6, 6, 1, 0b1100_0100];
const RECOVERY_3: [u8; 4] = [6, 6, 1, 0b0010_0100];
const BROKEN: [u8; 4] = [6, 6, 1, 0b1110_0100];

struct Receiver {
    sets: ParameterSets,
    chain: Chain,
}

impl Receiver {
    fn new(sps: &[u8], active: u32) -> Self {
        let mut sets = ParameterSets::default();
        assert!(sets.try_take(sps) && sets.try_take(&pps(active)));
        Self { sets, chain: Chain::default() }
    }

    fn of_frames(references: u32, active: u32) -> Self {
        Self::new(&sps(references, false, false, None), active)
    }

    /// Whether a frame, displayed at position `at`, can be decoded.
    fn at(&mut self, at: i64, nals: &[Vec<u8>]) -> bool {
        let picture = Picture::read(nals, &self.sets).unwrap();
        self.chain.decode(&picture, at * FRAME, Some(Pace { ticks: FRAME, counts: 2 }))
    }

    fn idr(&mut self, at: i64) -> bool {
        self.at(at, &[Slice::idr().nal()])
    }

    /// Decodes P frames whose frame number equals their display position, counted from `group`.
    fn ps(&mut self, group: i64, numbers: impl IntoIterator<Item = u32>) -> Vec<bool> {
        numbers.into_iter().map(|number| self.at(group + i64::from(number), &[p(number).nal()])).collect()
    }
}

fn p(number: u32) -> Slice {
    Slice::new('P', number, 2 * number)
}

#[test]
fn a_lost_reference_ends_the_chain_at_the_next_idr() {
    let mut receiver = Receiver::of_frames(1, 1);
    assert!(receiver.idr(0));
    assert_eq!(receiver.ps(0, 1..4), [true; 3]);
    receiver.chain.hole();
    assert_eq!(receiver.ps(0, 5..8), [false; 3]);
    assert!(receiver.idr(8));
    assert_eq!(receiver.ps(8, 1..4), [true; 3]);
}

#[test]
fn a_lost_frame_that_nothing_refers_to_is_no_loss_to_others() {
    let mut receiver = Receiver::of_frames(1, 1);
    receiver.idr(0);
    assert!(receiver.at(2, &[Slice::new('P', 1, 4).nal()]));
    receiver.chain.hole();
    assert!(receiver.at(4, &[Slice::new('P', 2, 8).nal()]), "number and time are the next");
}

#[test]
fn the_next_number_of_another_group_is_not_trusted() {
    let mut receiver = Receiver::of_frames(1, 1);
    receiver.idr(0);
    assert_eq!(receiver.ps(0, 1..3), [true; 2]);
    // The IDR frame at 10 and the next two are lost.
    receiver.chain.hole();
    assert_eq!(receiver.ps(10, 3..5), [false; 2]);
}

/// Frame numbers have four bits here.
#[test]
fn a_number_that_comes_again_after_a_round_of_all_is_not_trusted() {
    for lost in [14, 15, 16] {
        let mut receiver = Receiver::of_frames(1, 1);
        receiver.idr(0);
        assert_eq!(receiver.ps(0, 1..3), [true; 2]);
        receiver.chain.hole();
        assert_eq!(receiver.ps(0, [3 + lost, 4 + lost]), [false; 2], "{lost}");
    }
    let mut receiver = Receiver::of_frames(1, 1);
    receiver.idr(0);
    assert!(receiver.at(1, &[Slice::new('P', 1, 2).nal()]));
    assert!(!receiver.at(2, &[Slice::new('P', 1, 4).nal()]), "each reference frame raises the number");
}

/// Temporal layers: pictures of the lower layer refer only to each other, by list modification.
#[test]
fn a_lost_reference_of_a_higher_layer_is_no_loss_to_the_lower() {
    let mut receiver = Receiver::of_frames(3, 1);
    receiver.idr(0);
    let lower = |number: u32| Slice { modifications: vec![(0, 1)], ..p(number) };
    receiver.chain.hole();
    for number in [2, 4, 6] {
        assert!(receiver.at(number.into(), &[lower(number).nal()]), "{number}");
        assert!(receiver.at(i64::from(number) + 1, &[p(number + 1).nal()]));
    }
}

#[test]
fn an_old_reference_that_is_named_repairs_a_loss() {
    let mut receiver = Receiver::of_frames(4, 1);
    receiver.idr(0);
    assert_eq!(receiver.ps(0, 1..3), [true; 2]);
    receiver.chain.hole();
    assert_eq!(receiver.ps(0, 4..5), [false]);
    let repair = Slice { modifications: vec![(0, 2)], ..p(5) };
    assert!(receiver.at(5, &[repair.nal()]), "it refers to number 2");
    assert_eq!(receiver.ps(0, 6..8), [true; 2]);
}

#[test]
fn a_wave_of_refresh_begins_at_its_recovery_point() {
    let mut receiver = Receiver::of_frames(3, 3);
    receiver.idr(0);
    receiver.ps(0, 1..4);
    receiver.chain.hole();
    assert_eq!(receiver.ps(0, 6..8), [false; 2]);
    assert!(receiver.at(8, &[RECOVERY_3.to_vec(), p(8).nal()]));
    assert_eq!(receiver.chain.entry(), Some(EntryPoint { recovery: 3 }));
    assert_eq!(receiver.ps(0, 9..12), [true; 3], "what they refer to behind the recovery point does not count");
    receiver.chain.hole();
    assert_eq!(receiver.ps(0, 13..16), [false; 3], "but what is lost after it does");
}

#[test]
fn after_joining_at_an_open_group_leading_pictures_are_not_decodable() {
    for joined in [false, true] {
        let mut receiver = Receiver::of_frames(3, 1);
        if !joined {
            receiver.idr(0);
            receiver.ps(0, 1..5);
        }
        assert!(receiver.at(8, &[RECOVERY_0.to_vec(), Slice::new('I', 5, 16).nal()]));
        assert_eq!(receiver.at(6, &[Slice::discardable('B', 6, 12).nal()]), !joined);
        assert!(receiver.at(9, &[p(6).nal()].map(|_| Slice::new('P', 6, 18).nal())));
        assert!(receiver.at(10, &[Slice { active: Some(3), ..Slice::new('P', 7, 20) }.nal()]));
    }
    let mut receiver = Receiver::of_frames(3, 1);
    receiver.idr(0);
    receiver.ps(0, 1..5);
    assert!(receiver.at(8, &[BROKEN.to_vec(), Slice::new('I', 5, 16).nal()]));
    assert!(!receiver.at(6, &[Slice::discardable('B', 6, 12).nal()]), "the link is broken");
    assert!(receiver.at(9, &[Slice::new('P', 6, 18).nal()]));
}

#[test]
fn in_a_stream_without_entry_points_the_second_i_picture_is_one() {
    let mut receiver = Receiver::of_frames(2, 2);
    assert!(!receiver.at(0, &[p(3).nal()]));
    assert!(receiver.at(1, &[Slice::new('I', 4, 8).nal()]), "it refers to nothing");
    assert_eq!(receiver.chain.entry(), None);
    assert!(!receiver.at(2, &[p(5).nal()]), "but this may refer to what was before");
    assert!(receiver.at(6, &[Slice::new('I', 9, 18).nal()]));
    assert!(receiver.chain.entry().is_some());
    assert_eq!(receiver.ps(-3, 10..14), [true; 4]);
}

#[test]
fn i_pictures_between_idr_pictures_are_no_entry_points() {
    let mut receiver = Receiver::of_frames(2, 2);
    receiver.idr(0);
    receiver.ps(0, 1..4);
    receiver.idr(4);
    receiver.ps(4, 1..4);
    for number in [4, 7, 10] {
        receiver.chain.hole();
        assert!(receiver.at(4 + i64::from(number) + 1, &[Slice::new('I', number + 1, 2 * number + 2).nal()]));
        assert_eq!((receiver.chain.entry(), receiver.ps(4, [number + 2])), (None, vec![false]));
    }
}

#[test]
fn two_fields_are_decodable_together() {
    let field = |kind, number: u32, bottom: bool| Slice {
        field: Some(Some(bottom)),
        ..Slice::new(kind, number, 2 * number + u32::from(bottom))
    };
    let frame = |number| [field('P', number, false).nal(), field('P', number, true).nal()];
    let idr = [Slice { idr: true, ..field('I', 0, false) }.nal(), field('P', 0, true).nal()];
    let mut receiver = Receiver::new(&sps(2, true, false, None), 2);
    assert!(!receiver.at(0, &frame(3)));
    assert!(receiver.at(1, &idr));
    assert!(receiver.at(2, &frame(1)) && receiver.at(3, &frame(2)));
    receiver.chain.hole();
    assert!(!receiver.at(5, &frame(4)) && !receiver.at(6, &frame(5)));
    assert!(receiver.at(7, &idr));
    assert!(receiver.at(8, &frame(1)));
}

#[test]
fn fields_that_come_one_by_one_are_decodable_as_well() {
    let field = |kind, number: u32, bottom: bool| Slice {
        field: Some(Some(bottom)),
        ..Slice::new(kind, number, 2 * number + u32::from(bottom))
    };
    let mut receiver = Receiver::new(&sps(2, true, false, None), 2);
    assert!(receiver.at(0, &[Slice { idr: true, ..field('I', 0, false) }.nal()]));
    assert!(receiver.at(0, &[field('P', 0, true).nal()]));
    let mut frame =
        |number: u32| [false, true].map(|bottom| receiver.at(i64::from(number), &[field('P', number, bottom).nal()]));
    assert_eq!((frame(1), frame(2), frame(4), frame(5)), ([true; 2], [true; 2], [false; 2], [false; 2]));
    assert!(receiver.at(8, &[RECOVERY_0.to_vec(), field('I', 8, false).nal()]));
    assert!(receiver.at(8, &[field('P', 8, true).nal()]), "it refers to its own frame");
}
