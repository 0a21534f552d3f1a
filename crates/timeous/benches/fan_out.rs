//! One stream to many receivers: processor time of a packet beside a plain `sendmmsg` loop, in the same run.
//!
//! `cargo bench -p timeous --bench fan_out` sends packets of 1 200 bytes to 1 000 receivers of another process, at 42 packets a second to each and at
//! 417 (4 Mbit/s); `-- [receivers] [packets a second] [seconds]` runs one load. The plain loop has a socket for each receiver. Timeous calls
//! listeners at 64 addresses in turn, so that no two packets of a batch share a destination, and one listener, where packets leave in bundles (GSO). A
//! round of the plain loop and one of Timeous alternate. Prints the sender's processor time for each packet that was sent, and the bytes that
//! enqueueing has copied.

mod support;

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use support::{Far, answer, processor_time, sleep};
use timeous::core::{Duration, Fate};
use timeous::{Arrival, Hints, Listener, ReadyList, Receiver, Sender, Zone, clock};

/// Payload of a packet in bytes.
const PAYLOAD: usize = 1_200;
/// Rounds of each of the two.
const ROUNDS: u32 = 3;
/// Messages per call of the plain loop: the kernel's limit is 1024.
const BATCH: usize = 1_000;
/// Options of each stream: with repair, a transport would keep a copy of each packet for its retransmission.
const OPTIONS: &str = "latency=500ms&policy=deadline&slots=512&mtu=1400&repair=off";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|first| first == "--receive") {
        let number = |at: usize| arguments[at].parse().expect("a number");
        receive(number(1), number(2));
    }
    let number = |at: usize| arguments.get(at).and_then(|number| number.parse::<u64>().ok());
    let rates = number(1).map_or(vec![42, 417], |rate| vec![rate]);
    println!(
        "{:>9} {:>9} {:>12} {:>10} {:>12} {:>10} {:>8} {:>9} {:>9} {:>10} {:>12}",
        "listeners",
        "packets/s",
        "plain, sent",
        "plain, us",
        "Timeous sent",
        "each, us",
        "ratio",
        "acked, %",
        "dropped",
        "recv, us",
        "copied bytes"
    );
    for rate in rates {
        for listeners in LISTENERS {
            run(number(0).unwrap_or(1_000) as usize, listeners, rate, Duration::from_secs(number(2).unwrap_or(3)));
        }
    }
}

/// Addresses of the listeners: as many as packets in a batch of the engine, or one.
const LISTENERS: [usize; 2] = [64, 1];

/// Address of a receiver.
fn address(receiver: usize, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(127, 1, (receiver / 250) as u8, (receiver % 250 + 1) as u8), port)
}

fn run(receivers: usize, listeners: usize, rate: u64, time: Duration) {
    let (mut far, ports) = Far::start(&["--receive", &receivers.to_string(), &listeners.to_string()]);
    let (timeous, plain) = (ports[0] as u16, ports[1] as u16);
    let list = ReadyList::new().expect("a descriptor");
    let mut streams: Vec<Sender> = (0..receivers)
        .map(|key| {
            let uri = format!("timeous://{}?{OPTIONS}", address(key % listeners, timeous)).parse().expect("a URI");
            let sender = Sender::open(&uri).unwrap_or_else(|error| panic!("stream {key}: {error}"));
            list.add(sender.waker(), key as u64);
            sender
        })
        .collect();
    let mut plain = Plain::new(receivers, plain);
    // A second and a half of packets, longer than any waits.
    let zone = Zone::new(4_096, (rate * 3 / 2 + 64) as u32).expect("a zone");
    let (mut plain_sent, mut plain_time) = (0, Duration::ZERO);
    let (mut near_time, mut far_time, mut tally) = (Duration::ZERO, Duration::ZERO, Tally::default());
    // The first packets open the windows.
    paced(20, Duration::from_secs(1), |_| fan_out(&zone, &list, &mut streams, &mut Tally::default()));
    paced(100, Duration::from_secs(1), |_| Tally::default().collect(&list, &mut streams));
    let before: u64 = sent_in_all(&streams);
    for _ in 0..ROUNDS {
        let mark = processor_time();
        paced(rate, time, |at| plain_sent += plain.send(at as u8));
        plain_time += processor_time() - mark;

        let (mark, far_mark) = (processor_time(), Duration::from_nanos(far.ask()[0]));
        paced(rate, time, |_| fan_out(&zone, &list, &mut streams, &mut tally));
        // The last packets and their acknowledgements belong to the round.
        paced(100, Duration::from_millis(700), |_| tally.collect(&list, &mut streams));
        near_time += processor_time() - mark;
        far_time += Duration::from_nanos(far.ask()[0]) - far_mark;
    }
    let sent = sent_in_all(&streams) - before;
    let copied: u64 = streams.iter_mut().map(|sender| sender.ring().copied_bytes()).sum();
    let each = |time: Duration, packets: u64| time.as_nanos() as f64 / 1e3 / packets.max(1) as f64;
    let (plain_each, near_each) = (each(plain_time, plain_sent), each(near_time, sent));
    println!(
        "{listeners:>9} {rate:>9} {plain_sent:>12} {plain_each:>10.2} {sent:>12} {near_each:>10.2} {:>8.2} {:>9.2} {:>9} {:>10.2} {copied:>12}",
        near_each / plain_each,
        tally.acked as f64 * 100.0 / sent.max(1) as f64,
        tally.others + tally.refused,
        each(far_time, sent),
    );
}

