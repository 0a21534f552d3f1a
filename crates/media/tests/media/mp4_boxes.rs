//! Parser of the boxes of a fragmented MP4 file (ISO/IEC 14496-12), which panics on invalid ones.

/// Top-level box of a file.
struct Top<'a> {
    kind: [u8; 4],
    /// End offset in the file.
    end: usize,
    body: &'a [u8],
}

/// Whole boxes of a file, and the length of an incomplete box after them.
pub(crate) struct Boxes<'a> {
    boxes: Vec<Top<'a>>,
    incomplete: usize,
}

/// Frame in a file.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) decode: i64,
    pub(crate) shown: i64,
    pub(crate) is_entry: bool,
    pub(crate) nal_types: Vec<u8>,
}

/// Contents of a valid file.
#[derive(Debug)]
pub(crate) struct ValidFile {
    pub(crate) samples: Vec<Sample>,
    pub(crate) incomplete: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Splits consecutive boxes; returns the length of the incomplete rest, too.
fn split(bytes: &[u8]) -> (Vec<Top<'_>>, usize) {
    let (mut boxes, mut at) = (Vec::new(), 0);
    while bytes.len() - at >= 8 {
        let size = u32_at(bytes, at) as usize;
        assert!(size >= 8, "a box is at least its header");
        if bytes.len() - at < size {
            break;
        }
        let kind = bytes[at + 4..at + 8].try_into().unwrap();
        boxes.push(Top { kind, end: at + size, body: &bytes[at + 8..at + size] });
        at += size;
    }
    (boxes, bytes.len() - at)
}

/// Body of the box at this path.
fn find<'a>(body: &'a [u8], path: &[&[u8; 4]]) -> &'a [u8] {
    let Some((first, rest)) = path.split_first() else { return body };
    let (boxes, left) = split(body);
    assert_eq!(left, 0, "boxes fill the box that they are in");
    let found = boxes.iter().find(|found| found.kind == **first);
    find(found.unwrap_or_else(|| panic!("no box {}", String::from_utf8_lossy(*first))).body, rest)
}

impl<'a> Boxes<'a> {
    pub(crate) fn walk(file: &'a [u8]) -> Self {
        let (boxes, incomplete) = split(file);
        Self { boxes, incomplete }
    }

    /// Offsets at which the file may be cut between two boxes.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        [0].into_iter().chain(self.boxes.iter().map(|found| found.end)).collect()
    }

    /// Checks all that players rely on; returns the frames of all whole fragments.
    pub(crate) fn sound(&self) -> ValidFile {
        let kinds: Vec<&[u8; 4]> = self.boxes.iter().map(|found| &found.kind).collect();
        let head: &[&[u8; 4]] = &[b"ftyp", b"moov"];
        assert!(kinds.iter().zip(head).all(|(found, expected)| found == expected), "{kinds:?}");
        if let Some(moov) = self.boxes.get(1) {
            find(moov.body, &[b"mvex", b"trex"]);
            let stsd = find(moov.body, &[b"trak", b"mdia", b"minf", b"stbl", b"stsd"]);
            // The configuration follows the fixed fields of the entry (ISO/IEC 14496-12 §12.1.3).
            assert_eq!(&stsd[12..16], b"avc1");
            assert_eq!(find(&stsd[8 + 8 + 78..], &[b"avcC"])[0], 1);
        }
        let mut samples = Vec::new();
        for (count, pair) in self.boxes.get(2..).unwrap_or_default().chunks(2).enumerate() {
            assert_eq!(&pair[0].kind, b"moof");
            if let [moof, mdat] = pair {
                assert_eq!(&mdat.kind, b"mdat");
                assert_eq!(u32_at(find(moof.body, &[b"mfhd"]), 4), count as u32 + 1);
                samples.extend(fragment(moof.body, mdat.body));
            }
        }
        ValidFile { samples, incomplete: self.incomplete }
    }
}

/// Frames of a fragment.
fn fragment(moof: &[u8], mdat: &[u8]) -> Vec<Sample> {
    let tfhd = find(moof, &[b"traf", b"tfhd"]);
    assert_eq!(u32_at(tfhd, 0) & 0x2_0000, 0x2_0000, "offsets count from the moof");
    let tfdt = find(moof, &[b"traf", b"tfdt"]);
    assert_eq!(tfdt[0], 1);
    let mut decode = i64::from_be_bytes(tfdt[4..12].try_into().unwrap());
    let trun = find(moof, &[b"traf", b"trun"]);
    assert_eq!(u32_at(trun, 0) & 0xff_ffff, 0xf01, "duration, size, flags and composition offset of each sample");
    let count = u32_at(trun, 4) as usize;
    assert!(count > 0);
    assert_eq!(u32_at(trun, 8) as usize, moof.len() + 8 + 8, "the data begin behind the header of the mdat");
    let (entries, mut data) = (&trun[12..], mdat);
    assert_eq!(entries.len(), 16 * count);
    let mut samples = Vec::new();
    for entry in entries.chunks(16) {
        let (sample, rest) = data.split_at(u32_at(entry, 4) as usize);
        let shown = decode + i64::from(u32_at(entry, 12).cast_signed());
        let is_entry = u32_at(entry, 8) & 0x1_0000 == 0;
        samples.push(Sample { decode, shown, is_entry, nal_types: nal_types(sample) });
        decode += i64::from(u32_at(entry, 0));
        data = rest;
    }
    assert!(data.is_empty(), "samples fill the mdat");
    samples
}

fn nal_types(mut sample: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while !sample.is_empty() {
        let (nal, rest) = sample[4..].split_at(u32_at(sample, 0) as usize);
        types.push(nal[0] & 31);
        sample = rest;
    }
    types
}
