//! Handshake of both ends over arbitrary bytes, and over a true handshake's with a few changes: errors, never a panic, and never
//! two ends that think that they agree on different keys.
#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_seal::{
    CallerCredential, Intent, ListenerCredential, OpeningKey, Passphrase, SealingKey, Session, SharedPassphrase, Trust,
};

#[derive(Arbitrary, Debug)]
struct Input {
    /// Bytes that take the place of the first ones from the caller, and from the listener.
    forged: (Vec<u8>, Vec<u8>),
    /// Changes of the bytes in each direction: place and mask.
    changes: (Vec<(u16, u8)>, Vec<(u16, u8)>),
    /// Size of the pieces in which bytes arrive.
    piece: u8,
}

static CREDENTIALS: LazyLock<(CallerCredential, ListenerCredential)> = LazyLock::new(|| {
    let passphrase = Passphrase::from_key([1; 32]);
    let caller =
        CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase.clone()), None, Intent::Publish).unwrap();
    let access = Arc::new(SharedPassphrase(Some(passphrase)));
    (caller, ListenerCredential::new(None, None, access).unwrap())
});

fuzz_target!(|input: Input| {
    let (mut caller, mut listener) = (Session::call(&CREDENTIALS.0).unwrap(), Session::answer(&CREDENTIALS.1).unwrap());
    let piece = usize::from(input.piece).max(1);
    let mut passed = [0, 0];
    let is_changed = !input.forged.0.is_empty() || !input.forged.1.is_empty();
    for _ in 0..4 {
        for direction in 0..2 {
            let (from, to) = match direction {
                0 => (&mut caller, &mut listener),
                _ => (&mut listener, &mut caller),
            };
            let (forged, changes) = match direction {
                0 => (&input.forged.0, &input.changes.0),
                _ => (&input.forged.1, &input.changes.1),
            };
            let mut bytes = Vec::new();
            from.write(&mut bytes);
            if passed[direction] == 0 {
                let len = forged.len().min(bytes.len());
                bytes[..len].copy_from_slice(&forged[..len]);
            }
            for &(at, mask) in changes {
                if let Some(byte) = usize::from(at).checked_sub(passed[direction]).and_then(|at| bytes.get_mut(at)) {
                    *byte ^= mask;
                }
            }
            passed[direction] += bytes.len();
            for piece in bytes.chunks(piece) {
                if to.read(piece).is_err() {
                    break;
                }
            }
        }
    }
    let (ours, theirs) = (caller.take_agreement(), listener.take_agreement());
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        let mut packet = b"hello".to_vec();
        let number = SealingKey::new(ours.secrets.cipher, ours.secrets.sealing.clone()).seal(|_| b"", &mut packet, 0);
        let mut opening = OpeningKey::new(theirs.secrets.cipher, theirs.secrets.opening.clone());
        assert!(opening.open(number as u32, b"", &packet, &mut Vec::new()).is_some() || is_changed);
    }
});
