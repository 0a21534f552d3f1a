//! Any bytes as RTCP between the two ends of a stream: each message that is read can be written, and reads the same.
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
