//! Delivery of received data: duplicate, checksum and buffer-space checks (RFC 4340 §9, §11.6, §11.7), and rebuilding from
//! parity.

mod drops;
pub(super) mod record;

use super::config::Config;
use super::events::Event;
use super::log::Log;
use super::options::ReceivedOptions;
use super::parity::rebuild::Rebuild;
use crate::features::{Feature, Features, TAKES_PARITY, TAKES_REPEATS};
use crate::options::{DropCode, Opt, OptionList};
use crate::packet::{Header, Packet};
use crate::seq::Seq;
use drops::Drops;
use record::DeliveryRecord;

/// The local application as a receiver.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    /// Dropped data, to be reported to the peer.
    drops: Drops,
    is_listening: bool,
    /// Free receive buffer, in bytes.
    room: usize,
    /// Whether the peer is asked not to raise its rate: Slow Receiver (RFC 4340 §11.6).
    is_slow: bool,
    /// Data delivered; `None` until this end has agreed to take retransmissions.
    record: Option<DeliveryRecord>,
    /// Receiver of parity; `None` until this end has agreed to take parity.
    rebuild: Option<Box<Rebuild>>,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            drops: Drops::default(),
            is_listening: true,
            room: usize::MAX,
            is_slow: false,
            record: None,
            rebuild: None,
        }
    }
}

impl Delivery {
    pub(super) fn set_room(&mut self, room: usize, is_slow: bool) {
        (self.room, self.is_slow) = (room, is_slow);
    }

    pub(super) fn stop(&mut self) {
        self.is_listening = false;
    }

    /// Starts the state that our value of Take Repeats requires; data first sent before `gsr` are not expected again.
    pub(super) fn set_repair(&mut self, taken: u64, gsr: Seq) {
        if self.record.is_none() && taken >= TAKES_REPEATS {
            self.record = Some(DeliveryRecord::new(gsr));
        }
        if self.rebuild.is_none() && taken == TAKES_PARITY {
            self.rebuild = Some(Box::default());
        }
    }

    /// Whether retransmissions are taken.
    pub(super) fn takes_repeats(&self) -> bool {
        self.record.is_some()
    }

    /// Notes that the peer has our packet `ack`.
    pub(super) fn on_ack(&mut self, ack: Seq) {
        self.drops.on_ack(ack);
    }

    /// Delivers a packet's data, or records why they are dropped.
    pub(super) fn deliver(
        &mut self,
        packet: &Packet<'_>,
        header: &Header,
        options: &ReceivedOptions,
        (config, features): (&Config, &Features),
        log: &mut Log,
    ) {
        if let Some(name) = options.parity {
            log.statistics.parity_received += 1;
            if let Some(rebuild) = self.rebuild.as_mut().filter(|_| !options.corrupt) {
                rebuild.add_parity(header.seq - u64::from(name.back), name, packet.payload);
                self.deliver_rebuilt(log);
            }
            return;
        }
        let first_sent = header.seq - u64::from(options.repeat.unwrap_or(0));
        if self.has_delivered(first_sent) {
            log.statistics.repeats_dropped += 1;
            return;
        }
        let violates = violates_constraints(header, config, features);
        let code = if violates { Some(DropCode::ProtocolConstraints) } else { self.objection(packet, options.corrupt) };
        if let Some(code) = code {
            return self.refuse(header, code, log);
        }
        self.hand_over(first_sent, packet.payload.to_vec(), log);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.keep(first_sent, packet.payload);
            self.deliver_rebuilt(log);
        }
    }

    /// Drops the data of a packet, to be reported with this Drop Code.
    pub(super) fn refuse(&mut self, header: &Header, code: DropCode, log: &mut Log) {
        log.statistics.data_refused += 1;
        self.drops.add(header.seq, code);
    }

    /// Upper bound of the options' size, in bytes.
    pub(super) fn options_len(&self) -> usize {
        usize::from(self.is_slow) + self.drops.option_len()
    }

    /// Writes options for an acknowledgement of `ack` into our packet `seq`.
    pub(super) fn write_options(&mut self, seq: Seq, ack: Seq, out: &mut OptionList) {
        self.drops.push_option(seq, ack, out);
        if self.is_slow {
            let _ = out.push(&Opt::SlowReceiver);
        }
    }

    /// Whether data first sent as `seq` must not be delivered (again).
    fn has_delivered(&self, seq: Seq) -> bool {
        self.record.as_ref().is_some_and(|record| record.has(seq))
    }

    /// Passes data to the application.
    fn hand_over(&mut self, first_sent: Seq, payload: Vec<u8>, log: &mut Log) {
        if let Some(record) = &mut self.record {
            record.add(first_sent);
        }
        self.room = self.room.saturating_sub(payload.len());
        log.statistics.data_received += 1;
        log.statistics.bytes_received += payload.len() as u64;
        log.push(Event::Received(payload));
    }

    fn deliver_rebuilt(&mut self, log: &mut Log) {
        let rebuilt = self.rebuild.as_mut().map(|rebuild| rebuild.rebuild());
        for (seq, payload) in rebuilt.into_iter().flatten() {
            if !self.has_delivered(seq) && self.is_listening && payload.len() <= self.room {
                log.statistics.rebuilt += 1;
                self.hand_over(seq, payload, log);
            }
        }
    }

    fn objection(&self, packet: &Packet<'_>, corrupt: bool) -> Option<DropCode> {
        if corrupt {
            return Some(DropCode::Corrupt);
        }
        if !self.is_listening {
            return Some(DropCode::NotListening);
        }
        (packet.payload.len() > self.room).then_some(DropCode::ReceiveBuffer)
    }
}

/// Whether a packet's data must not be taken, by the features agreed.
fn violates_constraints(header: &Header, config: &Config, features: &Features) -> bool {
    // "it MUST NOT accept any data until the other endpoint sends Confirm R(ECN Incapable, 1)" (§12.1).
    let lacks_confirm = !config.ecn && features.local(Feature::EcnIncapable) == 0;
    let least = features.local(Feature::MinChecksumCoverage);
    lacks_confirm || header.cscov != 0 && (least == 0 || u64::from(header.cscov) < least)
}
