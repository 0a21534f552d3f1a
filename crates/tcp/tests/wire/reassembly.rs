//! Reassembly against a simple model: segments of one stream in any order, overlapping and repeated.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_core::{Duration, Ecn, Instant};
use timeous_tcp::receiver::{Receiver, ReceiverConfig};
use timeous_tcp::{Flags, Header, Options, Segment, Seq};

use crate::strategy::any_seq;

#[derive(Clone, Debug)]
enum Step {
    /// A segment near the missing data, or anywhere.
    Segment {
        at: u32,
        len: usize,
        fin: bool,
    },
    Read {
        limit: usize,
    },
    Ack,
}

fn any_step(span: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..span, 0..300usize, prop::bool::weighted(0.02))
            .prop_map(|(at, len, fin)| Step::Segment { at, len, fin }),
        1 => (0..2_000usize).prop_map(|limit| Step::Read { limit }),
        1 => Just(Step::Ack),
    ]
}

fn byte(at: u32) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 24) as u8
}

/// A byte-by-byte model of the receiver.
struct Model {
    present: Vec<bool>,
    /// Bytes that were received, even if a FIN later excluded them from the stream.
    came: Vec<bool>,
    read: usize,
    end: Option<usize>,
    /// The farthest advertised edge of the window.
    promised: usize,
}

impl Model {
    fn next(&self) -> usize {
        self.present.iter().position(|present| !present).unwrap_or(self.present.len())
    }

    fn segment(&mut self, at: usize, len: usize, fin: bool) {
        if fin && self.end.is_none() && (self.next()..=self.promised).contains(&(at + len)) {
            self.end = Some(at + len);
            self.present[at + len..].fill(false);
        }
        let limit = self.end.unwrap_or(usize::MAX).min(self.promised);
        for at in at..(at + len).min(limit) {
            self.present[at] = true;
            self.came[at] = true;
        }
    }

    fn islands(&self) -> Vec<(usize, usize)> {
        let mut islands: Vec<(usize, usize)> = Vec::new();
        for at in (self.next()..self.present.len()).filter(|&at| self.present[at]) {
            match islands.last_mut() {
                Some((_, end)) if *end == at => *end = at + 1,
                _ => islands.push((at, at + 1)),
            }
        }
        islands
    }
}

struct Run {
    now: Instant,
    syn: Seq,
    shift: u8,
    receiver: Receiver,
    model: Model,
    out: Vec<u8>,
}

