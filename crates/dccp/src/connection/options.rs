//! Processing of received options, and the answers they require (RFC 4340 §5.8).

use timeous_core::{Duration, Instant};

use super::parity::name::ParityName;
use super::{Connection, State};
use crate::ccid3;
use crate::features::{Feature, TAKES_PARITY, TAKES_REPEATS};
use crate::options::{Opt, OptionItem};
use crate::packet::{Body, Header, Packet, PacketType};
use crate::reset::ResetReason;

/// Information from a packet's options for the other modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
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
            // From the receiver of our data, for a CCID that defines such options; "on received DCCP-Data packets MUST
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
