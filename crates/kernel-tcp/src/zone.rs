//! Memory from which the kernel sends: slots of one size, each for one record, which can be overwritten while it is unacknowledged.

use std::io;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Size of the zone in bytes: the limit of zero-copy data in flight per connection; more is copied. Chosen by us: a
/// higher value pins more memory.
const BYTES: usize = 4 << 20;
/// Alignment of slots in bytes: a cache line, so that records share none.
const ALIGN: usize = 64;
/// Page size in bytes. A slot lies within one page where possible: the kernel charges each page that a segment touches as a whole.
const PAGE: usize = 4096;

/// Slots for records. Pages are allocated at first use.
#[derive(Debug)]
pub(crate) struct Zone {
    base: NonNull<u8>,
    place: usize,
    /// Slots per page; zero if a slot is longer than a page.
    in_page: usize,
    bytes: usize,
    places: usize,
    free: Vec<u32>,
}

// SAFETY: the memory belongs to the zone's owner; besides, only the kernel reads it.
unsafe impl Send for Zone {}

/// A slot that is taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// A range of bytes in the zone, as an address and a length.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    address: *const u8,
    len: usize,
    zone: PhantomData<&'a Zone>,
}

impl Place<'_> {
    pub(crate) fn address(&self) -> *const u8 {
        self.address
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Zone {
    /// Creates a zone for records of at most `longest` bytes.
    pub(crate) fn new(longest: usize) -> io::Result<Self> {
        let place = longest.max(1).next_multiple_of(ALIGN);
        let in_page = PAGE / place;
        let places = if in_page > 0 { BYTES / PAGE * in_page } else { (BYTES / place).max(4) };
        let bytes = if in_page > 0 { BYTES } else { place * places };
        // Shared, so that after a fork the kernel does not read pages that are no longer ours.
        // SAFETY: a mapping of its own, whose address is the system's choice, aliases nothing.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)? };
        let base = NonNull::new(base.cast()).expect("a mapping is not at address zero");
        Ok(Self { base, place, in_page, bytes, places, free: (0..places as u32).rev().collect() })
    }

    /// Whether a record of `len` bytes fits into a slot.
    pub(crate) fn holds(&self, len: usize) -> bool {
        len <= self.place
    }

    /// Takes a free slot.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.free.pop().map(Slot)
    }

    /// Frees a slot that the kernel has released.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot.0);
    }

    /// Writes a record. A concurrent read of the kernel sees the old bytes, the new ones, or a mix.
    pub(crate) fn write(&mut self, slot: &Slot, bytes: &[u8]) {
        assert!(bytes.len() <= self.place, "a record is no longer than its place");
        // SAFETY: the place lies within the mapping, the bytes fit into it, and no reference to it exists anywhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(slot), bytes.len()) };
    }

    /// Appends the first `len` bytes of a slot.
    pub(crate) fn read(&self, slot: &Slot, len: usize, out: &mut Vec<u8>) {
        assert!(len <= self.place, "a record is no longer than its place");
        // SAFETY: the place lies within the mapping, which is zeroed at first and changed by `write` only, which borrows the zone mutably.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(self.at(slot), len) });
    }

    /// Returns the bytes from `from` to `to` of a slot, for the kernel.
    pub(crate) fn part(&self, slot: &Slot, from: usize, to: usize) -> Place<'_> {
        assert!(from <= to && to <= self.place, "a part of a place lies within it");
        Place { address: self.at(slot).wrapping_add(from), len: to - from, zone: PhantomData }
    }

    fn at(&self, slot: &Slot) -> *mut u8 {
        assert!((slot.0 as usize) < self.places, "slots are this zone's own");
        let slot = slot.0 as usize;
        let offset = match self.in_page {
            0 => slot * self.place,
            in_page => slot / in_page * PAGE + slot % in_page * self.place,
        };
        self.base.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        // The kernel holds the pages that it still sends.
        // SAFETY: the mapping that `new` made; nothing refers to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_lie_within_a_page_if_they_can() {
        for longest in [1, 700, 1_116, 1_350, 2_000, 4_096, 5_000] {
            let mut zone = Zone::new(longest).unwrap();
            let base = zone.base.as_ptr() as usize;
            let mut end = 0;
            while let Some(slot) = zone.take() {
                let from = zone.part(&slot, 0, longest).address() as usize - base;
                assert!(from >= end && from + longest <= zone.bytes, "{longest}: {from}");
                assert!(longest > PAGE || from / PAGE == (from + longest - 1) / PAGE, "{longest}: {from}");
                end = from + longest;
            }
            assert!(end > BYTES / 2, "most of it is of use");
        }
    }
}
