//! What the application may read, and when: every byte once, in order, as soon as none before it is missing.

use super::assembly::Assembly;

/// How far the application has read.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    read: u64,
}

impl Delivery {
    /// How many bytes may be read now.
    pub(super) fn readable(&self, assembly: &Assembly) -> usize {
        (assembly.next() - self.read) as usize
    }

    /// Appends what may be read, `limit` bytes at most, and gives how many those were.
    pub(super) fn read(&mut self, assembly: &mut Assembly, limit: usize, out: &mut Vec<u8>) -> usize {
        let count = self.readable(assembly).min(limit);
        let end = self.read + count as u64;
        assembly.read(self.read..end, out);
        self.read = end;
        assembly.forget(end);
        count
    }

    /// Bytes before this are kept no more, so the room for others begins here.
    pub(super) const fn freed(&self) -> u64 {
        self.read
    }
}
