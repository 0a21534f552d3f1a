//! Rebuilding of lost data from received data and parity, with bounded memory and work, even for a hostile peer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::name::ParityName;
use crate::options::PARITY_MAP;
use crate::seq::Seq;

/// Maximum number of data packets kept (docs/design/repair.md). Chosen by us: a higher value takes more memory, and
/// rebuilds blocks whose parity arrives later.
const MAX_DATA: usize = 1024;
/// Maximum number of parity packets kept (docs/design/repair.md). Chosen by us: a higher value takes more memory, and
/// keeps more incomplete blocks.
const MAX_PARITY: usize = 256;
/// Maximum number of incomplete blocks. Chosen by us: every received packet is looked up in each of them, so that a
/// higher value costs time.
const MAX_BLOCKS: usize = 16;

/// Minimum of the packet size by which memory and work are bounded, in bytes: Ethernet's. A peer's packets may be longer
/// than ours.
const MIN_PACKET: usize = 1_500;
/// Maximum size of a block, in shards of the packet size: as many data as an option can name, and as much parity as we
/// send. Chosen by us: a higher value lets a peer cost more memory and time.
const MAX_SHARDS: usize = PARITY_MAP * 8 + 64;
/// Shards that may be decoded for each received packet: a block of ours has at most twice as much parity as data, and
/// decoding takes as many packets as it has data. A higher value lets a peer cost more time.
const SHARDS_FOR_PACKET: usize = 4;
/// Maximum number of shards that may be decoded at once. Chosen by us: several blocks.
const MAX_CREDIT: usize = 4 * MAX_SHARDS;

/// Recently received data, and parity of incomplete blocks.
#[derive(Clone, Debug)]
pub(crate) struct Rebuild {
    /// Packet size by which memory and work are bounded.
    packet: usize,
    /// Shards that may be decoded.
    credit: usize,
    data: BTreeMap<u64, Vec<u8>>,
    /// Size of the data, in bytes.
    data_bytes: usize,
    order: VecDeque<u64>,
    blocks: VecDeque<Block>,
}

/// A block with missing data, and its received parity.
#[derive(Clone, Debug)]
struct Block {
    newest: Seq,
    name: ParityName,
    missing: BTreeSet<u64>,
    /// Parity packets by index, without duplicates.
    parity: BTreeMap<u8, Vec<u8>>,
}

impl Block {
    fn is_of(&self, newest: Seq, name: &ParityName) -> bool {
        self.newest == newest && self.name.is_same_block(name)
    }

    fn is_over(&self) -> bool {
        self.missing.len() <= self.parity.len()
    }

    fn bytes(&self) -> usize {
        self.parity.values().map(Vec::len).sum()
    }
}

impl Rebuild {
    /// Creates a receiver of parity for packets of up to `mps` bytes: of longer ones fewer are kept, in smaller blocks.
    pub(crate) fn new(mps: usize) -> Self {
        Self {
            packet: mps.max(MIN_PACKET),
            credit: MAX_CREDIT,
            data: BTreeMap::new(),
            data_bytes: 0,
            order: VecDeque::new(),
            blocks: VecDeque::new(),
        }
    }

    /// Keeps received data that were first sent as `seq`.
    pub(crate) fn keep(&mut self, seq: Seq, payload: &[u8]) {
        self.earn();
        for block in &mut self.blocks {
            block.missing.remove(&seq.value());
        }
        self.data_bytes += payload.len();
        match self.data.insert(seq.value(), payload.to_vec()) {
            None => self.order.push_back(seq.value()),
            Some(before) => self.data_bytes -= before.len(),
        }
        while (self.order.len() > MAX_DATA || self.data_bytes > MAX_DATA * self.packet)
            && let Some(oldest) = self.order.pop_front()
        {
            self.data_bytes -= self.data.remove(&oldest).map_or(0, |payload| payload.len());
        }
    }

    fn earn(&mut self) {
        self.credit = (self.credit + SHARDS_FOR_PACKET).min(MAX_CREDIT);
    }

