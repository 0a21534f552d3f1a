//! Sending of buffers that several streams share.

use timeous_core::AduSeq;
use timeous_engine::FrozenBuffer;

use super::{Hints, Sender};
use crate::error::SendError;

impl Sender {
    /// Queues the bytes of a buffer as an ADU, like [`send`](Self::send) but without copying them: other streams may
    /// send the same buffer. The transport sends from the buffer, too, over DCCP with `repair=off`: to send lost packets
    /// again, it keeps copies. A stream that the daemon runs needs a zone of the daemon's: [`Uri::zone`](crate::Uri::zone).
    ///
    /// The buffer is free when all streams have sent or dropped it, and let go: a stream does at its next `send…`, or
    /// when [`poll_delivery`](Self::poll_delivery) returns `None`.
    ///
    /// ```no_run
    /// use timeous::{Hints, Sender, Zone};
    /// # let mut subscribers: Vec<Sender> = Vec::new();
    /// let buffer = Zone::new(4096, 64)?.buffer()?.freeze();
    /// for subscriber in &mut subscribers {
    ///     subscriber.send_shared(&buffer.part(0..1000)?, Hints::default())?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`SendError`]. ADUs queued before are not affected. [`SendError::ForeignZone`]: the daemon runs the stream, and
    /// did not make the zone. Unsent packets of more than 127 zones in one stream are refused as [`SendError::Full`].
    pub fn send_shared(&mut self, buffer: &FrozenBuffer, hints: Hints) -> Result<AduSeq, SendError> {
        self.queue(buffer.len(), hints, |half, meta| half.enqueue_shared(meta, buffer).map(drop))
    }
}
