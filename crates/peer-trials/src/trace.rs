//! The trace to send: frames of a real clip, with sizes, types and references, split into datagrams.

use std::fs;
use std::path::Path;

use timeous::core::{Duration, Instant, Rate};
use timeous_media::{Frame, FrameKind, FrameReader};
use timeous_testbed::RunError;

use crate::datagram::Header;

/// Size of a datagram: fits into a packet of every peer.
pub(crate) const DATAGRAM: usize = 1_000;

/// A frame of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceFrame {
    /// Frame number, from one.
    pub(crate) id: u32,
    /// Time at which the source sends it, from the beginning of the trace.
    pub(crate) at: Duration,
    /// Size in bytes.
    pub(crate) size: usize,
    /// `D` (IDR), `I`, `P` or `B`.
    pub(crate) kind: u8,
    /// Value relative to other frames.
    pub(crate) priority: u8,
    /// Frames without which it is useless.
    pub(crate) references: Vec<u32>,
}

/// Frames in the order of sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The frames.
    pub(crate) frames: Vec<TraceFrame>,
}

impl Trace {
    /// Takes the first `length` of a clip, repeated if it is shorter.
    ///
    /// # Errors
    /// A file that cannot be read, or is not H.264.
    pub(crate) fn of_clip(path: &Path, length: Duration) -> Result<Self, RunError> {
        let bytes = fs::read(path).map_err(RunError::file(path))?;
        let bad = |error: timeous_media::MediaError| RunError::Machine(format!("{}: {error}", path.display()));
        let mut reader = FrameReader::new(None);
        reader.push(&bytes).map_err(bad)?;
        reader.finish().map_err(bad)?;
        let clip: Vec<Frame> = std::iter::from_fn(|| reader.next_frame()).collect();
        let period = reader.rate().time_of(clip.len() as u64);
        let rounds = (0..).flat_map(|round: u32| clip.iter().map(move |frame| (round, frame)));
        let frames = rounds
            .zip(0..)
            .take_while(|(_, number)| reader.rate().time_of(*number) < length)
            .map(|((round, frame), _)| of_frame(frame, round, clip.len() as u32, period * u64::from(round)));
        Ok(Self { frames: frames.collect() })
    }

    /// Mean rate of the payload.
    pub(crate) fn rate(&self) -> Rate {
        let bytes: usize = self.frames.iter().map(|frame| frame.pieces().map(|(_, len)| len).sum::<usize>()).sum();
        Rate::from_bytes_in(bytes as u64, self.length())
    }

    /// Duration of the trace.
    pub(crate) fn length(&self) -> Duration {
        let last = self.frames.last().map_or(Duration::ZERO, |frame| frame.at);
        last + last / (self.frames.len() as u64).saturating_sub(1).max(1)
    }
}

impl TraceFrame {
    /// Pieces of the frame: index and length of each.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        let count = self.size.div_ceil(DATAGRAM).max(1);
        // Of equal length, like fragments of RFC 6184: the last is not a stub.
        (0..count).map(move |i| (i as u16, (self.size * (i + 1) / count - self.size * i / count).max(Header::LEN)))
    }

    /// Datagrams of the frame, sent at `at`.
    pub(crate) fn datagrams(&self, at: Instant) -> Vec<Vec<u8>> {
        let mut references = [0; 4];
        references.iter_mut().zip(&self.references).for_each(|(to, from)| *to = *from);
        let pieces = self.pieces().count() as u16;
        let header = |piece| {
            let Self { id: frame, kind, priority, .. } = *self;
            Header { frame, piece, pieces, kind, priority, at, references }
        };
        self.pieces().map(|(piece, len)| header(piece).datagram(len)).collect()
    }
}

fn of_frame(frame: &Frame, round: u32, len: u32, later: Duration) -> TraceFrame {
    let first = round * len;
    let kind = match frame.kind {
        FrameKind::Idr => b'D',
        FrameKind::I => b'I',
        FrameKind::P => b'P',
        FrameKind::B => b'B',
    };
    TraceFrame {
        id: first + frame.id().0,
        at: later + frame.handover,
        size: frame.size(),
        kind,
        priority: frame.priority.0,
        references: frame.references.iter().map(|id| first + id.0).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/clip.h264")
    }

    #[test]
    fn a_clip_gives_the_same_trace_again_and_again() {
        let once = Trace::of_clip(&clip(), Duration::from_secs(18)).unwrap();
        let twice = Trace::of_clip(&clip(), Duration::from_secs(36)).unwrap();
        assert_eq!((once.frames.len(), twice.frames.len()), (540, 1080));
        let (first, again) = (&twice.frames[5], &twice.frames[545]);
        assert_eq!((again.size, again.kind, again.id), (first.size, first.kind, first.id + 540));
        assert_eq!(again.at.saturating_sub(first.at), Duration::from_secs(18));
        assert!(again.references.iter().all(|id| *id > 540), "each round refers to itself");
        assert!(twice.frames.iter().all(|frame| frame.references.iter().all(|id| *id < frame.id)));
        assert!(once.frames.iter().all(|frame| frame.references.len() <= 4));
    }

    #[test]
    fn a_frame_is_cut_into_even_pieces_that_together_are_the_frame() {
        let frame = TraceFrame { id: 9, at: Duration::ZERO, size: 2_500, kind: b'P', priority: 1, references: vec![8] };
        let datagrams = frame.datagrams(Instant::from_nanos(5));
        assert_eq!(datagrams.iter().map(Vec::len).collect::<Vec<_>>(), [833, 833, 834]);
        let header = Header::read(&datagrams[2]).unwrap();
        assert_eq!((header.frame, header.piece, header.pieces, header.references), (9, 2, 3, [8, 0, 0, 0]));
        let small = TraceFrame { size: 3, ..frame };
        assert_eq!(small.datagrams(Instant::ZERO)[0].len(), Header::LEN, "no less than its header");
    }
}
