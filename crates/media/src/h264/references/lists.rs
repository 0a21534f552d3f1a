//! Reference lists of a slice: initialisation, modification and truncation (H.264 §8.2.4).

use std::cmp::Reverse;

use super::stored::{BOTH, ReferenceFrame, ReferenceState};
use crate::h264::slice::{Modification, SliceHeader, SliceKind};

/// List entry: index of a frame in the buffer, or `None` if the buffer does not hold it.
type Slot = Option<usize>;

/// Returns the entries of all reference lists of a slice, each once.
///
/// Field lists alternate between parities; for these, all fields marked as used for reference are returned.
pub(super) fn slots<T>(stored: &[ReferenceFrame<T>], header: &SliceHeader) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    if header.lists.is_empty() {
        return slots;
    }
    if header.bottom_field.is_some() {
        return (0..stored.len()).map(Some).collect();
    }
    let initial = match header.kind {
        SliceKind::I => return slots,
        SliceKind::P => [by_number(stored, header), Vec::new()],
        SliceKind::B => {
            // They are in the order of display, in which a decoder cannot place a frame that it misses: unless a slice names all of its
            // references, it needs all frames of the buffer for its lists to be right.
            let exists = |at: &usize| !matches!(stored[*at].content, ReferenceState::NonExisting);
            let all: Vec<usize> = frames(stored, false).into_iter().filter(exists).chain(long_term(stored)).collect();
            if header.lists.iter().any(|list| list.modifications.len() < list.active) {
                slots.extend(all.iter().copied().map(Some));
            }
            [all.clone(), all]
        }
    };
    for (list, initial) in header.lists.iter().zip(initial) {
        for slot in modified(stored, header, initial, list.active, &list.modifications) {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
    }
    slots
}

/// Frames usable as references of a frame: both fields are marked.
fn frames<T>(stored: &[ReferenceFrame<T>], long_term: bool) -> Vec<usize> {
    let is_one = |frame: &ReferenceFrame<T>| frame.fields == BOTH && frame.long_term.is_some() == long_term;
    (0..stored.len()).filter(|&at| is_one(&stored[at])).collect()
}

/// Long-term references, in order of their index.
fn long_term<T>(stored: &[ReferenceFrame<T>]) -> Vec<usize> {
    let mut long = frames(stored, true);
    long.sort_by_key(|&at| stored[at].long_term);
    long
}

/// Initial list of a P slice: latest first, then long-term references (§8.2.4.2.1).
fn by_number<T>(stored: &[ReferenceFrame<T>], header: &SliceHeader) -> Vec<usize> {
    let mut list = frames(stored, false);
    list.sort_by_key(|&at| Reverse(stored[at].frame_num_wrap(header)));
    list.extend(long_term(stored));
    list
}

/// Truncates and reorders a list as the slice says (§8.2.4.3). Empty entries are dropped.
fn modified<T>(
    stored: &[ReferenceFrame<T>],
    header: &SliceHeader,
    initial: Vec<usize>,
    active: usize,
    modifications: &[Modification],
) -> Vec<Slot> {
    let mut list: Vec<Slot> = initial.into_iter().map(Some).collect();
    list.truncate(active);
    let (current, max) = (i64::from(header.frame_num), i64::from(header.max_frame_num));
    let mut predicted = current;
    for (place, &modification) in modifications.iter().enumerate().take(active) {
        let mut short = |change: i64| {
            predicted = (predicted + change).rem_euclid(max);
            let number = if predicted > current { predicted - max } else { predicted };
            let is_it = |&at: &usize| stored[at].frame_num_wrap(header) == number;
            frames(stored, false).into_iter().find(is_it)
        };
        let slot = match modification {
            Modification::Subtract(change) => short(-i64::from(change)),
            Modification::Add(change) => short(change.into()),
            Modification::LongTerm(index) => {
                frames(stored, true).into_iter().find(|&at| stored[at].long_term == Some(index))
            }
        };
        let place = place.min(list.len());
        if let Some(again) = list[place..].iter().position(|&other| slot.is_some() && other == slot) {
            list.remove(place + again);
        }
        list.insert(place, slot);
        list.truncate(active);
    }
    list
}
