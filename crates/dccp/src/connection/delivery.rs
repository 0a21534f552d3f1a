//! Delivery of received data: duplicate, checksum and buffer-space checks (RFC 4340 §9, §11.6, §11.7), and rebuilding
//! from parity.

mod drops;
pub(super) mod record;

use super::config::Config;
use super::events::Event;
use super::incoming::Incoming;
use super::log::Log;
use super::parity::rebuild::Rebuild;
use super::reassembly::{Fragment, Reassembly};
use crate::features::{Feature, Features, TAKES_PARITY, TAKES_REPEATS};
use crate::options::{DropCode, Opt, OptionList};
use crate::packet::Header;
use crate::seq::Seq;
use drops::Drops;
use record::DeliveryRecord;

/// The local application as a receiver.
#[derive(Debug)]
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
    /// Incomplete ADUs; `None` before the first fragment.
    reassembly: Option<Box<Reassembly>>,
}

impl Delivery {
    pub(super) fn new() -> Self {
        let (drops, room) = (Drops::default(), usize::MAX);
        Self { drops, is_listening: true, room, is_slow: false, record: None, rebuild: None, reassembly: None }
    }

    pub(super) fn set_room(&mut self, room: usize, is_slow: bool) {
        (self.room, self.is_slow) = (room, is_slow);
    }

    pub(super) fn stop(&mut self) {
        self.is_listening = false;
    }

    /// Starts the state that our value of Take Repeats requires; data first sent before `gsr` are not expected again.
    pub(super) fn set_repair(&mut self, taken: u64, gsr: Seq, mps: usize) {
        if self.record.is_none() && taken >= TAKES_REPEATS {
            self.record = Some(DeliveryRecord::new(gsr));
        }
        if self.rebuild.is_none() && taken == TAKES_PARITY {
            self.rebuild = Some(Box::new(Rebuild::new(mps)));
        }
    }

    pub(super) fn takes_repeats(&self) -> bool {
        self.record.is_some()
    }

    pub(super) fn on_ack(&mut self, ack: Seq) {
        self.drops.on_ack(ack);
    }

    /// Delivers a packet's data, or records why they are dropped.
    pub(super) fn deliver(&mut self, incoming: &Incoming<'_>, config: &Config, features: &Features, log: &mut Log) {
        let (header, payload) = (incoming.header, incoming.packet.payload);
        if let Some(name) = incoming.options.parity {
            log.statistics.parity_received += 1;
            if let Some(rebuild) = self.rebuild.as_mut().filter(|_| !incoming.options.corrupt) {
                rebuild.add_parity(header.seq - u64::from(name.back), name, payload);
                self.deliver_rebuilt(log);
            }
            return;
        }
        let first_sent = header.seq - u64::from(incoming.options.repeat.unwrap_or(0));
        if self.has_delivered(first_sent) {
            log.statistics.repeats_dropped += 1;
            return;
        }
        let fragment = if incoming.options.is_fragment { Fragment::parse(payload) } else { None };
        let is_corrupt = incoming.options.corrupt || incoming.options.is_fragment && fragment.is_none();
        let len = fragment.map_or(payload.len(), |fragment| fragment.total());
        if let Some(code) = violation(header, config, features).or_else(|| self.objection(len, is_corrupt)) {
            return self.refuse(header, code, log);
        }
        if let Some(fragment) = fragment {
            return self.take_fragment(incoming, first_sent, fragment, log);
        }
        self.hand_over(first_sent, payload.to_vec(), log);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.keep(first_sent, payload);
            self.deliver_rebuilt(log);
        }
    }

    /// Drops the data of a packet, to be reported with this Drop Code.
    pub(super) fn refuse(&mut self, header: &Header, code: DropCode, log: &mut Log) {
        log.statistics.data_refused += 1;
        self.drops.add(header.seq, code);
    }

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

    fn hand_over(&mut self, first_sent: Seq, payload: Vec<u8>, log: &mut Log) {
        self.note_received(first_sent, payload.len(), log);
        self.room = self.room.saturating_sub(payload.len());
        log.push(Event::Received(payload));
    }

    fn note_received(&mut self, first_sent: Seq, len: usize, log: &mut Log) {
        if let Some(record) = &mut self.record {
            record.add(first_sent);
        }
        log.statistics.data_received += 1;
        log.statistics.bytes_received += len as u64;
    }

    /// Keeps a part of an ADU, and delivers the ADU if it is whole.
    fn take_fragment(&mut self, incoming: &Incoming<'_>, first_sent: Seq, fragment: Fragment<'_>, log: &mut Log) {
        self.note_received(first_sent, fragment.len(), log);
        if let Some(adu) = self.reassembly.get_or_insert_default().add(incoming.at, fragment) {
            self.room = self.room.saturating_sub(adu.len());
            log.push(Event::Received(adu));
        }
    }

    fn deliver_rebuilt(&mut self, log: &mut Log) {
        let rebuilt = self.rebuild.as_mut().map(|rebuild| rebuild.rebuild());
        for (seq, payload) in rebuilt.into_iter().flatten() {
            if !self.has_delivered(seq) && self.objection(payload.len(), false).is_none() {
                log.statistics.rebuilt += 1;
                self.hand_over(seq, payload, log);
            }
        }
    }

    fn objection(&self, bytes: usize, corrupt: bool) -> Option<DropCode> {
        if corrupt {
            Some(DropCode::Corrupt)
        } else if !self.is_listening {
            Some(DropCode::NotListening)
        } else {
            (bytes > self.room).then_some(DropCode::ReceiveBuffer)
        }
    }
}

/// Objection to a packet's data by the features agreed.
fn violation(header: &Header, config: &Config, features: &Features) -> Option<DropCode> {
    // "it MUST NOT accept any data until the other endpoint sends Confirm R(ECN Incapable, 1)" (§12.1).
    let lacks_confirm = !config.ecn && features.local(Feature::EcnIncapable) == 0;
    let least = features.local(Feature::MinChecksumCoverage);
    let is_uncovered = header.cscov != 0 && (least == 0 || u64::from(header.cscov) < least);
    (lacks_confirm || is_uncovered).then_some(DropCode::ProtocolConstraints)
}
