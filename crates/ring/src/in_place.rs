//! Payloads of pulled back packets, read and rewritten where they lie.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "payloads are read and rewritten in place")]

use crate::books::Books;
use crate::own_zone::Use;
use crate::producer::Producer;
use crate::pulled::PulledBack;

impl PulledBack<'_> {
    /// Payload of the packet at `place`, dead or not; `None` beyond the end.
    pub fn payload(&self, place: usize) -> Option<&[u8]> {
        let position = self.position(place).ok()?;
        let (books, id, range) = located(self.producer(), position)?;
        // SAFETY: the record's reference keeps the buffer, and a buffer with references is written through one that is
        // the only one: this record's, which `self` borrows. A transport in another process is trusted not to write.
        unsafe { books.buffers.buffer(id) }.get(range)
    }

    /// Payload of the packet at `place`, to be rewritten in place; `None` beyond the end, or if the buffer is shared with a handle,
    /// another packet or another ring. A sent packet counts until the ring has noticed that it left.
    ///
    /// ```
    /// use timeous_core::AduMeta;
    /// use timeous_ring::{Config, create};
    /// let (mut producer, _consumer) = create(&Config::new(8)).unwrap();
    /// producer.enqueue(&AduMeta::default(), b"position 17").unwrap();
    /// let mut pulled = producer.pull_back_all().unwrap();
    /// pulled.payload_mut(0).unwrap()[9..].copy_from_slice(b"18");
    /// assert_eq!(pulled.payload(0), Some(&b"position 18"[..]));
    /// ```
    pub fn payload_mut(&mut self, place: usize) -> Option<&mut [u8]> {
        let position = self.position(place).ok()?;
        let (books, id, _) = located(self.producer(), position)?;
        if !books.is_only(id) {
            return None;
        }
        // A new version: the consumer's decision about the old contents does not hold for the new ones.
        self.producer_mut().write(position);
        let (books, id, range) = located(self.producer(), position)?;
        // SAFETY: this record's reference is the only one, so that no other thread can add one, and `self` is borrowed
        // exclusively. The consumer reads payloads of claimed packets only, and this one was pulled back.
        unsafe { books.buffers.buffer_mut(id) }.get_mut(range)
    }
}

/// Zone, buffer and range within the buffer of a packet's payload.
fn located(producer: &Producer, position: u64) -> Option<(&Books, u32, std::ops::Range<usize>)> {
    let slot = producer.slot(position);
    let &Use(id) = slot.used.as_ref()?;
    let zone = slot.place.zone;
    let books = if zone == 0 { producer.zone.books() } else { producer.attached.books(zone) };
    let start = slot.place.offset as usize - books.buffers.offset(id);
    Some((books, id, start..start + slot.place.len as usize))
}
