//! RTCP from arbitrary bytes: writing a parsed message and parsing it again gives the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use timeous_media::control::is_control;
use timeous_media::Control;

fuzz_target!(|packet: &[u8]| {
    for message in Control::read(packet) {
        let written = message.write();
        assert!(is_control(&written));
        assert_eq!(Control::read(&written), [message]);
    }
});
