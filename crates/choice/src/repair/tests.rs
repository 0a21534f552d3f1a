//! Tests of retransmission with scripted fates.

use super::*;
use crate::testing::{at, path};
use timeous_core::Duration;

/// Source of numbered one-byte packets that records the calls.
#[derive(Debug, Default)]
struct Script {
    next: u64,
    deadline: Option<Instant>,
    priority: Priority,
    apart: bool,
    /// Number of packets; 0 for unlimited.
    most: u64,
    told: Vec<String>,
}

impl AduSource for Script {
    fn has_queued(&mut self, _: Instant) -> bool {
        false
    }
    fn pull(&mut self, _: Instant, _: &PathState, _: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.most > 0 && self.next == self.most {
            return None;
        }
        if !self.apart {
            packet.push(self.next as u8);
        }
        let meta = AduMeta { deadline: self.deadline, priority: self.priority, ..AduMeta::default() };
        self.next += 1;
        Some(PulledAdu {
            token: self.next - 1,
            len: 1,
            meta,
            apart: self.apart,
            copy: Copied::First,
            is_fragment: false,
        })
    }
    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        self.told.push(format!("read {token}"));
        packet.push(token as u8);
    }
    fn sent(&mut self, token: u64) {
        self.told.push(format!("sent {token}"));
    }
    fn acked(&mut self, token: u64) {
        self.told.push(format!("acked {token}"));
    }
    fn lost(&mut self, token: u64) {
        self.told.push(format!("lost {token}"));
    }
    fn dropped(&mut self, token: u64, _: DropReason) {
        self.told.push(format!("dropped {token}"));
    }
    fn close(&mut self) {
        self.told.push("closed".to_owned());
    }
}

/// Source in which every ADU may be retransmitted.
fn repairing(script: Script) -> Repair<Script> {
    let mut repair = Repair::new(script, Some(Priority::LOWEST));
    repair.allow();
    repair
}

fn pull(repair: &mut Repair<Script>, now: Instant) -> (u64, Vec<u8>) {
    let mut packet = Vec::new();
    let pulled = repair.pull(now, &path(), 100, &mut packet).unwrap();
    (pulled.token, packet)
}

#[test]
fn a_lost_packet_leaves_again_before_anything_fresh() {
    let mut repair = repairing(Script::default());
    assert_eq!(pull(&mut repair, at(0)), (0, vec![0]));
    assert_eq!(pull(&mut repair, at(0)), (1, vec![1]));
    repair.lost(0);
    assert!(repair.has_queued(at(1)));
    assert_eq!(pull(&mut repair, at(1)), (0, vec![0]));
    assert_eq!(pull(&mut repair, at(1)), (2, vec![2]));
    repair.acked(0);
    assert_eq!(repair.inner().told, ["acked 0"], "the ring hears one fate");
    assert_eq!(repair.repaired(), 1);
}

#[test]
fn a_copy_that_was_not_sent_does_not_make_an_adu_unsent() {
    let mut repair = repairing(Script::default());
    for again in [false, true] {
        let (token, _) = pull(&mut repair, at(0));
        if again {
            repair.overdue(token);
        } else {
            repair.lost(token);
        }
        assert_eq!(pull(&mut repair, at(1)).0, token);
        repair.dropped(token, DropReason::Expired);
    }
    assert_eq!(repair.inner().told, ["lost 0"], "the first copy of 1 is under way");
    repair.acked(1);
    let (token, _) = pull(&mut repair, at(2));
    repair.dropped(token, DropReason::Expired);
    assert_eq!(repair.inner().told, ["lost 0", "acked 1", "dropped 2"]);
}

#[test]
fn what_was_left_apart_is_read_only_if_it_may_leave_again() {
    let mut repair = Repair::new(Script { apart: true, ..Script::default() }, Some(Priority::NORMAL));
    repair.allow();
    assert_eq!(pull(&mut repair, at(0)), (0, vec![]));
    repair.inner_mut().priority = Priority::LOWEST;
    assert_eq!(pull(&mut repair, at(0)), (1, vec![]));
    assert_eq!(repair.inner().told, ["read 0"]);
    repair.lost(0);
    let mut packet = Vec::new();
    let again = repair.pull(at(1), &path(), 100, &mut packet).unwrap();
    assert_eq!((again.token, again.apart, packet), (0, false, vec![0]), "from the copy: its place is free by now");
}

