//! Tests of a client that writes arbitrary content: to its queues, messages, packet rings and sockets.

use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use timeous_core::{Duration, Instant, Rng};
use timeous_engine::clock;
use timeous_ipc::messages::{
    Access, Answer, Call, Credential, Dbat, Document, FROM_DAEMON_MAX, FromDaemon, Identity, ListenerCredential,
    Marked, Nanos, PART_MAX, Policy, Protection, QueueLimit, Secret, StreamSpec, ToDaemon, VERSION, Welcome, decode,
    encode,
};
use timeous_ipc::socket::{receive_with_descriptors, send};
use timeous_ipc::{Handle, OpenFlow, Peer, Submission};

use crate::roles::argument;
use crate::sender::Sender;
use crate::streams::{connected, local, receive, send as send_numbers, spec};
use crate::support::{Host, USER, is_root, pause, view};
use crate::users::Guard;

/// Duration of the test in seconds.
const SECONDS: &str = "TIMEOUS_HOSTILE_SECONDS";
/// Variable for the seed of its random generator.
const SEED: &str = "TIMEOUS_HOSTILE_SEED";
const MALLORY: u32 = 61_666;

#[test]
fn a_hostile_client_is_shown_out_and_nothing_else_happens() {
    let seconds: u64 = argument(SECONDS, 3);
    let mut host = Host::start();
    let mut client = host.client();
    let (mut here, mut elsewhere, _) = connected(&host, &mut client);
    let flow = client.open(OpenFlow::to([192, 0, 2, 1].into(), 1_000)).unwrap();
    pause(Duration::from_millis(200));
    let (descriptors, memory) = (host.descriptors(), host.resident());
    let mut arguments = vec![(SECONDS, seconds.to_string()), (SEED, argument(SEED, 1_u64).to_string())];
    if is_root() {
        arguments.push((USER, MALLORY.to_string()));
    }
    let mut mallory = Guard(host.spawn("hostile", &arguments));
    let mut sender = Sender::new(&mut client, &[flow], 1_000);
    let mut largest = 0;
    let mut numbers = 0;
    while mallory.0.try_wait().unwrap().is_none() {
        sender.run(clock::now() + Duration::from_millis(50));
        send_numbers(&mut here, numbers..numbers + 5);
        for n in numbers..numbers + 5 {
            assert_eq!(receive(&mut elsewhere).bytes, n.to_le_bytes());
        }
        numbers += 5;
        largest = largest.max(host.resident());
        assert!(host.is_running(), "the daemon is gone");
    }
    assert!(mallory.0.wait().unwrap().success());
    sender.run(clock::now() + Duration::from_millis(100));
    assert!(!sender.lost, "who does nothing wrong stays");
    let (arrived, longest) = (sender.arrived(), sender.longest_pause());
    assert!(longest < Duration::from_secs(5), "nothing of the other client arrived for {longest:?}");
    let mut violations = 0;
    host.until("the hostile one is found out, and forgotten with its flows", || {
        let seen = view(&mut client);
        violations = seen.health.violations_total;
        let flows = seen.macroflows.iter().map(|macroflow| macroflow.flows.len()).sum::<usize>();
        (seen.clients.len(), flows) == (1, 1 + 2) && violations > 0
    });
    host.until("descriptors are closed", || host.descriptors() <= descriptors);
    println!(
        "{seconds} s: {violations} times shown out; the other client: {arrived} bytes arrived, {longest:?} without one \
         at most, {numbers} ADUs of its stream, none lost; the daemon held {} KiB more at most, {} KiB in the end",
        largest.saturating_sub(memory) >> 10,
        host.resident().saturating_sub(memory) >> 10,
    );
    assert!(largest.saturating_sub(memory) < 512 << 20, "no more than a user may have");
}

/// Attacks until the test's time is over.
pub(crate) fn attack(path: PathBuf) {
    let mut rng = Rng::from_seed(argument(SEED, 1));
    let end = clock::now() + Duration::from_secs(argument(SECONDS, 3));
    while clock::now() < end {
        let turn_ends = (clock::now() + Duration::from_micros(rng.below(300_000))).min(end);
        // The attack was refused or detected: the next one.
        let _ = one_attack(&path, &mut rng, turn_ends);
    }
}

struct Line {
    socket: OwnedFd,
    welcome: Welcome,
    memory: OwnedFd,
    bell: OwnedFd,
}

