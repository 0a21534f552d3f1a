//! Reference picture buffer, simulated as far as slice headers tell: which frames a picture may refer to
//! (H.264 §8.2.4, §8.2.5).

mod lists;
mod stored;
#[cfg(test)]
mod tests;

use self::stored::{BOTH, BOTTOM, Content, Stored, TOP};
use super::slice::{MAX_REFERENCE_FRAMES, Marking, SliceHeader};

/// Frames that the slices of a picture may refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Referred<T> {
    pub(crate) known: Vec<T>,
    /// There are others, which are lost or were never seen.
    pub(crate) missing: bool,
}

/// Reference picture buffer; `T` is what its user knows of a frame.
///
/// For each coded picture (frame or field) in decoding order: [`begin`](Self::begin), [`referred`](Self::referred) for
/// each slice, [`end`](Self::end).
#[derive(Clone, Debug)]
pub(crate) struct ReferenceBuffer<T> {
    stored: Vec<Stored<T>>,
    /// `PrevRefFrameNum` (§7.4.3); `None` before the first picture.
    previous: Option<u32>,
    /// Count of the last entry point that is no IDR picture: pictures shown from there on do not refer to what is
    /// older, and those shown before it (leading pictures) may.
    entry_poc: Option<i64>,
    /// Count of the picture that the buffer was begun with, if that was no IDR picture: frames from before it are in a
    /// decoder's buffer, but not here.
    blind_before: Option<i64>,
}

impl<T> Default for ReferenceBuffer<T> {
    fn default() -> Self {
        Self { stored: Vec::new(), previous: None, entry_poc: None, blind_before: None }
    }
}

impl<T: Clone> ReferenceBuffer<T> {
    /// Buffer of which nothing is known that came before the next picture, whose count is `poc`.
    pub(crate) fn blind_before(poc: i64) -> Self {
        Self { blind_before: Some(poc), ..Self::default() }
    }

    /// `PrevRefFrameNum`: the number of the last reference frame.
    pub(crate) fn previous(&self) -> Option<u32> {
        self.previous
    }

