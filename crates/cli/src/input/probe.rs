//! Format of a file or pipe, by its first bytes: raw H.264 or H.265, MPEG-TS, or a container.

use std::fs::File;
use std::io::Read;

use timeous_media::container::{H265Stream, is_container, is_h265};
use timeous_media::ts::is_transport_stream;
use timeous_media::{Ending, FrameRate};

use super::captured::Frames;
use super::pipe::read;
use super::{container, pipe, ts};
use crate::failure::Failure;
use crate::notice::tell;

const CHUNK: usize = 64 * 1024;

/// Reads all frames of a file, as fast as the queue takes them.
pub(super) fn read_file(mut from: File, rate: Option<FrameRate>, frames: &Frames) -> Result<Ending, Failure> {
    let (first, format) = probe(&mut from)?;
    match format {
        Format::TransportStream => ts::read_file(from, &first, None, frames),
        Format::H265 => ts::read_file(from, &first, Some(h265(rate)), frames),
        Format::Container => container::read_file(from, frames),
        Format::ByteStream => pipe::read_file(from, &first, rate, frames),
    }
}

/// Reads a live source.
pub(super) fn read_live(mut from: File, rate: Option<FrameRate>, frames: &Frames) -> Result<Ending, Failure> {
    let (first, format) = probe(&mut from)?;
    match format {
        Format::TransportStream => ts::read_live(from, &first, None, frames),
        Format::H265 => ts::read_live(from, &first, Some(h265(rate)), frames),
        Format::Container => Err(container::refused()),
        Format::ByteStream => pipe::read_live(from, &first, rate, frames, false),
    }
}

fn h265(rate: Option<FrameRate>) -> H265Stream {
    tell("the source is raw H.265; it is sent as MPEG-TS");
    H265Stream::new(rate)
}

/// Format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    TransportStream,
    Container,
    H265,
    /// Raw H.264, or what its reader refuses.
    ByteStream,
}

/// Reads until the format is known; returns the bytes, and the format.
fn probe(from: &mut impl Read) -> Result<(Vec<u8>, Format), Failure> {
    let (mut first, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        let count = read(from, &mut chunk)?;
        first.extend_from_slice(&chunk[..count]);
        if first.is_empty() {
            return Err(Failure::Input("the source is empty".to_owned()));
        }
        if is_container(&first) {
            return Ok((first, Format::Container));
        }
        if is_h265(&first) == Some(true) {
            return Ok((first, Format::H265));
        }
        match is_transport_stream(&first) {
            Some(true) => return Ok((first, Format::TransportStream)),
            Some(false) => return Ok((first, Format::ByteStream)),
            None if count == 0 => return Ok((first, Format::ByteStream)),
            None => {}
        }
    }
}
