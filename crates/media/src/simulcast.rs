//! Simulcast: selects one of several encodings of the same pictures, and switches between them at keyframes.

use std::collections::VecDeque;

use timeous_core::{FrameId, Instant, References};

use crate::frame::Frame;

/// Selects the frames to send from parallel encodings of the same pictures.
///
/// An encoding starts at an IDR frame and continues without a gap, so that all frames sent can be decoded. Switching
/// up, the old encoding is sent until then; switching down, it stops at once, since the path cannot carry it. No
/// picture is sent twice or out of order. Times are passed along with the frames.
#[derive(Clone, Debug)]
pub struct Simulcast<T = Instant> {
    wanted: usize,
    /// Encoding being sent.
    sent: Option<usize>,
    /// Latest picture sent.
    until: Option<u64>,
    /// Latest picture of each encoding.
    seen: Vec<Option<u64>>,
    /// Last frame, held back while a higher encoding may start with the same picture.
    held: Option<TimedFrame<T>>,
    /// Frames sent so far.
    count: u32,
    /// Encoding of the last frame, and how many frames were sent since it started.
    run: (usize, u32),
    ready: VecDeque<TimedFrame<T>>,
}

/// A frame and its time.
type TimedFrame<T> = (Box<Frame>, T);

impl<T> Simulcast<T> {
    /// Creates a selector for this many encodings; the first one is selected.
    #[must_use]
    pub fn new(encodings: usize) -> Self {
        let seen = vec![None; encodings.max(1)];
        Self { wanted: 0, sent: None, until: None, seen, held: None, count: 0, run: (0, 0), ready: VecDeque::new() }
    }

    /// Selects an encoding, counted from zero in order of increasing rate.
    pub fn want(&mut self, encoding: usize) {
        self.wanted = encoding.min(self.seen.len() - 1);
        self.sent = self.sent.filter(|sent| *sent <= self.wanted);
        match self.sent {
            None => self.held = None,
            Some(sent) if sent == self.wanted => self.release(),
            Some(_) => {}
        }
    }

    /// Selected encoding if it is not being sent yet; it starts with its next IDR frame.
    #[must_use]
    pub fn waits_for(&self) -> Option<usize> {
        Some(self.wanted).filter(|wanted| self.sent != Some(*wanted))
    }

    /// Encoding being sent; `None` until the selected one starts, at the beginning and after switching down.
    #[must_use]
    pub const fn sent(&self) -> Option<usize> {
        self.sent
    }

    /// Handles the next frame of an encoding; `encoding` is below the number given to `new`.
    pub fn push(&mut self, encoding: usize, frame: Box<Frame>, captured: T) {
        let (picture, begins) = (frame.display_index, frame.entry.is_some_and(|entry| entry.recovery == 0));
        let encoding = encoding.min(self.seen.len() - 1);
        self.seen[encoding] = self.seen[encoding].max(Some(picture));
        let waited_for = self.waits_for();
        if waited_for == Some(encoding) {
            let same = self.held.as_ref().is_some_and(|(held, _)| held.display_index == picture);
            if begins && same {
                self.held = None;
            } else if self.held.as_ref().is_some_and(|(held, _)| held.display_index <= picture) {
                self.release();
            }
            if begins && self.until.is_none_or(|until| picture > until) {
                self.sent = Some(encoding);
            }
        }
        if self.sent != Some(encoding) {
            return;
        }
        self.release();
        let coming = (frame, captured);
        match waited_for {
            // It may start with this very picture; encodings of a picture do not arrive at the same time.
            Some(higher) if higher != encoding && self.seen[higher] < Some(picture) => self.held = Some(coming),
            _ => self.send(encoding, coming),
        }
    }

    /// Returns the next frame to send, and its time. Frames are numbered as they are sent, across encodings.
    pub fn poll(&mut self) -> Option<(Box<Frame>, T)> {
        self.ready.pop_front()
    }

    fn release(&mut self) {
        if let Some((held, sent)) = self.held.take().zip(self.sent) {
            self.send(sent, held);
        }
    }

