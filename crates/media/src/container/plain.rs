//! Files of one stream: IVF (VP8, VP9, AV1), ADTS (AAC), and Ogg (Opus).

use std::io::{ErrorKind, Read as IoRead, Seek};

use super::adts::Adts;
use super::error::ContainerError;
use super::ivf::Ivf;
use super::merge::Read;
use super::ogg::Ogg;
use super::sample::{PlainSample, Sample};
use super::track::{Track, TrackFormat};

/// Whether bytes begin such a file.
pub(super) fn is_plain(bytes: &[u8]) -> bool {
    Ivf::is_one(bytes) || Ogg::is_one(bytes) || Adts::is_one(bytes)
}

/// File of one stream.
#[derive(Debug)]
pub(super) struct PlainFile<R> {
    from: R,
    kind: Kind,
    /// Whether the file ended within a frame.
    pub(super) is_cut_off: bool,
}

#[derive(Debug)]
enum Kind {
    Ivf(Ivf),
    Adts(Adts),
    Ogg(Ogg),
}

impl<R: IoRead + Seek> PlainFile<R> {
    /// Opens a file; returns its track.
    pub(super) fn open(mut from: R) -> Result<(Self, Vec<Track>, Vec<String>), ContainerError> {
        let mut first = [0; 4];
        from.read_exact(&mut first)?;
        from.rewind()?;
        let opened: Result<(Kind, TrackFormat), String> = if Ivf::is_one(&first) {
            Ivf::open(&mut from).map_err(failure)?.map(|(ivf, format)| (Kind::Ivf(ivf), format))
        } else if Ogg::is_one(&first) {
            Ogg::open(&mut from).map_err(failure)?.map(|(ogg, format)| (Kind::Ogg(ogg), format))
        } else {
            let adts = Adts::open(&mut from).map_err(failure)?;
            from.rewind()?;
            adts.map(|(adts, format)| (Kind::Adts(adts), format))
        };
        let (kind, format) = opened.map_err(|reason| ContainerError::NoTrack { left_out: vec![reason] })?;
        Ok((Self { from, kind, is_cut_off: false }, vec![Track { format, language: None }], Vec::new()))
    }

    /// Next sample; `None` at the end.
    pub(super) fn next_sample(&mut self) -> Result<Option<Read>, ContainerError> {
        let read = match &mut self.kind {
            Kind::Ivf(ivf) => ivf.next_sample(&mut self.from),
            Kind::Adts(adts) => adts.next_sample(&mut self.from),
            Kind::Ogg(ogg) => ogg.next_sample(&mut self.from),
        };
        match read {
            Ok(sample) => Ok(sample.map(|PlainSample { time, is_entry, data }| {
                Read::Timed(Sample { track: 0, decode: time, presented: time, is_entry, data })
            })),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_cut_off = true;
                Ok(None)
            }
            Err(error) => Err(failure(error)),
        }
    }
}

fn failure(error: std::io::Error) -> ContainerError {
    match error.kind() {
        ErrorKind::InvalidData => ContainerError::Damaged(error.to_string()),
        _ => error.into(),
    }
}
