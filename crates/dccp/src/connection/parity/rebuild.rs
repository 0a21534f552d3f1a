//! Lost data rebuilt from what arrived and from parity: in a bounded room, with bounded work, from a peer that may lie.

use std::collections::{BTreeMap, VecDeque};

use super::name::ParityName;
use crate::seq::Seq;

/// As many packets of data are kept.
const MOST_DATA: usize = 256;
/// As many of parity.
const MOST_PARITY: usize = 64;

/// What arrived of late, and the parity that has not served yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rebuild {
    data: BTreeMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    parity: VecDeque<(Seq, ParityName, Vec<u8>)>,
}

impl Rebuild {
    /// Data that were sent first as `seq` arrived.
    pub(super) fn keep(&mut self, seq: Seq, payload: &[u8]) {
        if self.data.insert(seq.value(), payload.to_vec()).is_none() {
            self.order.push_back(seq.value());
        }
        if self.order.len() > MOST_DATA
            && let Some(oldest) = self.order.pop_front()
        {
            self.data.remove(&oldest);
        }
    }

    /// Parity arrived for the block whose newest packet is `newest`.
    pub(super) fn add_parity(&mut self, newest: Seq, name: ParityName, shard: &[u8]) {
        self.parity.push_back((newest, name, shard.to_vec()));
        if self.parity.len() > MOST_PARITY {
            self.parity.pop_front();
        }
    }

    /// What can be rebuilt now, by the numbers under which it was sent first.
    pub(super) fn rebuild(&mut self) -> Vec<(Seq, Vec<u8>)> {
        let mut rebuilt = Vec::new();
        let mut at = 0;
        while let Some((newest, name, _)) = self.parity.get(at) {
            let (newest, name) = (*newest, *name);
            let seqs: Vec<Seq> = name.block(newest).collect();
            let have = seqs.iter().filter(|seq| self.data.contains_key(&seq.value())).count();
            let is_same = |(of, other, _): &(Seq, ParityName, Vec<u8>)| *of == newest && other.is_same_block(&name);
            let spare = self.parity.iter().filter(|held| is_same(held)).count();
            if have < seqs.len() && have + spare < seqs.len() {
                at += 1;
                continue;
            }
            if have < seqs.len()
                && let Some(found) = self.decode(&seqs, newest, &name)
            {
                for (seq, payload) in found {
                    self.keep(seq, &payload);
                    rebuilt.push((seq, payload));
                }
            }
            // It has served, or never will.
            self.parity.retain(|held| !is_same(held));
            at = 0;
        }
        rebuilt
    }

    /// The missing data of a block; `None` if the parity is not what it says.
    fn decode(&self, seqs: &[Seq], newest: Seq, name: &ParityName) -> Option<Vec<(Seq, Vec<u8>)>> {
        let held = || self.parity.iter().filter(|(of, other, _)| *of == newest && other.is_same_block(name));
        let len = held().map(|(_, _, shard)| shard.len()).next()?;
        let mut decoder = reed_solomon_simd::ReedSolomonDecoder::new(seqs.len(), usize::from(name.of), len).ok()?;
        for (index, seq) in seqs.iter().enumerate() {
            let Some(payload) = self.data.get(&seq.value()) else { continue };
            decoder.add_original_shard(index, padded(payload, len)?).ok()?;
        }
        let mut seen = [false; u8::MAX as usize + 1];
        for (_, parity, shard) in held() {
            // A packet that came twice, or two that claim to be the same.
            if !std::mem::replace(&mut seen[usize::from(parity.index)], true) {
                decoder.add_recovery_shard(usize::from(parity.index), shard).ok()?;
            }
        }
        let decoded = decoder.decode().ok()?;
        decoded.restored_original_iter().map(|(index, shard)| Some((seqs[index], unpadded(shard)?))).collect()
    }
}

/// A payload as the shard of a block whose shards have `len` bytes.
pub(super) fn padded(payload: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut shard = Vec::with_capacity(len);
    shard.extend_from_slice(&u16::try_from(payload.len()).ok()?.to_be_bytes());
    shard.extend_from_slice(payload);
    (shard.len() <= len).then(|| {
        shard.resize(len, 0);
        shard
    })
}

/// The payload in a shard; `None` if there is none.
fn unpadded(shard: &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = shard.split_first_chunk::<2>()?;
    Some(rest.get(..usize::from(u16::from_be_bytes(*len)))?.to_vec())
}
