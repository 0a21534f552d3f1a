//! Reference picture set (RPS, H.265 §7.3.7, §7.4.8): the pictures that a picture and the ones after it may refer to.

use h264_reader::rbsp::{BitRead, BitReader};

/// Most pictures of a set: the largest decoded picture buffer (§A.4.2).
const MAX_PICTURES: usize = 16;

/// Short-term reference pictures, by their distance in output order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReferenceSet {
    /// Pictures before in output order, the nearest first: difference of the picture order count, and whether the current picture may
    /// refer to it.
    pub(super) before: Vec<(i32, bool)>,
    /// Pictures after.
    pub(super) after: Vec<(i32, bool)>,
}

impl ReferenceSet {
    /// Number of its pictures.
    fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Reads set number `known.len()`, after those of the SPS. `in_slice`: it stands in a slice header.
    pub(super) fn read(bits: &mut BitReader<&[u8]>, known: &[Self], in_slice: bool) -> Option<Self> {
        let is_predicted = !known.is_empty() && bits.read_bit("inter_ref_pic_set_prediction_flag").ok()?;
        if !is_predicted {
            return Self::read_plain(bits);
        }
        let back = if in_slice { bits.read_ue("delta_idx_minus1").ok()? as usize } else { 0 };
        let from = known.get(known.len().checked_sub(back + 1)?)?;
        let is_negative = bits.read_bit("delta_rps_sign").ok()?;
        let distance = i32::try_from(bits.read_ue("abs_delta_rps_minus1").ok()?.min(1 << 15)).ok()? + 1;
        let delta = if is_negative { -distance } else { distance };
        // For each picture of the other set, then for that set's own picture: used, and kept.
        let mut flags = Vec::with_capacity(from.len() + 1);
        for _ in 0..=from.len() {
            let used = bits.read_bit("used_by_curr_pic_flag").ok()?;
            let kept = used || bits.read_bit("use_delta_flag").ok()?;
            flags.push((used, kept));
        }
        Self::predicted(from, delta, &flags)
    }

    fn read_plain(bits: &mut BitReader<&[u8]>) -> Option<Self> {
        let before = bits.read_ue("num_negative_pics").ok()? as usize;
        let after = bits.read_ue("num_positive_pics").ok()? as usize;
        if before.checked_add(after)? > MAX_PICTURES {
            return None;
        }
        let mut list = |count: usize, sign: i32| {
            let mut count_so_far = 0;
            (0..count)
                .map(|_| {
                    let step = i32::try_from(bits.read_ue("delta_poc_minus1").ok()?.min(1 << 15)).ok()?;
                    count_so_far += sign * (step + 1);
                    Some((count_so_far, bits.read_bit("used_by_curr_pic_flag").ok()?))
                })
                .collect::<Option<Vec<_>>>()
        };
        Some(Self { before: list(before, -1)?, after: list(after, 1)? })
    }

    /// Set that is told by its differences from another one (equations 7-61 and 7-62).
    fn predicted(from: &Self, delta: i32, flags: &[(bool, bool)]) -> Option<Self> {
        let shifted = |(at, picture): (usize, &(i32, bool))| (picture.0 + delta, flags[at]);
        let before = from.before.iter().enumerate().map(shifted);
        let after = from.after.iter().enumerate().map(|(at, picture)| shifted((at + from.before.len(), picture)));
        let own = std::iter::once((delta, flags[from.len()]));
        let keep = |pictures: &mut dyn Iterator<Item = (i32, (bool, bool))>, sign: i32| {
            let kept = pictures.filter(|(distance, (_, kept))| *kept && distance.signum() == sign);
            kept.map(|(distance, (used, _))| (distance, used)).collect::<Vec<_>>()
        };
        let set = Self {
            before: keep(&mut after.clone().rev().chain(own.clone()).chain(before.clone()), -1),
            after: keep(&mut before.rev().chain(own).chain(after), 1),
        };
        (set.len() <= MAX_PICTURES).then_some(set)
    }

    /// Distances of the pictures that the current one may refer to, the nearest before it first.
    pub(super) fn used(&self) -> impl Iterator<Item = i32> + '_ {
        self.before.iter().chain(&self.after).filter(|(_, used)| *used).map(|(distance, _)| *distance)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(distances: &[i32]) -> ReferenceSet {
        let mut sorted: Vec<i32> = distances.to_vec();
        sorted.sort_unstable_by_key(|distance| distance.abs());
        sorted.dedup();
        let side =
            |sign| sorted.iter().filter(move |distance| distance.signum() == sign).map(|distance| (*distance, true));
        ReferenceSet { before: side(-1).collect(), after: side(1).collect() }
    }

    proptest! {
        /// A set of which everything is kept is the other one, shifted, and that one's own picture.
        #[test]
        fn a_predicted_set_is_a_shifted_one(
            distances in proptest::collection::btree_set((-20i32..20).prop_filter("itself", |distance| *distance != 0), 0..8),
            delta in (-20i32..20).prop_filter("itself", |delta| *delta != 0),
        ) {
            let distances: Vec<i32> = distances.into_iter().collect();
            let from = set(&distances);
            let flags = vec![(true, true); distances.len() + 1];
            let shifted: Vec<i32> = distances.iter().map(|distance| distance + delta).chain([delta]).collect();
            prop_assert_eq!(ReferenceSet::predicted(&from, delta, &flags), Some(set(&shifted)));
        }

        #[test]
        fn garbage_is_refused_or_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..64), known in 0usize..3) {
            let known = vec![set(&[-1, -2, 3]); known];
            if let Some(read) = ReferenceSet::read(&mut BitReader::new(bytes.as_slice()), &known, true) {
                prop_assert!(read.len() <= MAX_PICTURES);
            }
        }
    }
}
