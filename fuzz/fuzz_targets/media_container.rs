//! Containers of any bytes: nothing panics, memory is bounded by the file, and what comes out is whole packets.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use timeous_media::container::Container;
use timeous_media::ts::PACKET_LEN;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let head: &[u8] = match kind % 3 {
        0 => &[0, 0, 0, 8, b'f', b't', b'y', b'p'],
        1 => &[0x1a, 0x45, 0xdf, 0xa3],
        // A whole file, from the corpus.
        _ => &[],
    };
    let Ok(mut container) = Container::open(Cursor::new([head, bytes].concat())) else { return };
    for _ in 0..10_000 {
        match container.next_packets() {
            Ok(Some(packets)) => assert!(!packets.is_empty() && packets.len().is_multiple_of(PACKET_LEN)),
            Ok(None) | Err(_) => return,
        }
    }
});
