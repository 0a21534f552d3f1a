//! Cost of sealing and opening a packet, and of a handshake, in one thread.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::{Duration, Instant};
use timeous_seal::{
    CallerCredential, Cipher, Endpoint, EndpointConfig, Event, Intent, ListenerCredential, OpeningKey, Passphrase,
    SealingKey, Secret, SharedPassphrase, Trust,
};

#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn nanos(count: u32, mut work: impl FnMut(u32)) -> f64 {
    let began = std::time::Instant::now();
    (0..count).for_each(&mut work);
    began.elapsed().as_nanos() as f64 / f64::from(count)
}

fn packets() {
    const COUNT: u32 = 200_000;
    println!("{:<18} {:>6} {:>10} {:>10}", "cipher", "bytes", "seal ns", "open ns");
    for cipher in [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        for len in [200, 1_400] {
            let secret = Secret::new([7; 32]);
            let mut sealing = SealingKey::new(cipher, secret.clone());
            let mut packet = Vec::with_capacity(2_000);
            let seal = nanos(COUNT, |_| {
                packet.clear();
                packet.resize(9 + len, 1);
                black_box(sealing.seal(|_| [0; 9], &mut packet, 9));
            });
            let (mut sealing, mut opening) = (SealingKey::new(cipher, secret.clone()), OpeningKey::new(cipher, secret));
            let sealed: Vec<_> = (0..COUNT / 10)
                .map(|_| {
                    let mut packet = vec![1; len];
                    (sealing.seal(|_| [0; 9], &mut packet, 0) as u32, packet)
                })
                .collect();
            let mut out = Vec::with_capacity(2_000);
            let open = nanos(COUNT / 10, |at| {
                out.clear();
                let (number, packet) = &sealed[at as usize];
                assert!(opening.open(*number, &[0; 9], packet, &mut out).is_some());
            });
            println!("{:<18} {len:>6} {seal:>10.0} {open:>10.0}", format!("{cipher:?}"));
        }
    }
}

fn handshakes() {
    const COUNT: u32 = 500;
    let passphrase = Passphrase::from_key([1; 32]);
    let access = Arc::new(SharedPassphrase(Some(passphrase.clone())));
    let credential = ListenerCredential::new(None, None, access).unwrap();
    let call = CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase), None, Intent::Publish).unwrap();
    let (mut caller, mut listener) =
        (Endpoint::new(EndpointConfig::default(), &[1; 32]), Endpoint::new(EndpointConfig::default(), &[2; 32]));
    listener.listen(credential);
    let far = "192.0.2.1:7000".parse().unwrap();
    let now = Instant::ZERO;
    let mut of_listener = 0.0;
    let both = nanos(COUNT, |call_number| {
        // One host is answered at a limited rate, and time stands still here: each call comes from another host.
        let [.., high, low] = call_number.to_be_bytes();
        let near = SocketAddr::from(([198, 18, high, low], 5_000));
        caller.connect(now, far, &call, Duration::from_secs(5)).unwrap();
        let (mut datagram, mut packet) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            while caller.poll_transmit(now, &mut datagram).is_some() {
                of_listener += nanos(1, |_| {
                    listener.handle_datagram(now, near, &datagram, &mut packet);
                });
                datagram.clear();
            }
            while listener.poll_transmit(now, &mut datagram).is_some() {
                caller.handle_datagram(now, far, &datagram, &mut packet);
                datagram.clear();
            }
        }
        assert!(std::iter::from_fn(|| caller.poll_event()).any(|event| matches!(event, Event::Agreed { .. })));
    });
    let listener = of_listener / f64::from(COUNT);
    println!(
        "a handshake: {:.0} us for both ends, {:.0} us for the listener: {:.0} a second",
        both / 1e3,
        listener / 1e3,
        1e9 / listener
    );
}

fn main() {
    packets();
    handshakes();
}
