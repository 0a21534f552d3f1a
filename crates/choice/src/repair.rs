//! Repair: a lost packet that can still arrive in time leaves again, before anything fresh.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{AduMeta, AduSource, DropReason, Instant, PathState, Priority, PulledAdu};

/// How many buffers wait to be used again.
const MOST_SPARE: usize = 64;

/// A source that keeps what it gave away until its fate is known, and offers it again if it was lost.
///
/// The deadline is that of the first sending: what can no longer arrive in time is lost for good. Only ADUs of at
/// least the given priority are kept; with none given, nothing is.
#[derive(Debug)]
pub struct Repair<S> {
    inner: S,
    least: Option<Priority>,
    under_way: BTreeMap<u64, Kept>,
    /// Tokens of what is to leave again, in the order of the losses.
    again: VecDeque<u64>,
    /// Buffers of what needs none any more.
    spare: Vec<Vec<u8>>,
    repaired: u64,
}

#[derive(Debug)]
struct Kept {
    meta: AduMeta,
    payload: Vec<u8>,
}

impl<S: AduSource> Repair<S> {
    /// Repairs what comes from `inner` and has at least the priority `least`.
    pub fn new(inner: S, least: Option<Priority>) -> Self {
        Self { inner, least, under_way: BTreeMap::new(), again: VecDeque::new(), spare: Vec::new(), repaired: 0 }
    }

    /// The source underneath.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The source underneath.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// What carried all that is under way is gone: what is kept of it leaves again over the next one. What is not, the source
    /// underneath has to lose.
    pub fn carrier_gone(&mut self) {
        let waiting: std::collections::BTreeSet<u64> = self.again.iter().copied().collect();
        self.again.extend(self.under_way.keys().filter(|token| !waiting.contains(token)));
    }

    /// Whether a packet is kept until its fate is known.
    pub fn keeps(&self, token: u64) -> bool {
        self.under_way.contains_key(&token)
    }

    /// How many packets were sent again.
    pub fn repaired(&self) -> u64 {
        self.repaired
    }

    fn pull_again(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        while let Some(token) = self.again.pop_front() {
            let Some(kept) = self.under_way.get(&token) else { continue };
            if kept.meta.is_expired(now + path.one_way()) || kept.payload.len() > room {
                self.give_up(token);
                continue;
            }
            packet.extend_from_slice(&kept.payload);
            self.repaired += 1;
            return Some(PulledAdu { token, len: kept.payload.len(), meta: kept.meta, apart: false });
        }
        None
    }

    /// Copies what may have to leave again: its place in the queue is free as soon as it has left.
    fn keep(&mut self, pulled: &PulledAdu, appended: &[u8]) {
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.extend_from_slice(appended);
        if pulled.apart {
            self.inner.append(pulled.token, &mut payload);
        }
        self.under_way.insert(pulled.token, Kept { meta: pulled.meta, payload });
    }

    /// Its fate is known.
    fn forget(&mut self, token: u64) {
        if let Some(Kept { mut payload, .. }) = self.under_way.remove(&token)
            && self.spare.len() < MOST_SPARE
        {
            payload.clear();
            self.spare.push(payload);
        }
    }

    fn give_up(&mut self, token: u64) {
        self.forget(token);
        self.inner.lost(token);
    }
}

impl<S: AduSource> AduSource for Repair<S> {
    fn has_queued(&mut self, now: Instant) -> bool {
        !self.again.is_empty() || self.inner.has_queued(now)
    }

    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if let Some(repaired) = self.pull_again(now, path, room, packet) {
            return Some(repaired);
        }
        let start = packet.len();
        let pulled = self.inner.pull(now, path, room, packet)?;
        if self.least.is_some_and(|least| pulled.meta.priority >= least) {
            self.keep(&pulled, &packet[start..]);
        }
        Some(pulled)
    }

    fn will_pull(&mut self, packets: u32) {
        // What is repaired goes first, and takes the place of one of them.
        if self.again.is_empty() {
            self.inner.will_pull(packets);
        }
    }

    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        self.inner.append(token, packet);
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        self.inner.is_worth_repeating(now, path, meta)
    }

    fn sent(&mut self, token: u64) {
        self.inner.sent(token);
    }

    fn acked(&mut self, token: u64) {
        self.forget(token);
        self.inner.acked(token);
    }

    fn lost(&mut self, token: u64) {
        if self.under_way.contains_key(&token) {
            self.again.push_back(token);
        } else {
            self.inner.lost(token);
        }
    }

    fn dropped(&mut self, token: u64, reason: DropReason) {
        self.forget(token);
        self.inner.dropped(token, reason);
    }

    fn close(&mut self) {
        for token in std::mem::take(&mut self.under_way).into_keys() {
            self.inner.lost(token);
        }
        self.again.clear();
        self.inner.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, path};
    use timeous_core::Duration;

    /// Gives out numbered one-byte packets and writes down what it is told.
    #[derive(Debug, Default)]
    struct Script {
        next: u64,
        deadline: Option<Instant>,
        priority: Priority,
        apart: bool,
        told: Vec<String>,
    }

    impl AduSource for Script {
        fn has_queued(&mut self, _: Instant) -> bool {
            false
        }
        fn pull(&mut self, _: Instant, _: &PathState, _: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
            if !self.apart {
                packet.push(self.next as u8);
            }
            let meta = AduMeta { deadline: self.deadline, priority: self.priority, ..AduMeta::default() };
            self.next += 1;
            Some(PulledAdu { token: self.next - 1, len: 1, meta, apart: self.apart })
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

    fn pull(repair: &mut Repair<Script>, now: Instant) -> (u64, Vec<u8>) {
        let mut packet = Vec::new();
        let pulled = repair.pull(now, &path(), 100, &mut packet).unwrap();
        (pulled.token, packet)
    }

    #[test]
    fn a_lost_packet_leaves_again_before_anything_fresh() {
        let mut repair = Repair::new(Script::default(), Some(Priority::LOWEST));
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
    fn what_was_left_apart_is_read_only_if_it_may_leave_again() {
        let mut repair = Repair::new(Script { apart: true, ..Script::default() }, Some(Priority::NORMAL));
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
        let mut repair = Repair::new(script, Some(Priority::LOWEST));
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
        let mut repair = Repair::new(Script::default(), Some(Priority::LOWEST));
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
        let mut repair = Repair::new(Script::default(), Some(Priority::LOWEST));
        pull(&mut repair, at(0));
        pull(&mut repair, at(0));
        repair.lost(1);
        repair.close();
        assert_eq!(repair.inner().told, ["lost 0", "lost 1", "closed"]);
        assert!(!repair.has_queued(at(1)));
    }
}
