//! Pictures of a stream of H.265 and what they refer to, by their picture order counts (§8.3.1, §8.3.2).

use std::collections::VecDeque;

use timeous_core::{FrameId, References};

use super::nal::{self, NalHeader};
use super::parameters::ParameterSets;
use super::slice::SliceHeader;
use crate::h264::annexb::unit_starts;

/// Pictures that are remembered: more than a decoder can refer to (§A.4.2: 16).
const REMEMBERED: usize = 32;

/// Picture, as far as its first slice tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Header of its first slice.
    pub(crate) header: NalHeader,
    /// Pictures that it may refer to, without those that these lead to; of more than fit, those that were coded last.
    pub(crate) references: References,
    /// Picture order count, which gives the order of output since the last IDR picture.
    pub(crate) count: i64,
    /// Most pictures that precede one in coding order and follow it in output order.
    pub(crate) reordered: u64,
}

/// Pictures of a stream so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures {
    sets: ParameterSets,
    /// Picture order count of the last picture of temporal layer zero that others may refer to.
    anchor: i64,
    latest: VecDeque<Coded>,
}

/// Coded picture.
#[derive(Clone, Debug)]
struct Coded {
    /// Picture order count.
    count: i64,
    /// Number that the caller gave.
    number: u32,
    /// Numbers of the remembered pictures that it leads to.
    ancestors: Vec<u32>,
}

impl Pictures {
    /// Reads the picture `number` by the beginning of its access unit, as a byte stream. `None`: it cannot be read, such as before the
    /// first parameter sets.
    pub(crate) fn read(&mut self, number: u32, annexb: &[u8]) -> Option<Picture> {
        // A unit is read up to its own end: what follows does not matter.
        for unit in unit_starts(annexb).map(|at| &annexb[at..]) {
            let Some(header) = NalHeader::read(unit) else { continue };
            match header.kind {
                nal::SPS if header.layer == 0 => self.sets.take_sps(unit),
                nal::PPS if header.layer == 0 => self.sets.take_pps(unit),
                _ if header.is_slice() && header.layer == 0 => {
                    let slice = SliceHeader::read(unit, header, &self.sets)?;
                    return Some(self.take(number, header, &slice));
                }
                _ => {}
            }
        }
        None
    }

    fn take(&mut self, number: u32, header: NalHeader, slice: &SliceHeader) -> Picture {
        if header.begins_sequence() {
            self.latest.clear();
            self.anchor = 0;
        } else if self.latest.is_empty() {
            // The stream begins here, or was joined: counts begin with this picture.
            self.anchor = i64::from(slice.poc_lsb);
        }
        let count = self.count(header, slice);
        if header.temporal == 0 && !header.is_leading() && !header.is_sublayer_non_reference() {
            self.anchor = count;
        }
        let modulus = 1 << slice.poc_bits;
        let is_referred = |of: i64| {
            slice.short_term.iter().any(|distance| of - count == i64::from(*distance))
                || slice.long_term.iter().any(|lsb| of.rem_euclid(modulus) == i64::from(*lsb))
        };
        let mut references = References::NONE;
        let mut ancestors: Vec<u32> = Vec::new();
        for earlier in self.latest.iter().rev().filter(|earlier| !header.is_irap() && is_referred(earlier.count)) {
            if !ancestors.contains(&earlier.number) {
                let _ = references.push(FrameId(earlier.number));
                ancestors.push(earlier.number);
                ancestors.extend(&earlier.ancestors);
            }
        }
        ancestors.sort_unstable();
        ancestors.dedup();
        let oldest = self.latest.front().map_or(number, |oldest| oldest.number);
        ancestors.retain(|ancestor| *ancestor >= oldest);
        self.latest.push_back(Coded { count, number, ancestors });
        if self.latest.len() > REMEMBERED {
            self.latest.pop_front();
        }
        Picture { header, references, count, reordered: slice.reordered }
    }

    /// Picture order count (§8.3.1).
    fn count(&self, header: NalHeader, slice: &SliceHeader) -> i64 {
        let (modulus, lsb) = (1i64 << slice.poc_bits, i64::from(slice.poc_lsb));
        if header.begins_sequence() {
            return lsb;
        }
        let before = self.anchor.rem_euclid(modulus);
        let high = self.anchor - before;
        if lsb < before && before - lsb >= modulus / 2 {
            high + modulus + lsb
        } else if lsb > before && lsb - before > modulus / 2 {
            high - modulus + lsb
        } else {
            high + lsb
        }
    }
}
