//! MP4, Matroska and WebM from a file, as a transport stream.

use std::fs::File;
use std::io::{BufReader, Seek};

use timeous_media::Ending;
use timeous_media::container::{Container, ContainerError};

use super::captured::Frames;
use super::ts;
use crate::failure::Failure;
use crate::notice::tell;

/// Reads all samples of a file, paced by its times.
pub(super) fn read_file(mut file: File, frames: &Frames) -> Result<Ending, Failure> {
    if file.rewind().is_err() {
        return Err(refused());
    }
    let mut container = Container::open(BufReader::new(file)).map_err(failure)?;
    let names: Vec<&str> = container.tracks().iter().map(|track| track.format.name()).collect();
    tell(format_args!("the source holds {}; it is sent as MPEG-TS", names.join(", ")));
    for left_out in container.left_out() {
        tell(format_args!("left out: {left_out}"));
    }
    let ending = ts::read_packets(frames, || container.next_packets().map_err(failure));
    if container.is_cut_off() {
        tell("the file is cut off: it was sent as far as it goes");
    }
    ending
}

/// Refuses a container that does not come from a file.
pub(super) fn refused() -> Failure {
    Failure::Input(
        "MP4 and Matroska are read from files, whose index may be at the end: write MPEG-TS into the pipe, such as \
         by `ffmpeg -i … -c copy -f mpegts -`"
            .to_owned(),
    )
}

fn failure(error: ContainerError) -> Failure {
    match error {
        ContainerError::NoTrack { .. } => Failure::Input(format!(
            "{error}; convert it, such as by `ffmpeg -i FILE -c:v libx264 -c:a aac -f mpegts OUT.ts`"
        )),
        ContainerError::Io(_) | ContainerError::CutOff | ContainerError::Damaged(_) => {
            Failure::Input(error.to_string())
        }
    }
}
