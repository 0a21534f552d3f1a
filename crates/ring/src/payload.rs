//! In-place payload of a claimed packet: an address for system calls, never a slice.

use std::marker::PhantomData;

use crate::consumer::Consumer;

/// Validated address and length in the packet zone.
///
/// The application may write there at any time, so that no `&[u8]` may refer to it: it is for a system call that reads
/// the memory itself, and sends its contents at that time. The zone stays mapped while this exists.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    address: *const u8,
    len: usize,
    zone: PhantomData<&'a Consumer>,
}

impl Payload<'_> {
    /// Address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.address
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the payload is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Consumer {
    /// Location of the payload of a claimed and unsent packet; `None` if the token has none.
    ///
    /// ```
    /// use timeous_core::{AduMeta, Instant};
    /// use timeous_ring::{Config, create};
    /// let (mut producer, mut consumer) = create(&Config::new(8)).unwrap();
    /// producer.enqueue(&AduMeta::default(), b"payload").unwrap();
    /// let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
    /// assert_eq!(consumer.payload(claimed.token).unwrap().len(), 7);
    /// consumer.sent(claimed.token);
    /// assert!(consumer.payload(claimed.token).is_none(), "its buffer may hold something else by now");
    /// ```
    #[must_use]
    pub fn payload(&self, token: u64) -> Option<Payload<'_>> {
        let (buffers, place) = self.located(token)?;
        let address = buffers.address(place.offset as usize, place.len as usize);
        Some(Payload { address, len: place.len as usize, zone: PhantomData })
    }
}
