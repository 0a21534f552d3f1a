//! IPC messages and slots from arbitrary bytes: each parses to a message with one encoding only, or to an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_ipc::messages::{Credential, FromDaemon, ToDaemon, decode, encode};
use timeous_ipc::{Completion, Submission};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = decode::<ToDaemon>(bytes) {
        assert_eq!(decode(&encode(&message)), Ok(message));
    }
    if let Ok(message) = decode::<FromDaemon>(bytes) {
        assert_eq!(decode(&encode(&message)), Ok(message));
    }
    if let Ok(credential) = decode::<Credential>(bytes) {
        assert_eq!(decode(&encode(&credential)), Ok(credential));
    }
    for slot in bytes.as_chunks::<64>().0 {
        let words = std::array::from_fn(|at| {
            u64::from_ne_bytes(slot[at * 8..at * 8 + 8].try_into().expect("eight bytes are a word"))
        });
        if let Some(submission) = Submission::from_words(&words) {
            assert_eq!(submission.to_words(), words);
        }
        if let Some(completion) = Completion::from_words(&words) {
            assert_eq!(completion.to_words(), words);
        }
    }
});
