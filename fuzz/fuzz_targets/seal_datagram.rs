//! Encrypted port under any sequence of datagrams, beside a good association: an attacker on the path, who repeats and changes
//! what he sees, delivers nothing and ends nothing.
#![no_main]

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_core::{Duration, Instant};
use timeous_seal::{
    AssociationId, CallerCredential, Endpoint, EndpointConfig, Event, Intent, ListenerCredential, Passphrase, Received,
    SEALED_HEADER_LEN, SharedPassphrase, Trust,
};

#[derive(Arbitrary, Debug)]
enum Step {
    /// Arbitrary bytes, from some address.
    Raw { from: u8, to_caller: bool, bytes: Vec<u8> },
    /// A datagram that was seen, with a few bytes changed, from some address.
    Mutated { from: u8, to_caller: bool, which: u16, changes: Vec<(u16, u8)>, cut: u8 },
    /// A good packet, of this many bytes.
    Good { from_caller: bool, len: u8 },
    /// Advances the clock, in milliseconds.
    Wait(u16),
    /// Another good call.
    Call,
}

static CREDENTIALS: LazyLock<(CallerCredential, ListenerCredential)> = LazyLock::new(|| {
    let passphrase = Passphrase::from_key([1; 32]);
    let caller =
        CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase.clone()), None, Intent::Publish).unwrap();
    let access = Arc::new(SharedPassphrase(Some(passphrase)));
    (caller, ListenerCredential::new(None, None, access).unwrap())
});

struct World {
    now: Instant,
    /// The listener, and the caller.
    ends: [Endpoint; 2],
    addresses: [SocketAddr; 2],
    /// The good association, at each end.
    good: [AssociationId; 2],
    seen: Vec<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let mut ends = [1, 2].map(|byte| Endpoint::new(EndpointConfig::default(), &[byte; 32]));
        ends[0].listen(CREDENTIALS.1.clone());
        let addresses = ["192.0.2.1:7000", "192.0.2.2:5000"].map(|address| address.parse().unwrap());
        let id = ends[1].connect(Instant::ZERO, addresses[0], &CREDENTIALS.0, Duration::from_secs(10)).unwrap();
        let mut world = Self { now: Instant::ZERO, ends, addresses, good: [id; 2], seen: Vec::new() };
        world.settle();
        for at in 0..2 {
            let mut events = std::iter::from_fn(|| world.ends[at].poll_event());
            let agreed = events.find_map(|event| if let Event::Agreed { id, .. } = event { Some(id) } else { None });
            let id = agreed.expect("they agree");
            world.good[at] = id;
            world.ends[at].set_used(id, true);
        }
        world
    }

    /// Passes the datagrams of handshakes on.
    fn settle(&mut self) {
        for _ in 0..100 {
            let mut any = false;
            for at in 0..2 {
                let mut datagram = Vec::new();
                while let Some(to) = self.ends[at].poll_transmit(self.now, &mut datagram) {
                    if to == self.addresses[1 - at] {
                        any = true;
                        self.ends[1 - at].handle_datagram(self.now, self.addresses[at], &datagram, &mut Vec::new());
                        self.seen.push(std::mem::take(&mut datagram));
                    }
                    datagram.clear();
                }
            }
            if !any {
                return;
            }
        }
        panic!("the two never have said all");
    }

    fn forged(&mut self, from: u8, to_caller: bool, datagram: &[u8]) {
        let to = usize::from(to_caller);
        let from = if from % 2 == 0 { self.addresses[1 - to] } else { SocketAddr::from(([198, 51, 100, from], 9)) };
        let mut packet = Vec::new();
        let received = self.ends[to].handle_datagram(self.now, from, datagram, &mut packet);
        assert!(!matches!(received, Received::Packet(_)), "a forged or repeated packet was delivered");
        assert!(packet.is_empty());
    }

    fn good(&mut self, from_caller: bool, len: u8) {
        let from = usize::from(from_caller);
        let text = vec![len; usize::from(len)];
        let mut datagram = [&[0; SEALED_HEADER_LEN][..], &text].concat();
        assert!(self.ends[from].seal(self.good[from], &mut datagram), "the good association is gone");
        let mut packet = Vec::new();
        let to = 1 - from;
        let received = self.ends[to].handle_datagram(self.now, self.addresses[from], &datagram, &mut packet);
        assert_eq!((received, packet), (Received::Packet(self.good[to]), text));
        self.seen.push(datagram);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Raw { from, to_caller, bytes } => self.forged(from, to_caller, &bytes),
            Step::Mutated { from, to_caller, which, changes, cut } => {
                let mut bytes = self.seen[usize::from(which) % self.seen.len()].clone();
                for (at, mask) in changes {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= mask;
                }
                bytes.truncate(bytes.len() - usize::from(cut) % bytes.len());
                self.forged(from, to_caller, &bytes);
            }
            Step::Good { from_caller, len } => self.good(from_caller, len),
            Step::Wait(milliseconds) => {
                let end = self.now + Duration::from_millis(u64::from(milliseconds));
                // Each end is heard within the second that a forged notice is doubted for.
                while self.now < end {
                    self.now = end.min(self.now + Duration::from_millis(400));
                    for at in 0..2 {
                        self.ends[at].handle_timeout(self.now);
                    }
                    self.settle();
                    self.good(true, 1);
                    self.good(false, 1);
                }
            }
            Step::Call => {
                let _ = self.ends[1].connect(self.now, self.addresses[0], &CREDENTIALS.0, Duration::from_secs(5));
            }
        }
        self.settle();
        for end in &mut self.ends {
            while end.poll_event().is_some() {}
        }
        if self.seen.len() > 200 {
            self.seen.drain(..100);
        }
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in steps.into_iter().take(200) {
        world.step(step);
    }
    world.good(true, 100);
    world.good(false, 100);
});