fn one_attack(path: &Path, rng: &mut Rng, until: Instant) -> Option<()> {
    match rng.below(9) {
        0 => nonsense_before_hello(path, rng),
        1 => silence(path, until),
        2 => scribble(&hello(path)?, rng, until),
        3 => forged_submissions(&hello(path)?, rng, until),
        4 => nonsense_on_the_socket(&hello(path)?, rng, until),
        5 => any_calls(&hello(path)?, rng, until),
        6 => rings(&hello(path)?, rng, until),
        7 => flags_and_bells(&hello(path)?, rng, until),
        _ => never_read(&hello(path)?, rng, until),
    }
    Some(())
}

fn connect_to(path: &Path) -> Option<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
    connect(&socket, &SocketAddrUnix::new(path).ok()?).ok()?;
    Some(socket)
}

/// Returns a message from the daemon, if one arrives soon.
fn hear(socket: &OwnedFd) -> Option<(FromDaemon, Vec<OwnedFd>)> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit)).ok()?;
    let mut room = vec![0; FROM_DAEMON_MAX];
    let packet = receive_with_descriptors(socket, &mut room).ok()??;
    Some((decode(room.get(..packet.len)?).ok()?, packet.descriptors))
}

fn hello(path: &Path) -> Option<Line> {
    let socket = connect_to(path)?;
    say(&socket, &ToDaemon::Hello { version: VERSION, name: "mallory".to_owned() })?;
    let (FromDaemon::Welcome(welcome), descriptors) = hear(&socket)? else { return None };
    let [memory, bell] = descriptors.try_into().ok()?;
    Some(Line { socket, welcome, memory, bell })
}

fn say(socket: &OwnedFd, message: &ToDaemon) -> Option<()> {
    send(socket, &encode(message), &[]).ok()?.then_some(())
}

fn call(line: &Line, call: Call) -> Option<(Answer, Vec<OwnedFd>)> {
    say(&line.socket, &ToDaemon::Call { id: 1, call })?;
    loop {
        match hear(&line.socket)? {
            (FromDaemon::Answer { result, .. }, descriptors) => return Some((result.ok()?, descriptors)),
            (FromDaemon::Wake | FromDaemon::Incoming { .. }, _) => {}
            _ => return None,
        }
    }
}

fn opened(line: &Line, rng: &mut Rng) -> Option<Handle> {
    let open = OpenFlow::to(IpAddr::from([192, 0, 2, rng.below(4) as u8]), 1_000);
    match call(line, Call::Open(open))? {
        (Answer::Opened { flow, .. }, _) => Some(flow),
        _ => None,
    }
}

fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

fn noise(rng: &mut Rng, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; rng.below(most) as usize];
    rng.fill(&mut bytes);
    bytes
}

fn nonsense_before_hello(path: &Path, rng: &mut Rng) {
    let Some(socket) = connect_to(path) else { return };
    let _ = match rng.below(4) {
        0 => send(&socket, &noise(rng, 5_000), &[]),
        1 => send(&socket, &encode(&ToDaemon::Call { id: 7, call: Call::Describe(Document::Paths) }), &[]),
        2 => send(&socket, &encode(&ToDaemon::Hello { version: rng.next_u32() as u16, name: String::new() }), &[]),
        // Unexpected descriptors.
        _ => send(&socket, &noise(rng, 100), &[socket.as_fd(), socket.as_fd()]),
    };
}

/// Connects many times and sends nothing.
fn silence(path: &Path, until: Instant) {
    let mut sockets = Vec::new();
    while clock::now() < until && sockets.len() < 100 {
        sockets.extend(connect_to(path));
    }
}

/// Writes random words to the shared memory, or to its first words, which hold the indexes.
fn scribble(line: &Line, rng: &mut Rng, until: Instant) {
    let Ok(file) = line.memory.try_clone().map(File::from) else { return };
    let size = line.welcome.geometry.bytes();
    let _flow = opened(line, rng);
    let narrow = rng.chance(0.5);
    while clock::now() < until {
        let at = rng.below(if narrow { 512 } else { size }) & !7;
        let word = if rng.chance(0.5) { rng.next_u64() } else { rng.below(600) };
        if file.write_at(&word.to_ne_bytes(), at).is_err() {
            return;
        }
        ring(&line.bell);
    }
}

