//! Format of a file or pipe, by its first bytes: raw H.264 or MPEG-TS.

use std::io::Read;
use std::os::fd::AsFd;

use timeous_media::ts::is_transport_stream;
use timeous_media::{Ending, FrameRate};

use super::captured::Frames;
use super::pipe::read;
use super::{pipe, ts};
use crate::failure::Failure;

const CHUNK: usize = 64 * 1024;

/// Reads all frames of a file, as fast as the queue takes them.
pub(super) fn read_file(mut from: impl Read, rate: Option<FrameRate>, frames: &Frames) -> Result<Ending, Failure> {
    let (first, is_ts) = probe(&mut from)?;
    if is_ts { ts::read_file(from, &first, frames) } else { pipe::read_file(from, &first, rate, frames) }
}

/// Reads a live source.
pub(super) fn read_live(
    mut from: impl Read + AsFd,
    rate: Option<FrameRate>,
    frames: &Frames,
) -> Result<Ending, Failure> {
    let (first, is_ts) = probe(&mut from)?;
    if is_ts { ts::read_live(from, &first, frames) } else { pipe::read_live(from, &first, rate, frames, false) }
}

/// Reads until the format is known; returns the bytes, and whether they are MPEG-TS.
fn probe(from: &mut impl Read) -> Result<(Vec<u8>, bool), Failure> {
    let (mut first, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        let count = read(from, &mut chunk)?;
        first.extend_from_slice(&chunk[..count]);
        match is_transport_stream(&first) {
            Some(is_ts) => return Ok((first, is_ts)),
            None if count == 0 => return Ok((first, false)),
            None => {}
        }
    }
}
