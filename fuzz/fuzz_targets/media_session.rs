//! Any text as a session description (SDP): what is read of it can be written, and reads the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_media::SessionDescription;

fuzz_target!(|text: &str| {
    if let Ok(read) = SessionDescription::parse(text) {
        assert_eq!(SessionDescription::parse(&read.write(0)).as_ref(), Ok(&read));
    }
});
