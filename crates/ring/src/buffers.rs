//! Bytes of packet buffers: part of a ring's memory, or memory of their own.

use crate::error::ConfigError;
use crate::memory::Memory;
use crate::page::PAGE;
use crate::record::Place;
use crate::sync::{AtomicU64, Ordering};

/// Size of a set of packet buffers; validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Size of a buffer in bytes, a multiple of [`PAGE`].
    pub(crate) buffer_size: u32,
    /// Number of buffers.
    pub(crate) count: u32,
}

impl Extent {
    pub(crate) fn new(buffer_size: u32, count: u32) -> Result<Self, ConfigError> {
        if buffer_size == 0 || !(buffer_size as usize).is_multiple_of(PAGE) {
            return Err(ConfigError::BufferSize(buffer_size));
        }
        if u64::from(count) * u64::from(buffer_size) > u64::from(u32::MAX) {
            return Err(ConfigError::Buffers(count));
        }
        Ok(Self { buffer_size, count })
    }

    /// Size of all buffers in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.buffer_size as usize * self.count as usize
    }
}

/// Packet buffers in memory.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    memory: Memory,
    /// Offset in the memory, in words.
    at: usize,
    extent: Extent,
}

impl Buffers {
    pub(crate) fn new(memory: Memory, at: usize, extent: Extent) -> Self {
        Self { memory, at, extent }
    }

    /// Whether another value refers to the same memory.
    #[cfg(not(loom))]
    pub(crate) fn is_shared(&self) -> bool {
        self.memory.is_shared()
    }

    /// Size of a buffer in bytes.
    pub(crate) fn size(&self) -> usize {
        self.extent.buffer_size as usize
    }

    /// Number of buffers.
    pub(crate) fn count(&self) -> u32 {
        self.extent.count
    }

    /// Offset of a buffer in bytes.
    pub(crate) fn offset(&self, id: u32) -> usize {
        id as usize * self.size()
    }

    /// Whether a payload lies within the buffers, and is no longer than one.
    pub(crate) fn hold(&self, place: Place) -> bool {
        let end = u64::from(place.offset) + u64::from(place.len);
        place.len as usize <= self.size() && end <= self.extent.bytes() as u64
    }

    /// Prefetches the first bytes of the payload at `offset` from the other side's processor; the processor prefetches
    /// the following ones by itself.
    pub(crate) fn will_read(&self, offset: usize) {
        self.memory.will_read(self.at + offset / 8);
    }

    /// Prefetches a payload for writing, like [`will_read`](Self::will_read).
    pub(crate) fn will_write(&self, offset: usize) {
        self.memory.will_write(self.at + offset / 8);
    }

    /// Copies `bytes` to `offset`, a multiple of eight. Pads the last word with zeros.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let words = self.words(offset, bytes.len());
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, chunk) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            words[whole.len()].store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Appends `len` bytes at `offset` to `out`, word by word with atomic loads, so that concurrent writes of another
    /// process yield wrong bytes and nothing worse. Never forms a slice over shared bytes.
    pub(crate) fn append(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
        let skip = offset % 8;
        let words = self.words(offset - skip, skip + len);
        let start = out.len();
        out.resize(start + len, 0);
        let mut rest = &mut out[start..];
        let mut words = words.iter();
        if skip != 0
            && let Some(first) = words.next()
        {
            let bytes = first.load(Ordering::Relaxed).to_ne_bytes();
            let head = rest.split_off_mut(..(8 - skip).min(len)).expect("no longer than the payload");
            head.copy_from_slice(&bytes[skip..skip + head.len()]);
        }
        let (whole, tail) = rest.as_chunks_mut::<8>();
        for (chunk, word) in whole.iter_mut().zip(&mut words) {
            *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if let Some(last) = words.next() {
            tail.copy_from_slice(&last.load(Ordering::Relaxed).to_ne_bytes()[..tail.len()]);
        }
    }

    /// Address of `len` bytes at `offset`, for system calls.
    #[cfg(not(loom))]
    pub(crate) fn address(&self, offset: usize, len: usize) -> *const u8 {
        self.memory.address(self.at * 8 + offset, len)
    }

    /// Bytes of a buffer, to be filled in place.
    ///
    /// # Safety
    /// As [`Memory::bytes_mut`].
    #[cfg(not(loom))]
    #[allow(unsafe_code, clippy::mut_from_ref, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn buffer_mut(&self, id: u32) -> &mut [u8] {
        // SAFETY: promised by the caller.
        unsafe { self.memory.bytes_mut(self.at + self.offset(id) / 8, self.size()) }
    }

    /// Bytes of a buffer, to be read in place.
    ///
    /// # Safety
    /// As [`Memory::bytes`].
    #[cfg(not(loom))]
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn buffer(&self, id: u32) -> &[u8] {
        // SAFETY: promised by the caller.
        unsafe { self.memory.bytes(self.at + self.offset(id) / 8, self.size()) }
    }

    fn words(&self, offset: usize, len: usize) -> &[AtomicU64] {
        self.memory.words(self.at + offset / 8, len.div_ceil(8))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_at_any_offset_and_length() {
        let extent = Extent::new(PAGE as u32, 1).unwrap();
        let buffers = Buffers::new(Memory::anonymous(extent.bytes() / 8), 0, extent);
        let bytes: Vec<u8> = (1..=40).collect();
        buffers.write(64, &bytes);
        for offset in 0..20 {
            for len in 0..=20 {
                let mut out = vec![0xff];
                buffers.append(64 + offset, len, &mut out);
                assert_eq!(out[1..], bytes[offset..offset + len], "{len} bytes at {offset}");
            }
        }
    }
}