    fn send(&mut self, encoding: usize, (mut frame, captured): TimedFrame<T>) {
        self.until = self.until.max(Some(frame.display_index));
        let goes_on = self.run.0 == encoding && frame.entry.is_none_or(|entry| entry.recovery > 0);
        self.run = (encoding, if goes_on { self.run.1 + 1 } else { 1 });
        let mut references = References::NONE;
        for reference in frame.references.iter() {
            // Frame ids are counted from one, and an encoding is sent without a gap.
            let back = frame.index.wrapping_sub(reference.0 - 1);
            if back < self.run.1 {
                let _as_many_as_before = references.push(FrameId(self.count - back + 1));
            }
        }
        (frame.index, frame.references) = (self.count, references);
        self.count = self.count.wrapping_add(1);
        self.ready.push_back((frame, captured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{EntryPoint, FrameKind};
    use crate::h264::reader::FrameReader;

    /// First frames of the test clip.
    fn frames() -> Vec<Frame> {
        let mut reader = FrameReader::new(None);
        let clip = include_bytes!("../../../assets/clip.h264");
        reader.push(&clip[..200_000]).unwrap();
        std::iter::from_fn(|| reader.next_frame()).collect()
    }

    /// Encoding sent for each picture; `want` gives the picture from which each encoding is selected, and `keys` turns
    /// frames into IDR frames.
    fn run(want: &[(u64, usize)], keys: impl Fn(u64, usize) -> bool) -> Vec<Option<usize>> {
        let mut simulcast = Simulcast::new(3);
        let template = frames().swap_remove(1);
        assert!(!template.references.is_empty());
        let mut names = std::collections::BTreeSet::new();
        let mut sent = vec![None; 12];
        for picture in 0..12 {
            for (_, encoding) in want.iter().filter(|(from, _)| *from == picture) {
                simulcast.want(*encoding);
            }
            for encoding in 0..3 {
                let mut frame = template.clone();
                (frame.index, frame.display_index, frame.rtp_ticks) = (picture as u32, picture, encoding as u64);
                frame.references = References::from([FrameId(picture as u32)]);
                if keys(picture, encoding) {
                    frame.entry = Some(EntryPoint { recovery: 0 });
                    (frame.kind, frame.references) = (FrameKind::Idr, References::NONE);
                }
                simulcast.push(encoding, Box::new(frame), Instant::ZERO);
            }
            while let Some((frame, _)) = simulcast.poll() {
                assert!(frame.references.iter().all(|name| names.contains(&name)), "its reference is not sent");
                assert_eq!(frame.index as usize, names.len(), "a receiver counts gaps as missing frames");
                names.insert(frame.id());
                let before = sent[frame.display_index as usize].replace(frame.rtp_ticks as usize);
                assert_eq!(before, None, "a picture twice");
                assert!(
                    sent.iter().skip(frame.display_index as usize + 1).all(Option::is_none),
                    "a picture before another"
                );
            }
        }
        sent
    }

    #[test]
    fn up_goes_the_stream_with_the_next_frame_that_stands_for_itself_and_without_a_gap() {
        let sent = run(&[(2, 1)], |picture, _| picture.is_multiple_of(4));
        assert_eq!(sent, [[0; 4], [1; 4], [1; 4]].concat().into_iter().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn while_a_higher_one_is_waited_for_the_lower_one_goes_on() {
        let sent = run(&[(2, 2)], |picture, encoding| picture == [0, 3, 9][encoding] || (picture, encoding) == (5, 0));
        assert_eq!(sent, [vec![0; 9], vec![2; 3]].concat().into_iter().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn down_it_goes_at_once_and_begins_with_a_frame_that_stands_for_itself() {
        let sent = run(&[(0, 2), (2, 0)], |picture, encoding| picture == 0 || (picture == 4 && encoding == 0));
        assert_eq!(sent, [vec![Some(2); 2], vec![None; 2], vec![Some(0); 8]].concat());
    }

    #[test]
    fn what_is_held_is_left_out_if_a_lower_one_is_wanted_and_sent_if_it_is_what_is_wanted() {
        for (wanted, sent) in [(0, None), (1, Some(1))] {
            let mut simulcast = Simulcast::new(3);
            let first = frames().swap_remove(0);
            simulcast.want(1);
            let mut frame = Box::new(first.clone());
            simulcast.push(1, frame.clone(), Instant::ZERO);
            assert!(simulcast.poll().is_some());
            simulcast.want(2);
            frame.display_index = 1;
            simulcast.push(1, frame, Instant::ZERO);
            assert!(simulcast.poll().is_none(), "the third may begin with the same picture");
            simulcast.want(wanted);
            assert_eq!((simulcast.poll().is_some(), simulcast.sent()), (sent.is_some(), sent));
        }
    }

    #[test]
    fn no_picture_is_sent_twice() {
        let mut simulcast = Simulcast::new(2);
        simulcast.want(1);
        let first = Box::new(frames().swap_remove(0));
        simulcast.push(1, first.clone(), Instant::ZERO);
        assert!(simulcast.poll().is_some());
        simulcast.want(0);
        simulcast.push(0, first, Instant::ZERO);
        assert!(simulcast.poll().is_none());
        assert_eq!((simulcast.waits_for(), simulcast.sent()), (Some(0), None));
    }

    #[test]
    fn before_a_frame_that_stands_for_itself_nothing_is_sent() {
        let sent = run(&[], |picture, _| picture == 3);
        assert_eq!(sent.iter().position(Option::is_some), Some(3));
    }
}
