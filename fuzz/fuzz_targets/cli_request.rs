//! Requests of players by HTTP, of any bytes: nothing panics, a head that only begins waits for more, and no more than its limit is kept.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cli/src/send/request.rs"]
#[allow(dead_code)]
mod request;

use request::{LONGEST_HEAD, Request, read};

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes);
    assert!(bytes.len() <= LONGEST_HEAD || whole != Request::Incomplete);
    // As it comes in pieces, nothing is answered before its end, unless it is garbage.
    if matches!(whole, Request::Get { .. } | Request::Head | Request::Other) && bytes.len() <= 512 {
        let first = (0..bytes.len()).map(|end| read(&bytes[..end])).find(|request| *request != Request::Incomplete);
        assert!(first.is_none_or(|first| first == whole), "{whole:?}");
    }
});
