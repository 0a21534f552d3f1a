//! Sending of ADUs larger than a buffer of the packet ring.

use timeous_core::AduSeq;

use super::{Hints, Sender};
use crate::error::SendError;
use crate::open;
use crate::options::Options;

/// Size of a buffer for large ADUs, in bytes: the largest ADU, in whole pages.
const BUFFER: u32 = 64 * 1024;
/// Number of these buffers: large ADUs that wait at once. Chosen by us: they take as much memory as the ring's own
/// buffers by default; a higher value takes more.
const BUFFERS: u32 = 64;

impl Sender {
    /// Queues an ADU of `len` bytes, which `fill` writes into a buffer beside the ring.
    pub(super) fn send_large(
        &mut self,
        len: usize,
        hints: Hints,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<AduSeq, SendError> {
        if len > Options::MAX_ADU {
            return Err(SendError::TooLarge { len, max: Options::MAX_ADU });
        }
        let zone = match &self.large {
            Some(zone) => zone,
            None => self.large.insert(open::zone_for(&self.options, BUFFER, BUFFERS).map_err(|_| SendError::Full)?),
        };
        let mut buffer = zone.buffer().map_err(|error| self.explain(&error, len))?;
        buffer.truncate(len);
        fill(buffer.bytes_mut());
        let buffer = buffer.freeze();
        self.queue(len, hints, |half, meta| half.enqueue_shared(meta, &buffer).map(drop))
    }
}
