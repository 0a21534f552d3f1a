//! H.264 byte stream from arbitrary bytes: the result does not depend on the chunks, and each frame read can be
//! packetized and reassembled. Read in parts, with pauses, no NAL unit is returned twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_media::{Ending, Frame, FrameReader, MediaError, Packetizer, PacketizerConfig};

const LIMIT: usize = 1 << 16;

fn read(stream: &[u8], chunk: usize) -> (Vec<Frame>, Result<Ending, MediaError>) {
    let mut reader = FrameReader::with_limit(None, LIMIT);
    let mut frames = Vec::new();
    for chunk in stream.chunks(chunk) {
        let pushed = reader.push(chunk);
        frames.extend(std::iter::from_fn(|| reader.next_frame()));
        if let Err(error) = pushed {
            return (frames, Err(error));
        }
    }
    let ending = reader.finish();
    frames.extend(std::iter::from_fn(|| reader.next_frame()));
    (frames, ending)
}

/// Reads parts, with a pause after every `pause`th chunk.
fn read_parts(stream: &[u8], chunk: usize, pause: usize) {
    let mut reader = FrameReader::with_limit(None, LIMIT);
    let mut bytes = 0;
    let mut last = None;
    let mut look = |reader: &mut FrameReader| {
        while let Some(part) = reader.next_part() {
            bytes += part.frame.size();
            assert!(part.last || !part.frame.nals.is_empty());
            let index = Some(part.frame.index);
            assert!(if part.first { index > last } else { index == last }, "parts of a frame come together");
            last = index;
        }
    };
    for (place, chunk) in stream.chunks(chunk).enumerate() {
        if reader.push(chunk).is_err() {
            return;
        }
        if place % pause == 0 {
            reader.flush();
        }
        look(&mut reader);
    }
    let _ = reader.finish();
    look(&mut reader);
    assert!(bytes <= stream.len());
    let _ = reader.push_access_unit(stream);
}

fuzz_target!(|data: &[u8]| {
    let Some((&chunk, stream)) = data.split_first() else { return };
    let (frames, ending) = read(stream, usize::from(chunk) + 1);
    let (whole, same) = read(stream, stream.len().max(1));
    // The display order may depend on the frame rate known at that point, and is not compared; the contents must be
    // equal.
    let parts = |frames: &[Frame]| -> Vec<_> { frames.iter().map(|f| (f.index, f.kind, f.nals.clone())).collect() };
    if ending.is_ok() || same.is_ok() {
        assert_eq!(parts(&frames), parts(&whole));
        assert_eq!(ending, same);
    }
    if let Ok(ending) = ending {
        assert_eq!(ending.frames, frames.len() as u64);
    }
    read_parts(stream, usize::from(chunk) + 1, usize::from(chunk) % 7 + 1);
    let mut packetizer = Packetizer::new(PacketizerConfig { mtu: 300, ..PacketizerConfig::default() }).unwrap();
    for frame in &frames {
        assert!(frame.size() <= LIMIT + 4 * frame.nals.len() && frame.handover >= frame.capture);
        let adus = packetizer.packetize(frame);
        assert!(adus.iter().all(|adu| adu.rtp.len() <= 300));
        assert!(!adus.is_empty());
    }
});
