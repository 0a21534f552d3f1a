//! Groups NAL units into frames, and frames into parts that can be sent at once (H.264 §7.4.1.2.3–4).

use std::collections::VecDeque;

use super::left_out::LeftOut;
use super::parameters::{ParameterSets, nal_type, type_of};
use super::sei::{RecoveryPoint, recovery_point};
use super::slice::{SliceError, SliceHeader, is_slice};

/// Most NAL units of a frame; above the macroblocks of the largest picture (36 864 below level 6, table A-1), to bound
/// the number of empty ones.
const MAX_NALS: usize = 1 << 16;

/// Parsing event, in decoding order.
#[derive(Debug)]
pub(crate) enum Event {
    /// Start of a frame, with its first slice.
    Begin(SliceHeader, Option<RecoveryPoint>),
    /// Start of the frame's second field, with its first slice.
    Field(SliceHeader),
    /// Further slice.
    Slice(SliceHeader),
    /// NAL units of the frame that can be sent.
    Part { nals: Vec<Vec<u8>>, last: bool },
    /// End of the frame.
    End { complete: bool },
}

/// Frame being assembled.
#[derive(Debug)]
struct Open {
    /// First slice of the picture or, for two fields, of the current field.
    picture: SliceHeader,
    /// Whether both fields have begun.
    paired: bool,
    /// Whether the picture has ended; the second field or another frame follows.
    over: bool,
    /// NAL units not sent yet.
    pending: Vec<Vec<u8>>,
    bytes: usize,
    nals: usize,
    slices: usize,
    /// Whether the last part was emitted.
    last_given: bool,
    /// Whether the frame is too large and dropped.
    spoiled: bool,
}

/// Groups NAL units into frames as they arrive.
#[derive(Debug)]
pub(crate) struct AccessUnits {
    pub(crate) sets: ParameterSets,
    pub(crate) left_out: LeftOut,
    limit: usize,
    /// NAL units before the next slice.
    held: Vec<Vec<u8>>,
    held_bytes: usize,
    /// Recovery point in one of the held NAL units.
    recovery: Option<RecoveryPoint>,
    open: Option<Open>,
    /// Number of slices of the previous frame.
    slices_before: Option<usize>,
    events: VecDeque<Event>,
}