    /// What is known of the frames in the buffer.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.stored.iter().filter_map(|frame| match &frame.content {
            Content::Here(value) => Some(value),
            _ => None,
        })
    }

    /// Whether a picture with this count is shown before the entry point that it follows in decoding order.
    pub(crate) fn is_leading(&self, poc: i64) -> bool {
        self.entry_poc.is_some_and(|entry| poc < entry)
    }

    /// Begins the first field of a frame, or a whole frame. Frames whose numbers are skipped are taken for lost or,
    /// where the stream may skip them and nothing speaks for a loss, for non-existing (§8.2.5.2).
    pub(crate) fn begin(&mut self, header: &SliceHeader, loss: bool) {
        self.stored.iter_mut().for_each(|frame| frame.current = false);
        let Some(previous) = self.previous.filter(|_| !header.is_idr()) else { return };
        let max = header.max_frame_num;
        let skipped = (header.frame_num + max - previous % max) % max;
        // As many as fit push out all others.
        for back in (1..skipped.min(1 + capacity(header) as u32)).rev() {
            self.slide(header);
            let content = if header.gaps_allowed && !loss { Content::NonExisting } else { Content::Lost };
            let frame_num = (header.frame_num + max - back) % max;
            self.stored.push(Stored {
                frame_num,
                long_term: None,
                fields: BOTH,
                poc: None,
                content,
                old: false,
                current: false,
            });
            self.previous = Some(frame_num);
        }
    }

    /// Returns the frames that a slice of the picture, whose count is `poc`, may refer to.
    pub(crate) fn referred(&self, header: &SliceHeader, poc: i64) -> Referred<T> {
        let trust = self.entry_poc.is_some() && !self.is_leading(poc);
        let slots = lists::slots(&self.stored, header, poc);
        let longest = header.lists.iter().map(|list| list.active).max().unwrap_or(0);
        let behind = |begun: i64| poc < begun && longest > 0 || slots.len() < longest;
        let missing = !trust && self.blind_before.is_some_and(behind);
        let mut referred = Referred { known: Vec::new(), missing };
        for slot in slots {
            match slot.map(|at| &self.stored[at]) {
                None => referred.missing |= !trust,
                Some(frame) if frame.current || (trust && frame.old) => {}
                Some(frame) => match &frame.content {
                    Content::Here(value) => referred.known.push(value.clone()),
                    Content::Lost => referred.missing = true,
                    Content::NonExisting => {}
                },
            }
        }
        referred
    }

    /// Ends the picture: marks it and others as it says (§8.2.5). `value` is `None` for a picture that is missing to
    /// those that refer to it.
    pub(crate) fn end(&mut self, header: &SliceHeader, poc: i64, value: Option<T>) {
        let old = self.is_leading(poc);
        if header.is_idr() {
            (self.entry_poc, self.blind_before) = (None, None);
        }
        if !header.is_reference() {
            return;
        }
        let fields = match header.bottom_field {
            None => BOTH,
            Some(false) => TOP,
            Some(true) => BOTTOM,
        };
        let content = value.map_or(Content::Lost, Content::Here);
        let mut picture = Stored {
            frame_num: header.frame_num,
            long_term: None,
            fields,
            poc: Some(poc),
            content,
            old,
            current: true,
        };
        if header.is_idr() {
            self.stored.retain(|frame| frame.current);
            picture.long_term = header.idr_long_term.then_some(0);
        } else if let Some(markings) = &header.markings {
            for &marking in markings {
                self.mark(header, marking, &mut picture);
            }
        }
        if header.resets() {
            (picture.frame_num, picture.poc) = (0, Some(0));
            (self.entry_poc, self.blind_before) = (None, None);
        }
        self.previous = Some(picture.frame_num);
        if let Some(first) = self.stored.iter_mut().find(|frame| frame.current) {
            // Its first field is here already.
            first.fields |= picture.fields;
            first.poc = first.poc.into_iter().chain(picture.poc).min();
            first.content = picture.content;
            first.long_term = picture.long_term.or(first.long_term);
        } else {
            self.stored.push(picture);
        }
        // Sliding window; decoders drop the oldest also where a stream keeps more than it says.
        while self.stored.len() > capacity(header) {
            let oldest = self.oldest(header).unwrap_or(0);
            self.stored.remove(oldest);
        }
    }

    /// Decoding may begin at the picture that has just ended, an entry point and no IDR picture: what is older is not
    /// referred to any more, but by leading pictures.
    pub(crate) fn enter(&mut self, poc: i64) {
        self.stored.iter_mut().for_each(|frame| frame.old = !frame.current);
        self.entry_poc = Some(poc);
    }

    /// The frame that was taken last is missing after all.
    pub(crate) fn lose_current(&mut self) {
        self.stored.iter_mut().filter(|frame| frame.current).for_each(|frame| frame.content = Content::Lost);
    }

    /// Sliding window (§8.2.5.3) before a frame is added.
    fn slide(&mut self, header: &SliceHeader) {
        while self.stored.len() >= capacity(header) {
            let Some(oldest) = self.oldest(header) else { return };
            self.stored.remove(oldest);
        }
    }

    /// The short-term reference with the lowest number.
    fn oldest(&self, header: &SliceHeader) -> Option<usize> {
        let short = self.stored.iter().enumerate().filter(|(_, frame)| frame.long_term.is_none() && !frame.current);
        short.min_by_key(|(_, frame)| frame.frame_num_wrap(header)).map(|(at, _)| at)
    }

    /// Memory management operation (§8.2.5.4).
    fn mark(&mut self, header: &SliceHeader, marking: Marking, picture: &mut Stored<T>) {
        match marking {
            Marking::ForgetShort { difference_of_pic_nums } => {
                if let Some((at, fields)) = self.short(header, difference_of_pic_nums) {
                    self.forget(at, fields);
                }
            }
            Marking::ForgetLong { long_term_pic_num } => {
                let (index, fields) = named(header, long_term_pic_num.into());
                if let Some(at) = self.long(index) {
                    self.forget(at, fields);
                }
            }
            Marking::MakeLong { difference_of_pic_nums, long_term_frame_idx } => {
                if let Some((at, _)) = self.short(header, difference_of_pic_nums) {
                    let frame_num = self.stored[at].frame_num;
                    self.stored[at].long_term = Some(long_term_frame_idx);
                    self.stored
                        .retain(|frame| frame.long_term != Some(long_term_frame_idx) || frame.frame_num == frame_num);
                }
            }
            Marking::LimitLong { frames } => {
                self.stored.retain(|frame| frame.long_term.is_none_or(|index| index < frames));
            }
            Marking::Reset => self.stored.clear(),
            Marking::BecomeLong { long_term_frame_idx } => {
                self.stored.retain(|frame| frame.long_term != Some(long_term_frame_idx) || frame.current);
                picture.long_term = Some(long_term_frame_idx);
            }
        }
    }

    /// The short-term reference that a memory management operation names, and its fields that are meant.
    fn short(&self, header: &SliceHeader, difference: u32) -> Option<(usize, u8)> {
        let number = i64::from(header.frame_num);
        let current = if header.bottom_field.is_some() { 2 * number + 1 } else { number };
        let (number, fields) = named(header, current - i64::from(difference));
        let is_it = |frame: &Stored<T>| frame.long_term.is_none() && frame.frame_num_wrap(header) == number;
        Some((self.stored.iter().position(is_it)?, fields))
    }

    fn long(&self, index: i64) -> Option<usize> {
        self.stored.iter().position(|frame| frame.long_term.is_some_and(|long| i64::from(long) == index))
    }

    fn forget(&mut self, at: usize, fields: u8) {
        self.stored[at].fields &= !fields;
        if self.stored[at].fields == 0 {
            self.stored.remove(at);
        }
    }
}

/// Frames that the buffer holds.
fn capacity(header: &SliceHeader) -> usize {
    header.max_references.clamp(1, MAX_REFERENCE_FRAMES) as usize
}

/// Splits a picture number into that of the frame and the fields that are meant: fields of the same parity as the
/// current one have odd numbers (§8.2.4.1).
fn named(header: &SliceHeader, number: i64) -> (i64, u8) {
    let Some(bottom) = header.bottom_field else { return (number, BOTH) };
    let same = number.rem_euclid(2) == 1;
    (number.div_euclid(2), if same == bottom { BOTTOM } else { TOP })
}
