//! Session description (SDP) from arbitrary text: writing a parsed one and parsing it again gives the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use timeous_media::{MediaDescription, Session, SessionDescription};

fuzz_target!(|text: &str| {
    if let Ok(read) = SessionDescription::parse(text) {
        assert_eq!(SessionDescription::parse(&read.write(0)).as_ref(), Ok(&read));
    }
    if let Ok(read) = Session::parse(text) {
        let port = |number: usize| SocketAddr::from(([127, 0, 0, 1], read.streams[number].port));
        let again = Session::parse(&read.write(port, 0)).unwrap();
        assert_eq!(again.streams.len(), read.streams.len());
        for (read, again) in read.streams.iter().zip(&again.streams) {
            let without_address = |stream: &MediaDescription| MediaDescription { address: None, ..stream.clone() };
            assert_eq!(without_address(read), without_address(again));
        }
    }
});
