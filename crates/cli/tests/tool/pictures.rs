//! Byte stream parser for tests, independent of the tool's own reader: NAL units and pictures.

/// NAL units of an Annex B byte stream (H.264 §B.1), each with its offset.
pub(crate) fn nals(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let starts: Vec<usize> =
        (0..bytes.len().saturating_sub(3)).filter(|&at| bytes[at..].starts_with(&[0, 0, 1])).collect();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    let mut found = Vec::new();
    for (start, end) in starts.iter().zip(ends) {
        let nal = &bytes[start + 3..end];
        let len = nal.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        found.push((start + 3, &nal[..len]));
    }
    found
}

fn is_slice(nal: &[u8]) -> bool {
    nal.first().is_some_and(|first| matches!(first & 0x1f, 1 | 5))
}

/// First slice of a picture: `first_mb_in_slice` is 0, coded as the bit 1 (§7.3.3, §9.1).
fn is_first_slice(nal: &[u8]) -> bool {
    is_slice(nal) && nal.get(1).is_some_and(|byte| byte & 0x80 != 0)
}

/// Slices of a picture, and the other NAL units before them.
pub(crate) type Picture = Vec<Vec<u8>>;

/// Pictures of a byte stream, one or more slices each.
pub(crate) fn pictures(bytes: &[u8]) -> Vec<Picture> {
    let mut found: Vec<Picture> = Vec::new();
    let mut before = Vec::new();
    for (_, nal) in nals(bytes) {
        before.push(nal.to_vec());
        if is_first_slice(nal) {
            found.push(std::mem::take(&mut before));
        } else if is_slice(nal) {
            found.last_mut().expect("a stream begins with a first slice").append(&mut before);
        }
    }
    found
}

/// Picture as a byte stream with start codes.
pub(crate) fn annexb(picture: &Picture) -> Vec<u8> {
    picture.iter().flat_map(|nal| [&[0, 0, 0, 1], &nal[..]].concat()).collect()
}

/// First slice of a picture, which identifies it.
pub(crate) fn first_slice(picture: &Picture) -> &[u8] {
    picture.iter().find(|nal| is_first_slice(nal)).expect("a picture has a first slice")
}

/// Offset and bytes of the first slice of each picture in a byte stream.
pub(crate) fn first_slices(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    nals(bytes).into_iter().filter(|(_, nal)| is_first_slice(nal)).collect()
}

/// Path of a file in `tests/field`.
pub(crate) fn field(name: &str) -> String {
    format!("{}/tests/field/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Pictures of a file in `tests/field`.
pub(crate) fn field_pictures(name: &str) -> Vec<Picture> {
    pictures(&std::fs::read(field(name)).unwrap())
}
