//! Options negotiated in the handshake.

use crate::connection::config::{Config, EcnMode};
use crate::segment::{Flags, Segment};

/// Options in use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    pub(super) timestamps: bool,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    /// Window scale of the peer; `None`: windows are not scaled in either direction.
    pub(super) peer_shift: Option<u8>,
    /// Maximum payload of a segment, in bytes.
    pub(super) payload: u64,
}

/// "If an MSS Option is not received at connection setup, TCP implementations MUST assume a default send MSS of 536
/// (576 - 40) for IPv4 or 1220 (1280 - 60) for IPv6" (RFC 9293 §3.7.1).
const DEFAULT_MSS: [u16; 2] = [536, 1_220];

impl Agreed {
    /// Returns the options that follow from the peer's `syn` and this end's `config`.
    pub(super) fn from_syn(config: &Config, syn: &Segment<'_>, is_ipv6: bool) -> Self {
        let options = &syn.options;
        let timestamps = config.timestamps && options.timestamps.is_some();
        let offered = options.mss.unwrap_or(DEFAULT_MSS[usize::from(is_ipv6)]).max(Config::MIN_MSS);
        let marks = (syn.has(Flags::ECE), syn.has(Flags::CWR));
        let ecn = match (syn.header.ack, marks) {
            (None, (true, true)) => config.ecn != EcnMode::Off,
            (Some(_), (true, false)) => config.ecn == EcnMode::Request,
            _ => false,
        };
        Self {
            timestamps,
            sack: config.sack && options.sack_permitted,
            ecn,
            peer_shift: options.window_scale.filter(|_| config.window_scaling),
            payload: u64::from(offered.min(config.mss)) - if timestamps { 12 } else { 0 },
        }
    }
}
