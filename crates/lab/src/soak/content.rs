//! Contents of a datagram: number, version, and bytes derived from both, so that each byte can be checked.

use timeous::core::Rng;

/// Minimum size: number and version.
pub(super) const LEAST: usize = 12;
/// Maximum size.
pub(super) const MOST: usize = 1_100;

/// Number and version of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DatagramId {
    pub(super) seq: u64,
    pub(super) version: u32,
}

/// Generates the bytes of a version, of random length, some with runs of zeros.
pub(super) fn of(name: DatagramId) -> Vec<u8> {
    let mut rng = Rng::from_seed(name.seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(name.version));
    let mut bytes = vec![0; LEAST + rng.below((MOST - LEAST + 1) as u64) as usize];
    rng.fill(&mut bytes);
    if rng.chance(0.2) {
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0);
    }
    bytes[..8].copy_from_slice(&name.seq.to_be_bytes());
    bytes[8..LEAST].copy_from_slice(&name.version.to_be_bytes());
    bytes
}

/// Returns the name of a received datagram, if every byte is correct.
pub(super) fn check(bytes: &[u8]) -> Option<DatagramId> {
    let seq = u64::from_be_bytes(*bytes.first_chunk()?);
    let version = u32::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
    let name = DatagramId { seq, version };
    (of(name) == bytes).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_that_is_another_is_found_and_so_is_the_end_of_another_version() {
        let [one, other] = [0, 1].map(|version| of(DatagramId { seq: 7, version }));
        assert_eq!(check(&one), Some(DatagramId { seq: 7, version: 0 }));
        for at in 0..one.len() {
            let mut changed = one.clone();
            changed[at] ^= 1;
            assert_eq!(check(&changed), None, "byte {at}");
        }
        assert_eq!(check(&[&one[..LEAST], &other[LEAST..]].concat()), None);
        assert_eq!(check(&one[..one.len() - 1]), None);
        assert_eq!(check(&[]), None);
    }
}
