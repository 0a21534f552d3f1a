//! Reactions of the daemon's end to a client that overwrites the shared memory arbitrarily.

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_core::Rng;
use timeous_ipc::messages::VERSION;
use timeous_ipc::{Channel, Completion, Geometry, Handle, Peer, Submission, Violation};
use timeous_ring::Memory;
use timeous_ring::sync::Ordering;

use crate::standin::state;

const FLOW: Handle = Handle { slot: 1, generation: 1 };
const GEOMETRY: Geometry = Geometry { submissions: 4, completions: 4, flows: 2 };

/// Creates a channel, its client's end, and a view of the shared words.
fn shared() -> (Channel, Peer, Memory) {
    let (channel, [fd, _bell]) = Channel::new(GEOMETRY).unwrap();
    let peer = Peer::open(&fd, &GEOMETRY).unwrap().expect("it is sealed, and whole");
    let memory = Memory::open(&fd, GEOMETRY.bytes() as usize / 8).unwrap().expect("it is sealed, and whole");
    (channel, peer, memory)
}

fn words(memory: &Memory) -> usize {
    let words = GEOMETRY.bytes() as usize / 8;
    assert_eq!(memory.words(0, words).len(), words);
    words
}

/// Returns the indexes of words that `change` changes.
fn moved(memory: &Memory, change: impl FnOnce()) -> Vec<usize> {
    let all = || (0..words(memory)).map(|at| memory.word(at).load(Ordering::Relaxed)).collect::<Vec<_>>();
    let before = all();
    change();
    all().iter().zip(before).enumerate().filter(|(_, (now, before))| **now != *before).map(|(at, _)| at).collect()
}

/// Returns the index of the submission queue's tail: the only word besides its message that a submission writes.
fn index_of_submissions(peer: &mut Peer, memory: &Memory) -> usize {
    let words = Submission::Ping.to_words();
    let changed = moved(memory, || assert!(peer.submit(&Submission::Ping).unwrap()));
    // A ping has one non-zero word.
    assert_eq!((changed.len(), words.iter().filter(|&&word| word != 0).count()), (2, 1));
    changed[0]
}

#[test]
fn an_index_that_goes_back_or_too_far_is_a_violation_for_good() {
    for wrong in [0_u64, 6, 7, u64::MAX, 1 << 63] {
        let (mut channel, mut peer, memory) = shared();
        let written = index_of_submissions(&mut peer, &memory);
        assert!(channel.poll_submission().unwrap().is_some());
        assert!(channel.poll_submission().unwrap().is_none());
        memory.word(written).store(wrong, Ordering::Relaxed);
        let violation = Violation::Written { read: 1, found: wrong, slots: 4 };
        assert_eq!(channel.poll_submission().unwrap_err(), violation);
        memory.word(written).store(1, Ordering::Relaxed);
        assert_eq!(channel.poll_submission().unwrap_err(), violation, "there is no second chance");
        assert_eq!(channel.rest().unwrap_err(), violation);
        assert_eq!(channel.complete(Completion::Granted { flow: FLOW, count: 1 }).unwrap_err(), violation);
    }
}

#[test]
fn a_message_that_is_none_is_a_violation() {
    let (mut channel, mut peer, memory) = shared();
    let changed = moved(&memory, || assert!(peer.submit(&Submission::Ping).unwrap()));
    memory.word(changed[1]).store(0xbad, Ordering::Relaxed);
    assert_eq!(channel.poll_submission().unwrap_err(), Violation::BadSubmission { number: 0, word: 0xbad });
}

#[test]
fn a_client_that_claims_to_have_read_what_was_not_written_is_a_violation() {
    let (mut channel, mut peer, memory) = shared();
    let granted = Completion::Granted { flow: FLOW, count: 1 };
    assert!(channel.complete(granted).unwrap());
    let changed = moved(&memory, || assert_eq!(peer.poll_completion().unwrap(), Some(granted)));
    memory.word(changed[0]).store(99, Ordering::Relaxed);
    let violation = loop {
        match channel.complete(granted) {
            Ok(true) => {}
            Ok(false) => panic!("an honest index would be seen"),
            Err(violation) => break violation,
        }
    };
    assert_eq!(violation, Violation::Read { read: 0, written: 4, found: 99 });
}

