//! Checksums of outgoing data: Data Checksum option, and coverage of the header checksum (RFC 4340 §9.2, §9.3).

use super::Connection;
use crate::features::Feature;
use crate::options::Opt;
use crate::packet::{Encapsulation, PacketType};

/// Size of the Data Checksum option, in bytes: type, length and CRC-32c (RFC 4340 §9.3).
pub(super) const DATA_CHECKSUM_LEN: usize = 6;

impl Connection {
    /// Whether data packets carry the Data Checksum: configured here, and checked by the peer.
    pub(super) fn sums_data(&self) -> bool {
        self.config.data_checksum && self.features.remote(Feature::CheckDataChecksum) == 1
    }

    /// Returns a placeholder of the Data Checksum option, always the first option. The sum of no data is zero (§9.3).
    pub(super) fn data_checksum(&self, packet: PacketType) -> Option<Opt<'static>> {
        let carries_data = matches!(packet, PacketType::Data | PacketType::DataAck);
        (carries_data && self.sums_data()).then_some(Opt::DataChecksum(0))
    }

    /// Whether the payload must be in the packet buffer before the packet is completed.
    pub(super) fn reads_payload(&self) -> bool {
        self.config.encapsulation != Encapsulation::Udp || self.sums_data()
    }

    /// Fills in the checksum and coverage fields that depend on the data of the packet at `start`.
    pub(super) fn seal(&self, sent: PacketType, start: usize, packet: &mut [u8]) {
        let packet = &mut packet[start..];
        let data = usize::from(packet[4]) * 4;
        if self.data_checksum(sent).is_some() {
            let sum = crc32c::crc32c(&packet[data..]);
            let option = sent.header_len(true);
            packet[option + 2..option + DATA_CHECKSUM_LEN].copy_from_slice(&sum.to_be_bytes());
        }
        packet[5] |= self.coverage(packet.len() - data);
    }

    /// CsCov value for a packet with `data` bytes of data.
    fn coverage(&self, data: usize) -> u8 {
        let (wanted, least) = (self.config.checksum_coverage, self.features.remote(Feature::MinChecksumCoverage));
        let accepted = least != 0 && least <= u64::from(wanted);
        let fits = (usize::from(wanted.max(1)) - 1) * 4 <= data;
        // UDP's own checksum covers the whole packet (RFC 6773 §3.3.1).
        let native = self.config.encapsulation != Encapsulation::Udp;
        if native && wanted <= 15 && accepted && fits && !self.restraint.covers_all { wanted } else { 0 }
    }
}
