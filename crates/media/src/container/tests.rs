//! Tests of containers: hostile ones. Real ones are in the tool's tests, written by ffmpeg.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_container_or_has_no_track_says_so() {
    assert!(matches!(Container::open(Cursor::new(vec![0; 4])), Err(ContainerError::CutOff)));
    let cut = [0, 0, 0, 16, b'f', b't', b'y', b'p', b'i', b's', b'o', b'm', 0, 0, 2, 0];
    assert!(matches!(Container::open(Cursor::new(cut)), Err(ContainerError::CutOff)));
    let ebml = [0x1a, 0x45, 0xdf, 0xa3, 0x80, 0, 0, 0, 0, 0];
    assert!(Container::open(Cursor::new(ebml)).is_err());
}

/// MP4 that lost some bytes was called cut off at its end.
#[test]
fn mp4_whose_boxes_are_shifted_is_called_damaged_at_a_byte() {
    let boxed =
        |kind: &[u8; 4], content: &[u8]| [&(content.len() as u32 + 8).to_be_bytes(), &kind[..], content].concat();
    let (ftyp, mvhd) = (boxed(b"ftyp", b"isom\0\0\x02\0"), boxed(b"mvhd", &[0; 100]));
    let moov = boxed(b"moov", &[&mvhd[..], &boxed(b"udta", &[0; 20])].concat());
    let error = |file: Vec<u8>| Container::open(Cursor::new(file)).unwrap_err().to_string();
    let lost = |from: usize| [&ftyp[..], &moov[..from], &moov[from + 4..]].concat();
    assert!(error(lost(0)).contains("damaged") && error(lost(0)).contains("at byte 16 should be a box"));
    assert!(error(lost(8)).contains("at byte 24 should be a box"), "{}", error(lost(8)));
    assert!(error(lost(50)).contains("at byte 132 should be a box"), "{}", error(lost(50)));
    let whole = [&ftyp[..], &moov].concat();
    for end in [16, 20, 24, 30, 100, whole.len() - 1] {
        assert!(error(whole[..end].to_vec()).contains("cut off"), "{end}: {}", error(whole[..end].to_vec()));
    }
}

/// A SeekHead that refers to itself: the demuxer would follow it for ever.
#[test]
fn an_index_in_a_circle_is_not_followed() {
    let ebml = [0x1a, 0x45, 0xdf, 0xa3, 0x8b, 0x42, 0x82, 0x88, b'm', b'a', b't', b'r', b'o', b's', b'k', b'a'];
    let seek = [0x4d, 0xbb, 0x8b, 0x53, 0xab, 0x84, 0x11, 0x4d, 0x9b, 0x74, 0x53, 0xac, 0x81, 0];
    let file = [&ebml[..], &[0x18, 0x53, 0x80, 0x67, 0x93, 0x11, 0x4d, 0x9b, 0x74, 0x8e], &seek].concat();
    assert!(Container::open(Cursor::new(file)).is_err());
}

/// Found by fuzzing: an element whose length overflows leads the demuxer back to where it was, for ever.
#[test]
fn a_file_that_leads_round_and_round_is_given_up() {
    let mut file =
        vec![0x1a, 0x45, 0xdf, 0xa3, 0xa3, 0x42, 0x86, 0x81, 1, 0x42, 0xf7, 0x81, 1, 0x42, 0xf2, 0x81, 4, 0x42];
    file.extend([0xf3, 0x81, 8, 0x42, 0x82, 0x88]);
    file.extend(b"matroska");
    file.extend([0x42, 0x87, 0x81, 4, 0x42, 0x85, 0x81, 2, 0x18, 0x53, 0x80, 0x67, 1, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0]);
    file.extend([0, 0, 0xbf, 0x84]);
    assert!(matches!(Container::open(Cursor::new(file)), Err(ContainerError::Damaged(_))));
}

