//! Benchmark of the ring against a system call: each operation compared to `send()` of the same payload in one run.

use std::hint::black_box;
use std::net::UdpSocket;

use timeous_core::{AduMeta, AduSeq, DropReason, Duration, Instant, Queue};
use timeous_ring::{Config, Consumer, FrozenBuffer, PAGE, PacketZone, Producer, create, create_shared};

/// Operations per time measurement.
const BATCH: u64 = 64;
/// Batches of each operation, interleaved so that a disturbance affects all; the median counts.
const ROUNDS: usize = 4000;

#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark is there to read the clock")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

fn time(work: impl FnOnce()) -> f64 {
    let start = clock();
    work();
    Duration::from(start.elapsed()).as_nanos() as f64
}

fn adu(seq: u64) -> AduMeta {
    AduMeta { seq: AduSeq(seq), ..AduMeta::default() }
}

struct Bench {
    producer: Producer,
    consumer: Consumer,
    payload: Vec<u8>,
    packet: Vec<u8>,
    /// The payload in a zone; of no use to a ring in a memfd.
    buffer: FrozenBuffer,
    socket: UdpSocket,
}

impl Bench {
    fn new((producer, consumer): (Producer, Consumer), len: usize, socket: UdpSocket) -> Self {
        let zone = PacketZone::new(PAGE as u32, 1).expect("a small zone");
        let buffer = zone.buffer().expect("its only buffer").freeze().part(0..len).expect("it fits");
        Self { producer, consumer, payload: vec![0x5a; len], packet: Vec::with_capacity(2048), buffer, socket }
    }

    fn enqueue(&mut self) {
        for seq in 0..BATCH {
            self.producer.enqueue(black_box(&adu(seq)), black_box(&self.payload)).expect("there is room");
        }
    }

    /// Enqueues a buffer of a zone, or a copy if the ring cannot.
    fn enqueue_shared(&mut self) {
        for seq in 0..BATCH {
            if self.producer.enqueue_shared(black_box(&adu(seq)), black_box(&self.buffer)).is_err() {
                return self.enqueue();
            }
        }
    }

    /// Runs the consumer's part for each packet, from claim to acknowledgement.
    fn take(&mut self) {
        while let Some(claimed) = self.consumer.claim(Instant::ZERO).expect("an honest producer") {
            self.packet.clear();
            self.consumer.copy_payload(claimed.token, &mut self.packet);
            black_box(&self.packet);
            self.consumer.sent(claimed.token);
            self.consumer.acked(claimed.token);
        }
    }

    fn hear(&mut self) {
        while let Some(done) = self.producer.poll_completion() {
            black_box(done);
        }
    }

    fn send(&mut self) {
        for _ in 0..BATCH {
            // A socket that is never read: once its buffer is full the kernel drops, which is the cheaper case for send.
            self.socket.send(black_box(&self.payload)).expect("loopback takes datagrams");
        }
    }

    /// Looks at the queue as a late-choice policy does.
    fn view(&mut self) {
        let queue = self.consumer.queued().expect("an honest producer");
        for place in 0..queue.len() {
            black_box(queue.get(place));
        }
    }

    /// Runs one batch of each; returns nanoseconds per operation (pull back: for all packets at once).
    fn round(&mut self) -> [f64; 10] {
        let each = BATCH as f64;
        let send = time(|| self.send()) / each;
        let enqueue = time(|| self.enqueue()) / each;
        let pull = time(|| self.producer.pull_back_all().expect("an honest consumer").release());
        let front = time(|| {
            let mut pulled = self.producer.pull_back_all().expect("an honest consumer");
            pulled.move_to_front(BATCH as usize - 1);
        });
        let view = time(|| self.view());
        let again = time(|| self.view());
        let take = time(|| self.take()) / each;
        let hear = time(|| self.hear()) / each;
        self.enqueue();
        let drop = time(|| {
            let mut pulled = self.producer.pull_back_all().expect("an honest consumer");
            for place in 0..pulled.len() {
                pulled.drop_at(place, DropReason::Withdrawn);
            }
        }) / each;
        self.take();
        self.hear();
        let shared = time(|| self.enqueue_shared()) / each;
        self.take();
        self.hear();
        [send, enqueue, shared, pull, front, view, again, take, hear, drop]
    }
}

const NAMES: [&str; 10] = [
    "send() of the payload to a UDP sink",
    "enqueue, payload copied",
    "enqueue, buffer of a zone (memfd: copied)",
    "pull back and release, 64 packets at once",
    "put the 64th packet first",
    "consumer's view of 64 packets, all new",
    "the same view again",
    "claim, copy out, sent, acked",
    "hear one fate",
    "pull back and drop, each of 64",
];

fn report(title: &str, ring: (Producer, Consumer), len: usize, socket: UdpSocket) {
    let mut bench = Bench::new(ring, len, socket);
    let mut samples = vec![Vec::with_capacity(ROUNDS); NAMES.len()];
    for _ in 0..ROUNDS {
        for (taken, sample) in samples.iter_mut().zip(bench.round()) {
            taken.push(sample);
        }
    }
    let medians: Vec<f64> = samples.into_iter().map(median).collect();
    println!("\n{title}, payload of {len} bytes\n{:<44}{:>10}{:>16}", "operation", "ns", "of one send()");
    for (name, nanos) in NAMES.iter().zip(&medians) {
        println!("{name:<44}{nanos:>10.1}{:>16.3}", nanos / medians[0]);
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn sender(sink: &UdpSocket) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port on loopback");
    socket.connect(sink.local_addr().expect("it is bound")).expect("loopback is there");
    socket
}

fn main() {
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port on loopback");
    for len in [64, 1400] {
        let config = Config::new(256);
        report("ring on the heap", create(&config).expect("a good configuration"), len, sender(&sink));
        let (producer, fd) = create_shared(&config).expect("a sealed memfd");
        let consumer = Consumer::open(&fd, &timeous_ring::Limits::default()).expect("a ring that was just made");
        report("ring in a sealed memfd", (producer, consumer), len, sender(&sink));
    }
}
