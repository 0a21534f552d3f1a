//! Checksums of outgoing data: Data Checksum option, and coverage of the header checksum (RFC 4340 §9.2, §9.3).

use super::config::Config;
use crate::features::{Feature, Features};
use crate::options::Opt;
use crate::packet::{Encapsulation, PacketType};

/// Size of the Data Checksum option, in bytes: type, length and CRC-32c (RFC 4340 §9.3).
const DATA_CHECKSUM_LEN: usize = 6;

/// Checksums of our data, as configured here and agreed with the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checksums<'a> {
    pub(super) config: &'a Config,
    pub(super) features: &'a Features,
    /// Whether the peer has refused partial coverage.
    pub(super) covers_all: bool,
}

impl Checksums<'_> {
    /// Whether data packets carry the Data Checksum: configured here, and checked by the peer.
    pub(super) fn sums_data(&self) -> bool {
        self.config.data_checksum && self.features.remote(Feature::CheckDataChecksum) == 1
    }

    pub(super) fn option_len(&self) -> usize {
        if self.sums_data() { DATA_CHECKSUM_LEN } else { 0 }
    }

    /// Returns a placeholder of the Data Checksum option, always the first option. The sum of no data is zero (§9.3).
    pub(super) fn option(&self, packet: PacketType) -> Option<Opt<'static>> {
        let carries_data = matches!(packet, PacketType::Data | PacketType::DataAck);
        (carries_data && self.sums_data()).then_some(Opt::DataChecksum(0))
    }

    /// Whether the payload must be in the packet buffer before the packet is completed.
    pub(super) fn reads_payload(&self) -> bool {
        self.config.encapsulation != Encapsulation::Udp || self.sums_data()
    }

    /// Fills in the checksum and coverage fields that depend on the data of a `packet`.
    pub(super) fn seal(&self, sent: PacketType, packet: &mut [u8]) {
        let data = usize::from(packet[4]) * 4;
        if self.option(sent).is_some() {
            let sum = crc32c::crc32c(&packet[data..]);
            let option = sent.header_len(true);
            packet[option + 2..option + DATA_CHECKSUM_LEN].copy_from_slice(&sum.to_be_bytes());
        }
        packet[5] |= self.coverage(packet.len() - data);
    }

    fn coverage(&self, data: usize) -> u8 {
        let (wanted, least) = (self.config.checksum_coverage, self.features.remote(Feature::MinChecksumCoverage));
        let accepted = least != 0 && least <= u64::from(wanted);
        let fits = (usize::from(wanted.max(1)) - 1) * 4 <= data;
        // UDP's own checksum covers the whole packet (RFC 6773 §3.3.1).
        let native = self.config.encapsulation != Encapsulation::Udp;
        if native && wanted <= 15 && accepted && fits && !self.covers_all { wanted } else { 0 }
    }
}