    /// Adds a parity packet for the block whose newest packet is `newest`.
    pub(crate) fn add_parity(&mut self, newest: Seq, name: ParityName, shard: &[u8]) {
        self.earn();
        if name.shards() * shard.len() > MAX_SHARDS * self.packet {
            return;
        }
        if let Some(block) = self.blocks.iter_mut().find(|block| block.is_of(newest, &name)) {
            block.parity.entry(name.index).or_insert_with(|| shard.to_vec());
        } else {
            let missing: BTreeSet<u64> =
                name.block(newest).map(Seq::value).filter(|seq| !self.data.contains_key(seq)).collect();
            if missing.is_empty() {
                return;
            }
            let parity = BTreeMap::from([(name.index, shard.to_vec())]);
            self.blocks.push_back(Block { newest, name, missing, parity });
        }
        let held = |blocks: &VecDeque<Block>| blocks.iter().map(|block| block.parity.len()).sum::<usize>();
        let bytes = |blocks: &VecDeque<Block>| blocks.iter().map(Block::bytes).sum::<usize>();
        while self.blocks.len() > MAX_BLOCKS
            || held(&self.blocks) > MAX_PARITY
            || bytes(&self.blocks) > MAX_PARITY * self.packet
        {
            self.blocks.pop_front();
        }
    }

    /// Rebuilds all blocks that are complete enough; returns the data by original sequence number.
    pub(crate) fn rebuild(&mut self) -> Vec<(Seq, Vec<u8>)> {
        let mut rebuilt = Vec::new();
        while let Some(at) = self.blocks.iter().position(Block::is_over) {
            // Decoded once, whether that succeeds or not.
            let Some(block) = self.blocks.remove(at).filter(|block| !block.missing.is_empty()) else { continue };
            let Some(credit) = self.credit.checked_sub(block.name.shards()) else { continue };
            self.credit = credit;
            for (seq, payload) in self.decode(&block).into_iter().flatten() {
                self.keep(seq, &payload);
                rebuilt.push((seq, payload));
            }
        }
        rebuilt
    }

    /// Decodes the missing data of a block; `None` if parity is inconsistent or received data are no longer kept.
    fn decode(&self, block: &Block) -> Option<Vec<(Seq, Vec<u8>)>> {
        let seqs: Vec<Seq> = block.name.block(block.newest).collect();
        let len = block.parity.values().next()?.len();
        let mut decoder =
            reed_solomon_simd::ReedSolomonDecoder::new(seqs.len(), usize::from(block.name.of), len).ok()?;
        for (index, seq) in seqs.iter().enumerate() {
            let Some(payload) = self.data.get(&seq.value()) else { continue };
            decoder.add_original_shard(index, padded(payload, len)?).ok()?;
        }
        for (&index, shard) in &block.parity {
            decoder.add_recovery_shard(usize::from(index), shard).ok()?;
        }
        let decoded = decoder.decode().ok()?;
        decoded.restored_original_iter().map(|(index, shard)| Some((seqs[index], unpadded(shard)?))).collect()
    }
}

/// Encodes a payload as a shard of `len` bytes: length, payload, zeros.
pub(super) fn padded(payload: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut shard = Vec::with_capacity(len);
    shard.extend_from_slice(&u16::try_from(payload.len()).ok()?.to_be_bytes());
    shard.extend_from_slice(payload);
    (shard.len() <= len).then(|| {
        shard.resize(len, 0);
        shard
    })
}

