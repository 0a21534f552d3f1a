//! What protects the data of a packet that leaves: the Data Checksum, and how far the header's reaches (RFC 4340 §9.2, §9.3).

use super::Connection;
use crate::features::Feature;
use crate::options::Opt;
use crate::packet::{Encapsulation, PacketType};

/// An option of one length byte and a CRC.
pub(super) const DATA_CHECKSUM_LEN: usize = 6;

impl Connection {
    /// Whether data packets carry the Data Checksum: if it was asked for, and the peer looks at it.
    pub(super) fn sums_data(&self) -> bool {
        self.config.data_checksum && self.features.remote(Feature::CheckDataChecksum) == 1
    }

    /// The Data Checksum option to be, which stands first. Of no data it is zero (§9.3).
    pub(super) fn data_checksum(&self, packet: PacketType) -> Option<Opt<'static>> {
        let carries_data = matches!(packet, PacketType::Data | PacketType::DataAck);
        (carries_data && self.sums_data()).then_some(Opt::DataChecksum(0))
    }

    /// Whether the payload has to be in the packet for it to be completed.
    pub(super) fn reads_payload(&self) -> bool {
        self.config.encapsulation != Encapsulation::Udp || self.sums_data()
    }

    /// Fills in what depends on the data of the packet that starts at `start`.
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

    /// The CsCov of a packet with so many bytes of data.
    fn coverage(&self, data: usize) -> u8 {
        let (wanted, least) = (self.config.checksum_coverage, self.features.remote(Feature::MinChecksumCoverage));
        let accepted = least != 0 && least <= u64::from(wanted);
        let fits = (usize::from(wanted.max(1)) - 1) * 4 <= data;
        // UDP's own checksum covers all (RFC 6773 §3.3.1).
        let native = self.config.encapsulation != Encapsulation::Udp;
        if native && wanted <= 15 && accepted && fits && !self.restraint.covers_all { wanted } else { 0 }
    }
}
