//! TCP receive side under any sequence of good and hostile segments: every byte is read once, as it first arrived, and
//! memory, window and acknowledgements stay valid.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_core::{Duration, Ecn, Instant};
use timeous_tcp::receiver::{DelayedAck, Receiver, ReceiverConfig};
use timeous_tcp::{Flags, Header, Options, Segment, Seq, Timestamps};

#[derive(Arbitrary, Debug)]
enum Step {
    Near { offset: i16, len: u16, fill: u8, flags: u8, time: i8, ce: bool },
    Far { seq: u32, len: u8, flags: u8, time: Option<u32> },
    Read { limit: u16 },
    Ack,
    AckIfDue,
    Wait { millis: u16 },
    WaitDays { days: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    syn: u32,
    buffer: u16,
    shift: u8,
    mss: u16,
    few_islands: bool,
    timestamps: bool,
    sack: bool,
    ecn: bool,
    quick: u8,
    steps: Vec<Step>,
}

/// Low limit of out-of-order ranges.
const FEW: usize = 5;

/// Bytes that arrived for one stream position: the first one, and the set of all.
#[derive(Clone, Copy, Default)]
struct Came {
    first: u8,
    all: [u64; 4],
}

impl Came {
    fn contains(&self, byte: u8) -> bool {
        self.all[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        if self.all == [0; 4] {
            self.first = byte;
        }
        self.all[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
}

struct Run {
    now: Instant,
    syn: Seq,
    receiver: Receiver,
    shift: u8,
    buffer: u64,
    delay: Duration,
    few_islands: bool,
    sack: bool,
    clock: Option<u32>,
    /// Bytes that arrived, for each position.
    came: Vec<Came>,
    out: Vec<u8>,
    acked: u64,
    promised: u64,
    was_finished: bool,
}

fuzz_target!(|input: Input| {
    let buffer = usize::from(input.buffer);
    let shift = input.shift % 15;
    let delayed_ack = DelayedAck { quick: input.quick.into(), ..DelayedAck::default() };
    let config = ReceiverConfig {
        buffer,
        window_scale: shift,
        mss: input.mss,
        sack: input.sack,
        ecn: input.ecn,
        delayed_ack,
        max_islands: if input.few_islands { FEW } else { usize::MAX },
        datagrams: None,
    };
    let clock = input.timestamps.then_some(input.syn.rotate_left(7));
    let syn = Seq::new(input.syn);
    let mut run = Run {
        now: Instant::from_nanos(1),
        syn,
        receiver: Receiver::new(Instant::from_nanos(1), &config, syn, clock),
        shift,
        buffer: buffer as u64,
        delay: delayed_ack.delay,
        few_islands: input.few_islands,
        sack: input.sack,
        clock,
        came: Vec::new(),
        out: Vec::new(),
        acked: 0,
        promised: buffer as u64,
        was_finished: false,
    };
    for step in &input.steps {
        run.step(step);
        run.check();
    }
});

impl Run {
    fn next(&self) -> u64 {
        self.out.len() as u64 + self.receiver.readable() as u64
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Near { offset, len, fill, flags, time, ce } => {
                let seq = Seq::new(self.receiver.next().value().wrapping_add_signed(offset.into()));
                let time = self.clock.map(|clock| clock.wrapping_add_signed(time.into()));
                let ecn = if ce { Ecn::Ce } else { Ecn::Ect0 };
                self.segment(seq, usize::from(len % 1_500), fill, Flags::from_bits(flags), time, ecn);
            }
            Step::Far { seq, len, flags, time } => {
                self.segment(Seq::new(seq), len.into(), 0, Flags::from_bits(flags), time, Ecn::NotEct);
            }
            Step::Read { limit } => {
                let expected = self.receiver.readable().min(limit.into());
                let before = self.out.len();
                assert_eq!(self.receiver.read(limit.into(), &mut self.out), expected);
                for (came, &byte) in self.came[before..].iter().zip(&self.out[before..]) {
                    // A byte refused because of the limit of ranges may be sent again with another value.
                    assert!(came.contains(byte) && (self.few_islands || came.first == byte));
                }
            }
            Step::Ack => self.ack(),
            Step::AckIfDue if self.receiver.ack_is_due(self.now) => self.ack(),
            Step::AckIfDue => {}
            Step::Wait { millis } => self.now += Duration::from_millis(millis.into()),
            Step::WaitDays { days } => self.now += Duration::from_secs(u64::from(days) * 24 * 3_600),
        }
    }

    fn segment(&mut self, seq: Seq, len: usize, fill: u8, flags: Flags, time: Option<u32>, ecn: Ecn) {
        let payload = vec![fill; len];
        let timestamps = time.map(|value| Timestamps { value, echo: 0 });
        let header = Header { flags, ..Header::new(1, 2, seq) };
        let segment = Segment { header, options: Options { timestamps, ..Options::default() }, payload: &payload };
        if !self.receiver.accept(self.now, &segment).is_acceptable() {
            return;
        }
        let (before, readable) = (self.next(), self.receiver.readable());
        let at = before as i64 + i64::from(segment.data_seq().offset_from(self.syn + 1 + before as u32));
        let receipt = self.receiver.on_segment(self.now, &segment, ecn);
        assert_eq!(receipt.bytes, self.receiver.readable() - readable);
        assert_eq!(receipt.finished, self.receiver.is_finished() && !self.was_finished);
        for at in (at..at + len as i64).filter(|&at| (before as i64..self.promised as i64).contains(&at)) {
            let at = at as usize;
            if self.came.len() <= at {
                self.came.resize(at + 1, Came::default());
            }
            self.came[at].add(fill);
        }
        if receipt.bytes == 0 && (len > 0 || flags.contains(Flags::FIN)) {
            assert!(self.receiver.ack_is_due(self.now), "what is odd is answered at once");
        }
        if self.was_finished {
            assert_eq!(receipt.bytes, 0, "nothing comes after the end");
        }
    }

    fn ack(&mut self) {
        let timestamps = self.clock.map(|value| Timestamps { value, echo: 0 });
        let mut header = Header::new(2, 1, Seq::new(0));
        let mut options = Options { timestamps, ..Options::default() };
        self.receiver.stamp(&mut header, &mut options);
        self.receiver.on_sent(&header);
        assert_eq!(header.ack, Some(self.receiver.next()));
        let next = self.next();
        let edge = next + (u64::from(header.window) << self.shift);
        assert!(edge + (1 << self.shift) > self.promised.min(next + (u64::from(u16::MAX) << self.shift)));
        self.promised = self.promised.max(edge);
        self.acked = next;
        assert!(options.len() <= 40);
        for block in options.sack.iter() {
            assert!(block.left.is_before(block.right) && block.right.distance_from(block.left) as u64 <= self.buffer);
        }
        let room = if self.clock.is_some() { 3 } else { 4 };
        assert!(!self.sack || options.sack.len() >= self.receiver.islands().min(room), "what is there is told");
        assert!(!self.receiver.ack_is_due(self.now) && self.receiver.poll_timeout().is_none());
    }

    fn check(&mut self) {
        let next = self.next();
        self.was_finished |= self.receiver.is_finished();
        assert_eq!(self.receiver.next(), self.syn + 1 + next as u32 + u32::from(self.was_finished));
        assert!(self.receiver.capacity() as u64 <= self.buffer);
        assert!(next <= self.promised && self.promised <= self.out.len() as u64 + self.buffer);
        assert!(!self.few_islands || self.receiver.islands() <= FEW);
        if next > self.acked && !self.receiver.ack_is_due(self.now) {
            let due = self.receiver.poll_timeout().expect("what came in order is acknowledged some day");
            assert!(due > self.now && due <= self.now + self.delay);
        }
    }
}
