//! Scripted send queue that tracks the fate of every ADU.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use timeous_core::{AduMeta, AduSource, Copied, DropReason, Instant, PathState, PulledAdu};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Pulled,
    Sent,
    Acked,
    Lost,
    Dropped(DropReason),
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    queue: VecDeque<(Instant, u64, Vec<u8>)>,
    next_token: u64,
    pub(crate) fates: BTreeMap<u64, Vec<Step>>,
    /// Number of times that it claims to have data and then returns none, like a queue whose ADUs expire.
    pub(crate) false_promises: u32,
    /// Whether payloads are handed over separately.
    pub(crate) leaves_apart: bool,
    left: BTreeMap<u64, Vec<u8>>,
    /// Whether lost or overdue ADUs are retransmitted until acknowledged.
    pub(crate) repeats: bool,
    /// Whether no retransmission is worth it.
    pub(crate) stays_lost: bool,
    kept: BTreeMap<u64, Vec<u8>>,
    again: BTreeSet<u64>,
    /// Number of payloads that the transport appended itself.
    pub(crate) appended: u64,
}

impl Script {
    pub(crate) fn push(&mut self, ready: Instant, bytes: Vec<u8>) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.queue.push_back((ready, token, bytes));
        token
    }

    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.queue.front().map(|entry| entry.0)
    }

    /// Notes that an ADU is overdue.
    pub(crate) fn overdue(&mut self, token: u64) {
        if self.kept.contains_key(&token) {
            self.again.insert(token);
        }
    }

    /// Number of ADUs in the queue.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether all ADUs have had their fate.
    pub(crate) fn is_settled(&self) -> bool {
        let is_over = |steps: &Vec<Step>| matches!(steps.last(), Some(Step::Acked | Step::Lost | Step::Dropped(_)));
        self.queue.is_empty() && self.fates.values().all(is_over)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A payload that was left apart, for the driver.
    pub(crate) fn gather(&mut self, token: u64) -> Vec<u8> {
        self.left.remove(&token).expect("it was left apart, and nobody has taken it yet")
    }

    fn note(&mut self, token: u64, step: Step) {
        self.fates.entry(token).or_default().push(step);
    }

    pub(crate) fn count(&self, step: Step) -> usize {
        self.fates.values().filter(|steps| steps.contains(&step)).count()
    }

    /// No ADU has more than one fate, or one before it was sent.
    #[track_caller]
    pub(crate) fn assert_fates_in_order(&self) {
        for (token, steps) in &self.fates {
            let fine = matches!(
                steps.as_slice(),
                [Step::Pulled] | [Step::Pulled, Step::Sent] | [Step::Pulled, Step::Sent, Step::Acked | Step::Lost]
            );
            assert!(fine, "ADU {token}: {steps:?}");
        }
    }

    /// Every ADU that was pulled was sent, and then acked or lost, once.
    #[track_caller]
    pub(crate) fn assert_one_fate_each(&self) {
        for (token, steps) in &self.fates {
            let fine =
                matches!(steps.as_slice(), [Step::Pulled, Step::Sent, Step::Acked | Step::Lost] | [Step::Dropped(_)]);
            assert!(fine, "ADU {token}: {steps:?}");
        }
    }
}

impl AduSource for Script {
    fn has_queued(&mut self, now: Instant) -> bool {
        self.false_promises > 0 || !self.again.is_empty() || self.queue.front().is_some_and(|entry| entry.0 <= now)
    }

    fn pull(&mut self, now: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.false_promises > 0 {
            self.false_promises -= 1;
            return None;
        }
        if let Some(token) = self.again.pop_first() {
            let bytes = &self.kept[&token];
            packet.extend_from_slice(bytes);
            let meta = AduMeta::default();
            return Some(PulledAdu {
                token,
                len: bytes.len(),
                meta,
                apart: false,
                copy: Copied::Again,
                is_fragment: false,
            });
        }
        loop {
            self.queue.front().filter(|entry| entry.0 <= now)?;
            let (_, token, bytes) = self.queue.pop_front()?;
            if bytes.len() > room {
                self.note(token, Step::Dropped(DropReason::TooLarge));
                continue;
            }
            self.note(token, Step::Pulled);
            if self.repeats {
                self.kept.insert(token, bytes.clone());
            }
            let (len, apart) = (bytes.len(), self.leaves_apart);
            if apart {
                self.left.insert(token, bytes);
            } else {
                packet.extend_from_slice(&bytes);
            }
            return Some(PulledAdu {
                token,
                len,
                meta: AduMeta::default(),
                apart,
                copy: Copied::First,
                is_fragment: false,
            });
        }
    }

    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        self.appended += 1;
        packet.extend_from_slice(&self.gather(token));
    }

    fn sent(&mut self, token: u64) {
        self.note(token, Step::Sent);
    }

    fn acked(&mut self, token: u64) {
        self.note(token, Step::Acked);
        self.kept.remove(&token);
        self.again.remove(&token);
    }

    fn lost(&mut self, token: u64) {
        self.note(token, Step::Lost);
        self.overdue(token);
    }

    fn dropped(&mut self, token: u64, reason: DropReason) {
        self.note(token, Step::Dropped(reason));
    }
}
