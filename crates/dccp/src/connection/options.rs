//! Processing of received options, and the answers they require (RFC 4340 §5.8).

use timeous_core::{Duration, Instant};

use super::acknowledgement::Acknowledgement;
use super::lifecycle::Lifecycle;
use super::negotiation::Negotiation;
use super::parity::name::ParityName;
use super::state::State;
use crate::ccid3;
use crate::features::{Feature, TAKES_PARITY, TAKES_REPEATS};
use crate::options::{Opt, OptionItem};
use crate::packet::{Body, Header, Packet, PacketType};
use crate::reset::ResetReason;

/// Information from a packet's options.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedOptions {
    /// Time that the peer held the packet it acknowledges: Elapsed Time (RFC 4340 §13.2).
    pub(super) elapsed: Duration,
    /// Packets without data right before this one: NDP Count (§7.7).
    pub(super) ndp_count: u64,
    /// Feedback of a CCID 3 or 4 receiver (RFC 4342 §8).
    pub(super) feedback: ccid3::Heard,
    /// Whether the data fail their checksum (§9.3), or the Parity option is malformed.
    pub(super) corrupt: bool,
    /// Whether the option Slow Receiver is present: the peer asks for no higher rate (§11.6).
    pub(super) slow_receiver: bool,
    /// Distance in sequence numbers to the original packet, for a retransmission.
    pub(super) repeat: Option<u16>,
    /// Block of data that this packet is parity for.
    pub(super) parity: Option<ParityName>,
}

/// The parts of a connection that options change.
#[derive(Debug)]
pub(super) struct OptionsContext<'a> {
    pub(super) lifecycle: &'a mut Lifecycle,
    pub(super) negotiation: &'a mut Negotiation,
    pub(super) acknowledgement: &'a mut Acknowledgement,
    /// Whether our data are sent by CCID 3 or 4.
    pub(super) is_rate_based: bool,
}

impl OptionsContext<'_> {
    /// Processes the options of a valid packet (step 8 of RFC 4340 §8.5).
    pub(super) fn process(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: &Header,
    ) -> Result<ReceivedOptions, ResetReason> {
        let mut options = ReceivedOptions::default();
        self.lifecycle.begin_packet();
        self.negotiation.begin_packet(header);
        for item in packet.options() {
            let item = item.map_err(|error| error.reset())?;
            if let Opt::DataChecksum(sum) = item.opt {
                options.corrupt |= sum != crc32c::crc32c(packet.payload);
            }
            self.process_option(now, header, &item, &mut options)?;
        }
        if let Some(ack) = header.ack().filter(|_| header.packet_type() != PacketType::Sync) {
            self.negotiation.on_ack(ack);
        }
        Ok(options)
    }

    fn process_option(
        &mut self,
        now: Instant,
        header: &Header,
        item: &OptionItem<'_>,
        options: &mut ReceivedOptions,
    ) -> Result<(), ResetReason> {
        match item.opt {
            Opt::Change { .. } | Opt::Confirm { .. } => {
                self.negotiation.on_option(item)?;
            }
            // "after the connection has been established … MUST be ignored" (§8.1.4).
            Opt::InitCookie(cookie) => {
                if self.lifecycle.state() == State::Request && matches!(header.body, Body::Response { .. }) {
                    self.lifecycle.add_cookie(cookie);
                }
            }
            Opt::Timestamp(value) => self.acknowledgement.set_timestamp(Some((value, now))),
            Opt::ElapsedTime(elapsed) => options.elapsed = elapsed.to_duration(),
            Opt::NdpCount(count) => options.ndp_count = count,
            // From the receiver of our data, for a CCID that defines such options; "on received DCCP-Data packets MUST
            // be ignored" (RFC 4342 §8).
            Opt::CcidSpecific { kind, data }
                if kind >= ccid3::options::LOSS_EVENT_RATE
                    && self.is_rate_based
                    && header.packet_type() != PacketType::Data =>
            {
                if !options.feedback.take(kind, data) && item.mandatory {
                    return Err(item.refusal());
                }
            }
            Opt::Repeat(back) if self.negotiation.features().local(Feature::TakeRepeats) >= TAKES_REPEATS => {
                options.repeat = Some(back);
            }
            Opt::Parity { back, index, of, map }
                if self.negotiation.features().local(Feature::TakeRepeats) == TAKES_PARITY =>
            {
                options.parity = ParityName::read(back, index, of, map);
                options.corrupt |= options.parity.is_none();
            }
            Opt::SlowReceiver => options.slow_receiver = true,
            // Handled with the acknowledgement or the data; we send no Timestamp, so its echo has no use.
            Opt::AckVector { .. } | Opt::DataDropped(_) | Opt::TimestampEcho { .. } | Opt::DataChecksum(_) => {}
            // Unknown here: an error only if marked Mandatory (§5.8.2).
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
