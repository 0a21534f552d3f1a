//! Response to receiver-side problems: Slow Receiver, Data Dropped (RFC 4340 §11.6, §11.7.2; RFC 4341 §5.2; RFC 4342
//! §5.2).

use timeous_cm::{Manager, Update};
use timeous_core::Instant;

use super::{Connection, Event, Timer, told};
use crate::ccid2::Feedback;

impl Connection {
    /// "The HC-Sender SHOULD NOT increase its sending rate for approximately one round-trip time after seeing a packet
    /// with a Slow Receiver option" (RFC 4340 §11.6), and "MUST exit slow start" (RFC 4341 §5.2).
    pub(super) fn heed_slow_receiver(&mut self, now: Instant, cm: &mut Manager) {
        self.statistics.slow_receiver += 1;
        self.restraint.level_until = Some(now + self.rtt);
        if let Some(flow) = self.flow {
            told(cm.update(now, flow, Update { slow_receiver: true, ..Update::default() }));
        }
    }

    /// The same for CCID 3 and 4, and for `overflowed` packets dropped at the peer's receive buffer: limits the rate by
    /// the receive rate, after the feedback that came along (RFC 4342 §5.2).
    pub(super) fn restrain_rate(&mut self, now: Instant, cm: &mut Manager, overflowed: u64) {
        if let Some(sender) = &mut self.rate_sender {
            sender.on_slow_receiver(now, overflowed);
            self.steer(now, cm);
        }
    }

    /// Responds to data dropped at the peer for reasons other than congestion.
    pub(super) fn heed_drops(&mut self, now: Instant, feedback: &Feedback) {
        if feedback.not_listening && !self.restraint.peer_is_deaf {
            // "it SHOULD NOT send more data".
            self.restraint.peer_is_deaf = true;
            self.events.push_back(Event::NotListening);
        }
        if feedback.constrained {
            // "SHOULD NOT send data until it believes the protocol constraint no longer applies": our checksum may have
            // covered too little, which is corrected, or data came too early, which a round trip resolves.
            self.restraint.covers_all = true;
            self.timers.set(Timer::Constraint, now + self.rtt);
        }
    }

    /// Whether the peer accepts data at the moment.
    pub(super) fn is_welcome(&self) -> bool {
        !self.restraint.peer_is_deaf && !self.timers.is_set(Timer::Constraint)
    }
}
