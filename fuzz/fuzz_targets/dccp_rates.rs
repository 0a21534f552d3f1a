//! Sender and receiver of CCID 3 or 4 under arbitrary feedback and data: each ADU gets one fate, the rate stays valid,
//! and the feedback sent obeys the rules of its options.
#![no_main]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_cm::Manager;
use timeous_core::{AduMeta, AduSource, Copied, DropReason, Duration, Ecn, Instant, PathState, PulledAdu, Rng, Transport};
use timeous_dccp::ccid3::options::{
    LOSS_EVENT_RATE, LOSS_INTERVALS, LossInterval, RECEIVE_RATE, encode_loss_intervals, loss_intervals,
};
use timeous_dccp::ccid4::options::{DROPPED_PACKETS, drop_counts, encode_drop_counts};
use timeous_dccp::{
    Body, Ccid, Config, Connection, Encapsulation, Event, Header, Opt, OptionList, Packet, Seq, ServiceCode, Side,
    State, Target, Ticks, packet,
};

const SERVICE: ServiceCode = ServiceCode::from_bytes(*b"fuzz");
const LOCAL: u16 = 5_000;
const PEER: u16 = 7_000;

#[derive(Arbitrary, Debug)]
struct Input {
    small: bool,
    /// Whether the peer agrees to send Ack Vectors.
    vectors: bool,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Push {
        count: u8,
        len: u16,
    },
    Wait(u16),
    /// Feedback for a packet `back` before the newest.
    Feedback {
        back: u16,
        rate: Option<u32>,
        p: Option<u32>,
        skip: u8,
        intervals: Vec<(u32, u32, bool, u32)>,
        lost: Vec<u32>,
        elapsed: Option<u32>,
        vector: Vec<u8>,
    },
    /// Honest feedback for the packets sent, with a loss of every `every`-th one.
    Honest {
        every: u8,
    },
    /// Arbitrary options on an acknowledgement.
    Raw(Vec<u8>),
    /// Data packet of the peer, `ahead` of its newest, with this window counter.
    Data {
        ahead: u8,
        ccval: u8,
        len: u8,
        marked: bool,
        ndp: Option<u32>,
    },
}

#[derive(Default)]
struct Queue {
    waiting: Vec<u16>,
    pulled: u64,
    settled: BTreeSet<u64>,
}

impl AduSource for Queue {
    fn has_queued(&mut self, _: Instant) -> bool {
        !self.waiting.is_empty()
    }
    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let len = usize::from(self.waiting.pop()?).min(room);
        packet.extend(std::iter::repeat_n(1, len));
        self.pulled += 1;
        Some(PulledAdu { token: self.pulled, len, meta: AduMeta::default(), apart: false, copy: Copied::First, is_fragment: false })
    }
    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, token: u64) {
        assert!(self.settled.insert(token), "a second fate for {token}");
    }
    fn lost(&mut self, token: u64) {
        assert!(self.settled.insert(token), "a second fate for {token}");
    }
    fn dropped(&mut self, _: u64, _: DropReason) {}
}

struct Line {
    now: Instant,
    connection: Connection,
    cm: Manager,
    queue: Queue,
    small: bool,
    /// Newest packets of both ends.
    newest: Seq,
    peer: Seq,
    closed: bool,
}

impl Line {
    /// Opens a connection with the same congestion control in both directions.
    fn open(small: bool, vectors: bool) -> Self {
        let (mut rng, now) = (Rng::from_seed(1), Instant::ZERO);
        let ccid = if small { Ccid::Ccid4 } else { Ccid::Ccid3 };
        let destination = IpAddr::V4(Ipv4Addr::LOCALHOST).into();
        let target = Target { destination, local_port: LOCAL, remote_port: PEER, service: SERVICE };
        let config = Config { initial_seq: Some(Seq::new(1_000)), ..Config::default() }.with_ccids(&[ccid]);
        let connection = Connection::connect(now, config, target, &mut rng);
        let mut line = Self {
            now,
            connection,
            cm: Manager::default(),
            queue: Queue::default(),
            small,
            newest: Seq::new(1_000),
            peer: Seq::new(90_000),
            closed: false,
        };
        let request = line.drain();
        line.now += Duration::from_millis(40);
        let first = Packet::parse(&request[0], Encapsulation::Udp).unwrap();
        let mut confirms = OptionList::new();
        for item in first.options() {
            let Opt::Change { side, feature, values } = item.unwrap().opt else { continue };
            let side = if side == Side::L { Side::R } else { Side::L };
            let refuses = feature == 6 && !vectors && values.len() > 1;
            let values = if refuses { &[0] } else { values };
            // Answer a list with its first value.
            let width = if feature == 3 {
                6
            } else if feature == 5 {
                2
            } else {
                1
            };
            confirms.push(&Opt::Confirm { side, feature, values: &values[..width] }).unwrap();
        }
        line.peer_sends(Body::Response { ack: line.newest, service: SERVICE }, confirms.as_bytes(), 0, 0, Ecn::NotEct);
        line.peer = line.peer.next();
        line.peer_sends(Body::Ack { ack: line.newest }, &[], 0, 0, Ecn::NotEct);
        line
    }

