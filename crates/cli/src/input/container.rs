//! MP4, Matroska, WebM, IVF, ADTS and Ogg from a file, as a transport stream or as RTP.

use std::fs::File;
use std::io::{BufReader, Seek};

use timeous_media::Ending;
use timeous_media::container::{Container, ContainerError, Muxed};

use super::captured::Frames;
use super::{passthrough, ts};
use crate::failure::Failure;
use crate::notice::tell;

/// Reads all samples of a file, paced by its times.
pub(super) fn read_file(mut file: File, frames: &Frames) -> Result<Ending, Failure> {
    if file.rewind().is_err() {
        return Err(refused());
    }
    let mut container = Container::open(BufReader::new(file)).map_err(failure)?;
    let names: Vec<&str> = container.tracks().iter().map(|track| track.format.name()).collect();
    let streams = container.streams();
    let how = match &streams {
        None => "it is sent as MPEG-TS",
        Some(_) => {
            "MPEG-TS cannot hold it, so it is sent as RTP: the receiver's SINK is udp://host:port, or a file that ends with .sdp"
        }
    };
    tell(format_args!("the source holds {}; {how}", names.join(", ")));
    for left_out in container.left_out() {
        tell(format_args!("left out: {left_out}"));
    }
    let mut next = || container.next_muxed().map_err(failure);
    let ending = match streams {
        None => ts::read_packets(frames, || match next()? {
            Some(Muxed::Ts(packets)) => Ok(Some(packets)),
            _ => Ok(None),
        }),
        Some(streams) => passthrough::read_samples(streams, frames, || match next()? {
            Some(Muxed::Rtp(sample)) => Ok(Some(sample)),
            _ => Ok(None),
        }),
    };
    if container.is_damaged() {
        tell("the file is damaged: what could be read was sent");
    } else if container.is_cut_off() {
        tell("the file is cut off: it was sent as far as it goes");
    }
    ending
}

/// Refuses a container file that is read as a live source.
pub(super) fn refused_live() -> Failure {
    Failure::Usage(
        "--live: a file of MP4, Matroska, WebM, IVF, ADTS or Ogg is sent by its own times; leave --live out".to_owned(),
    )
}

/// Refuses a container that does not come from a file.
pub(super) fn refused() -> Failure {
    Failure::Input(
        "MP4, Matroska, IVF, ADTS and Ogg are read from files: write MPEG-TS into the pipe, such as by `ffmpeg -i … -c copy \
         -f mpegts -`"
            .to_owned(),
    )
}

fn failure(error: ContainerError) -> Failure {
    match error {
        ContainerError::NoTrack { .. } => Failure::Input(format!(
            "{error}; convert it, such as by `ffmpeg -i FILE -c:v libx264 -c:a aac -f mpegts OUT.ts`"
        )),
        ContainerError::CutOff | ContainerError::Damaged(_) => {
            Failure::Input(format!("{error}; take it again from where it was made, once it is complete there"))
        }
        ContainerError::Io(_) => Failure::Input(error.to_string()),
    }
}