/// Returns the payload in a shard; `None` if its length field is wrong.
fn unpadded(shard: &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = shard.split_first_chunk::<2>()?;
    Some(rest.get(..usize::from(u16::from_be_bytes(*len)))?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payloads of a block, and its parity.
    fn block(data: u64, parity: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let payloads: Vec<Vec<u8>> = (0..data).map(|n| vec![n as u8; 20 + n as usize % 60]).collect();
        let shards: Vec<_> = payloads.iter().map(|payload| padded(payload, 82).unwrap()).collect();
        let parity = reed_solomon_simd::encode(shards.len(), parity, &shards).unwrap();
        (payloads, parity)
    }

    fn seqs(data: u64) -> Vec<Seq> {
        (0..data).map(|n| Seq::new(100 + n)).collect()
    }

    #[test]
    fn a_large_block_comes_back_as_soon_as_there_is_enough_of_it_and_once() {
        let (payloads, parity) = block(160, 40);
        let (seqs, is_lost) = (seqs(160), |n: usize| n % 5 == 2);
        let mut rebuild = Rebuild::new(1_200);
        for n in (0..160).filter(|&n| !is_lost(n)) {
            rebuild.keep(seqs[n], &payloads[n]);
        }
        let add = |index: u8, rebuild: &mut Rebuild| {
            let name = ParityName::of(&seqs, 1, (index, 40)).unwrap();
            rebuild.add_parity(seqs[159], name, &parity[usize::from(index)]);
            rebuild.rebuild()
        };
        // One of those that are missing comes late, after another of the parity came twice.
        let early: Vec<u8> = [0, 0].into_iter().chain(1..31).collect();
        assert!(early.into_iter().all(|index| add(index, &mut rebuild).is_empty()), "31 for 32");
        rebuild.keep(seqs[2], &payloads[2]);
        let mut rebuilt = rebuild.rebuild();
        rebuilt.sort_by_key(|(seq, _)| seq.value());
        let lost = (0..160).filter(|&n| is_lost(n) && n != 2).map(|n| (seqs[n], payloads[n].clone()));
        assert!(rebuilt.into_iter().eq(lost));
        assert_eq!(add(39, &mut rebuild), [], "it is whole");
        assert!(rebuild.blocks.is_empty());
    }

    #[test]
    fn no_more_is_kept_than_has_room_whatever_a_peer_sends() {
        let mut rebuild = Rebuild::new(1_200);
        for n in 0..2_000_u64 {
            rebuild.keep(Seq::new(n), b"data");
            let name = ParityName::of(&seqs(150), 1, ((n % 200) as u8, 250)).unwrap();
            rebuild.add_parity(Seq::new(9_000 + n / 200), name, &[7; 64]);
            rebuild.add_parity(Seq::new(90_000 + n), name, &[7; 64]);
            let parity: usize = rebuild.blocks.iter().map(|block| block.parity.len()).sum();
            assert!(rebuild.blocks.len() <= MAX_BLOCKS && parity <= MAX_PARITY && rebuild.data.len() <= MAX_DATA);
            assert_eq!(rebuild.rebuild(), []);
        }
    }

    /// The shards of 60 kB that a packet of the default MTU never holds, 1 024 data of that size, and blocks that lack one packet each.
    #[test]
    fn parity_bombs_cost_neither_memory_nor_time() {
        let mut rebuild = Rebuild::new(1_200);
        let (bomb, bits) = (vec![7; 60_000], seqs(192));
        for n in 0..1_024_u64 {
            rebuild.keep(Seq::new(n), &bomb);
            let name = ParityName::of(&bits, 1, ((n % 200) as u8, 255)).unwrap();
            rebuild.add_parity(Seq::new(90_000 + n / 200), name, &bomb);
            let small = ParityName::of(&bits[..2], 1, ((n % 3) as u8, 3)).unwrap();
            rebuild.add_parity(Seq::new(80_000 + n), small, &bomb);
            let parity: usize = rebuild.blocks.iter().map(Block::bytes).sum();
            let data: usize = rebuild.data.values().map(Vec::len).sum();
            assert_eq!(data, rebuild.data_bytes);
            assert!(parity + data <= (MAX_DATA + MAX_PARITY) * 1_500, "{parity} + {data}");
            assert_eq!(rebuild.rebuild(), []);
        }
        let mut rebuild = Rebuild::new(1_200);
        (100..290).for_each(|n| rebuild.keep(Seq::new(n), &[1; 62]));
        let mut decoded = 0;
        for n in 0..1_000_u64 {
            // Ever another block of 191 packets, of which the newest is missing, and any parity for it.
            let name = ParityName::of(&bits[1..], 1, ((n % 64) as u8, 64)).unwrap();
            rebuild.add_parity(Seq::new(290), name, &[n as u8; 64]);
            let before = rebuild.credit;
            rebuild.rebuild();
            decoded += usize::from(rebuild.credit < before);
            rebuild.data.remove(&290);
        }
        assert!((4..=25).contains(&decoded), "{decoded} of 1000");
    }
}
