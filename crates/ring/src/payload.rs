//! The payload of a claimed packet where it lies: an address for the kernel, never a slice.

use std::marker::PhantomData;

use crate::consumer::Consumer;

/// Bytes of the zone, as an address and a length that were checked.
///
/// The application may write there at any time, so that no `&[u8]` can be made of it: it is for a system call that
/// reads the memory itself. What that sends is what the memory holds then. As long as this lives, the zone stays
/// mapped.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    address: *const u8,
    len: usize,
    zone: PhantomData<&'a Consumer>,
}

impl Payload<'_> {
    /// Where it begins.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.address
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Consumer {
    /// Where the payload of a claimed packet lies that has not left yet; `None` if there is none by this token.
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
        let place = self.place(token)?;
        let address = self.shared.zone_address(place.offset as usize, place.len as usize);
        Some(Payload { address, len: place.len as usize, zone: PhantomData })
    }
}
