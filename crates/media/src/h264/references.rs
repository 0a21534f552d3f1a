//! Reference picture buffer, simulated from slice headers: the frames that a picture may refer to (H.264 §8.2.4,
//! §8.2.5).

mod lists;
mod stored;
#[cfg(test)]
mod tests;

use self::stored::{BOTH, BOTTOM, ReferenceFrame, ReferenceState, TOP};
use super::slice::{MAX_REFERENCE_FRAMES, Marking, SliceHeader};

/// Possible references of the slices of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PossibleReferences<T> {
    pub(crate) known: Vec<T>,
    /// Whether there are others, lost or never seen.
    pub(crate) missing: bool,
}

/// Reference picture buffer; `T` is the caller's data for each frame.
///
/// For each coded picture (frame or field) in decoding order: [`begin`](Self::begin), [`referred`](Self::referred) for
/// each slice, [`end`](Self::end).
#[derive(Clone, Debug)]
pub(crate) struct ReferenceBuffer<T> {
    stored: Vec<ReferenceFrame<T>>,
    /// `PrevRefFrameNum` (§7.4.3); `None` before the first picture.
    previous: Option<u32>,
    /// Picture order count of the last non-IDR entry point: pictures displayed from there on do not refer to older
    /// frames; leading pictures, displayed before it, may.
    entry_poc: Option<i64>,
    /// Picture order count of the first picture, if it was not IDR: a decoder's buffer may hold earlier frames that are
    /// unknown here.
    blind_before: Option<i64>,
}

impl<T> Default for ReferenceBuffer<T> {
    fn default() -> Self {
        Self { stored: Vec::new(), previous: None, entry_poc: None, blind_before: None }
    }
}

impl<T: Clone> ReferenceBuffer<T> {
    /// Buffer for a decoder that starts with the next picture, whose count is `poc`; earlier frames are unknown.
    pub(crate) fn blind_before(poc: i64) -> Self {
        Self { blind_before: Some(poc), ..Self::default() }
    }

    /// `PrevRefFrameNum`: `frame_num` of the last reference frame.
    pub(crate) fn previous(&self) -> Option<u32> {
        self.previous
    }