    fn peer_sends(&mut self, body: Body, options: &[u8], ccval: u8, len: usize, ecn: Ecn) {
        let header = Header { ccval: ccval & 15, ..Header::new(PEER, LOCAL, self.peer, body) };
        let mut bytes = Vec::new();
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        if packet::begin_encoded(&header, &options, &mut bytes).is_err() {
            return;
        }
        bytes.extend(std::iter::repeat_n(7, len));
        packet::finish(&mut bytes, 0, Encapsulation::Udp).unwrap();
        self.connection.handle_datagram(self.now, &mut self.cm, &bytes, ecn).unwrap();
        self.drain();
    }

    fn drain(&mut self) -> Vec<Vec<u8>> {
        let (mut sent, mut bytes) = (Vec::new(), Vec::new());
        loop {
            while self.cm.poll_granted().is_some() {}
            let polled = self.connection.poll_transmit(self.now, &mut self.cm, &mut self.queue, &mut bytes).unwrap();
            if polled.is_none() {
                break;
            }
            self.check(&bytes);
            sent.push(std::mem::take(&mut bytes));
            assert!(sent.len() < 20_000, "it never stops sending at one instant");
        }
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Acked { token, .. } => self.queue.acked(token),
                Event::Lost { token } => self.queue.lost(token),
                Event::Closed { .. } => self.closed = true,
                _ => {}
            }
        }
        self.connection.poll_timeout().unwrap();
        if let Some(path) = self.connection.flow().and_then(|flow| self.cm.query(flow).ok()) {
            assert!(path.rate.as_bps() > 0, "what is allowed is never nothing");
        }
        let p = self.connection.loss_event_rate().unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&p), "{p}");
        sent
    }

    /// Checks that the feedback sent obeys the rules (RFC 4342 §8.6.1, RFC 5622 §8.7).
    fn check(&mut self, bytes: &[u8]) {
        let packet = Packet::parse(bytes, Encapsulation::Udp).unwrap();
        self.newest = self.newest.max(packet.header.seq);
        let (mut intervals, mut counts) = (None, None);
        for item in packet.options() {
            match item.unwrap().opt {
                Opt::CcidSpecific { kind: LOSS_INTERVALS, data } => {
                    let (skip, told) = loss_intervals(data).unwrap();
                    assert!(skip <= 3, "{skip}");
                    let told: Vec<LossInterval> = told.collect();
                    for (n, interval) in told.iter().enumerate() {
                        let is_first = interval.lossy == 0;
                        assert!(!is_first || n + 1 == told.len());
                        assert!(is_first || u64::from(interval.data) <= interval.packets());
                    }
                    intervals = Some(told);
                }
                Opt::CcidSpecific { kind: DROPPED_PACKETS, data } => {
                    counts = Some(drop_counts(data).unwrap().collect::<Vec<u32>>());
                }
                _ => {}
            }
        }
        if let Some(intervals) = intervals {
            assert_eq!(counts.is_some(), self.small);
            for (interval, count) in intervals.iter().zip(counts.unwrap_or_default()) {
                assert!(count <= interval.lossy);
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..200_000 {
            self.cm.handle_timeout(self.now);
            self.connection.handle_timeout(self.now, &mut self.cm).unwrap();
            self.drain();
            let next = [self.connection.poll_timeout().unwrap(), self.cm.poll_timeout()].into_iter().flatten().min();
            match next.filter(|&at| at <= end) {
                Some(at) => self.now = at.max(self.now + Duration::from_nanos(1)),
                None => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("200000 rounds within {time:?}: it spins");
    }

    fn acknowledge(&mut self, back: u64, options: &[u8]) {
        self.peer = self.peer.next();
        self.peer_sends(Body::Ack { ack: self.newest - back }, options, 0, 0, Ecn::NotEct);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push { count, len } => {
                self.queue.waiting.extend(std::iter::repeat_n(len % 1_500, usize::from(count)));
                self.queue.waiting.truncate(1_000);
                self.drain();
            }
            Step::Wait(millis) => self.run_for(Duration::from_millis(u64::from(millis % 5_000))),
            Step::Feedback { back, rate, p, skip, intervals, lost, elapsed, vector } => {
                let mut options = OptionList::with_limit(900);
                let mut own = |kind, data: &[u8]| {
                    // Options that do not fit are left out.
                    let _ = options.push(&Opt::CcidSpecific { kind, data });
                };
                if let Some(rate) = rate {
                    own(RECEIVE_RATE, &rate.to_be_bytes());
                }
                if let Some(p) = p {
                    own(LOSS_EVENT_RATE, &p.to_be_bytes());
                }
                let intervals: Vec<LossInterval> = intervals
                    .into_iter()
                    .map(|(lossless, lossy, nonce, data)| LossInterval {
                        // Mostly of a plausible size.
                        lossless: if nonce { lossless } else { lossless % 64 },
                        lossy: lossy % 32,
                        nonce: nonce && lossy % 4 == 0,
                        data: if nonce { data } else { data % 64 },
                    })
                    .collect();
                let mut told = Vec::new();
                encode_loss_intervals(skip % 5, &intervals, &mut told);
                own(LOSS_INTERVALS, &told);
                let mut counts = Vec::new();
                encode_drop_counts(lost, &mut counts);
                own(DROPPED_PACKETS, &counts);
                if let Some(elapsed) = elapsed {
                    let _ = options.push(&Opt::ElapsedTime(Ticks::new(elapsed)));
                }
                if !vector.is_empty() {
                    let vector = &vector[..vector.len().min(200)];
                    let _ = options.push(&Opt::AckVector { nonce: false, vector });
                }
                self.acknowledge(u64::from(back % 256), options.as_bytes());
            }
            Step::Honest { every } => {
                let sent = self.newest.distance_from(Seq::new(1_000)) as u32 + 1;
                let lossy = u32::from(every % 8 == 0 && sent > 10);
                let mut intervals = vec![];
                if lossy > 0 {
                    intervals.push(LossInterval { lossless: 5, lossy, nonce: false, data: 6 });
                }
                intervals.push(LossInterval { lossless: sent - 6 * lossy, lossy: 0, nonce: false, data: 20 * lossy });
                let mut told = Vec::new();
                encode_loss_intervals(0, &intervals, &mut told);
                let mut options = OptionList::new();
                options.push(&Opt::CcidSpecific { kind: RECEIVE_RATE, data: &[0, 1, 0, 0] }).unwrap();
                options.push(&Opt::CcidSpecific { kind: LOSS_INTERVALS, data: &told }).unwrap();
                self.acknowledge(0, options.as_bytes());
            }
            Step::Raw(mut options) => {
                options.truncate(200);
                self.acknowledge(0, &options);
            }
            Step::Data { ahead, ccval, len, marked, ndp } => {
                let newest = self.peer;
                // Sometimes late.
                self.peer =
                    if ahead % 8 == 7 { newest - u64::from(ahead / 8 % 8) } else { newest + u64::from(ahead % 8) + 1 };
                let mut options = OptionList::new();
                if let Some(ndp) = ndp {
                    options.push(&Opt::NdpCount(u64::from(ndp % 16))).unwrap();
                }
                let ecn = if marked { Ecn::Ce } else { Ecn::Ect0 };
                self.peer_sends(Body::Data, options.as_bytes(), ccval, usize::from(len), ecn);
                self.peer = self.peer.max(newest);
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let mut line = Line::open(input.small, input.vectors);
    assert!(line.connection.state() >= State::PartOpen, "{:?}", line.connection.state());
    assert_eq!(line.connection.ccid(), if input.small { Ccid::Ccid4 } else { Ccid::Ccid3 });
    for step in input.steps.into_iter().take(200) {
        line.step(step);
    }
    // After a long silence, every packet in flight must have a fate.
    line.queue.waiting.clear();
    line.run_for(Duration::from_secs(200));
    assert_eq!(line.queue.settled.len() as u64, line.queue.pulled);
});