/// A step of either side.
#[derive(Clone, Debug)]
enum Step {
    Submit,
    Poll,
    Complete,
    Read,
    Publish,
    Rest,
    Starve,
    Overwrite(prop::sample::Index, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![0..10_u64, any::<u64>()];
    prop_oneof![
        4 => Just(Step::Submit),
        4 => Just(Step::Poll),
        4 => Just(Step::Complete),
        4 => Just(Step::Read),
        1 => Just(Step::Publish),
        1 => Just(Step::Rest),
        1 => Just(Step::Starve),
        1 => (any::<prop::sample::Index>(), value).prop_map(|(at, value)| Step::Overwrite(at, value)),
    ]
}

proptest! {
    /// Whatever the client writes, the daemon gets messages or a violation, and never more at once than two queues
    /// hold.
    #[test]
    fn nothing_but_messages_and_violations(steps in vec(step(), 0..200)) {
        let (mut channel, mut peer, memory) = shared();
        let (mut submitted, mut tampered) = (0_u32, false);
        for step in steps {
            let violated = match step {
                Step::Submit => {
                    if peer.submit(&Submission::Notify { flow: FLOW, bytes: 1 }) == Ok(true) {
                        submitted += 1;
                    }
                    None
                }
                Step::Poll => {
                    let mut taken = 0;
                    let end = loop {
                        match channel.poll_submission() {
                            Ok(Some(_)) => taken += 1,
                            Ok(None) => break None,
                            Err(violation) => break Some(violation),
                        }
                        // At most the messages seen by the check before sleeping, and those of an index that advanced
                        // since.
                        prop_assert!(taken <= 2 * GEOMETRY.submissions, "more than the queue can say");
                    };
                    prop_assert!(tampered || taken == submitted);
                    submitted = 0;
                    end
                }
                Step::Complete => channel.complete(Completion::Changed { flow: FLOW, state: state(1) }).err(),
                Step::Read => {
                    let _ = peer.poll_completion();
                    None
                }
                Step::Publish => {
                    channel.publish(FLOW, &state(1));
                    prop_assert!(tampered || peer.published(FLOW) == Some(state(1)));
                    None
                }
                Step::Rest => channel.rest().err(),
                Step::Starve => channel.starve().err(),
                Step::Overwrite(at, value) => {
                    memory.word(at.index(words(&memory))).store(value, Ordering::Relaxed);
                    tampered = true;
                    None
                }
            };
            prop_assert!(violated.is_none() || tampered, "an honest client is never accused: {violated:?}");
        }
    }
}

/// A thread writes random words to the memory while the daemon uses it.
#[test]
fn a_daemon_beside_a_mad_writer_ends_with_a_violation_and_nothing_else() {
    let mut violated = 0;
    for seed in 0..20 {
        let (mut channel, mut peer, memory) = shared();
        let size = words(&memory);
        let writer = std::thread::spawn(move || {
            let mut rng = Rng::from_seed(seed);
            for _ in 0..20_000 {
                let value = if rng.chance(0.5) { rng.below(8) } else { rng.next_u64() };
                memory.word(rng.below(size as u64) as usize).store(value, Ordering::Relaxed);
            }
        });
        while !writer.is_finished() {
            let _ = peer.submit(&Submission::Ping);
            let _ = peer.poll_completion();
            let _ = channel.poll_submission();
            let _ = channel.complete(Completion::Granted { flow: FLOW, count: 1 });
            channel.publish(FLOW, &state(1));
            let _ = (channel.must_wake(), channel.rest(), peer.published(FLOW));
        }
        writer.join().unwrap();
        violated += u32::from(channel.poll_submission().is_err());
    }
    // The last value of an index may be valid by chance.
    assert!(violated > 5, "only {violated} of 20 found out");
}

#[test]
fn memory_of_another_size_or_without_seals_is_refused() {
    let (_channel, [fd, _bell]) = Channel::new(GEOMETRY).unwrap();
    let larger = Geometry { flows: 3, ..GEOMETRY };
    assert!(Peer::open(&fd, &larger).unwrap().is_none());
    assert!(Peer::open(&fd, &Geometry { flows: 0, ..GEOMETRY }).unwrap().is_none());
    let file = tempfile::tempfile().unwrap();
    file.set_len(GEOMETRY.bytes()).unwrap();
    assert!(Peer::open(&file, &GEOMETRY).unwrap().is_none());
    assert_eq!(VERSION, 7, "a change of the layout is a change of the version");
}
