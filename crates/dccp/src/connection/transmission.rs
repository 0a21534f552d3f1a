//! Packets to send: queued control packets, the options of the next packet, and pulls announced to the source.

use std::collections::VecDeque;

use timeous_core::{AduSource, Instant, RateLimit};

use crate::options::OptionList;
use crate::packet::Header;
use crate::reset::ResetReason;
use crate::seq::Seq;

/// Maximum number of queued control packets; a peer that provokes more gets no answer to them. Chosen by us: a higher
/// value lets a peer provoke more packets.
const MAX_CONTROL: usize = 16;
/// Rate limit for Syncs: "not more than eight DCCP-Syncs per second" (RFC 4340 §7.5.4).
const SYNCS_PER_SECOND: u32 = 8;
/// Maximum number of pulls announced to the source at once. Chosen by us: a higher value prepares more packets that may
/// not leave.
const MAX_ANNOUNCED: u32 = 16;

/// A packet without data, queued for sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Control {
    Request,
    Response,
    Ack,
    CloseReq,
    Close,
    Sync(Seq),
    /// A Sync of this size, padded with data: a probe of the path MTU (RFC 4340 §14.1).
    Probe(usize),
    SyncAck(Seq),
    Reset(ResetReason),
    /// A Reset for a packet of no connection, with its own sequence number.
    Refusal(Header),
}

/// State of sending.
#[derive(Debug)]
pub(super) struct Transmission {
    control: VecDeque<Control>,
    answers: RateLimit,
    options: OptionList,
    /// Whether the source, in this round of polling, reported queued ADUs and then returned none.
    found_nothing: bool,
    /// Pulls announced to the source for an instant and not made yet.
    announced: u32,
    announced_at: Instant,
}

impl Transmission {
    pub(super) fn new() -> Self {
        let (control, answers) = (VecDeque::new(), RateLimit::per_second(SYNCS_PER_SECOND));
        let (options, announced_at) = (OptionList::new(), Instant::ZERO);
        Self { control, answers, options, found_nothing: false, announced: 0, announced_at }
    }

    /// Queues a control packet, unless an equal one waits already. Equal probes are no repeats: each may be lost.
    pub(super) fn queue(&mut self, control: Control) {
        let waits = !matches!(control, Control::Probe(_)) && self.control.contains(&control);
        if self.control.len() < MAX_CONTROL && !waits {
            self.control.push_back(control);
        }
    }

    /// Queues the answer to an invalid packet, if the rate limit allows one.
    pub(super) fn answer(&mut self, now: Instant, control: Control) {
        if self.answers.take(now) {
            self.queue(control);
        }
    }

    pub(super) fn next_control(&mut self) -> Option<Control> {
        self.control.pop_front()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.control.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.control.clear();
    }

    /// Options of the next packet.
    pub(super) fn options(&mut self) -> &mut OptionList {
        &mut self.options
    }

    pub(super) fn found_nothing(&self) -> bool {
        self.found_nothing
    }

    pub(super) fn on_empty_pull(&mut self) {
        self.found_nothing = true;
    }

    /// Ends a round of polling: nothing more is to be sent now.
    pub(super) fn end_round(&mut self) {
        (self.found_nothing, self.announced) = (false, 0);
    }

    /// Counts a pull. The first of an instant announces the burst; pulls announced earlier and not made are void.
    pub(super) fn count_pull(&mut self, now: Instant, source: &mut dyn AduSource, burst: impl FnOnce() -> u32) {
        if self.announced == 0 || self.announced_at != now {
            self.announced = burst().min(MAX_ANNOUNCED);
            self.announced_at = now;
            source.will_pull(self.announced);
        }
        self.announced = self.announced.saturating_sub(1);
    }
}
