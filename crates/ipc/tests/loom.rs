//! Concurrency tests of the queues and the table with a model checker:
//! `RUSTFLAGS="--cfg loom" cargo test -p timeous-ipc --test loom --release`.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Notify;
use loom::thread;
use timeous_core::{PathState, Rate};
use timeous_ipc::{Channel, Completion, Geometry, Handle, Peer, Submission};

const FLOW: Handle = Handle { slot: 0, generation: 1 };

fn pair() -> (Channel, Peer) {
    Channel::pair(Geometry { submissions: 2, completions: 2, flows: 1 }).unwrap()
}

/// Explores every schedule, or those with at most `preemptions` preemptions.
fn model(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = preemptions;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    println!("{} executions explored", runs.load(Ordering::Relaxed));
}

fn note(bytes: u64) -> Submission {
    Submission::Notify { flow: FLOW, bytes }
}

fn bytes(submission: Submission) -> u64 {
    match submission {
        Submission::Notify { flow: FLOW, bytes } => bytes,
        other => panic!("{other:?} was never written"),
    }
}

/// A queue of two that wraps: every message arrives whole, once and in order.
#[test]
fn messages_come_whole_and_in_order() {
    model(None, || {
        let (mut channel, mut peer) = pair();
        let client = thread::spawn(move || (1..=3).filter(|&n| peer.submit(&note(n)).unwrap()).collect::<Vec<_>>());
        let mut read = Vec::new();
        for _ in 0..2 {
            read.extend(channel.poll_submission().unwrap().map(bytes));
        }
        let written = client.join().unwrap();
        while let Some(submission) = channel.poll_submission().unwrap() {
            read.push(bytes(submission));
        }
        assert_eq!(read, written);
    });
}

/// Store-buffer race: while the daemon goes to sleep, it sees a submission or its bell is signalled.
#[test]
fn no_bell_of_the_daemon_is_lost() {
    model(None, || {
        let (mut channel, mut peer) = pair();
        let bell = Arc::new(Notify::new());
        let rope = Arc::clone(&bell);
        let client = thread::spawn(move || {
            assert!(peer.submit(&note(1)).unwrap());
            if peer.must_ring() {
                rope.notify();
            }
        });
        let found = loop {
            if let Some(submission) = channel.poll_submission().unwrap() {
                break submission;
            }
            if channel.rest().unwrap().may_sleep {
                // Without a signal, the model checker reports a deadlock.
                bell.wait();
            }
        };
        assert_eq!(bytes(found), 1);
        client.join().unwrap();
    });
}

/// The same for a client that goes to sleep while it gets a grant.
#[test]
fn no_wake_up_of_the_client_is_lost() {
    model(None, || {
        let (mut channel, mut peer) = pair();
        let bell = Arc::new(Notify::new());
        let rope = Arc::clone(&bell);
        let daemon = thread::spawn(move || {
            assert!(channel.complete(Completion::Granted { flow: FLOW, count: 1 }).unwrap());
            if channel.must_wake() {
                rope.notify();
            }
        });
        let found = loop {
            if let Some(completion) = peer.poll_completion().unwrap() {
                break completion;
            }
            if peer.rest().unwrap().may_sleep {
                bell.wait();
            }
        };
        assert_eq!(found, Completion::Granted { flow: FLOW, count: 1 });
        daemon.join().unwrap();
    });
}

/// A writer that found no room and requested a signal is signalled, or finds room when it checks again.
#[test]
fn no_word_of_room_is_lost() {
    model(None, || {
        let (mut channel, mut peer) = pair();
        assert!(peer.submit(&note(1)).unwrap());
        assert!(peer.submit(&note(2)).unwrap());
        let bell = Arc::new(Notify::new());
        let rope = Arc::clone(&bell);
        let daemon = thread::spawn(move || {
            let read = std::iter::from_fn(|| channel.poll_submission().unwrap()).count();
            if channel.rest().unwrap().wake_client {
                rope.notify();
            }
            (channel, read)
        });
        while !peer.submit(&note(3)).unwrap() {
            if peer.starve().unwrap() {
                bell.wait();
            }
        }
        let (mut channel, read) = daemon.join().unwrap();
        assert_eq!(read + std::iter::from_fn(|| channel.poll_submission().unwrap()).count(), 3);
    });
}

fn state(rate: u64) -> PathState {
    PathState { rate: Rate::from_bps(rate), window: rate, outstanding: rate, ..PathState::default() }
}

/// A path state read during a write is consistent, or not returned.
#[test]
fn a_path_state_is_whole() {
    model(Some(2), || {
        let (mut channel, peer) = pair();
        channel.publish(FLOW, &state(1));
        let daemon = thread::spawn(move || {
            channel.publish(FLOW, &state(2));
            channel
        });
        if let Some(read) = peer.published(FLOW) {
            assert!([state(1), state(2)].contains(&read), "{read:?}");
        }
        let mut channel = daemon.join().unwrap();
        assert_eq!(peer.published(FLOW), Some(state(2)));
        channel.unpublish(FLOW);
        assert_eq!(peer.published(FLOW), None);
    });
}
