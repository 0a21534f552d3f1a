//! Interface of a sending side (packet ring or send buffer) for a transport's agent.

use std::any::Any;

use timeous_core::{AduSource, Instant, PathState, PulledAdu};

use crate::journal::Journal;

pub(crate) trait Side: Send {
    /// Returns the source from which the transport pulls.
    fn source(&mut self) -> &mut dyn AduSource;

    /// Runs the application if there is a reason; returns `true` if the transport has to check the source then.
    fn run(&mut self, now: Instant) -> bool;

    /// Requests a run of the application: something has happened.
    fn stir(&mut self);

    /// Returns, once, whether the application has ended the stream.
    fn take_finish(&mut self) -> bool;

    /// Requests a notification of new data, if there is none; `true` if data was queued meanwhile.
    fn stop_polling(&mut self) -> bool;

    /// Drops expired ADUs while sending is not allowed.
    fn pass_expired(&mut self, now: Instant);

    /// Lets the late choice look at the queue, if that is due though nothing is sent.
    fn watch(&mut self, now: Instant, path: &PathState) {
        let _ = (now, path);
    }

    /// Notes a pulled ADU; in a byte stream it follows the previous ones.
    fn pulled(&mut self, adu: &PulledAdu);

    /// Notes a sent copy of bytes `from..to` of the stream.
    fn bytes_left(&mut self, now: Instant, from: u64, to: u64);

    /// Notes a sent copy of this ADU.
    fn adu_left(&mut self, now: Instant, seq: timeous_core::AduSeq);

    /// Notes the end of the connection.
    fn close(&mut self, now: Instant);

    /// Receives data of the peer.
    fn on_received(&mut self, now: Instant, bytes: &[u8]);

    /// Returns the time of the next timer.
    fn poll_timeout(&mut self) -> Option<Instant>;

    fn journal(&self) -> &Journal;

    fn application(&self) -> &dyn Any;
}

/// End of each ADU in a byte stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// End and number, in stream order.
    list: Vec<(u64, timeous_core::AduSeq)>,
}

impl Ends {
    /// Appends an ADU of `len` bytes.
    pub(crate) fn push(&mut self, len: usize, seq: timeous_core::AduSeq) {
        let end = self.end() + len as u64;
        self.list.push((end, seq));
    }

    /// Returns the length of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.list.last().map_or(0, |&(end, _)| end)
    }

    /// Returns the ADUs whose last byte is in `from..to`.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = timeous_core::AduSeq> + '_ {
        let first = self.list.partition_point(|&(end, _)| end <= from);
        self.list[first..].iter().take_while(move |(end, _)| *end <= to).map(|&(_, seq)| seq)
    }
}