impl AccessUnits {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            sets: ParameterSets::default(),
            left_out: LeftOut::default(),
            limit,
            held: Vec::new(),
            held_bytes: 0,
            recovery: None,
            open: None,
            slices_before: None,
            events: VecDeque::new(),
        }
    }

    /// Adds the next NAL unit in decoding order. Returns `false` for a slice whose header cannot be read.
    pub(crate) fn push(&mut self, nal: Vec<u8>) -> bool {
        let kind = type_of(nal[0]);
        match kind {
            nal_type::SLICE | nal_type::PARTITION_A | nal_type::IDR => return self.push_slice(nal),
            nal_type::UNSPECIFIED_0 | nal_type::UNSPECIFIED_24.. => self.left_out.unspecified_types += 1,
            nal_type::PREFIX => self.hold(nal),
            nal_type::SEI..=nal_type::AUD | nal_type::SUBSET_SPS..=nal_type::RESERVED_18 => {
                self.end_picture();
                if kind == nal_type::SEI {
                    self.recovery = self.recovery.or_else(|| recovery_point(&nal));
                }
                self.left_out.parameter_sets += u64::from(!self.sets.try_take(&nal));
                self.hold(nal);
            }
            _ => match &mut self.open {
                Some(open) if !open.over && self.held.is_empty() => {
                    self.add(nal);
                    if matches!(kind, nal_type::END_OF_SEQUENCE | nal_type::END_OF_STREAM) {
                        self.end_picture();
                    }
                }
                _ => self.hold(nal),
            },
        }
        true
    }

    /// Inspects the start of an incomplete NAL unit, which may end the previous slice or picture. Returns whether it
    /// need not be inspected again.
    pub(crate) fn peek(&mut self, head: &[u8]) -> bool {
        let Some(kind) = head.first().map(|&header| type_of(header)) else { return false };
        match kind {
            nal_type::SEI..=nal_type::AUD | nal_type::SUBSET_SPS..=nal_type::RESERVED_18 => self.end_picture(),
            _ if is_slice(head) => match SliceHeader::read(head, &self.sets) {
                Ok(header) => self.make_way(&header),
                Err(SliceError::NoParameterSets) => {}
                Err(SliceError::Malformed) => return head.len() > super::slice::PREFIX,
            },
            _ => {}
        }
        true
    }

    /// Handles a NAL unit above the size limit, given its start.
    pub(crate) fn too_large(&mut self, head: &[u8]) {
        if is_slice(head)
            && let Ok(header) = SliceHeader::read(head, &self.sets)
        {
            self.slice(header);
            self.spoil();
        } else {
            self.peek(head);
            self.left_out.too_large += 1;
        }
    }

    /// Emits all pending NAL units, as the source has paused. With as many slices as the previous frame had, the frame
    /// counts as complete.
    pub(crate) fn flush(&mut self) {
        let Some(open) = &mut self.open else { return };
        let last = self.slices_before.is_none_or(|before| open.slices >= before);
        if !open.spoiled && (!open.pending.is_empty() || (last && !open.last_given)) {
            let nals = std::mem::take(&mut open.pending);
            open.last_given |= last;
            self.events.push_back(Event::Part { nals, last });
        }
    }

    /// Ends the access unit and its frame; after a single field, the frame waits for its second field.
    pub(crate) fn end_picture(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.over = true;
        if open.picture.bottom_field.is_none() || open.paired {
            self.end_frame();
        }
    }

    /// Ends the stream, and with it the last frame.
    pub(crate) fn finish(&mut self) {
        self.end_frame();
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn push_slice(&mut self, nal: Vec<u8>) -> bool {
        let header = match SliceHeader::read(&nal, &self.sets) {
            Ok(header) => header,
            Err(error) => {
                match error {
                    SliceError::NoParameterSets => self.left_out.slices_without_parameter_sets += 1,
                    SliceError::Malformed => self.left_out.malformed_slices += 1,
                }
                // Its prefix NAL unit is dropped with it.
                while self.held.pop_if(|held| type_of(held[0]) == nal_type::PREFIX).is_some() {}
                return false;
            }
        };
        self.slice(header);
        self.held_bytes = 0;
        for held in std::mem::take(&mut self.held) {
            self.add(held);
        }
        self.add(nal);
        true
    }

    /// Handles the start of a slice.
    fn slice(&mut self, header: SliceHeader) {
        self.make_way(&header);
        let recovery = self.recovery.take();
        match &mut self.open {
            Some(open) => {
                open.slices += 1;
                if !open.over && is_of_picture(&open.picture, &header) {
                    self.events.push_back(Event::Slice(header));
                } else {
                    (open.paired, open.over) = (true, false);
                    open.picture = header.clone();
                    self.events.push_back(Event::Field(header));
                }
            }
            None => {
                self.open = Some(Open {
                    picture: header.clone(),
                    paired: false,
                    over: false,
                    pending: Vec::new(),
                    bytes: 0,
                    nals: 0,
                    slices: 1,
                    last_given: false,
                    spoiled: false,
                });
                self.events.push_back(Event::Begin(header, recovery));
            }
        }
    }

    /// Emits pending NAL units before the next slice, or ends the frame if the slice belongs to another.
    fn make_way(&mut self, header: &SliceHeader) {
        let Some(open) = &mut self.open else { return };
        let same = !open.over && is_of_picture(&open.picture, header);
        if !same && (open.paired || !open.picture.pairs_with(header)) {
            self.end_frame();
        } else if !open.spoiled && !open.pending.is_empty() {
            let nals = std::mem::take(&mut open.pending);
            self.events.push_back(Event::Part { nals, last: false });
        }
    }

    fn end_frame(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.slices_before = Some(open.slices);
        if !open.spoiled && (!open.pending.is_empty() || !open.last_given) {
            self.events.push_back(Event::Part { nals: open.pending, last: true });
        }
        self.events.push_back(Event::End { complete: !open.spoiled });
    }

    fn hold(&mut self, nal: Vec<u8>) {
        self.held_bytes += nal.len();
        self.held.push(nal);
        if self.held_bytes > self.limit || self.held.len() > MAX_NALS {
            self.held.clear();
            self.held_bytes = 0;
            self.left_out.too_large += 1;
        }
    }

    /// Adds a NAL unit to the frame.
    fn add(&mut self, nal: Vec<u8>) {
        let Some(open) = self.open.as_mut().filter(|open| !open.spoiled) else { return };
        open.bytes += nal.len();
        open.nals += 1;
        open.pending.push(nal);
        if open.bytes > self.limit || open.nals > MAX_NALS {
            self.spoil();
        }
    }

    /// Drops the rest of a frame that is too large.
    fn spoil(&mut self) {
        let Some(open) = &mut self.open else { return };
        open.pending.clear();
        self.left_out.too_large += u64::from(!open.spoiled);
        open.spoiled = true;
    }
}

/// Whether a slice with this header belongs to the picture that began with `first`.
fn is_of_picture(first: &SliceHeader, header: &SliceHeader) -> bool {
    header.redundant || !first.differs_in_picture(header)
}
