//! Parameter sets (SPS, PPS) of a stream: parsed for reading slice headers, raw for forwarding.

use std::collections::BTreeMap;

use h264_reader::Context;
use h264_reader::nal::pps::{PicParamSetId, PicParameterSet};
use h264_reader::nal::sps::{PicOrderCntType, SeqParameterSet};

use super::bits::{LenientReader, payload_of};

/// NAL unit types (H.264 table 7-1) that this crate distinguishes.
pub(crate) mod nal_type {
    pub(crate) const UNSPECIFIED_0: u8 = 0;
    pub(crate) const SLICE: u8 = 1;
    pub(crate) const PARTITION_A: u8 = 2;
    pub(crate) const IDR: u8 = 5;
    pub(crate) const SEI: u8 = 6;
    pub(crate) const SPS: u8 = 7;
    pub(crate) const PPS: u8 = 8;
    pub(crate) const AUD: u8 = 9;
    pub(crate) const END_OF_SEQUENCE: u8 = 10;
    pub(crate) const END_OF_STREAM: u8 = 11;
    pub(crate) const PREFIX: u8 = 14;
    pub(crate) const SUBSET_SPS: u8 = 15;
    pub(crate) const RESERVED_18: u8 = 18;
    /// First type that RTP redefines (RFC 6184 §5.2).
    pub(crate) const UNSPECIFIED_24: u8 = 24;
}

/// Type of a NAL unit, by its first byte.
pub(crate) fn type_of(header: u8) -> u8 {
    header & 0x1f
}

/// `nal_ref_idc` of a NAL unit, by its first byte; zero for a non-reference picture.
pub(crate) fn ref_idc_of(header: u8) -> u8 {
    (header >> 5) & 3
}

/// Size limit of a parameter set, in bytes, to bound memory; real ones are far smaller.
const MAX_RAW: usize = 4096;

/// SPS and PPS seen so far, by their ids.
#[derive(Default)]
pub(crate) struct ParameterSets {
    context: Context,
    sps: BTreeMap<u8, Vec<u8>>,
    pps: BTreeMap<u8, Vec<u8>>,
}

impl std::fmt::Debug for ParameterSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParameterSets").field("sps", &self.sps.keys()).field("pps", &self.pps.keys()).finish()
    }
}

impl ParameterSets {
    /// Stores `nal` if it is a readable parameter set.
    pub(crate) fn take(&mut self, nal: &[u8]) {
        self.try_take(nal);
    }

    /// Stores `nal` if it is a parameter set. Returns `false` for an unreadable one.
    pub(crate) fn try_take(&mut self, nal: &[u8]) -> bool {
        let kind = nal.first().map(|&header| type_of(header));
        match kind {
            Some(nal_type::SPS | nal_type::PPS) if nal.len() > MAX_RAW => false,
            Some(nal_type::SPS) => {
                let Some(sps) = read_sps(nal) else { return false };
                self.sps.insert(sps.id().id(), nal.to_vec());
                self.context.put_seq_param_set(sps);
                true
            }
            Some(nal_type::PPS) => {
                let payload = payload_of(nal, MAX_RAW);
                let Ok(pps) = PicParameterSet::from_bits(&self.context, LenientReader::new(&payload, &[])) else {
                    return false;
                };
                self.pps.insert(pps.pic_parameter_set_id.id(), nal.to_vec());
                self.context.put_pic_param_set(pps);
                true
            }
            _ => true,
        }
    }

    /// Parsed parameter sets for a slice with this PPS id.
    pub(crate) fn of(&self, pps_id: u32) -> Option<(&SeqParameterSet, &PicParameterSet)> {
        let pps = self.context.pps_by_id(PicParamSetId::from_u32(pps_id).ok()?)?;
        Some((self.context.sps_by_id(pps.seq_parameter_set_id)?, pps))
    }

    /// Raw parameter sets for a slice with this PPS id: SPS, then PPS.
    pub(crate) fn raw_of(&self, pps_id: u32) -> Option<[&[u8]; 2]> {
        let (sps, pps) = self.of(pps_id)?;
        Some([self.sps.get(&sps.id().id())?, self.pps.get(&pps.pic_parameter_set_id.id())?])
    }