/// Sends well-formed submissions with random content.
fn forged_submissions(line: &Line, rng: &mut Rng, until: Instant) {
    let Ok(Some(mut peer)) = Peer::open(&line.memory, &line.welcome.geometry) else { return };
    let flow = opened(line, rng).unwrap_or(Handle { slot: 0, generation: 1 });
    while clock::now() < until {
        let flow = if rng.chance(0.7) { flow } else { Handle::from_bits(rng.next_u64()) };
        let number = |rng: &mut Rng| if rng.chance(0.5) { rng.below(10_000) } else { rng.next_u64() };
        let submission = match rng.below(5) {
            0 => Submission::Request { flow, count: number(rng).max(1) as u32 | 1 },
            1 => Submission::RequestBy { flow, deadline: Instant::from_nanos(number(rng)) },
            2 => Submission::Notify { flow, bytes: number(rng) },
            3 => Submission::NotifyUnasked { flow, bytes: number(rng) },
            _ => Submission::Update {
                flow,
                update: timeous_cm::Update {
                    acked: number(rng),
                    lost: number(rng),
                    loss: rng.chance(0.5).then(|| (timeous_cm::Loss::Transient, Instant::from_nanos(number(rng)))),
                    rtt: rng.chance(0.5).then(|| Duration::from_nanos(number(rng))),
                    recovering: rng.chance(0.5),
                    slow_receiver: rng.chance(0.1),
                    beyond_gap: number(rng),
                    overtaken_by: Duration::from_nanos(number(rng)),
                    path_rtt: None,
                },
            },
        };
        if peer.submit(&submission).is_err() {
            return;
        }
        ring(&line.bell);
        // It reads the daemon's messages only sometimes.
        if rng.chance(0.1) {
            let _ = peer.poll_completion();
        }
    }
}

fn nonsense_on_the_socket(line: &Line, rng: &mut Rng, until: Instant) {
    while clock::now() < until {
        let bytes = if rng.chance(0.5) {
            noise(rng, 4_096)
        } else {
            // A message with some bytes changed.
            let mut bytes = encode(&ToDaemon::Call { id: rng.next_u32(), call: Call::Split(Handle::from_bits(1)) });
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u32() as u8;
            bytes
        };
        if send(&line.socket, &bytes, &[]).is_err() {
            return;
        }
    }
}

/// Makes well-formed calls with random content, without waiting for answers.
fn any_calls(line: &Line, rng: &mut Rng, until: Instant) {
    let handle = |rng: &mut Rng| Handle { slot: rng.below(300) as u32, generation: 1 + rng.below(3) as u32 };
    while clock::now() < until {
        let call = match rng.below(15) {
            0 => Call::Open(OpenFlow::to(IpAddr::from(rng.next_u32().to_be_bytes()), 1 + rng.below(65_535) as u32)),
            1 => Call::Close(handle(rng)),
            2 => Call::Query(handle(rng)),
            3 => Call::Thresh { flow: handle(rng), down: rng.unit(), up: 1.0 + rng.unit() },
            4 => Call::Split(handle(rng)),
            5 => Call::Merge { flow: handle(rng), with: handle(rng) },
            6 => Call::SetWeight { flow: handle(rng), weight: rng.next_u32().max(1) },
            7 => Call::SetController { flow: handle(rng), name: "cubic".to_owned() },
            8 => Call::SetScheduler { flow: handle(rng), name: "weighted".to_owned() },
            9 => Call::Describe(Document::Snapshot),
            10 => Call::StopListening(rng.below(5) as u32),
            11 => Call::MakeZone {
                buffer_size: [0, 100, 4_096, 1 << 20, u32::MAX][rng.below(5) as usize],
                buffers: [0, 1, 16, 1 << 12, u32::MAX][rng.below(5) as usize],
            },
            12 => any_part(rng),
            13 => {
                let protection = [Protection::Local, Protection::Sealed][rng.below(2) as usize];
                Call::Connect { remote: ([127, 0, 0, 1], 9).into(), spec: any_spec(rng), protection }
            }
            _ => Call::ForgetPaths { addr: None },
        };
        match send(&line.socket, &encode(&ToDaemon::Call { id: 0, call }), &[]) {
            Err(_) => return,
            Ok(true) => {}
            Ok(false) => while hear(&line.socket).is_some_and(|_| rng.chance(0.9)) {},
        }
    }
}

/// Part of a credential: random bytes, or part of a credential with nonsense in place of certificates.
fn any_part(rng: &mut Rng) -> Call {
    let is_first = rng.chance(0.5);
    if rng.chance(0.5) {
        return Call::Credential { is_first, part: Secret::new(&[&[0], &*noise(rng, PART_MAX as u64)].concat()) };
    }
    let identity = Some(Identity { chain: vec![noise(rng, 100)], key: Secret::new(&noise(rng, 100)) });
    let authorities = rng.chance(0.5).then(|| vec![noise(rng, 100); rng.below(100) as usize]);
    let credential = Credential::Listener(ListenerCredential { identity, authorities, access: Access::Shared(None) });
    let mut parts = credential.parts().unwrap();
    Call::Credential { is_first, part: parts.swap_remove(rng.below(parts.len() as u64) as usize) }
}

