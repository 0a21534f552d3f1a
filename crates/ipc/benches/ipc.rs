//! Cost of a verb for a client, and of a round trip to a daemon, with the other side awake and asleep.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous_cm::Update;
use timeous_core::{Duration, Instant, PathState, Rate};
use timeous_ipc::messages::{Answer, Call, FromDaemon, TO_DAEMON_MAX, ToDaemon, VERSION, Welcome, decode, encode};
use timeous_ipc::socket::{listen_at, receive, send};
use timeous_ipc::{Channel, Client, Completion, Event, Flow, Geometry, Handle, OpenFlow, Options, Submission};

/// Number of rounds, of which the median counts.
const ROUNDS: usize = 2_000;
/// Messages between two clock readings.
const BATCH: u64 = 64;
const FLOW: Handle = Handle { slot: 0, generation: 1 };

fn clock() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// Measures a piece of work, in nanoseconds.
fn time(work: impl FnOnce()) -> f64 {
    let start = clock();
    work();
    (clock() - start).as_nanos() as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn report(what: &str, nanos: f64) {
    println!("{what:<72}{nanos:>10.0} ns{:>14.0} a second", 1e9 / nanos);
}

fn state() -> PathState {
    let rtt = Some(Duration::from_millis(40));
    PathState { rate: Rate::from_kbps(1_000), srtt: rtt, min_rtt: rtt, ..PathState::default() }
}

/// The queues alone, both ends in one thread: the cost of copying and fences.
fn queues() {
    let (mut channel, mut peer) = Channel::pair(Geometry::default()).expect("the default can be");
    let update = Update { acked: 1_000, rtt: Some(Duration::from_millis(40)), ..Update::default() };
    let submissions = [
        ("submit a request", Submission::Request { flow: FLOW, count: 1 }),
        ("submit a note of what was sent", Submission::Notify { flow: FLOW, bytes: 1_000 }),
        ("submit feedback", Submission::Update { flow: FLOW, update }),
    ];
    for (what, submission) in submissions {
        let (mut there, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            there.push(time(|| {
                for _ in 0..BATCH {
                    peer.submit(black_box(&submission)).expect("an honest daemon");
                    black_box(peer.must_ring());
                }
            }));
            taken.push(time(|| while black_box(channel.poll_submission().expect("an honest client")).is_some() {}));
        }
        report(what, median(there) / BATCH as f64);
        report("    and take it out and check it, at the daemon's end", median(taken) / BATCH as f64);
    }
    let (mut told, mut heard, mut published, mut read) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        told.push(time(|| {
            for _ in 0..BATCH {
                let completion = Completion::Granted { flow: FLOW, count: 1 };
                channel.complete(black_box(completion)).expect("an honest client");
            }
            black_box(channel.must_wake());
        }));
        heard.push(time(|| while black_box(peer.poll_completion().expect("an honest daemon")).is_some() {}));
        published.push(time(|| (0..BATCH).for_each(|_| channel.publish(FLOW, black_box(&state())))));
        read.push(time(|| {
            for _ in 0..BATCH {
                black_box(peer.published(FLOW));
            }
        }));
    }
    report("tell of a grant, at the daemon's end", median(told) / BATCH as f64);
    report("hear of it", median(heard) / BATCH as f64);
    report("publish a path state, at the daemon's end", median(published) / BATCH as f64);
    report("read it", median(read) / BATCH as f64);
}

/// Measures a request and its grant while both ends poll, on two threads.
fn spinning() {
    let (mut channel, mut peer) = Channel::pair(Geometry::default()).expect("the default can be");
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let daemon = std::thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            match channel.poll_submission().expect("an honest client") {
                Some(Submission::Request { flow, count }) => {
                    channel.complete(Completion::Granted { flow, count }).expect("an honest client");
                    black_box(channel.must_wake());
                }
                _ => std::hint::spin_loop(),
            }
        }
    });
    let request = Submission::Request { flow: FLOW, count: 1 };
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        trips.push(time(|| {
            for _ in 0..BATCH {
                peer.submit(&request).expect("an honest daemon");
                black_box(peer.must_ring());
                while peer.poll_completion().expect("an honest daemon").is_none() {
                    std::hint::spin_loop();
                }
            }
        }));
    }
    stop.store(true, Ordering::Relaxed);
    daemon.join().expect("the daemon's end goes on");
    report("request to grant, two threads that are awake", median(trips) / BATCH as f64);
}

/// A daemon with one client, which grants every request and sleeps when idle.
fn daemon(path: &Path) {
    let listener = listen_at(path, 1).expect("the path is free");
    poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).expect("it can be waited for");
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let socket = rustix::net::accept_with(&listener, flags).expect("somebody connects");
    let (mut channel, both) = Channel::new(Geometry::default()).expect("the system has memory");
    let mut room = [0; TO_DAEMON_MAX];
    loop {
        if !turn(&socket, &mut channel, &both, &mut room) {
            return;
        }
        if channel.rest().expect("an honest client").may_sleep {
            let bell = PollFd::from_borrowed_fd(channel.bell(), PollFlags::IN);
            poll(&mut [PollFd::new(&socket, PollFlags::IN), bell], None).expect("it can be waited for");
            let limit = Timespec { tv_sec: 0, tv_nsec: 0 };
            let rung = poll(&mut [PollFd::from_borrowed_fd(channel.bell(), PollFlags::IN)], Some(&limit));
            if rung.is_ok_and(|rung| rung > 0) {
                rustix::io::read(channel.bell(), &mut [0; 8]).expect("it was rung");
            }
        }
    }
}

