//! The options of a packet that arrived, and what they ask this end to say (RFC 4340 §5.8).

use timeous_core::{Duration, Instant};

use super::parity::name::ParityName;
use super::{Connection, State};
use crate::ccid3;
use crate::features::{Feature, TAKES_PARITY, TAKES_REPEATS};
use crate::options::{Opt, OptionItem};
use crate::packet::{Body, Header, Packet, PacketType};
use crate::reset::ResetReason;

/// What the other rooms want to know of a packet's options.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// How long the peer held the packet that it acknowledges (RFC 4340 §13.2).
    pub(super) elapsed: Duration,
    /// Packets without data right before this one (§7.7).
    pub(super) ndp_count: u64,
    /// What a receiver says that tells loss intervals (RFC 4342 §8).
    pub(super) feedback: ccid3::Heard,
    /// Whether the data are not what their checksum says (§9.3).
    pub(super) corrupt: bool,
    /// Whether the peer asks not to be sent more than now (§11.6).
    pub(super) slow_receiver: bool,
    /// How many numbers ago its data were sent first, if they are sent again.
    pub(super) repeat: Option<u16>,
    /// What its data are parity for.
    pub(super) parity: Option<ParityName>,
}

impl Connection {
    /// Processes the options of a valid packet (step 8 of RFC 4340 §8.5).
    pub(super) fn process_options(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: &Header,
    ) -> Result<Heard, ResetReason> {
        let mut heard = Heard::default();
        if self.state == State::Request {
            self.received.cookies.clear();
        }
        self.features.begin_packet(header.seq, header.ack());
        for item in packet.options() {
            let item = item.map_err(|error| error.reset())?;
            if let Opt::DataChecksum(sum) = item.opt {
                heard.corrupt |= sum != crc32c::crc32c(packet.payload);
            }
            self.process_option(now, header, &item, &mut heard)?;
        }
        if let Some(ack) = header.ack().filter(|_| header.packet_type() != PacketType::Sync) {
            self.features.on_ack(ack);
        }
        if self.flow.is_some() {
            self.ask_for_acks();
        }
        self.sequence.window_sent = self.features.local(Feature::SequenceWindow);
        self.sequence.window_received = self.features.remote(Feature::SequenceWindow);
        Ok(heard)
    }

    fn process_option(
        &mut self,
        now: Instant,
        header: &Header,
        item: &OptionItem<'_>,
        heard: &mut Heard,
    ) -> Result<(), ResetReason> {
        match item.opt {
            Opt::Change { .. } | Opt::Confirm { .. } => {
                self.features.on_option(&item.opt, item.mandatory).map_err(|error| error.reset())?;
            }
            // "after the connection has been established … MUST be ignored" (§8.1.4).
            Opt::InitCookie(cookie) => {
                if self.state == State::Request && matches!(header.body, Body::Response { .. }) {
                    self.received.cookies.push(cookie.to_vec());
                }
            }
            Opt::Timestamp(value) => self.received.timestamp = Some((value, now)),
            Opt::ElapsedTime(elapsed) => heard.elapsed = elapsed.to_duration(),
            Opt::NdpCount(count) => heard.ndp_count = count,
            // Those of the receiver of our data, where its congestion control has any; "on received DCCP-Data packets MUST
            // be ignored" (RFC 4342 §8).
            Opt::CcidSpecific { kind, data }
                if kind >= ccid3::options::LOSS_EVENT_RATE
                    && self.rate_sender.is_some()
                    && header.packet_type() != PacketType::Data =>
            {
                if !heard.feedback.take(kind, data) && item.mandatory {
                    return Err(item.refusal());
                }
            }
            Opt::Repeat(back) if self.features.local(Feature::TakeRepeats) >= TAKES_REPEATS => {
                heard.repeat = Some(back);
            }
            Opt::Parity { back, index, of, map } if self.features.local(Feature::TakeRepeats) == TAKES_PARITY => {
                heard.parity = ParityName::read(back, index, of, map);
                heard.corrupt |= heard.parity.is_none();
            }
            Opt::SlowReceiver => heard.slow_receiver = true,
            // Read with the acknowledgement that they belong to; the echo of a Timestamp that we never send is idle.
            Opt::AckVector { .. } | Opt::DataDropped(_) | Opt::TimestampEcho { .. } | Opt::DataChecksum(_) => {}
            // Not understood here: an error only if the peer insists (§5.8.2).
            Opt::CcidSpecific { .. } | Opt::Repeat(_) | Opt::Parity { .. } | Opt::Padding | Opt::Mandatory
                if item.mandatory =>
            {
                return Err(item.refusal());
            }
            Opt::CcidSpecific { .. } | Opt::Repeat(_) | Opt::Parity { .. } | Opt::Padding | Opt::Mandatory => {}
        }
        Ok(())
    }
}
