//! Property tests of encrypted records: what is written is read once, torn mixtures deliver one version or none, and no
//! counter is used for two writes.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_seal::{Cipher, Secret};

use super::*;

fn secret() -> Secret {
    Secret::new([9; 32])
}

fn writer() -> Writer {
    Writer::encrypted(Cipher::Aes128Gcm, secret())
}

fn framing() -> Framing {
    Framing::Encrypted(Cipher::Aes128Gcm, secret())
}

fn read(wire: &[u8]) -> (Vec<(u8, u32, Vec<u8>)>, Counts) {
    let (mut reader, mut got) = (Ordered::new(framing(), 3_000), Vec::new());
    reader.push(wire, |datagram| {
        got.push((datagram.substream.0, datagram.number.unwrap(), datagram.payload.to_vec()));
    });
    (got, *reader.counts())
}

/// Counters of the records in some bytes, each with its whole record.
fn counters(wire: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let chunks = wire.split(|&byte| byte == 0).filter(|chunk| !chunk.is_empty());
    let decoded = chunks.map(|chunk| {
        let mut content = chunk.to_vec();
        let len = cobs::decode_in_place(&mut content).unwrap();
        content.truncate(len);
        content
    });
    decoded.map(|content| (content[..6].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)), content)).collect()
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..600), (0..2_000_usize).prop_map(|len| vec![0; len])]
}

/// A write into the stream, or into memory that it is sent from.
#[derive(Clone, Debug)]
enum Write {
    Datagram(Vec<u8>),
    /// Another datagram, not longer, in a place.
    Rewrite(prop::sample::Index, Vec<u8>),
    Padding(prop::sample::Index),
    /// The first place's datagram in the second, which is not shorter.
    Copy(prop::sample::Index, prop::sample::Index),
    /// The first version of a place is restored.
    GoBack(prop::sample::Index),
}

