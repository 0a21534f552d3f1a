//! Session description (SDP) from arbitrary text: writing a parsed one and parsing it again gives the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_media::SessionDescription;

fuzz_target!(|text: &str| {
    if let Ok(read) = SessionDescription::parse(text) {
        assert_eq!(SessionDescription::parse(&read.write(0)).as_ref(), Ok(&read));
    }
});
