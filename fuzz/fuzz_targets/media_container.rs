//! Containers of any bytes: nothing panics, memory is bounded by the file, and what comes out is whole packets of MPEG-TS, or RTP.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use timeous_core::Instant;
use timeous_media::container::{Container, Muxed};
use timeous_media::passthrough::PassthroughReader;
use timeous_media::ts::PACKET_LEN;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let head: &[u8] = match kind % 7 {
        0 => &[0, 0, 0, 8, b'f', b't', b'y', b'p'],
        1 => &[0x1a, 0x45, 0xdf, 0xa3],
        2 => b"DKIF\0\0\x20\0AV01",
        3 => b"DKIF\0\0\x20\0VP90",
        4 => b"OggS\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x0cOpusHead\x01\x02\0\0",
        5 => &[0xff, 0xf1, 0x50, 0x80],
        // A whole file, from the corpus.
        _ => &[],
    };
    let Ok(mut container) = Container::open(Cursor::new([head, bytes].concat())) else { return };
    let mut reader = PassthroughReader::new(container.streams().unwrap_or_default());
    for _ in 0..10_000 {
        match container.next_muxed() {
            Ok(Some(Muxed::Ts(packets))) => assert!(!packets.is_empty() && packets.len().is_multiple_of(PACKET_LEN)),
            Ok(Some(Muxed::Rtp(sample))) => {
                for packet in &sample.packets {
                    let _ = reader.push(Instant::ZERO, sample.stream, packet);
                }
                while reader.next_unit().is_some() {}
            }
            Ok(None) | Err(_) => return,
        }
    }
});