/// Calls `send` at each tick for `time`, with the tick's number; ticks that are late are not made up for.
fn paced(rate: u64, time: Duration, mut send: impl FnMut(u64)) {
    let begin = clock::now();
    let tick = Duration::from_nanos(1_000_000_000 / rate);
    let mut at = 0;
    while clock::now() - begin < time {
        send(at);
        at += 1;
        sleep((begin + tick * at).saturating_since(clock::now()));
    }
}

fn sent_in_all(streams: &[Sender]) -> u64 {
    streams.iter().map(|sender| sender.stats().pkt_sent_total).sum()
}

/// Writes one packet, and queues it on all streams.
fn fan_out(zone: &Zone, list: &ReadyList, streams: &mut [Sender], tally: &mut Tally) {
    if let Ok(mut buffer) = zone.buffer() {
        buffer.truncate(PAYLOAD);
        buffer.bytes_mut().fill(tally.acked as u8);
        let buffer = buffer.freeze();
        for sender in streams.iter_mut() {
            tally.refused += u64::from(sender.send_shared(&buffer, Hints::default()).is_err());
        }
    } else {
        tally.refused += streams.len() as u64;
    }
    tally.collect(list, streams);
}

#[derive(Default)]
struct Tally {
    acked: u64,
    others: u64,
    refused: u64,
}

impl Tally {
    /// Collects the fates of the streams that have some.
    fn collect(&mut self, list: &ReadyList, streams: &mut [Sender]) {
        while let Some(key) = list.poll() {
            let sender = &mut streams[key as usize];
            sender.waker().clear();
            while let Some(delivery) = sender.poll_delivery() {
                if delivery.fate == Fate::Acked {
                    self.acked += 1;
                } else {
                    self.others += 1;
                }
            }
        }
    }
}

/// The plain loop: one payload, one socket, one call for up to a thousand receivers.
struct Plain {
    socket: UdpSocket,
    to: Vec<rustix::net::SocketAddrAny>,
}

impl Plain {
    fn new(receivers: usize, port: u16) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = (0..receivers).map(|receiver| address(receiver, port).as_any()).collect();
        Self { socket, to }
    }

    /// Sends one packet to each receiver; returns the number that the kernel took.
    fn send(&mut self, value: u8) -> u64 {
        let payload = [value; PAYLOAD];
        let parts = [IoSlice::new(&payload)];
        let mut sent = 0;
        for to in self.to.chunks(BATCH) {
            let mut controls: Vec<_> = to.iter().map(|_| SendAncillaryBuffer::default()).collect();
            let mut messages: Vec<_> =
                to.iter().zip(&mut controls).map(|(to, control)| MMsgHdr::new_with_addr(to, &parts, control)).collect();
            while let rest @ [_, ..] = &mut messages[..] {
                let taken = sendmmsg(&self.socket, rest, SendFlags::empty()).expect("loopback takes datagrams");
                sent += taken as u64;
                messages.drain(..taken);
            }
        }
        sent
    }
}

/// The receiving process: the listeners, and a plain socket for each receiver.
fn receive(receivers: usize, listeners: usize) -> ! {
    let (timeous, plain) = (free_port(), free_port());
    let sockets: Vec<UdpSocket> =
        (0..receivers).map(|receiver| UdpSocket::bind(address(receiver, plain)).expect("a port")).collect();
    let list = ReadyList::new().expect("a descriptor");
    // Key of the first stream, after those of the listeners.
    let first = listeners;
    let mut listeners: Vec<Listener> = (0..listeners)
        .map(|key| {
            let address = SocketAddr::from(address(key, timeous));
            let uri = format!("timeous://{address}?mode=listener&{OPTIONS}").parse().expect("a URI");
            let listener = Listener::open(&uri).expect("a port");
            list.add(listener.waker(), key as u64);
            listener
        })
        .collect();
    println!("{timeous} {plain}");
    answer(|| processor_time().as_nanos().to_string());
    std::thread::spawn(move || drain(&sockets));
    let mut streams: Vec<(Sender, Receiver)> = Vec::new();
    loop {
        list.wait(None);
        while let Some(key) = list.poll() {
            if let Some(listener) = listeners.get_mut(key as usize) {
                listener.waker().clear();
                while let Some(caller) = listener.poll_accept().expect("no error of the system") {
                    let (sender, receiver) = caller.accept();
                    list.add(receiver.waker(), (first + streams.len()) as u64);
                    streams.push((sender, receiver));
                }
                continue;
            }
            let receiver = &mut streams[key as usize - first].1;
            receiver.waker().clear();
            while let Ok(Some(Arrival::Data(_))) = receiver.poll_receive() {}
        }
    }
}

/// Reads all that comes to the plain sockets.
fn drain(sockets: &[UdpSocket]) {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
    for (at, socket) in sockets.iter().enumerate() {
        socket.set_nonblocking(true).expect("a socket");
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&ready, socket, data, epoll::EventFlags::IN).expect("a socket");
    }
    let mut events = Vec::with_capacity(1_024);
    let mut buffer = [0; 2 * PAYLOAD];
    loop {
        events.clear();
        epoll::wait(&ready, spare_capacity(&mut events), None).expect("a descriptor");
        for event in &events {
            while sockets[event.data.u64() as usize].recv(&mut buffer).is_ok() {}
        }
    }
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    socket.local_addr().expect("it is bound").port()
}