fn write() -> impl Strategy<Value = Write> {
    use prop::sample::Index;
    prop_oneof![
        3 => payload().prop_map(Write::Datagram),
        2 => (any::<Index>(), payload()).prop_map(|(at, payload)| Write::Rewrite(at, payload)),
        1 => any::<Index>().prop_map(Write::Padding),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Write::Copy(from, to)),
        1 => any::<Index>().prop_map(Write::GoBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lengths_depend_on_lengths_alone_and_what_was_written_is_read(
        items in vec((2..WIDE, payload(), 0..400_usize), 1..12),
    ) {
        let (mut writer, mut wire, mut sent, mut padding) = (writer(), Vec::new(), Vec::new(), 0);
        for (number, (substream, payload, pad)) in (0..).zip(&items) {
            let start = wire.len();
            writer.write(*substream, number, payload, &mut wire);
            let len = wire.len() - start;
            prop_assert_eq!(len, encrypted_len(payload.len()));
            prop_assert_eq!(writer.room(len), Some(payload.len()));
            prop_assert!(writer.room(len - 1).is_none_or(|room| room < payload.len()));
            writer.pad(*pad, &mut wire);
            prop_assert_eq!(wire.len() - start, len + pad);
            padding += u64::from(*pad >= 26);
            sent.push((*substream, number, payload.clone()));
        }
        let (got, counts) = read(&wire);
        prop_assert_eq!((counts.damaged, counts.padding), (0, padding));
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn no_counter_is_used_for_two_different_writes(writes in vec(write(), 1..60)) {
        let mut writer = writer();
        let (mut places, mut firsts, mut by_counter) = (Vec::<Vec<u8>>::new(), Vec::new(), BTreeMap::new());
        for (number, write) in (0..).zip(writes) {
            let place = |at: &prop::sample::Index| (!places.is_empty()).then(|| at.index(places.len()));
            let (at, bytes) = match &write {
                Write::Datagram(payload) => {
                    let mut bytes = Vec::new();
                    writer.write(TIMED, number, payload, &mut bytes);
                    firsts.push(bytes.clone());
                    places.push(Vec::new());
                    (places.len() - 1, bytes)
                }
                Write::Rewrite(at, payload) => {
                    let Some(at) = place(at) else { continue };
                    let (len, mut bytes) = (places[at].len(), Vec::new());
                    let Some(room) = writer.room(len) else { continue };
                    writer.write(TIMED, number, &payload[..payload.len().min(room)], &mut bytes);
                    writer.pad(len - bytes.len(), &mut bytes);
                    (at, bytes)
                }
                Write::Padding(at) => {
                    let Some(at) = place(at) else { continue };
                    let mut bytes = Vec::new();
                    writer.pad(places[at].len(), &mut bytes);
                    (at, bytes)
                }
                Write::Copy(from, to) => {
                    let (Some(from), Some(to)) = (place(from), place(to)) else { continue };
                    let (len, mut bytes) = (places[to].len(), Vec::new());
                    if places[from].len() > len {
                        continue;
                    }
                    prop_assert!(writer.copy(&places[from], &mut bytes));
                    prop_assert!(bytes.len() <= places[from].len());
                    writer.pad(len - bytes.len(), &mut bytes);
                    let (copy, of) = (read(&bytes), read(&places[from]));
                    prop_assert_eq!((copy.0, copy.1.damaged), (of.0, 0));
                    (to, bytes)
                }
                Write::GoBack(at) => {
                    let Some(at) = place(at) else { continue };
                    (at, firsts[at].clone())
                }
            };
            prop_assert_eq!(bytes.len(), firsts[at].len());
            for (counter, content) in counters(&bytes) {
                // A restored version is the very write from before.
                let known = by_counter.insert(counter, content.clone());
                prop_assert!(known.is_none_or(|known| matches!(write, Write::GoBack(_)) && known == content));
            }
            places[at] = bytes;
        }
    }

    #[test]
    fn a_mixture_of_two_versions_of_a_place_is_one_of_them_or_nothing(
        first in payload(),
        second in payload(),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
        starts_with_second in any::<bool>(),
    ) {
        let mut writer = writer();
        let len = encrypted_len(first.len().max(second.len()));
        let versions = [(1, &first), (2, &second)].map(|(number, payload)| {
            let mut bytes = Vec::new();
            writer.write(TIMED, number, payload, &mut bytes);
            writer.pad(len - bytes.len(), &mut bytes);
            bytes
        });
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(len)).chain([0, len]).collect();
        cuts.sort_unstable();
        let mut torn = vec![0];
        for (turn, range) in cuts.windows(2).enumerate() {
            let version = &versions[(turn + usize::from(starts_with_second)) % 2];
            torn.extend_from_slice(&version[range[0]..range[1]]);
        }
        let (got, _) = read(&torn);
        let offered = [(TIMED, 1, first), (TIMED, 2, second)];
        prop_assert!(got.len() <= 1, "{} of one place", got.len());
        prop_assert!(got.iter().all(|datagram| offered.contains(datagram)));
    }

    #[test]
    fn any_change_of_a_byte_is_seen(payload in payload(), at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let mut wire = Vec::new();
        writer().write(TIMED, 4, &payload, &mut wire);
        let at = at.index(wire.len());
        wire[at] ^= by;
        let (got, _) = read(&wire);
        // A zero before the record or after it changes nothing.
        prop_assert!(got.is_empty() || got == [(TIMED, 4, payload)]);
    }
}

#[test]
fn a_datagram_is_delivered_once_whatever_its_counter_and_by_its_direction_s_key_alone() {
    let (mut writer, mut wire) = (writer(), Vec::new());
    writer.write(TIMED, 4, b"once", &mut wire);
    writer.write(TIMED, 4, b"once", &mut wire);
    let again = wire.clone();
    wire.extend_from_slice(&again);
    let (got, counts) = read(&wire);
    assert_eq!((got, counts.duplicates), (vec![(TIMED, 4, b"once".to_vec())], 3));
    let other = Framing::Encrypted(Cipher::Aes128Gcm, Secret::new([8; 32]));
    let mut reader = Ordered::new(other, 100);
    reader.push(&wire, |_| panic!("another key"));
    assert_eq!(reader.counts().damaged, 4);
}

#[test]
fn neither_form_is_taken_for_the_other() {
    let (mut encrypted, mut checked) = (Vec::new(), Vec::new());
    writer().write(TIMED, 0, b"data", &mut encrypted);
    numbered(TIMED, 0, b"data", &mut checked);
    pad(40, &mut checked);
    let (got, counts) = read(&checked);
    assert_eq!((got.len(), counts.damaged), (0, 2));
    let mut reader = Ordered::new(Framing::Plain, 100);
    reader.push(&encrypted, |datagram| assert_ne!(datagram.payload, b"data"));
}

#[test]
fn the_wire_is_as_the_picture_says() {
    let mut wire = Vec::new();
    let mut writer = writer();
    writer.pad(25, &mut wire);
    assert_eq!(wire, [0; 25], "too short for a record");
    writer.write(5, 0x0102_0304, &[9, 0, 8], &mut wire);
    writer.write(5, 0x0102_0304, &[9, 0, 8], &mut wire);
    let found = counters(&wire);
    assert_eq!(
        found.iter().map(|(counter, content)| (*counter, content.len())).collect::<Vec<_>>(),
        [(0, 30), (1, 30)]
    );
    let mut key = timeous_seal::OpeningKey::new(Cipher::Aes128Gcm, secret());
    let mut plaintext = Vec::new();
    assert!(key.open_at(1, b"", &found[1].1[6..], &mut plaintext));
    assert_eq!(plaintext, [5, 1, 2, 3, 4, 9, 0, 8]);
}
