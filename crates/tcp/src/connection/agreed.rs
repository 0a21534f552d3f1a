//! Options negotiated in the handshake.

use timeous_core::{Ecn, Instant};
use timeous_seal::Secrets;

use super::config::{Config, EcnMode, LossDetection, Receiving, Sending};
use super::peer_window::PeerWindow;
use crate::receiver::{Receiver, ReceiverConfig, window_scale_for};
use crate::record::Writer;
use crate::segment::{Flags, SackBlocks, Segment, Timestamps};
use crate::sender::{Detection, Kept, Late, Payload, Sender};

/// Options in use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    timestamps: bool,
    sack: bool,
    ecn: bool,
    /// Window scale of the peer; `None`: windows are not scaled in either direction.
    peer_shift: Option<u8>,
    /// Maximum payload of a segment, in bytes.
    payload: u64,
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
    /// Returns the receive side for the data behind the peer's `syn`.
    pub(super) fn receiver(
        &self,
        now: Instant,
        config: &Config,
        syn: &Segment<'_>,
        secrets: Option<&Secrets>,
    ) -> Receiver {
        let receiver = ReceiverConfig {
            buffer: config.receive_buffer,
            window_scale: if self.peer_shift.is_some() { window_scale_for(config.receive_buffer) } else { 0 },
            mss: config.mss,
            sack: self.sack,
            ecn: self.ecn,
            delayed_ack: config.delayed_ack,
            datagrams: (config.receiving == Receiving::Unordered).then(|| config.framing(secrets)),
            ..ReceiverConfig::default()
        };
        let timestamp = self.in_use(syn.options.timestamps).map(|timestamps| timestamps.value);
        Receiver::new(now, &receiver, syn.header.seq, timestamp)
    }

    /// Returns the send side.
    pub(super) fn sender(&self, config: &Config, secrets: Option<&Secrets>) -> Sender {
        let detection = match config.loss_detection {
            _ if !self.sack => Detection::DuplicateAcks,
            LossDetection::DupThresh => Detection::DupThresh,
            LossDetection::Rack => Detection::Rack,
        };
        let payload: Box<dyn Payload> = match config.sending {
            Sending::Stream => Box::new(Kept::default()),
            Sending::Records if config.plain_records => Box::new(Late::new(false, Writer::new(secrets).plain())),
            Sending::Records => Box::new(Late::new(false, Writer::new(secrets))),
            Sending::LateChoice => Box::new(Late::new(true, Writer::new(secrets))),
        };
        Sender::new(payload, self.payload, detection, self.ecn).with_bundling(config.bundling && self.sack)
    }

    /// Returns the window of the peer's `syn`.
    pub(super) fn window(&self, syn: &Segment<'_>) -> PeerWindow {
        PeerWindow::new(&syn.header, self.payload, self.peer_shift.unwrap_or(0))
    }

    /// Returns for the SYN that answers the peer's: its marks, and whether it has window scaling, SACK and timestamps.
    pub(super) fn answer(&self) -> (Flags, bool, bool, bool) {
        (Flags::when(self.ecn, Flags::ECE), self.peer_shift.is_some(), self.sack, self.timestamps)
    }

    /// Returns the bytes of a data segment's header: with timestamps padded as usual (RFC 7323, appendix A).
    pub(super) fn header(&self) -> u16 {
        if self.timestamps { 32 } else { 20 }
    }

    /// Returns `timestamps` if they are in use.
    pub(super) fn in_use(&self, timestamps: Option<Timestamps>) -> Option<Timestamps> {
        timestamps.filter(|_| self.timestamps)
    }

    /// Returns the SACK blocks of a segment, if they are in use.
    pub(super) fn sack_blocks(&self, segment: &Segment<'_>) -> SackBlocks {
        if self.sack { segment.options.sack } else { SackBlocks::default() }
    }

    /// Returns the maximum payload of a segment, in bytes.
    pub(super) fn payload(&self) -> u64 {
        self.payload
    }

    /// Returns the mark of new data; retransmissions have none (RFC 3168 §6.1.5).
    pub(super) fn ecn(&self) -> Ecn {
        if self.ecn { Ecn::Ect0 } else { Ecn::NotEct }
    }
}
