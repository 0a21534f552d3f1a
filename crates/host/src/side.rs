//! What a transport's agent needs of a sending side, whether that is a packet ring or a socket's buffer.

use std::any::Any;

use timeous_core::{AduSource, Instant, PathState, PulledAdu};

use crate::journal::Journal;

pub(crate) trait Side: Send {
    /// What the transport pulls from.
    fn source(&mut self) -> &mut dyn AduSource;

    /// Runs the application if it has a reason to run; `true` if the transport has to look at the source then.
    fn run(&mut self, now: Instant) -> bool;

    /// Something has happened that the application has to be run for.
    fn stir(&mut self);

    /// Whether the application has said that nothing more comes; said once.
    fn take_finish(&mut self) -> bool;

    /// Whether everything that was handed over has its fate.
    fn is_drained(&mut self, now: Instant) -> bool;

    /// Asks to be told of new data, if there is none; `true` if some came in meanwhile.
    fn stop_polling(&mut self) -> bool;

    /// Frees the places of what has expired while nothing may be sent.
    fn pass_expired(&mut self, now: Instant);

    /// When the choice wants to look at what is queued, if nothing leaves before.
    fn poll_watch(&mut self) -> Option<Instant> {
        None
    }

    /// Lets it look.
    fn watch(&mut self, now: Instant, path: &PathState) {
        let _ = (now, path);
    }

    /// An ADU was pulled: in a byte stream it is what follows those before it.
    fn pulled(&mut self, adu: &PulledAdu);

    /// A copy of bytes `from..to` of the stream left.
    fn bytes_left(&mut self, now: Instant, from: u64, to: u64);

    /// A copy of this ADU left.
    fn adu_left(&mut self, now: Instant, seq: timeous_core::AduSeq);

    /// The connection has ended.
    fn close(&mut self, now: Instant);

    /// Data of the peer.
    fn on_received(&mut self, now: Instant, bytes: &[u8]);

    /// When it wants to be looked at.
    fn poll_timeout(&mut self) -> Option<Instant>;

    fn journal(&self) -> &Journal;

    fn application(&self) -> &dyn Any;
}

/// Which ADU ends where in a byte stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// End and number, in the order of the stream.
    list: Vec<(u64, timeous_core::AduSeq)>,
}

impl Ends {
    /// An ADU of `len` bytes follows.
    pub(crate) fn push(&mut self, len: usize, seq: timeous_core::AduSeq) {
        let end = self.end() + len as u64;
        self.list.push((end, seq));
    }

    /// How long the stream is so far.
    pub(crate) fn end(&self) -> u64 {
        self.list.last().map_or(0, |&(end, _)| end)
    }

    /// The ADUs whose last byte is among `from..to`.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = timeous_core::AduSeq> + '_ {
        let first = self.list.partition_point(|&(end, _)| end <= from);
        self.list[first..].iter().take_while(move |(end, _)| *end <= to).map(|&(_, seq)| seq)
    }
}