    /// All raw sets: each SPS, then each PPS, in order of their ids.
    pub(crate) fn raw(&self) -> impl Iterator<Item = &[u8]> {
        self.sps.values().chain(self.pps.values()).map(Vec::as_slice)
    }
}

/// Whether a NAL unit is a parameter set (SPS or PPS), which a decoder needs first.
pub fn is_parameter_set(nal: &[u8]) -> bool {
    nal.first().is_some_and(|&header| matches!(type_of(header), nal_type::SPS | nal_type::PPS))
}

/// Parts of an SPS that are skipped if broken, the least needed first.
const OPTIONAL: [&[&str]; 3] = [&[], &["bitstream_restriction_flag"], &["vui_parameters_present_flag"]];

/// Position of `level_idc` after the header byte; level 6.2, the highest (H.264 §7.3.2.1.1, table A-1).
const LEVEL: (usize, u8) = (2, 62);

/// Parses an SPS as it is or, failing that, with the highest level and without optional parts: h264-reader refuses
/// pictures above the declared level and inconsistent VUI, decoders do not.
pub(crate) fn read_sps(nal: &[u8]) -> Option<SeqParameterSet> {
    let mut payload = payload_of(nal, MAX_RAW);
    let read = |payload: &[u8], without| SeqParameterSet::from_bits(LenientReader::new(payload, without)).ok();
    let mut sps = read(&payload, OPTIONAL[0]);
    if sps.is_none() {
        *payload.get_mut(LEVEL.0)? = LEVEL.1;
        sps = OPTIONAL.into_iter().find_map(|without| read(&payload, without));
    }
    sps.filter(within_the_standard)
}

/// Whether values that slice headers depend on are within range (H.264 §7.4.2.1.1).
fn within_the_standard(sps: &SeqParameterSet) -> bool {
    let poc = match sps.pic_order_cnt {
        PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4 } => log2_max_pic_order_cnt_lsb_minus4 <= 12,
        _ => true,
    };
    poc && (4..=16).contains(&sps.log2_max_frame_num())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPS of 64×48 pictures at 25 frames per second, from x264.
    const SPS: [u8; 21] = [
        0x67, 0x64, 0x00, 0x09, 0xac, 0xb4, 0x23, 0xd8, 0x08, 0x80, 0x00, 0x00, 0x03, 0x00, 0x80, 0x00, 0x00, 0x19,
        0x47, 0x89, 0x13,
    ];
    const PPS: [u8; 4] = [0x68, 0xef, 0x3c, 0xb0];

    #[test]
    fn bytes_behind_a_parameter_set_are_ignored() {
        for behind in [&[][..], &[0, 0, 3], &[0, 0, 3, 0, 0, 3], &[0xff; 30], &[0x80, 0x80], &[1, 2, 3, 4]] {
            let mut sets = ParameterSets::default();
            assert!(sets.try_take(&[&SPS[..], &[0x50], behind].concat()), "{behind:?}");
            assert!(sets.try_take(&[&PPS[..], behind].concat()), "{behind:?}");
            let (sps, _) = sets.of(0).unwrap();
            assert_eq!(sps.pixel_dimensions().unwrap(), (64, 48));
            assert_eq!(sps.fps(), Some(25.0));
        }
    }

    #[test]
    fn a_picture_larger_than_its_level_and_a_torn_vui_are_understood() {
        let mut low = SPS;
        low[3] = 10;
        assert!(ParameterSets::default().try_take(&[&low[..], &[0x50]].concat()));
        assert!(ParameterSets::default().try_take(&SPS[..16]), "it ends inside of the VUI");
        assert!(!ParameterSets::default().try_take(&SPS[..5]));
    }

    #[test]
    fn no_parameter_set_makes_it_panic() {
        let mut rng = timeous_core::Rng::from_seed(3);
        for _ in 0..20_000 {
            let mut sets = ParameterSets::default();
            for genuine in [&SPS[..], &PPS] {
                let mut nal = genuine.to_vec();
                for _ in 0..rng.below(4) {
                    let at = 1 + rng.below(nal.len() as u64 - 1) as usize;
                    nal[at] = rng.below(256) as u8;
                }
                sets.try_take(&nal);
            }
        }
    }
}