impl Run {
    fn new(syn: Seq, buffer: usize, shift: u8, span: u32) -> Self {
        let config = ReceiverConfig { buffer, window_scale: shift, sack: true, mss: 200, ..ReceiverConfig::default() };
        let receiver = Receiver::new(Instant::ZERO, &config, syn, None);
        let none = vec![false; span as usize + 400];
        let model = Model { present: none.clone(), came: none, read: 0, end: None, promised: buffer };
        Self { now: Instant::ZERO, syn, shift, receiver, model, out: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        self.now += Duration::from_millis(1);
        match *step {
            Step::Segment { at, len, fin } => self.segment(at, len, fin),
            Step::Read { limit } => {
                let readable = self.model.next() - self.model.read;
                assert_eq!(self.receiver.read(limit, &mut self.out), limit.min(readable));
                self.model.read += limit.min(readable);
            }
            Step::Ack => self.ack(),
        }
    }

    fn segment(&mut self, at: u32, len: usize, fin: bool) {
        let payload: Vec<u8> = (at..).take(len).map(byte).collect();
        let header = Header { flags: Flags::when(fin, Flags::FIN), ..Header::new(1, 2, self.syn + 1 + at) };
        let segment = Segment { header, options: Options::default(), payload: &payload };
        if !self.receiver.accept(self.now, &segment).is_acceptable() {
            let (start, end) = (at as usize, at as usize + len);
            assert!(end <= self.model.next() || start > self.model.promised, "what could be taken was refused");
            return;
        }
        let (before, was_finished) = (self.model.next(), self.model.end == Some(self.model.next()));
        self.model.segment(at as usize, len, fin);
        let receipt = self.receiver.on_segment(self.now, &segment, Ecn::NotEct);
        assert_eq!(receipt.bytes, self.model.next() - before);
        let is_finished = self.model.end == Some(self.model.next());
        assert_eq!(receipt.finished, is_finished && !was_finished);
        if receipt.bytes == 0 && (len > 0 || fin) {
            assert!(self.receiver.ack_is_due(self.now), "disorder is acknowledged at once");
        }
    }

    fn ack(&mut self) {
        let (mut header, mut options) = (Header::new(2, 1, Seq::new(0)), Options::default());
        self.receiver.stamp(&mut header, &mut options);
        self.receiver.on_sent(&header);
        let place = |seq: Seq| seq.distance_from(self.syn + 1) as usize;
        let next = self.model.next();
        let fin = usize::from(self.model.end == Some(next));
        assert_eq!(place(header.ack.unwrap()), next + fin);
        let edge = next + (usize::from(header.window) << self.shift);
        assert!(edge + (1 << self.shift) > self.model.promised, "a window does not shrink by a unit");
        self.model.promised = self.model.promised.max(edge);
        let islands = self.model.islands();
        let sacked: Vec<_> = options.sack.iter().map(|block| (place(block.left), place(block.right))).collect();
        assert!(sacked.len() >= islands.len().min(4), "{sacked:?} of {islands:?}");
        // The duplicate is reported first, although it may be all of an island, which then comes second (RFC 2883 §4).
        let told_twice = sacked.first().filter(|first| !islands.contains(first) || sacked.get(1) == Some(first));
        if let Some(&(left, right)) = told_twice {
            assert!(left < right && !self.model.came[left..right].contains(&false), "{left}..{right} did not come");
        }
        let known: BTreeSet<_> = sacked.iter().skip(usize::from(told_twice.is_some())).collect();
        assert_eq!(known.len() + usize::from(told_twice.is_some()), sacked.len(), "no island is told twice");
        assert!(known.into_iter().all(|block| islands.contains(block)), "{sacked:?} of {islands:?}");
    }

    fn check(&mut self, buffer: usize) {
        assert!(self.receiver.capacity() <= buffer);
        assert!(self.model.promised <= self.model.read + buffer, "more was promised than there is room for");
        assert_eq!(self.receiver.islands(), self.model.islands().len());
        assert_eq!(self.receiver.is_finished(), self.model.end == Some(self.model.next()));
        assert!(self.out.iter().zip(0..).all(|(&read, at)| read == byte(at)), "the stream came out as it went in");
    }
}

proptest! {
    #[test]
    fn the_same_bytes_come_out_once(
        syn in any_seq(),
        buffer in 1usize..6_000,
        shift in 0u8..5,
        steps in vec(any_step(5_000), 1..120),
    ) {
        let mut run = Run::new(syn, buffer, shift, 5_000);
        for step in &steps {
            run.step(step);
            run.check(buffer);
        }
    }

    /// A sender that retransmits everything until it is acknowledged succeeds, in spite of loss and reordering.
    #[test]
    fn everything_comes_across(
        syn in any_seq(),
        buffer in 50usize..3_000,
        order in vec((any::<prop::sample::Index>(), any::<bool>()), 40..60),
    ) {
        let total = 4_000u32;
        let mut run = Run::new(syn, buffer, 0, total);
        for _ in 0..1_000 {
            let next = run.model.next() as u32;
            if next == total {
                break;
            }
            for &(index, lost) in &order {
                let at = next + index.index(buffer) as u32;
                let len = 150.min(total.saturating_sub(at));
                if !lost {
                    run.step(&Step::Segment { at, len: len as usize, fin: false });
                }
            }
            run.step(&Step::Segment { at: next, len: 50.min(total - next) as usize, fin: false });
            run.step(&Step::Read { limit: 700 });
            run.step(&Step::Ack);
            run.check(buffer);
        }
        run.step(&Step::Segment { at: total, len: 0, fin: true });
        run.step(&Step::Read { limit: usize::MAX });
        prop_assert!(run.receiver.is_finished());
        prop_assert_eq!(run.out, (0..total).map(byte).collect::<Vec<_>>());
    }
}
