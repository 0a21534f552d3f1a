//! Daemon's end of a client's shared memory, with arbitrary writes of the client between any two steps.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_core::{PathState, Rate};
use timeous_ipc::{Channel, Completion, Geometry, Handle, Peer, Submission, Violation};
use timeous_ring::Memory;
use timeous_ring::sync::Ordering;

const GEOMETRY: Geometry = Geometry { submissions: 4, completions: 4, flows: 2 };
const WORDS: usize = (GEOMETRY.bytes() / 8) as usize;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Valid actions of the client.
    Submit { flow: u64, bytes: u64 },
    Read,
    ClientRests,
    /// Invalid writes of the client.
    Overwrite { at: u16, value: u64 },
    Add { at: u16, value: u8 },
    /// Actions of the daemon.
    Poll,
    Complete { flow: u64, count: u32 },
    Publish { flow: u64, rate: u64 },
    Unpublish { flow: u64 },
    Rest,
    Starve,
    Wake,
}

/// Reads the queue to its end. Without client actions in between, that takes at most twice its capacity: entries seen
/// before, then those of an index that has advanced since.
fn drain(channel: &mut Channel) -> Result<(), Violation> {
    for _ in 0..=2 * GEOMETRY.submissions {
        if channel.poll_submission()?.is_none() {
            return Ok(());
        }
    }
    panic!("more than the queue holds");
}

fn work(channel: &mut Channel, step: &Step) -> Result<(), Violation> {
    match *step {
        Step::Poll => drain(channel),
        Step::Complete { flow, count } => {
            channel.complete(Completion::Granted { flow: Handle::from_bits(flow), count }).map(drop)
        }
        Step::Publish { flow, rate } => {
            let state = PathState { rate: Rate::from_bps(rate), ..PathState::default() };
            channel.publish(Handle::from_bits(flow), &state);
            Ok(())
        }
        Step::Unpublish { flow } => {
            channel.unpublish(Handle::from_bits(flow));
            Ok(())
        }
        Step::Rest => channel.rest().map(drop),
        Step::Starve => channel.starve().map(drop),
        Step::Wake => {
            let _ = channel.must_wake();
            Ok(())
        }
        _ => Ok(()),
    }
}

fn live(peer: &mut Peer, memory: &Memory, step: &Step) {
    let word = |at: u16| memory.word(usize::from(at) % WORDS);
    match *step {
        Step::Submit { flow, bytes } => {
            let _ = peer.submit(&Submission::Notify { flow: Handle::from_bits(flow), bytes });
            let _ = (peer.must_ring(), peer.progress());
        }
        Step::Read => {
            let _ = peer.poll_completion();
        }
        Step::ClientRests => {
            let _ = (peer.rest(), peer.starve());
        }
        Step::Overwrite { at, value } => word(at).store(value, Ordering::Relaxed),
        Step::Add { at, value } => {
            word(at).fetch_add(u64::from(value), Ordering::Relaxed);
        }
        _ => {}
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let (mut channel, [fd, _bell]) = Channel::new(GEOMETRY).expect("the system has memory");
    let mut peer = Peer::open(&fd, &GEOMETRY).expect("it maps").expect("it is sealed");
    let memory = Memory::open(&fd, WORDS).expect("it maps").expect("it is sealed");
    let (mut tampered, mut violated) = (false, None);
    for step in &steps {
        tampered |= matches!(step, Step::Overwrite { .. } | Step::Add { .. });
        live(&mut peer, &memory, step);
        if let Err(violation) = work(&mut channel, step) {
            assert!(tampered, "an honest client is accused: {violation}");
            assert_eq!(*violated.get_or_insert(violation), violation, "a violation is final");
        }
    }
});
