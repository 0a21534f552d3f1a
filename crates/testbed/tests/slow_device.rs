//! A device slower than the sender: packets that the kernel has no room for wait, and no further ones are pulled. In a
//! network namespace whose loopback is rate-limited. Needs root.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use timeous_core::{AduMeta, AduSeq, Duration, Ecn, Instant};
use timeous_engine::udp::{Packet, Socket};
use timeous_engine::{DccpConfig, Producer};
use timeous_net::emulator::{EmulatorError, Namespace};
use timeous_testbed::rig::Rig;

const PAYLOAD: usize = 1_100;

/// Reports that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// Creates a namespace whose loopback carries 10 Mbit/s; `None` where this is not allowed.
fn slow_loopback(test: &str) -> Option<Namespace> {
    let name = format!("timeous-{test}-{}", std::process::id());
    let namespace = match Namespace::open_or_make(&name) {
        Ok(namespace) => namespace,
        Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
            skip(test, &format!("root and iproute2 ({error})"));
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let run = |tool: &str, line: &str| {
        let done = Command::new(tool).args(["-n", &name]).args(line.split(' ')).stdin(Stdio::null()).output();
        done.is_ok_and(|output| output.status.success())
    };
    assert!(run("ip", "link set lo up"));
    if !run("tc", "qdisc add dev lo root tbf rate 10mbit burst 64kb latency 10s") {
        skip(test, "tc, and a kernel with the tbf queue");
        return None;
    }
    Some(namespace)
}

/// Sets the buffers: the sender's holds a few bundles, the receiver's everything.
fn narrow(sender: &Socket, receiver: &UdpSocket) {
    rustix::net::sockopt::set_socket_send_buffer_size(sender, 64 * 1024).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size_force(receiver, 8 << 20).unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
}

fn wait_until_writable(socket: &Socket) {
    let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
    let ready = rustix::event::poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&timeout)).unwrap();
    assert_eq!(ready, 1, "the device goes on");
}

/// Receives until nothing more arrives.
fn received(receiver: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 65_536];
    std::iter::from_fn(|| receiver.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect()
}

#[test]
fn what_the_kernel_does_not_take_is_told_and_goes_later() {
    let Some(namespace) = slow_loopback("partial") else { return };
    let bind = || (Socket::bind("127.0.0.1:0".parse().unwrap()), UdpSocket::bind("127.0.0.1:0"));
    let (sender, receiver) = namespace.within(bind).unwrap();
    let (mut sender, receiver) = (sender.unwrap(), receiver.unwrap());
    narrow(&sender, &receiver);
    let to = receiver.local_addr().unwrap();
    let packets: Vec<Vec<u8>> = (0..400_u16)
        .map(|n| [&n.to_be_bytes()[..], &[7; PAYLOAD][..if n % 9 == 0 { 300 } else { PAYLOAD }]].concat())
        .collect();
    let mut waiting: Vec<&Vec<u8>> = packets.iter().collect();
    let mut refused = 0;
    while !waiting.is_empty() {
        let batch: Vec<_> = waiting
            .iter()
            .take(Socket::BATCH)
            .map(|header| Packet { to, from: None, ecn: Ecn::Ect0, header, payload: None })
            .collect();
        let mut done = BTreeSet::new();
        let all = sender.send(&batch, |at, result| {
            result.unwrap();
            done.insert(at);
        });
        assert_eq!(all, done.len() == batch.len());
        assert!(done.iter().copied().eq(0..done.len()), "the first ones go first");
        waiting.drain(..done.len());
        if !all {
            refused += 1;
            wait_until_writable(&sender);
        }
    }
    assert!(refused > 0, "the kernel took everything at once");
    assert_eq!(received(&receiver), packets, "all of them, once, in order");
}

fn enqueue(producer: &mut Producer, numbers: std::ops::Range<u64>, deadline: Instant) {
    for n in numbers {
        let meta = AduMeta { seq: AduSeq(n), deadline: Some(deadline), ..AduMeta::default() };
        let payload = [&n.to_be_bytes()[..], &[7; PAYLOAD][8..]].concat();
        producer.enqueue(&meta, &payload).unwrap();
    }
}

/// Returns the numbers of the received ADUs.
fn numbers(receiver: &UdpSocket) -> Vec<u64> {
    let adus = received(receiver).into_iter().filter(|packet| packet.len() >= PAYLOAD);
    adus.map(|packet| u64::from_be_bytes(*packet[packet.len() - PAYLOAD..].first_chunk().unwrap())).collect()
}

#[test]
fn while_the_kernel_has_no_room_the_application_keeps_the_last_word() {
    let Some(namespace) = slow_loopback("lastword") else { return };
    let receiver = namespace.within(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    let mut now = Instant::from_nanos(1);
    let (ring, dccp) = (timeous_ring::Config::new(512), DccpConfig::default());
    let ends = ("127.0.0.1:0".parse().unwrap(), receiver.local_addr().unwrap());
    let opened = namespace.within(|| Rig::open(now, ends, &ring, None, dccp, None)).unwrap();
    let (mut rig, mut producer) = opened.unwrap();
    narrow(rig.socket(), &receiver);

    let deadline = now + Duration::from_secs(1);
    enqueue(&mut producer, 0..400, deadline);
    rig.send(now);
    assert!(rig.is_blocked(), "the kernel took everything at once");
    let left = producer.queued_len();
    assert!(left > 400 - 4 * Socket::BATCH && left < 400, "{left} of 400 still wait in the ring");
    rig.send(now);
    assert_eq!(producer.queued_len(), left, "nothing is pulled that cannot be handed over");
    let waits = rig.waiting();
    assert!((1..=Socket::BATCH).contains(&waits));

    // Withdraw what waits in the ring, and let the packets that wait for the kernel expire.
    let withdrawn: Vec<_> = producer.queued().map(|queued| queued.index).collect();
    for index in withdrawn {
        assert!(producer.mark_dead(index));
    }
    now = deadline + Duration::from_nanos(1);
    wait_until_writable(rig.socket());
    enqueue(&mut producer, 400..401, now);
    rig.send(now);
    assert!(!rig.is_blocked());
    let came = numbers(&receiver);
    let handed_over = (400 - left - waits) as u64;
    assert!(came.iter().copied().eq((0..handed_over).chain([400])), "{came:?}, but {handed_over} left in time");
}
