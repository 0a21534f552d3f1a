//! Parameter sets (SPS, PPS) of H.265, as far as slice headers depend on them (§7.3.2.2, §7.3.2.3).

use std::collections::BTreeMap;

use h264_reader::rbsp::{BitRead, BitReader};

use super::sequence::{MAX_RAW, Sequence};
use crate::h264::bits::payload_of;

/// Largest identifier of a picture parameter set (§7.4.3.3.1).
const MAX_PPS: u32 = 63;

/// Fields of a PPS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pps {
    sps: u8,
    pub(super) has_output_flag: bool,
    pub(super) extra_bits: u32,
}

/// Parameter sets of a stream so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ParameterSets {
    sps: BTreeMap<u8, Sequence>,
    pps: BTreeMap<u32, Pps>,
}

impl ParameterSets {
    /// Takes an SPS, header included. An unreadable one is ignored.
    pub(super) fn take_sps(&mut self, nal: &[u8]) {
        if let Some(sps) = Sequence::read(nal) {
            self.sps.insert(sps.id, sps);
        }
    }

    /// Takes a PPS, header included. An unreadable one is ignored.
    pub(super) fn take_pps(&mut self, nal: &[u8]) {
        let payload = payload_of(nal.get(1..).unwrap_or_default(), MAX_RAW);
        let mut bits = BitReader::new(payload.as_slice());
        let mut read = || {
            let id = bits.read_ue("pps_pic_parameter_set_id").ok()?;
            let sps = bits.read_ue("pps_seq_parameter_set_id").ok()?;
            bits.read_bit("dependent_slice_segments_enabled_flag").ok()?;
            let has_output_flag = bits.read_bit("output_flag_present_flag").ok()?;
            let extra_bits = bits.read::<3, u32>("num_extra_slice_header_bits").ok()?;
            (id <= MAX_PPS).then_some((id, Pps { sps: u8::try_from(sps).ok()?, has_output_flag, extra_bits }))
        };
        if let Some((id, pps)) = read() {
            self.pps.insert(id, pps);
        }
    }

    /// Parameter sets of a slice with this PPS identifier.
    pub(super) fn of(&self, pps: u32) -> Option<(&Sequence, &Pps)> {
        let pps = self.pps.get(&pps)?;
        Some((self.sps.get(&pps.sps)?, pps))
    }
}
