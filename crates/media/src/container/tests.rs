//! Tests of containers: hostile ones. Real ones are in the tool's tests, written by ffmpeg.

use std::io::Cursor;

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_container_or_has_no_track_says_so() {
    assert!(matches!(Container::open(Cursor::new(vec![0; 4])), Err(ContainerError::Io(_))));
    let cut = [0, 0, 0, 16, b'f', b't', b'y', b'p', b'i', b's', b'o', b'm', 0, 0, 2, 0];
    assert!(matches!(Container::open(Cursor::new(cut)), Err(ContainerError::Damaged(_))));
    let ebml = [0x1a, 0x45, 0xdf, 0xa3, 0x80, 0, 0, 0, 0, 0];
    assert!(matches!(Container::open(Cursor::new(ebml)), Err(ContainerError::Damaged(_))));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), is_mp4 in any::<bool>()) {
        let head: &[u8] = if is_mp4 { &[0, 0, 0, 8, b'f', b't', b'y', b'p'] } else { &[0x1a, 0x45, 0xdf, 0xa3] };
        if let Ok(mut container) = Container::open(Cursor::new([head, &bytes].concat())) {
            for _ in 0..100 {
                if !matches!(container.next_packets(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
}