/// Matroska of a track of AC-3, up to its first cluster.
fn matroska_header() -> Vec<u8> {
    let mut file =
        vec![0x1a, 0x45, 0xdf, 0xa3, 0xa3, 0x42, 0x86, 0x81, 1, 0x42, 0xf7, 0x81, 1, 0x42, 0xf2, 0x81, 4, 0x42];
    file.extend([0xf3, 0x81, 8, 0x42, 0x82, 0x88]);
    file.extend(b"matroska");
    file.extend([0x42, 0x87, 0x81, 4, 0x42, 0x85, 0x81, 2]);
    // Segment of unknown length; units of a millisecond; a track of AC-3.
    file.extend([0x18, 0x53, 0x80, 0x67, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    file.extend([0x15, 0x49, 0xa9, 0x66, 0x8f, 0x2a, 0xd7, 0xb1, 0x83, 0x0f, 0x42, 0x40]);
    file.extend([0x4d, 0x80, 0x81, b'a', 0x57, 0x41, 0x81, b'a']);
    file.extend([0x16, 0x54, 0xae, 0x6b, 0x9e, 0xae, 0x9c, 0xd7, 0x81, 1, 0x73, 0xc5, 0x81, 1, 0x83, 0x81, 2]);
    file.extend([0x86, 0x85, b'A', b'_', b'A', b'C', b'3', 0xe1, 0x89, 0xb5, 0x84, 0x47, 0x3b, 0x80, 0, 0x9f, 0x81, 2]);
    file
}

/// It was called damaged, or of an unknown kind.
#[test]
fn matroska_without_a_frame_is_called_cut_off() {
    assert!(matches!(Container::open(Cursor::new(matroska_header())), Err(ContainerError::CutOff)));
}

/// Found by fuzzing: the demuxer adds a block's time to that of its cluster.
#[test]
fn a_cluster_at_the_end_of_all_times_is_read() {
    let mut file = matroska_header();
    // The last time that there is, and a block one unit later.
    file.extend([0x1f, 0x43, 0xb6, 0x75, 0x91, 0xe7, 0x88]);
    file.extend([0xff; 8]);
    file.extend([0xa3, 0x85, 0x81, 0, 1, 0x80, 0x0b]);
    assert_eq!(read_all(file).unwrap(), 1);
}

/// IVF of VP8 with frames of one byte at these times, in units of `scale` seconds.
fn ivf(times: &[u64], scale: u32) -> Vec<u8> {
    let mut file = b"DKIF\0\0\x20\0VP80\0\0\0\0\x01\0\0\0".to_vec();
    file.extend(scale.to_le_bytes());
    file.resize(32, 0);
    for time in times {
        file.extend(1u32.to_le_bytes());
        file.extend(time.to_le_bytes());
        file.push(0);
    }
    file
}

fn read_all(file: Vec<u8>) -> Result<usize, ContainerError> {
    let mut container = Container::open(Cursor::new(file))?;
    let mut count = 0;
    while container.next_muxed()?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn a_frame_years_after_the_first_is_damaged() {
    assert_eq!(read_all(ivf(&[0, 1, 2], 1)).unwrap(), 3);
    // Half a century of wall-clock time, from the first frame on.
    assert_eq!(read_all(ivf(&[1_700_000_000, 1_700_000_001], 1)).unwrap(), 2);
    for hostile in [ivf(&[0, 1 << 62], 1), ivf(&[0, 367 * 86_400], 1), ivf(&[u64::MAX, 0], u32::MAX)] {
        assert!(matches!(read_all(hostile), Err(ContainerError::Damaged(_))));
    }
}

#[test]
fn a_damaged_first_frame_is_called_damaged() {
    // A page that begins a stream of another codec, and no page behind it.
    let ogg = [&b"OggS\0\x02"[..], &[0; 21], &[7; 27]].concat();
    assert!(matches!(Container::open(Cursor::new(ogg)), Err(ContainerError::Damaged(_))));
}

#[test]
fn tags_behind_the_sound_of_adts_end_it() {
    let frame = [0xff, 0xf1, 0x50, 0x80, 1, 0x1f, 0xfc, 0];
    let audio = [frame, frame].concat();
    let whole = read_all(audio.clone()).unwrap();
    for tag in [&b"TAGname"[..], b"APETAGEX"] {
        assert_eq!(read_all([&audio[..], tag, &[0; 120]].concat()).unwrap(), whole);
    }
    assert!(matches!(read_all([&audio[..], &[7; 120]].concat()), Err(ContainerError::Damaged(_))));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0usize..7) {
        let heads: [&[u8]; 7] = [
            &[0, 0, 0, 8, b'f', b't', b'y', b'p'],
            &[0x1a, 0x45, 0xdf, 0xa3],
            b"DKIF\0\0\x20\0AV01",
            b"DKIF\0\0\x20\0VP90",
            b"OggS\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x0cOpusHead\x01\x02\0\0",
            b"OggS",
            &[0xff, 0xf1, 0x50, 0x80],
        ];
        let head = heads[kind];
        if let Ok(mut container) = Container::open(Cursor::new([head, &bytes].concat())) {
            for _ in 0..100 {
                if !matches!(container.next_muxed(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
}