/// Opens streams, overwrites their rings, and sends random messages on their sockets.
fn rings(line: &Line, rng: &mut Rng, until: Instant) {
    let Some((Answer::Listening { local: at, .. }, _)) =
        call(line, Call::Listen { local: local(), spec: spec(), room: None, protection: Protection::Local })
    else {
        return;
    };
    let connect = Call::Connect { remote: at, spec: any_spec(rng), protection: Protection::Local };
    let Some((_, descriptors)) = call(line, connect) else { return };
    let Ok([ring, socket]) = <[OwnedFd; 2]>::try_from(descriptors) else { return };
    let Ok(size) = rustix::fs::fstat(&ring).map(|stat| stat.st_size as u64) else { return };
    let zone = match call(line, Call::MakeZone { buffer_size: 4_096, buffers: 1 + rng.below(4) as u32 }) {
        Some((Answer::Zone { key }, _)) => key,
        _ => rng.next_u64().into(),
    };
    let file = File::from(ring);
    let narrow = rng.chance(0.7);
    while clock::now() < until {
        for _ in 0..rng.below(64) {
            let at = rng.below(if narrow { 4_096 } else { size }) & !7;
            let word = if rng.chance(0.5) { rng.next_u64() } else { rng.below(100) };
            let _ = file.write_at(&word.to_ne_bytes(), at);
        }
        if rng.chance(0.2) {
            let key = if rng.chance(0.9) { zone } else { !zone };
            let number = if rng.chance(0.9) { 1 + rng.below(3) as u8 } else { rng.next_u32() as u8 };
            if send(&socket, &[&[7, number][..], &key.to_le_bytes()].concat(), &[]).is_err() {
                return;
            }
        }
        let byte = [if rng.chance(0.95) { 1 + rng.below(3) as u8 } else { rng.next_u32() as u8 }];
        if send(&socket, &byte, &[]).is_err() {
            return;
        }
    }
}

/// Returns extreme settings.
fn any_spec(rng: &mut Rng) -> StreamSpec {
    let time = |rng: &mut Rng| Nanos([0, 1, 1_000_000, 1_000_000_000, u64::MAX][rng.below(5) as usize]);
    StreamSpec {
        local: rng.chance(0.2).then(|| {
            [IpAddr::from([127, 0, 0, rng.below(4) as u8]), Ipv6Addr::LOCALHOST.into()][rng.below(2) as usize]
        }),
        slots: 2 << rng.below(10),
        mps: [1, 100, 1_200, 65_535][rng.below(4) as usize],
        connect_timeout: time(rng),
        keep_alive: rng.chance(0.5).then(|| time(rng)),
        silence: time(rng),
        msl: time(rng),
        policy: match rng.below(6) {
            0 => Policy::Fifo,
            1 => Policy::Deadline,
            2 => Policy::Age(time(rng)),
            3 => Policy::Layers,
            4 => Policy::Dbat(Dbat {
                marked: Marked::Layers(rng.next_u32() as u8),
                only_marked: rng.chance(0.5),
                least_delay: time(rng),
                max_threshold: [None, Some(0), Some(u64::MAX)][rng.below(3) as usize],
            }),
            _ => Policy::Frames(QueueLimit::Time(time(rng))),
        },
        repair: rng.chance(0.5).then_some(0),
        ..spec()
    }
}

/// Attacks a descriptor that both processes share: the bell is made blocking, filled and emptied.
fn flags_and_bells(line: &Line, rng: &mut Rng, until: Instant) {
    use rustix::fs::{OFlags, fcntl_setfl};
    let _flow = opened(line, rng);
    let _ = fcntl_setfl(&line.bell, OFlags::NONBLOCK);
    while clock::now() < until {
        let _ = rustix::io::write(&line.bell, &(u64::MAX - 1).to_ne_bytes());
        let _ = fcntl_setfl(&line.bell, OFlags::empty());
        if rng.chance(0.5) {
            let _ = rustix::io::read(&line.bell, &mut [0; 8]);
        }
        let _ = fcntl_setfl(&line.bell, OFlags::NONBLOCK);
    }
}

/// Makes calls and never reads the answers.
fn never_read(line: &Line, rng: &mut Rng, until: Instant) {
    while clock::now() < until {
        let call = Call::Describe(if rng.chance(0.5) { Document::Snapshot } else { Document::Paths });
        match send(&line.socket, &encode(&ToDaemon::Call { id: 0, call }), &[]) {
            Err(_) => return,
            Ok(true) => {}
            Ok(false) => pause(Duration::from_millis(10)),
        }
    }
}