    /// Data of the frames in the buffer.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.stored.iter().filter_map(|frame| match &frame.content {
            ReferenceState::Here(value) => Some(value),
            _ => None,
        })
    }

    /// Whether a picture with this count is displayed before the entry point that it follows in decoding order.
    pub(crate) fn is_leading(&self, poc: i64) -> bool {
        self.entry_poc.is_some_and(|entry| poc < entry)
    }

    /// Begins a frame or its first field. Skipped frame numbers count as lost frames or, where the SPS allows gaps and
    /// there was no loss, as non-existing (§8.2.5.2).
    pub(crate) fn begin(&mut self, header: &SliceHeader, loss: bool) {
        self.stored.iter_mut().for_each(|frame| frame.current = false);
        let Some(previous) = self.previous.filter(|_| !header.is_idr()) else { return };
        let max = header.max_frame_num;
        let skipped = (header.frame_num + max - previous % max) % max;
        // A full buffer of skipped frames already displaces all others.
        for back in (1..skipped.min(1 + capacity(header) as u32)).rev() {
            self.slide(header);
            let content = if header.gaps_allowed && !loss { ReferenceState::NonExisting } else { ReferenceState::Lost };
            let frame_num = (header.frame_num + max - back) % max;
            self.stored.push(ReferenceFrame {
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

    /// Returns the frames that a slice of the current picture, whose count is `poc`, may refer to.
    pub(crate) fn referred(&self, header: &SliceHeader, poc: i64) -> PossibleReferences<T> {
        let trust = self.entry_poc.is_some() && !self.is_leading(poc);
        let slots = lists::slots(&self.stored, header);
        let longest = header.lists.iter().map(|list| list.active).max().unwrap_or(0);
        let behind = |begun: i64| poc < begun && longest > 0 || slots.len() < longest;
        let missing = !trust && self.blind_before.is_some_and(behind);
        let mut referred = PossibleReferences { known: Vec::new(), missing };
        for slot in slots {
            match slot.map(|at| &self.stored[at]) {
                None => referred.missing |= !trust,
                Some(frame) if frame.current || (trust && frame.old) => {}
                Some(frame) => match &frame.content {
                    ReferenceState::Here(value) => referred.known.push(value.clone()),
                    ReferenceState::Lost => referred.missing = true,
                    ReferenceState::NonExisting => {}
                },
            }
        }
        referred
    }

    /// Ends the picture and applies its reference marking (§8.2.5). `value` is `None` for a picture that is missing as
    /// a reference.
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
        let content = value.map_or(ReferenceState::Lost, ReferenceState::Here);
        let mut picture = ReferenceFrame {
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
            // Its first field is in the buffer already.
            first.fields |= picture.fields;
            first.poc = first.poc.into_iter().chain(picture.poc).min();
            first.content = picture.content;
            first.long_term = picture.long_term.or(first.long_term);
        } else {
            self.stored.push(picture);
        }
        // Sliding window; decoders drop the oldest frame even if the stream's marking keeps too many.
        while self.stored.len() > capacity(header) {
            let oldest = self.oldest(header).unwrap_or(0);
            self.stored.remove(oldest);
        }
    }

    /// Makes the picture that just ended, a non-IDR entry point, the start of decoding: only leading pictures may still
    /// refer to older frames.
    pub(crate) fn enter(&mut self, poc: i64) {
        self.stored.iter_mut().for_each(|frame| frame.old = !frame.current);
        self.entry_poc = Some(poc);
    }

    /// Marks the last frame as lost.
    pub(crate) fn lose_current(&mut self) {
        self.stored.iter_mut().filter(|frame| frame.current).for_each(|frame| frame.content = ReferenceState::Lost);
    }

    /// Sliding window (§8.2.5.3), before a frame is added.
    fn slide(&mut self, header: &SliceHeader) {
        while self.stored.len() >= capacity(header) {
            let Some(oldest) = self.oldest(header) else { return };
            self.stored.remove(oldest);
        }
    }

    /// Short-term reference with the lowest `frame_num`.
    fn oldest(&self, header: &SliceHeader) -> Option<usize> {
        let short = self.stored.iter().enumerate().filter(|(_, frame)| frame.long_term.is_none() && !frame.current);
        short.min_by_key(|(_, frame)| frame.frame_num_wrap(header)).map(|(at, _)| at)
    }

    /// Applies a memory management operation (§8.2.5.4).
    fn mark(&mut self, header: &SliceHeader, marking: Marking, picture: &mut ReferenceFrame<T>) {
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

    /// Short-term reference that a memory management operation names, and its affected fields.
    fn short(&self, header: &SliceHeader, difference: u32) -> Option<(usize, u8)> {
        let number = i64::from(header.frame_num);
        let current = if header.bottom_field.is_some() { 2 * number + 1 } else { number };
        let (number, fields) = named(header, current - i64::from(difference));
        let is_it = |frame: &ReferenceFrame<T>| frame.long_term.is_none() && frame.frame_num_wrap(header) == number;
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

/// Capacity of the buffer, in frames.
fn capacity(header: &SliceHeader) -> usize {
    header.max_references.clamp(1, MAX_REFERENCE_FRAMES) as usize
}

/// Splits a picture number into frame number and affected fields: fields of the current parity have odd numbers
/// (§8.2.4.1).
fn named(header: &SliceHeader, number: i64) -> (i64, u8) {
    let Some(bottom) = header.bottom_field else { return (number, BOTH) };
    let same = number.rem_euclid(2) == 1;
    (number.div_euclid(2), if same == bottom { BOTTOM } else { TOP })
}
