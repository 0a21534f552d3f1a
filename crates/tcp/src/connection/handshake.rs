//! Three-way handshake: SYNs of this end, their retransmission, and the options agreed (RFC 9293 §3.5).

use timeous_cm::{Loss, Update};
use timeous_core::{Duration, Instant};

use super::agreed::Agreed;
use super::config::{Config, EcnMode};
use super::timers::backed_off;
use crate::receiver::window_scale_for;
use crate::segment::{Flags, Options, Segment, Timestamps};

/// Initial timeout of a SYN (RFC 6298 §2.1).
const SYN_TIMEOUT: Duration = Duration::from_secs(1);

/// State of the handshake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    syn_sent_at: Instant,
    /// Retransmissions of the SYN or SYN-ACK.
    retransmissions: u32,
    /// Options in use, once the peer's SYN has arrived.
    agreed: Option<Agreed>,
}

impl Handshake {
    pub(super) fn new(now: Instant) -> Self {
        Self { syn_sent_at: now, retransmissions: 0, agreed: None }
    }

    /// Returns the options in use; none before the peer's SYN.
    pub(super) fn agreed(&self) -> Agreed {
        self.agreed.unwrap_or_default()
    }

    /// Takes the options of the peer's SYN.
    pub(super) fn agree(&mut self, config: &Config, syn: &Segment<'_>, is_ipv6: bool) -> Agreed {
        *self.agreed.insert(Agreed::from_syn(config, syn, is_ipv6))
    }

    /// Returns flags and options of this end's SYN, which is sent now: all that `config` offers or, in answer to the peer's SYN, those agreed.
    pub(super) fn send_syn(&mut self, now: Instant, config: &Config, timestamp: u32) -> (Flags, Options) {
        self.syn_sent_at = now;
        let asks_ecn = Flags::when(config.ecn == EcnMode::Request, Flags::ECE | Flags::CWR);
        let (marks, scales, sack, stamps) = match &self.agreed {
            Some(agreed) => agreed.answer(),
            None => (asks_ecn, config.window_scaling, config.sack, config.timestamps),
        };
        let options = Options {
            mss: Some(config.mss),
            window_scale: scales.then(|| window_scale_for(config.receive_buffer)),
            sack_permitted: sack,
            timestamps: stamps.then_some(Timestamps { value: timestamp, echo: 0 }),
            ..Options::default()
        };
        (Flags::SYN | marks, options)
    }

    /// Returns how long to wait for an answer to the SYN.
    pub(super) fn timeout(&self) -> Duration {
        backed_off(SYN_TIMEOUT, self.retransmissions)
    }

    /// Counts a retransmission; returns `false` if it is one more than `limit`.
    pub(super) fn repeat(&mut self, limit: u32) -> bool {
        let may_repeat = self.retransmissions < limit;
        self.retransmissions += u32::from(may_repeat);
        may_repeat
    }

    /// Returns what the handshake tells about the path. No RTT sample after a retransmission (Karn's algorithm); after two
    /// or more the window begins with one segment (RFC 6928 §2, as in Linux).
    pub(super) fn update(&self, now: Instant) -> Update {
        match self.retransmissions {
            0 => Update { rtt: Some(now - self.syn_sent_at), ..Update::default() },
            1 => Update::default(),
            _ => Update { loss: Some((Loss::Persistent, self.syn_sent_at)), ..Update::default() },
        }
    }
}