#[test]
fn what_cannot_arrive_in_time_is_lost_for_good() {
    let script = Script { deadline: Some(at(100)), ..Script::default() };
    let mut repair = repairing(script);
    pull(&mut repair, at(0));
    repair.lost(0);
    let slow = PathState { srtt: Some(Duration::from_millis(80)), ..path() };
    let mut packet = Vec::new();
    let pulled = repair.pull(at(70), &slow, 100, &mut packet).unwrap();
    assert_eq!(pulled.token, 1, "40 ms on the way are too many");
    assert_eq!(repair.inner().told, ["lost 0"]);
}

#[test]
fn what_is_worth_little_is_not_repaired() {
    let script = Script { priority: Priority::LOWEST, ..Script::default() };
    let mut repair = Repair::new(script, Some(Priority::NORMAL));
    pull(&mut repair, at(0));
    repair.lost(0);
    assert!(!repair.has_queued(at(1)));
    assert_eq!(repair.inner().told, ["lost 0"]);
}

#[test]
fn when_a_carrier_is_gone_all_that_is_kept_leaves_again_once_and_in_order() {
    let mut repair = repairing(Script::default());
    for _ in 0..3 {
        pull(&mut repair, at(0));
    }
    repair.lost(1);
    repair.acked(0);
    repair.carrier_gone();
    assert!(repair.keeps(2) && !repair.keeps(0));
    let mut again = || repair.pull(at(1), &path(), 100, &mut Vec::new()).unwrap().token;
    assert_eq!([again(), again(), again()], [1, 2, 3]);
}

#[test]
fn the_end_of_the_connection_is_the_end_of_every_repair() {
    let mut repair = repairing(Script::default());
    pull(&mut repair, at(0));
    pull(&mut repair, at(0));
    repair.lost(1);
    repair.close();
    assert_eq!(repair.inner().told, ["lost 0", "lost 1", "closed"]);
    assert!(!repair.has_queued(at(1)));
}

#[test]
fn nothing_leaves_again_before_the_receiver_can_tell() {
    let mut repair = Repair::new(Script::default(), Some(Priority::LOWEST));
    pull(&mut repair, at(0));
    pull(&mut repair, at(0));
    repair.overdue(1);
    repair.lost(0);
    assert!(!repair.has_queued(at(1)));
    assert_eq!(repair.inner().told, ["lost 0"]);
}

#[test]
fn while_a_copy_is_under_way_nothing_is_lost() {
    let mut repair = repairing(Script::default());
    pull(&mut repair, at(0));
    repair.overdue(0);
    assert_eq!(pull(&mut repair, at(1)).0, 0);
    repair.lost(0);
    assert!(!repair.has_queued(at(1)), "the other copy may arrive");
    repair.lost(0);
    assert_eq!(pull(&mut repair, at(2)).0, 0, "it did not");
    repair.acked(0);
    repair.lost(0);
    assert_eq!(repair.inner().told, ["acked 0", "lost 0"], "of which the ring takes the first");
}

#[test]
fn an_acknowledgement_that_comes_late_spares_the_repair() {
    let mut repair = repairing(Script::default());
    pull(&mut repair, at(0));
    repair.overdue(0);
    repair.acked(0);
    assert!(!repair.has_queued(at(1)));
}

#[test]
fn more_copies_of_a_last_chance_leave_when_nothing_fresh_waits() {
    let mut repair = repairing(Script { deadline: Some(at(100)), most: 2, ..Script::default() });
    let srtt = Some(Duration::from_millis(60));
    let path = PathState { srtt, min_rtt: srtt, loss_ppm: 50_000, ..path() };
    pull(&mut repair, at(0));
    repair.lost(0);
    let mut next = || repair.pull(at(60), &path, 100, &mut Vec::new()).map(|adu| (adu.token, adu.copy));
    let again = Some((0, Copied::Again));
    assert_eq!([next(), next(), next(), next(), next()], [again, Some((1, Copied::First)), again, again, None]);
    for _ in 0..3 {
        repair.lost(0);
    }
    assert_eq!(repair.pull(at(90), &path, 100, &mut Vec::new()), None, "too late");
    assert_eq!(repair.inner().told, ["lost 0"]);
}

#[test]
fn what_is_held_is_what_can_still_be_in_time() {
    let mut repair = repairing(Script { deadline: Some(at(100)), ..Script::default() });
    for _ in 0..50 {
        pull(&mut repair, at(0));
    }
    repair.lost(3);
    assert_eq!(repair.kept.bytes(), 50);
    repair.inner_mut().deadline = None;
    assert_eq!(repair.pull(at(101), &path(), 100, &mut Vec::new()).map(|adu| adu.token), Some(50));
    assert_eq!((repair.kept.bytes(), &repair.inner().told[..]), (1, &["lost 3".to_owned()][..]));
    repair.lost(4);
    assert_eq!(repair.inner().told.last().unwrap(), "lost 4");
}
