//! Tests of an endpoint with limits that no flood in a test reaches.

use super::*;
use crate::keys::{Cipher, Secret};
use crate::wire::SEALED_HEADER_LEN;

const LIMIT: u64 = 3;

fn secrets(cipher: Cipher, from: u8, to: u8) -> Secrets {
    Secrets { cipher, sealing: Secret::new([from; 32]), opening: Secret::new([to; 32]) }
}

#[test]
fn an_association_ends_at_the_integrity_limit_of_its_cipher() {
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let (now, address) = (Instant::ZERO, "192.0.2.1:7000".parse().unwrap());
        let mut sender = Endpoint::new(EndpointConfig::default(), &[1; 32]);
        let mut receiver = Endpoint::new(EndpointConfig::default(), &[2; 32]);
        let (out, id) = (sender.inject(now, address, &secrets(cipher, 1, 2), 1, 2), AssociationId(2));
        let keys = Association::with_integrity_limit(1, &secrets(cipher, 2, 1), LIMIT);
        receiver.entries.insert(id, Box::new(Entry::agreed(now, address, keys)));
        receiver.set_used(id, true);
        let mut sealed = || {
            let mut datagram = vec![7; SEALED_HEADER_LEN + 9];
            assert!(sender.seal(out, &mut datagram));
            datagram
        };
        let mut receive = |datagram: &[u8]| receiver.handle_datagram(now, address, datagram, &mut Vec::new());

        let first = sealed();
        assert_eq!(receive(&first), Received::Packet(id));
        for _ in 0..2 * LIMIT {
            assert_eq!(receive(&first), Received::Nothing, "a repetition is not decrypted, and not counted");
        }
        for n in 1..=LIMIT {
            assert_eq!(receive(&sealed()), Received::Packet(id), "before forgery {n}");
            let mut forged = sealed();
            *forged.last_mut().unwrap() ^= 1;
            assert_eq!(receive(&forged), Received::Nothing);
        }
        assert_eq!(receive(&sealed()), Received::Nothing, "a true packet behind the limit");
        assert!(!receiver.seal(id, &mut vec![0; SEALED_HEADER_LEN + 1]));
        assert_eq!(receiver.poll_event(), Some(Event::Failed { id, error: SealError::IntegrityLimit }));
        assert_eq!(receiver.poll_event(), None);
        assert_eq!(receiver.statistics().failed, 1);
        assert_eq!(receiver.poll_transmit(now, &mut Vec::new()), None);
        receiver.handle_timeout(receiver.poll_timeout().unwrap());
        assert!(receiver.is_empty());
    }
}
