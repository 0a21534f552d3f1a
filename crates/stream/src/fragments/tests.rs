//! Tests of ADUs that are cut.

use std::collections::BTreeMap;

use timeous_core::{AduSeq, Duration, Fate};

use super::*;

/// Queue of ADUs of these lengths, whose token is their place; an ADU's bytes are its place.
#[derive(Default)]
struct Queued {
    lens: Vec<usize>,
    next: u64,
    fates: BTreeMap<u64, Vec<Fate>>,
    useless: bool,
}

impl Queued {
    fn settle(&mut self, token: u64, fate: Fate) {
        self.fates.entry(token).or_default().push(fate);
    }
}

impl AduSource for Queued {
    fn has_queued(&mut self, _: Instant) -> bool {
        (self.next as usize) < self.lens.len()
    }
    fn pull(&mut self, now: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        let (token, &len) = (self.next, self.lens.get(self.next as usize)?);
        self.next += 1;
        if len > room {
            self.settle(token, Fate::Dropped(DropReason::TooLarge));
            return None;
        }
        packet.resize(packet.len() + len, token as u8);
        let meta =
            AduMeta { seq: AduSeq(token), deadline: Some(now + Duration::from_millis(50)), ..AduMeta::default() };
        Some(PulledAdu { token, len, meta, apart: false, copy: Copied::First, is_fragment: false })
    }
    fn is_worth_repeating(&mut self, _: Instant, _: &PathState, _: &AduMeta) -> bool {
        !self.useless
    }
    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, token: u64) {
        self.settle(token, Fate::Acked);
    }
    fn lost(&mut self, token: u64) {
        self.settle(token, Fate::Lost);
    }
    fn dropped(&mut self, token: u64, reason: DropReason) {
        self.settle(token, Fate::Dropped(reason));
    }
}

fn cut(lens: &[usize]) -> Fragments<Queued> {
    let mut source = Fragments::new(Queued { lens: lens.to_vec(), ..Queued::default() });
    source.allow();
    source
}

fn pull(source: &mut Fragments<Queued>, now: Instant, room: usize) -> Option<(PulledAdu, Vec<u8>)> {
    let mut packet = Vec::new();
    let pulled = source.pull(now, &PathState::default(), room, &mut packet)?;
    assert_eq!(packet.len(), pulled.len);
    let mark = if pulled.is_fragment { PulledAdu::FRAGMENT_MARK } else { 0 };
    assert!(packet.len() + mark <= room);
    Some((pulled, packet))
}

fn fates(source: &Fragments<Queued>) -> Vec<(u64, Vec<Fate>)> {
    source.inner.fates.clone().into_iter().collect()
}

#[test]
fn a_large_adu_leaves_in_parts_and_arrives_when_the_last_of_them_has() {
    let mut source = cut(&[100, 250, 50]);
    let parts: Vec<_> = std::iter::from_fn(|| pull(&mut source, Instant::ZERO, 156)).collect();
    let lens: Vec<_> = parts.iter().map(|(pulled, _)| (pulled.is_fragment, pulled.len)).collect();
    assert_eq!(lens, [(false, 100), (true, 108), (true, 108), (true, 58), (false, 50)]);
    assert_eq!(parts[2].1[..8], [0, 0, 0, 0, 0, 100, 0, 250], "number, offset, total");
    assert!(parts[3].1[8..].iter().all(|&byte| byte == 1));
    for place in [0, 3, 1, 4] {
        source.acked(parts[place].0.token);
    }
    assert_eq!(fates(&source), [(0, vec![Fate::Acked]), (2, vec![Fate::Acked])]);
    source.acked(parts[2].0.token);
    source.acked(parts[2].0.token);
    assert_eq!(source.inner.fates[&1], [Fate::Acked]);
    assert!(source.open.is_empty());
}

#[test]
fn a_part_that_is_lost_loses_the_adu_once_and_the_rest_is_not_sent() {
    let mut source = cut(&[1_000, 10]);
    let (first, _) = pull(&mut source, Instant::ZERO, 156).unwrap();
    let (second, _) = pull(&mut source, Instant::ZERO, 156).unwrap();
    source.lost(first.token);
    assert!(source.is_decided(second.token));
    assert!(!pull(&mut source, Instant::ZERO, 156).unwrap().0.is_fragment, "the next ADU");
    source.acked(second.token);
    source.lost(second.token);
    assert_eq!(fates(&source), [(0, vec![Fate::Lost])]);
    assert!(source.open.is_empty() && source.cutting.is_none());
}

#[test]
fn the_rest_of_an_adu_that_has_become_useless_or_late_is_not_sent() {
    for (is_useless, ms) in [(true, 0), (false, 51)] {
        let mut source = cut(&[1_000]);
        pull(&mut source, Instant::ZERO, 156).unwrap();
        source.inner.useless = is_useless;
        assert!(pull(&mut source, Instant::ZERO + Duration::from_millis(ms), 156).is_none());
        assert!(!source.has_queued(Instant::ZERO));
        assert_eq!(fates(&source), [(0, vec![Fate::Lost])]);
    }
}

#[test]
fn parts_follow_the_size_of_the_path() {
    let mut source = cut(&[1_000]);
    let mut lens = Vec::new();
    for room in [544, 156, 644] {
        lens.push(pull(&mut source, Instant::ZERO, room).unwrap().0.len - 8);
    }
    assert_eq!(lens, [488, 100, 412]);
    assert!(source.open.values().all(|open| open.is_complete));
}

#[test]
fn the_largest_adu_is_cut_at_the_smallest_packet_size() {
    let mut source = cut(&[MAX_ADU]);
    // The room of 508 bytes beside the longest header and all options.
    let parts: Vec<_> = std::iter::from_fn(|| pull(&mut source, Instant::ZERO, 444)).collect();
    assert_eq!(parts.len(), 169);
    parts.iter().for_each(|(pulled, _)| source.acked(pulled.token));
    assert_eq!(fates(&source), [(0, vec![Fate::Acked])]);
}

#[test]
fn nothing_is_cut_for_a_peer_that_takes_no_fragments_nor_for_another_carrier() {
    let mut source = Fragments::new(Queued { lens: vec![1_000, 1_000, 1_000], ..Queued::default() });
    assert!(pull(&mut source, Instant::ZERO, 500).is_none());
    source.allow();
    pull(&mut source, Instant::ZERO, 500).unwrap();
    source.carrier_gone();
    assert!(pull(&mut source, Instant::ZERO, 500).is_none());
    let large = Fate::Dropped(DropReason::TooLarge);
    assert_eq!(fates(&source), [(0, vec![large]), (1, vec![Fate::Lost]), (2, vec![large])]);
}

#[test]
fn a_part_that_expires_before_it_leaves_drops_an_adu_of_which_nothing_has_left() {
    for before in [0, 1] {
        let mut source = cut(&[1_000]);
        let parts: Vec<_> = (0..=before).map(|_| pull(&mut source, Instant::ZERO, 156).unwrap().0).collect();
        source.dropped(parts[before].token, DropReason::Expired);
        // What the transport, which takes it for sent, says later.
        parts.iter().for_each(|part| source.lost(part.token));
        let fate = if before == 0 { Fate::Dropped(DropReason::Expired) } else { Fate::Lost };
        assert_eq!(fates(&source), [(0, vec![fate])]);
        assert!(source.open.is_empty());
    }
}