fn turn(socket: &OwnedFd, channel: &mut Channel, both: &[OwnedFd; 2], room: &mut [u8]) -> bool {
    if !serve(socket, channel) {
        return false;
    }
    let Ok(Some(packet)) = receive(socket, room) else { return true };
    if packet.len == 0 {
        return false;
    }
    match decode(&room[..packet.len]).expect("an honest client") {
        ToDaemon::Hello { .. } => {
            let geometry = channel.geometry();
            let welcome = Welcome { version: VERSION, client: 1, daemon: std::process::id(), geometry };
            send(socket, &encode(&FromDaemon::Welcome(welcome)), &[both[0].as_fd(), both[1].as_fd()])
        }
        ToDaemon::Call { id, call } => {
            serve(socket, channel);
            let answer = if matches!(call, Call::Open(_)) {
                channel.publish(FLOW, &state());
                Answer::Opened { flow: FLOW, mtu: 1_200 }
            } else {
                Answer::Done
            };
            send(socket, &encode(&FromDaemon::Answer { id, result: Ok(answer) }), &[])
        }
    }
    .expect("the client is there")
}

/// Processes the queue, and wakes the client if it was sent something; `false` if the client is gone.
fn serve(socket: &OwnedFd, channel: &mut Channel) -> bool {
    let mut told = false;
    while let Some(submission) = channel.poll_submission().expect("an honest client") {
        if let Submission::Request { flow, count } = submission {
            channel.complete(Completion::Granted { flow, count }).expect("an honest client");
            told = true;
        }
    }
    !told || !channel.must_wake() || send(socket, &encode(&FromDaemon::Wake), &[]).is_ok()
}

const PLACE: &str = "TIMEOUS_IPC_BENCH_SOCKET";

fn start(path: &Path) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program).env(PLACE, path).spawn().expect("it starts again")
}

fn connect(path: &Path) -> (Client, Flow) {
    let options = Options { path: path.to_owned(), ..Options::default() };
    let deadline = clock() + Duration::from_secs(5);
    let mut client = loop {
        match Client::connect(options.clone()) {
            Ok(client) => break client,
            Err(error) => assert!(clock() < deadline, "{error}"),
        }
    };
    let flow = OpenFlow::to(IpAddr::V4(Ipv4Addr::LOCALHOST), 1_200);
    let flow = client.open(flow).expect("the daemon opens it");
    (client, flow)
}

fn hear(client: &mut Client, grants: u32) {
    let mut heard = 0;
    while heard < grants {
        match client.poll_event() {
            Some(Event::Granted(_)) => heard += 1,
            Some(other) => panic!("{other:?}"),
            None => {
                client.wait(None);
            }
        }
    }
}

/// A client and a daemon in another process, both of which sleep when idle.
fn processes() {
    let dir = tempfile::tempdir().expect("there is a place for a socket");
    let path = dir.path().join("daemon.sock");
    let mut child = start(&path);
    let (mut client, flow) = connect(&path);
    let update = Update { acked: 1_000, ..Update::default() };
    let [mut trips, mut many, mut verbs, mut query, mut call, mut idle] = [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        trips.push(time(|| {
            client.request(flow).expect("there is room");
            hear(&mut client, 1);
        }));
        many.push(time(|| {
            client.request_many(flow, 32).expect("there is room");
            hear(&mut client, 32);
        }));
        verbs.push(time(|| {
            for _ in 0..32 {
                client.update(flow, black_box(update)).expect("there is room");
            }
        }));
        query.push(time(|| {
            for _ in 0..32 {
                black_box(client.query(flow).expect("it is published"));
            }
        }));
        call.push(time(|| client.thresh(flow, 0.5, 2.0).expect("the daemon answers")));
        idle.push(time(|| drop(black_box(client.poll_event()))));
    }
    report("request to grant, two processes that sleep", median(trips));
    report("the same for 32 packets at once, a packet", median(many) / 32.0);
    report("a client's verb through the queue (update, 32 in a row)", median(verbs) / 32.0);
    report("a client's query", median(query) / 32.0);
    report("a client's call over the socket (thresh)", median(call));
    report("a client's look for events when there is none", median(idle));
    drop(client);
    child.wait().expect("it ends with its client");
}

fn main() {
    if let Some(path) = std::env::var_os(PLACE) {
        return daemon(&PathBuf::from(path));
    }
    queues();
    spinning();
    processes();
    reference();
}

/// Reference: the cost of two system calls on this machine.
fn reference() {
    let (ours, theirs) = rustix::pipe::pipe().expect("the system has pipes");
    let mut calls = Vec::new();
    for _ in 0..ROUNDS {
        calls.push(time(|| {
            rustix::io::write(&theirs, b"x").expect("there is room");
            rustix::io::read(&ours, &mut [0]).expect("it was written");
        }));
    }
    report("for comparison: a byte through a pipe in one thread", median(calls));
}
