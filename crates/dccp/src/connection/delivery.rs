//! Delivery of received data: duplicate, checksum and buffer-space checks (RFC 4340 §9, §11.6, §11.7).

use super::options::Heard;
use super::{Connection, Event};
use crate::features::{Feature, Location};
use crate::options::DropCode;
use crate::packet::{Header, Packet};

impl Connection {
    /// Sets the free receive buffer to `room` bytes; data that do not fit are dropped and reported to the peer
    /// ("Receive Buffer", RFC 4340 §11.7). `is_slow`: asks the peer not to raise its rate (§11.6).
    pub fn set_receive_room(&mut self, room: usize, is_slow: bool) {
        self.reception.room = room;
        self.reception.is_slow = is_slow;
    }

    /// Stops delivery: the application no longer reads. Further data are reported to the peer as dropped ("Application
    /// Not Listening", RFC 4340 §11.7.2).
    pub fn stop_receiving(&mut self) {
        self.reception.listens = false;
    }

    /// Delivers a packet's data, or records why they are dropped.
    pub(super) fn deliver(&mut self, packet: &Packet<'_>, header: &Header, heard: &Heard) {
        if let Some(name) = heard.parity {
            return self.take_parity(packet, header, heard, name);
        }
        let bytes = packet.payload.len();
        let first_sent = header.seq - u64::from(heard.repeat.unwrap_or(0));
        if self.has_delivered(first_sent) {
            self.statistics.repeats_dropped += 1;
            return;
        }
        if let Some(code) = self.objection(bytes, header.cscov, heard.corrupt) {
            return self.refuse_data(header, code);
        }
        self.note_delivered(first_sent);
        self.hand_over(packet.payload.to_vec());
        self.keep_for_rebuilding(first_sent, packet.payload);
    }

    /// Passes data to the application.
    pub(super) fn hand_over(&mut self, payload: Vec<u8>) {
        self.reception.room = self.reception.room.saturating_sub(payload.len());
        self.statistics.data_received += 1;
        self.statistics.bytes_received += payload.len() as u64;
        self.events.push_back(Event::Received(payload));
    }

    /// Whether the application cannot take that many bytes.
    pub(super) fn refuses(&self, bytes: usize) -> bool {
        !self.reception.listens || bytes > self.reception.room
    }

    /// Drops the data of a packet, to be reported with this Drop Code.
    pub(super) fn refuse_data(&mut self, header: &Header, code: DropCode) {
        self.statistics.data_refused += 1;
        self.reception.drops.add(header.seq, code);
    }

    fn objection(&self, bytes: usize, cscov: u8, corrupt: bool) -> Option<DropCode> {
        // "it MUST NOT accept any data until the other endpoint sends Confirm R(ECN Incapable, 1)" (§12.1).
        if !self.config.ecn && self.features.local(Feature::EcnIncapable) == 0 {
            return Some(DropCode::ProtocolConstraints);
        }
        let least = self.features.value(Feature::MinChecksumCoverage, Location::Local);
        if cscov != 0 && (least == 0 || u64::from(cscov) < least) {
            return Some(DropCode::ProtocolConstraints);
        }
        if corrupt {
            return Some(DropCode::Corrupt);
        }
        if !self.reception.listens {
            return Some(DropCode::NotListening);
        }
        (bytes > self.reception.room).then_some(DropCode::ReceiveBuffer)
    }
}
