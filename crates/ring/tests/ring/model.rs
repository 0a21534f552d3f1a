//! Model test: random operations on the ring and on a simple queue in parallel.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use timeous_core::{AduMeta, AduSeq, DropReason, Duration, Fate, Instant, Queue};
use timeous_ring::{Config, Consumer, EnqueueError, Index, Producer, create};

const SLOTS: u32 = 8;

#[derive(Clone, Debug)]
enum Op {
    Enqueue { len: usize, ttl: Option<u64> },
    EnqueueInPlace { len: usize },
    EnqueueParts { cuts: Vec<usize> },
    EnqueueFront { len: usize },
    MarkDead(usize),
    PullBack { packets: usize, edits: Vec<Edit> },
    Choose(usize),
    Claim { room: usize },
    Sent(usize),
    Acked(usize),
    Lost(usize),
    Dropped(usize),
    Wait(u64),
    Poll,
}

#[derive(Clone, Debug)]
enum Edit {
    Rewrite(usize, usize),
    SetMeta(usize),
    Swap(usize, usize),
    Shift(usize, usize),
    Withdraw(usize),
    Push(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = 0..SLOTS as usize;
    prop_oneof![
        (at.clone(), 0..200usize).prop_map(|(at, len)| Edit::Rewrite(at, len)),
        at.clone().prop_map(Edit::SetMeta),
        (at.clone(), at.clone()).prop_map(|(a, b)| Edit::Swap(a, b)),
        (at.clone(), at.clone()).prop_map(|(a, b)| Edit::Shift(a, b)),
        at.prop_map(Edit::Withdraw),
        (0..200usize).prop_map(Edit::Push),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let at = 0..SLOTS as usize;
    // Short payloads, about a page, and too large ones.
    let len = || prop_oneof![12 => 0..200usize, 1 => 4090..4100usize];
    prop_oneof![
        8 => (len(), prop::option::of(0..50u64)).prop_map(|(len, ttl)| Op::Enqueue { len, ttl }),
        2 => (0..200usize).prop_map(|len| Op::EnqueueInPlace { len }),
        2 => prop::collection::vec(0..4097usize, 1..4).prop_map(|cuts| Op::EnqueueParts { cuts }),
        2 => len().prop_map(|len| Op::EnqueueFront { len }),
        2 => at.clone().prop_map(Op::MarkDead),
        4 => (0..10usize, prop::collection::vec(edit(), 0..4))
            .prop_map(|(packets, edits)| Op::PullBack { packets, edits }),
        2 => at.clone().prop_map(Op::Choose),
        8 => (100..5000usize).prop_map(|room| Op::Claim { room }),
        6 => at.clone().prop_map(Op::Sent),
        3 => at.clone().prop_map(Op::Acked),
        1 => at.clone().prop_map(Op::Lost),
        1 => at.prop_map(Op::Dropped),
        1 => (0..30u64).prop_map(Op::Wait),
        2 => Just(Op::Poll),
    ]
}

#[derive(Clone, Debug)]
struct Item {
    meta: AduMeta,
    bytes: Vec<u8>,
    dead: Option<DropReason>,
    given_up: bool,
}

/// The ring and its model.
struct Pair {
    producer: Producer,
    consumer: Consumer,
    now: Instant,
    next: u64,
    queue: VecDeque<Item>,
    /// Position of the queue's first packet.
    first: u64,
    /// Claimed packets in ring order, removed when `dev_i` has passed.
    flying: VecDeque<(u64, bool)>,
    open: BTreeMap<u64, AduSeq>,
    fates: BTreeMap<AduSeq, Fate>,
}

impl Pair {
    fn new() -> Self {
        let (producer, consumer) = create(&Config::new(SLOTS).completions(1 << 12)).unwrap();
        Self {
            producer,
            consumer,
            now: Instant::ZERO,
            next: 0,
            queue: VecDeque::new(),
            first: 0,
            flying: VecDeque::new(),
            open: BTreeMap::new(),
            fates: BTreeMap::new(),
        }
    }

    fn room(&self) -> usize {
        SLOTS as usize - 1 - self.queue.len() - self.flying.len()
    }

    fn item(&mut self, len: usize, ttl: Option<u64>) -> Item {
        let seq = self.next;
        self.next += 1;
        let deadline = ttl.map(|millis| self.now + Duration::from_millis(millis));
        let meta = AduMeta { seq: AduSeq(seq), deadline, enqueued: self.now, ..AduMeta::default() };
        let bytes = (0..len).map(|at| (seq as usize + at * 7) as u8).collect();
        Item { meta, bytes, dead: None, given_up: false }
    }

    fn expected<T>(&self, len: usize, good: T) -> Result<T, EnqueueError> {
        if len > 4096 {
            Err(EnqueueError::TooLarge { len, buffer_size: 4096 })
        } else if self.room() == 0 {
            Err(EnqueueError::Full)
        } else {
            Ok(good)
        }
    }

    fn fate(&mut self, seq: AduSeq, fate: Fate) {
        assert_eq!(self.fates.insert(seq, fate), None, "the model gives one fate");
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Enqueue { len, ttl } => self.enqueue(len, ttl),
            Op::EnqueueInPlace { len } => self.enqueue_in_place(len),
            Op::EnqueueParts { cuts } => self.enqueue_parts(&cuts),
            Op::EnqueueFront { len } => self.enqueue_front(len),
            Op::MarkDead(at) => self.mark_dead(at),
            Op::PullBack { packets, edits } => self.pull_back(packets, edits),
            Op::Choose(at) => self.choose(at),
            Op::Claim { room } => self.claim(room),
            Op::Sent(at) => self.sent(at),
            Op::Acked(at) => self.settle(at, Fate::Acked),
            Op::Lost(at) => self.settle(at, Fate::Lost),
            Op::Dropped(at) => self.settle(at, Fate::Dropped(DropReason::TooLate)),
            Op::Wait(millis) => self.now += Duration::from_millis(millis),
            Op::Poll => self.poll(),
        }
        self.check();
    }

    fn enqueue(&mut self, len: usize, ttl: Option<u64>) {
        let item = self.item(len, ttl);
        let end = self.first + self.queue.len() as u64;
        let expected = self.expected(len, end);
        let got = self.producer.enqueue(&item.meta, &item.bytes).map(Index::position);
        assert_eq!(got, expected);
        if got.is_ok() {
            self.queue.push_back(item);
        }
    }

    fn enqueue_in_place(&mut self, len: usize) {
        let item = self.item(len, None);
        let expected = self.expected(len, ());
        let mut buffer = self.producer.buffer().expect("there is a buffer more than packets");
        buffer.bytes_mut()[..len].copy_from_slice(&item.bytes);
        let got = self.producer.enqueue_buffer(&item.meta, buffer, len);
        assert_eq!(got.map(drop), expected);
        if got.is_ok() {
            self.queue.push_back(item);
        }
    }

    fn enqueue_parts(&mut self, cuts: &[usize]) {
        let Ok(mut buffer) = self.producer.buffer() else { panic!("there is a buffer more than packets") };
        let whole: Vec<u8> = (0..4096u32).map(|at| (at * 13 + self.next as u32) as u8).collect();
        buffer.bytes_mut().copy_from_slice(&whole);
        let buffer = buffer.freeze();
        let mut from = 0;
        for cut in cuts {
            let range = from..(*cut).max(from);
            from = range.end;
            let item = Item { bytes: whole[range.clone()].to_vec(), ..self.item(0, None) };
            let expected = self.expected(range.len(), ());
            assert_eq!(self.producer.enqueue_part(&item.meta, &buffer, range).map(drop), expected);
            if expected.is_ok() {
                self.queue.push_back(item);
            }
        }
    }

    fn enqueue_front(&mut self, len: usize) {
        let item = self.item(len, None);
        let expected = self.expected(len, (self.first, self.queue.len(), true));
        let got = self.producer.enqueue_front(&item.meta, &item.bytes);
        assert_eq!(got.map(|front| (front.index.position(), front.overtook, front.made_it())), expected);
        if got.is_ok() {
            // Each place holds another packet now, which voids the consumer's drop decisions.
            for item in &mut self.queue {
                item.given_up = false;
            }
            self.queue.push_front(item);
        }
    }

    fn mark_dead(&mut self, at: usize) {
        let Some(index) = self.producer.queued().nth(at).map(|queued| queued.index) else { return };
        assert!(self.producer.mark_dead(index));
        self.queue[at].dead = Some(DropReason::Withdrawn);
    }

    fn pull_back(&mut self, packets: usize, edits: Vec<Edit>) {
        let kept = self.queue.len().saturating_sub(packets);
        let mut model: Vec<Item> = self.queue.drain(kept..).collect();
        let mut fresh: Vec<Item> = (0..edits.len()).map(|_| self.item(0, None)).collect();
        let mut free = self.room() - model.len();
        let mut fates = Vec::new();
        let mut pulled = self.producer.pull_back(packets).unwrap();
        assert_eq!(pulled.len(), model.len());
        for edit in edits {
            let mut item = fresh.pop().expect("one for each");
            let bytes = |len: usize| (0..len).map(|at| (at * 3 + len) as u8).collect::<Vec<u8>>();
            match edit {
                Edit::Rewrite(at, len) => {
                    item.bytes = bytes(len);
                    let got = pulled.rewrite(at, &item.meta, &item.bytes);
                    assert_eq!(got.is_ok(), at < model.len());
                    if got.is_ok() {
                        fates.push(std::mem::replace(&mut model[at], item));
                    }
                }
                Edit::SetMeta(at) => {
                    let got = pulled.set_meta(at, &item.meta);
                    assert_eq!(got.is_ok(), at < model.len());
                    if got.is_ok() {
                        item.bytes = model[at].bytes.clone();
                        fates.push(std::mem::replace(&mut model[at], item));
                    }
                }
                Edit::Swap(a, b) => {
                    let inside = a < model.len() && b < model.len();
                    assert_eq!(pulled.swap(a, b), inside);
                    if inside {
                        model.swap(a, b);
                        for at in if a == b { vec![] } else { vec![a, b] } {
                            model[at].given_up = false;
                        }
                    }
                }
                Edit::Shift(from, to) => {
                    let inside = from < model.len() && to < model.len();
                    assert_eq!(pulled.shift(from, to), inside);
                    if inside && from != to {
                        let moved = model.remove(from);
                        model.insert(to, moved);
                        for item in &mut model[from.min(to)..=from.max(to)] {
                            item.given_up = false;
                        }
                    }
                }
                Edit::Withdraw(at) => {
                    pulled.withdraw(at);
                    if let Some(item) = model.get_mut(at) {
                        item.dead.get_or_insert(DropReason::Withdrawn);
                    }
                }
                Edit::Push(len) => {
                    item.bytes = bytes(len);
                    let got = pulled.push(&item.meta, &item.bytes);
                    assert_eq!(got.is_ok(), free > 0);
                    if got.is_ok() {
                        free -= 1;
                        model.push(item);
                    }
                }
            }
        }
        pulled.release();
        self.queue.extend(model);
        for old in fates {
            self.fate(old.meta.seq, Fate::Dropped(old.dead.unwrap_or(DropReason::Withdrawn)));
        }
    }

    fn choose(&mut self, at: usize) {
        let mut queue = self.consumer.queued().unwrap();
        assert_eq!(queue.len(), self.queue.len());
        for (place, item) in self.queue.iter().enumerate() {
            let alive = (item.dead.is_none() && !item.given_up).then_some((item.meta, item.bytes.len()));
            assert_eq!(queue.get(place).map(|(meta, len)| (*meta, len)), alive);
        }
        queue.drop_at(at, DropReason::Policy);
        if let Some(item) = self.queue.get_mut(at)
            && item.dead.is_none()
        {
            item.given_up = true;
        }
    }

    fn claim(&mut self, room: usize) {
        let claimed = self.consumer.claim_within(self.now, room).unwrap();
        let expected = loop {
            let Some(item) = self.queue.pop_front() else { break None };
            let token = self.first;
            self.first += 1;
            let given_up = item.given_up.then_some(DropReason::Policy);
            let expired = item.meta.is_expired(self.now).then_some(DropReason::Expired);
            let large = (item.bytes.len() > room).then_some(DropReason::TooLarge);
            let Some(reason) = item.dead.or(given_up).or(expired).or(large) else { break Some((token, item)) };
            self.fate(item.meta.seq, Fate::Dropped(reason));
            self.flying.push_back((token, true));
            self.leave(token);
        };
        assert_eq!(claimed.map(|c| (c.token, c.meta)), expected.as_ref().map(|(token, item)| (*token, item.meta)));
        let Some((token, item)) = expected else { return };
        let mut bytes = b"before".to_vec();
        assert!(self.consumer.copy_payload(token, &mut bytes));
        assert_eq!(bytes[6..], item.bytes);
        self.flying.push_back((token, false));
        self.open.insert(token, item.meta.seq);
    }

    fn leave(&mut self, token: u64) {
        for flying in self.flying.iter_mut().filter(|(flying, _)| *flying == token) {
            flying.1 = true;
        }
        while self.flying.front().is_some_and(|(_, left)| *left) {
            self.flying.pop_front();
        }
    }

    fn token(&self, at: usize) -> Option<u64> {
        self.open.keys().nth(at).copied()
    }

    fn sent(&mut self, at: usize) {
        let Some(token) = self.token(at) else { return };
        self.consumer.sent(token);
        self.leave(token);
    }

    fn settle(&mut self, at: usize, fate: Fate) {
        let Some(token) = self.token(at) else { return };
        // A second fate is ignored.
        let mut first = true;
        for fate in [fate, Fate::Lost] {
            let told = match fate {
                Fate::Acked => self.consumer.acked(token),
                Fate::Lost => self.consumer.lost(token),
                Fate::Dropped(reason) => self.consumer.dropped(token, reason),
            };
            assert_eq!(told.is_some(), first, "an ADU has one fate");
            first = false;
        }
        self.leave(token);
        let seq = self.open.remove(&token).expect("it was open");
        self.fate(seq, fate);
    }

    fn poll(&mut self) {
        while let Some(done) = self.producer.poll_completion() {
            assert_eq!(self.fates.remove(&done.seq), Some(done.fate), "of {:?}", done.seq);
        }
        assert!(self.fates.is_empty(), "not told: {:?}", self.fates);
    }

    fn check(&mut self) {
        assert_eq!(self.producer.free_slots(), self.room());
        let expected = self.queue.iter().map(|item| (item.meta, item.bytes.len(), item.dead));
        assert!(self.producer.queued().map(|queued| (queued.meta, queued.len, queued.dead)).eq(expected));
        assert_eq!(self.consumer.queued_len(), Ok(self.queue.len()));
        assert_eq!(self.consumer.unsettled_len(), self.open.len());
    }

    /// Checks at the end that each enqueued packet has a fate.
    fn finish(mut self) {
        self.consumer.drop_queued(DropReason::Closed).unwrap();
        while let Some(item) = self.queue.pop_front() {
            let given_up = item.given_up.then_some(DropReason::Policy);
            let reason = item.dead.or(given_up).unwrap_or(DropReason::Closed);
            self.fate(item.meta.seq, Fate::Dropped(reason));
        }
        self.consumer.settle_all();
        for (token, seq) in std::mem::take(&mut self.open) {
            let unsent = self.flying.contains(&(token, false));
            self.fate(seq, if unsent { Fate::Dropped(DropReason::Closed) } else { Fate::Lost });
        }
        self.flying.clear();
        self.poll();
        assert_eq!(self.producer.free_slots(), SLOTS as usize - 1);
        assert_eq!((self.producer.broken(), self.consumer.violation()), (None, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ring_is_a_queue(ops in prop::collection::vec(op(), 0..120)) {
        let mut pair = Pair::new();
        for op in ops {
            pair.run(op);
        }
        pair.finish();
    }
}
