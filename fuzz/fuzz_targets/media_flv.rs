//! H.264 and transport streams of any bytes as FLV: nothing panics, and tags are whole, with times that a player can read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_media::ts::TsReader;
use timeous_media::{FlvMuxer, FrameReader, Stamp, TsToFlv};

/// Walks over tags; each has its size behind it.
fn check(mut tags: &[u8]) {
    while !tags.is_empty() {
        assert!(tags.len() >= 15 && [8, 9].contains(&tags[0]), "{tags:?}");
        let len = usize::from(tags[1]) << 16 | usize::from(tags[2]) << 8 | usize::from(tags[3]);
        assert!(len > 0 && tags[11..].len() >= len + 4);
        let (content, rest) = tags[11..].split_at(len);
        assert_eq!(rest[..4], (len as u32 + 11).to_be_bytes());
        assert!(matches!((tags[0], content[0]), (8, 0xaf) | (9, 0x17 | 0x27)));
        tags = &rest[4..];
    }
}

fuzz_target!(|input: (bool, &[u8])| {
    let (is_ts, bytes) = input;
    if is_ts {
        let (mut reader, mut flv) = (TsReader::new(), TsToFlv::default());
        let _ = reader.push(bytes);
        reader.finish();
        while let Some(unit) = reader.next_unit() {
            if let Some((_, tags)) = flv.tags(&unit) {
                check(&tags);
            }
        }
        return;
    }
    let (mut reader, mut flv) = (FrameReader::new(None), FlvMuxer::default());
    let _ = reader.push(bytes);
    let _ = reader.finish();
    while let Some(frame) = reader.next_frame() {
        let stamp = Stamp { presentation: frame.rtp_ticks, capture: frame.rtp_ticks, is_queued: false };
        if let Some(tag) = flv.tag(&frame, (true, true), &stamp) {
            check(&tag.rtp);
        }
    }
});
