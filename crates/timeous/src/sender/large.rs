//! Sending of ADUs larger than a buffer of the packet ring.

use timeous_core::AduSeq;

use super::{Hints, Sender};
use crate::error::SendError;
use crate::open;

/// Number of buffers for large ADUs: those that wait at once. Chosen by us: they take as much memory as the ring's own
/// buffers by default, for ADUs of up to 64 kB; a higher value takes more.
const BUFFERS: u32 = 64;

impl Sender {
    /// Queues an ADU of `len` bytes, which `fill` writes into a buffer beside the ring.
    pub(super) fn send_large(
        &mut self,
        len: usize,
        hints: Hints,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<AduSeq, SendError> {
        let max = self.options.max_adu();
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        // Whole pages.
        let size = (max as u32).next_power_of_two();
        let zone = match &self.large {
            Some(zone) => zone,
            None => self.large.insert(open::zone_for(&self.options, size, BUFFERS).map_err(|_| SendError::Full)?),
        };
        let mut buffer = zone.buffer().map_err(|error| self.explain(&error, len))?;
        buffer.truncate(len);
        fill(buffer.bytes_mut());
        let buffer = buffer.freeze();
        self.queue(len, hints, |half, meta| half.enqueue_shared(meta, &buffer).map(drop))
    }
}
