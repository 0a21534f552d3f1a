//! Encoding of messages as bytes and as slots: it is reversible, and other content is rejected.

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_cm::{Loss, Update};
use timeous_core::{Duration, Instant, PathState, Rate};
use timeous_ipc::messages::{
    Call, FromDaemon, Malformed, PART_MAX, Secret, TEXT_MAX, ToDaemon, VERSION, decode, encode,
};
use timeous_ipc::{Completion, Handle, OpenFlow, Refusal, Submission};

fn handle() -> impl Strategy<Value = Handle> {
    (any::<u32>(), any::<u32>()).prop_map(|(slot, generation)| Handle { slot, generation })
}

fn nanos() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn update() -> impl Strategy<Value = Update> {
    let kind = prop::sample::select(vec![Loss::None, Loss::Transient, Loss::Persistent, Loss::Ecn]);
    let loss = prop::option::of((kind, any::<u64>().prop_map(Instant::from_nanos)));
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
    (numbers, loss, prop::option::of(nanos()), nanos(), any::<[bool; 2]>()).prop_map(
        |((acked, lost, beyond_gap), loss, rtt, overtaken_by, [recovering, slow_receiver])| Update {
            acked,
            lost,
            loss,
            rtt,
            recovering,
            slow_receiver,
            beyond_gap,
            overtaken_by,
            path_rtt: None,
        },
    )
}

fn submission() -> impl Strategy<Value = Submission> {
    prop_oneof![
        (handle(), 1..=u32::MAX).prop_map(|(flow, count)| Submission::Request { flow, count }),
        (handle(), any::<u64>())
            .prop_map(|(flow, at)| Submission::RequestBy { flow, deadline: Instant::from_nanos(at) }),
        (handle(), any::<u64>()).prop_map(|(flow, bytes)| Submission::Notify { flow, bytes }),
        (handle(), any::<u64>()).prop_map(|(flow, bytes)| Submission::NotifyUnasked { flow, bytes }),
        (handle(), update()).prop_map(|(flow, update)| Submission::Update { flow, update }),
        Just(Submission::Ping),
    ]
}

fn state() -> impl Strategy<Value = PathState> {
    let times = (prop::option::of(nanos()), nanos(), prop::option::of(nanos()));
    (any::<u64>(), times, any::<u64>(), any::<u64>(), 0..=1_000_000_u32, any::<bool>()).prop_map(
        |(rate, (srtt, rttvar, min_rtt), window, outstanding, loss_ppm, contended)| PathState {
            rate: Rate::from_bps(rate),
            srtt,
            rttvar,
            min_rtt,
            window,
            outstanding,
            loss_ppm,
            delivered: None,
            latest_rtt: None,
            contended,
            arrivals: None,
        },
    )
}

fn completion() -> impl Strategy<Value = Completion> {
    let why = prop::sample::select(Refusal::ALL.to_vec());
    prop_oneof![
        (handle(), any::<u32>()).prop_map(|(flow, count)| Completion::Granted { flow, count }),
        (handle(), state()).prop_map(|(flow, state)| Completion::Changed { flow, state }),
        (handle(), why, any::<u64>()).prop_map(|(flow, why, value)| Completion::Refused { flow, why, value }),
    ]
}

/// Words close to those of messages, since random words are rarely valid.
fn words() -> impl Strategy<Value = [u64; 8]> {
    let near = prop_oneof![Just(0), 0..=0xffff_u64, (0..=6_u64, 0..=20_u32).prop_map(|(n, by)| n << by), any::<u64>()];
    let mixed = (0..=6_u64, prop::array::uniform7(prop_oneof![3 => Just(0), 1 => any::<u64>()]));
    let mixed = mixed.prop_map(|(head, [a, b, c, d, e, f, g])| [head, a, b, c, d, e, f, g]);
    prop_oneof![prop::array::uniform8(near), mixed]
}

proptest! {
    #[test]
    fn a_submission_survives_its_slot(submission in submission()) {
        let words = submission.to_words();
        let read = Submission::from_words(&words).expect("it was written by its own writer");
        prop_assert_eq!(read.to_words(), words);
        prop_assert_eq!(format!("{read:?}"), format!("{submission:?}"));
    }

    #[test]
    fn a_completion_survives_its_slot(completion in completion()) {
        prop_assert_eq!(Completion::from_words(&completion.to_words()), Some(completion));
    }

    /// Each message has exactly one encoding: decoded words encode to the same words.
    #[test]
    fn words_are_a_message_in_its_one_form_or_none(words in words()) {
        if let Some(submission) = Submission::from_words(&words) {
            prop_assert_eq!(submission.to_words(), words);
        }
        if let Some(completion) = Completion::from_words(&words) {
            prop_assert_eq!(completion.to_words(), words);
        }
    }

    #[test]
    fn bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(message) = decode::<ToDaemon>(&bytes) {
            prop_assert_eq!(decode::<ToDaemon>(&encode(&message)), Ok(message));
        }
        let _ = decode::<FromDaemon>(&bytes);
    }

    #[test]
    fn a_call_survives_its_packet(id: u32, flow in handle(), with in handle(), down in 0.0..=1.0, up in 1.0..1e9) {
        for call in [Call::Merge { flow, with }, Call::Thresh { flow, down, up }, Call::ForgetPaths { addr: None }] {
            let message = ToDaemon::Call { id, call };
            prop_assert_eq!(decode(&encode(&message)), Ok(message));
        }
    }
}

#[test]
fn what_serde_does_not_know_of_is_refused() {
    let hello = |name: String| encode(&ToDaemon::Hello { version: VERSION, name });
    let mut trailing = hello(String::new());
    trailing.push(0);
    assert_eq!(decode::<ToDaemon>(&trailing), Err(Malformed::Trailing(1)));
    let long = decode::<ToDaemon>(&hello("x".repeat(TEXT_MAX + 1)));
    assert_eq!(long, Err(Malformed::TooLong { len: TEXT_MAX + 1, max: TEXT_MAX }));
    assert_eq!(decode::<ToDaemon>(&[]), Err(Malformed::Unreadable(0)));
    let flow = Handle { slot: 0, generation: 1 };
    let addr = "192.0.2.1".parse().unwrap();
    for call in [
        Call::Open(OpenFlow { dscp: 64, ..OpenFlow::to(addr, 1_200) }),
        Call::Open(OpenFlow::to(addr, 0)),
        Call::Open(OpenFlow::to(addr, 65_536)),
        Call::Open(OpenFlow { weight: 0, ..OpenFlow::to(addr, 1_200) }),
        Call::SetWeight { flow, weight: 0 },
        Call::Credential { is_first: true, part: Secret::default() },
        Call::Credential { is_first: true, part: Secret::new(&[0; PART_MAX + 1]) },
        Call::Thresh { flow, down: f64::NAN, up: 1.0 },
        Call::Thresh { flow, down: -0.1, up: 1.0 },
        Call::Thresh { flow, down: 0.5, up: f64::INFINITY },
        Call::Thresh { flow, down: 0.5, up: 0.5 },
    ] {
        let read = decode::<ToDaemon>(&encode(&ToDaemon::Call { id: 0, call: call.clone() }));
        assert!(matches!(read, Err(Malformed::Senseless(_))), "{call:?}");
    }
}
