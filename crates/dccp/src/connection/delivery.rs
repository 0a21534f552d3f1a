//! What becomes of application data that arrive: whether they are wanted, whole, and have room (RFC 4340 §9, §11.6, §11.7).

use super::options::Heard;
use super::{Connection, Event};
use crate::features::{Feature, Location};
use crate::options::DropCode;
use crate::packet::{Header, Packet};

impl Connection {
    /// The application has room for `room` bytes more, until it says otherwise; what does not fit is dropped, and the
    /// peer told ("Receive Buffer", RFC 4340 §11.7). `is_slow`: the peer is asked not to send more than now (§11.6).
    pub fn set_receive_room(&mut self, room: usize, is_slow: bool) {
        self.reception.room = room;
        self.reception.is_slow = is_slow;
    }

    /// The application does not listen any more: no further data are delivered, and the peer is told so when it sends
    /// some ("Application Not Listening", RFC 4340 §11.7.2).
    pub fn stop_receiving(&mut self) {
        self.reception.listens = false;
    }

    /// Delivers a packet's data, or notes why not.
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

    /// Gives data to the application.
    pub(super) fn hand_over(&mut self, payload: Vec<u8>) {
        self.reception.room = self.reception.room.saturating_sub(payload.len());
        self.statistics.data_received += 1;
        self.statistics.bytes_received += payload.len() as u64;
        self.events.push_back(Event::Received(payload));
    }

    /// Whether the application does not want so many bytes.
    pub(super) fn refuses(&self, bytes: usize) -> bool {
        !self.reception.listens || bytes > self.reception.room
    }

    /// The data of this packet do not reach the application.
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
