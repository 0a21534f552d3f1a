//! Sound of QuickTime in MP4's form: sample entries of version 1 and 2, which have more fields, and the decoder's parameters within `wave`
//! (QuickTime File Format, "Sound sample descriptions").

use shiguredo_mp4::{BoxHeader, Decode};

/// Boxes that lead to the sample entries of a movie.
const WAY: [&[u8; 4]; 5] = [b"trak", b"mdia", b"minf", b"stbl", b"stsd"];
/// Bytes of `stsd` before its entries.
const LIST: usize = 8;
/// Length of a sound entry's box header and the fields of version 0, and those that versions 1 and 2 add.
const FIELDS: usize = 36;
const MORE: [usize; 3] = [0, 16, 36];

/// Turns the sound entries of a movie's header into those of MP4, in place: what they had more is free.
pub(super) fn make_plain(moov: &mut [u8]) {
    if let Some((header, _)) = extent(moov) {
        enter(&mut moov[header..], &WAY);
    }
}

/// Follows the way to sample entries in some boxes.
fn enter(mut boxes: &mut [u8], way: &[&[u8; 4]]) {
    while let Some((header, len)) = extent(boxes) {
        let (found, rest) = boxes.split_at_mut(len);
        match way {
            [next, then @ ..] if found[4..8] == next[..] => {
                let list = if then.is_empty() { LIST } else { 0 };
                enter(found.get_mut(header + list..).unwrap_or_default(), then);
            }
            [] if found[4..8] == *b"mp4a" && header == 8 => replace(found),
            _ => {}
        }
        boxes = rest;
    }
}

/// Replaces a sound entry by one of version 0 with its decoder's parameters.
fn replace(entry: &mut [u8]) {
    let Some(version @ 1..) = entry.get(16..18).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    else {
        return;
    };
    let Some(inner) = MORE.get(version).and_then(|more| entry.get(FIELDS + more..)) else { return };
    let Some(esds) = find(inner, *b"esds").or_else(|| find(find(inner, *b"wave")?.get(8..)?, *b"esds")) else { return };
    let esds = esds.to_vec();
    entry[16..18].fill(0);
    let (kept, free) = entry[FIELDS..].split_at_mut(esds.len());
    kept.copy_from_slice(&esds);
    // At least the fields that the version added.
    let len = free.len() as u32;
    free[..4].copy_from_slice(&len.to_be_bytes());
    free[4..8].copy_from_slice(b"free");
}

/// A box of this kind, with its header.
fn find(mut boxes: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    while let Some((_, len)) = extent(boxes) {
        if boxes[4..8] == kind {
            return Some(&boxes[..len]);
        }
        boxes = &boxes[len..];
    }
    None
}

/// Length of the header of the box that begins here, and of the box, which is there as a whole.
fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    let (header, header_len) = BoxHeader::decode(bytes).ok()?;
    let len = match usize::try_from(header.box_size.get()).ok()? {
        0 => bytes.len(),
        len => len,
    };
    (header_len.max(8)..=bytes.len()).contains(&len).then_some((header_len, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32 + 8).to_be_bytes(), &kind[..], content].concat()
    }

    /// A movie with one sound track of this entry version.
    fn movie(version: usize, boxes: &[u8]) -> Vec<u8> {
        let mut fields = vec![0; 28 + MORE[version]];
        fields[9] = version as u8;
        let entry = boxed(b"mp4a", &[&fields, boxes].concat());
        let list = boxed(b"stsd", &[&[0, 0, 0, 0, 0, 0, 0, 1], &entry[..]].concat());
        boxed(b"moov", &WAY[..4].iter().rev().fold(list, |inner, kind| boxed(kind, &inner)))
    }

    #[test]
    fn sound_of_quicktime_becomes_that_of_mp4_of_the_same_length() {
        let esds = boxed(b"esds", &[1, 2, 3, 4]);
        let wave = boxed(b"wave", &[boxed(b"frma", b"mp4a"), boxed(b"mp4a", &[0; 4]), esds.clone()].concat());
        for (version, boxes) in [(1, &wave), (1, &esds), (2, &esds)] {
            let mut moov = movie(version, boxes);
            let len = moov.len();
            make_plain(&mut moov);
            assert_eq!(moov.len(), len);
            let entry = moov.windows(4).position(|bytes| bytes == b"mp4a").unwrap() - 4;
            let inner = &moov[entry + FIELDS..];
            assert_eq!(moov[entry + 17], 0);
            assert_eq!(find(inner, *b"esds"), Some(&esds[..]));
            assert_eq!(esds.len() + find(inner, *b"free").unwrap().len(), inner.len());
        }
    }

    #[test]
    fn other_entries_and_damaged_ones_stay_as_they_are() {
        let esds = boxed(b"esds", &[1, 2, 3, 4]);
        let damaged = [&[0, 0, 1, 0], &esds[4..]].concat();
        for moov in [movie(0, &esds), movie(1, &damaged), movie(1, &[]), movie(2, &boxed(b"wave", &[]))] {
            for len in 0..=moov.len() {
                let mut read = moov[..len].to_vec();
                make_plain(&mut read);
                assert_eq!(read, moov[..len]);
            }
        }
    }
}
