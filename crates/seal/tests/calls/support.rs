//! Caller and listener on a virtual clock, with a path that may lose, repeat and reorder.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::{Duration, Instant, Rng};
use timeous_seal::{
    Access, AssociationId, CallerCredential, Endpoint, EndpointConfig, Event, Identity, Intent, ListenerCredential,
    Passphrase, Received, SEALED_HEADER_LEN, SharedPassphrase, Trust,
};

pub(crate) fn passphrase(text: &str) -> Passphrase {
    let mut key = [0; 32];
    key[..text.len()].copy_from_slice(text.as_bytes());
    Passphrase::from_key(key)
}

pub(crate) fn caller_with(text: &str) -> CallerCredential {
    CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase(text)), None, Intent::Publish).unwrap()
}

pub(crate) fn listener_with(text: &str) -> ListenerCredential {
    listener(Arc::new(SharedPassphrase(Some(passphrase(text)))))
}

pub(crate) fn listener(access: Arc<dyn Access>) -> ListenerCredential {
    ListenerCredential::new(None, None, access).unwrap()
}

pub(crate) fn identity(name: &str) -> Identity {
    Identity::self_signed(&[name.into()]).unwrap()
}

/// Treatment of a datagram by the path.
pub(crate) type Path = Box<dyn FnMut(usize) -> Fate>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    Twice,
    Late,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) caller: Endpoint,
    pub(crate) listener: Endpoint,
    pub(crate) caller_address: SocketAddr,
    pub(crate) listener_address: SocketAddr,
    pub(crate) path: Path,
    /// Datagrams sent, with their direction: `true` from the caller.
    pub(crate) captured: Vec<(bool, Vec<u8>)>,
    /// Packets that arrived at the transports.
    pub(crate) packets: Vec<(bool, AssociationId, Vec<u8>)>,
    under_way: VecDeque<(bool, Vec<u8>)>,
}

/// Time that a datagram takes in either direction.
pub(crate) const DELAY: Duration = Duration::from_millis(20);

impl Pair {
    pub(crate) fn new(listener: ListenerCredential) -> Self {
        Self::with(EndpointConfig::default(), listener)
    }

    pub(crate) fn with(config: EndpointConfig, credential: ListenerCredential) -> Self {
        let mut listener = Endpoint::new(config, &[2; 32]);
        listener.listen(credential);
        Self {
            now: Instant::ZERO,
            caller: Endpoint::new(EndpointConfig::default(), &[1; 32]),
            listener,
            caller_address: "192.0.2.2:5000".parse().unwrap(),
            listener_address: "192.0.2.1:7000".parse().unwrap(),
            path: Box::new(|_| Fate::Arrives),
            captured: Vec::new(),
            packets: Vec::new(),
            under_way: VecDeque::new(),
        }
    }

    pub(crate) fn call(&mut self, credential: &CallerCredential) -> AssociationId {
        self.caller.connect(self.now, self.listener_address, credential, Duration::from_secs(10)).unwrap()
    }

    fn send(&mut self, from_caller: bool, datagram: Vec<u8>) {
        let at = self.captured.len();
        self.captured.push((from_caller, datagram.clone()));
        match (self.path)(at) {
            Fate::Arrives => self.under_way.push_back((from_caller, datagram)),
            Fate::Lost => {}
            Fate::Twice => self.under_way.extend([(from_caller, datagram.clone()), (from_caller, datagram)]),
            Fate::Late => {
                let place = self.under_way.len().saturating_sub(1);
                self.under_way.insert(place, (from_caller, datagram));
            }
        }
    }

    pub(crate) fn seal(&mut self, from_caller: bool, id: AssociationId, packet: &[u8]) -> bool {
        let mut datagram = [&[0; SEALED_HEADER_LEN], packet].concat();
        let endpoint = if from_caller { &mut self.caller } else { &mut self.listener };
        let is_sealed = endpoint.seal(id, &mut datagram);
        if is_sealed {
            self.send(from_caller, datagram);
        }
        is_sealed
    }

    /// Sends what the handshakes have to say.
    pub(crate) fn transmit(&mut self) {
        let mut datagram = Vec::new();
        while self.caller.poll_transmit(self.now, &mut datagram).is_some() {
            self.send(true, std::mem::take(&mut datagram));
        }
        while self.listener.poll_transmit(self.now, &mut datagram).is_some() {
            self.send(false, std::mem::take(&mut datagram));
        }
    }

    /// Runs for a time, in steps of a path's delay.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.transmit();
            self.now += DELAY;
            for (from_caller, datagram) in std::mem::take(&mut self.under_way) {
                let mut packet = Vec::new();
                let (to, from) = match from_caller {
                    true => (&mut self.listener, self.caller_address),
                    false => (&mut self.caller, self.listener_address),
                };
                if let Received::Packet(id) = to.handle_datagram(self.now, from, &datagram, &mut packet) {
                    self.packets.push((from_caller, id, packet));
                }
            }
            self.caller.handle_timeout(self.now);
            self.listener.handle_timeout(self.now);
        }
    }

    /// Calls with a credential, and returns what each end learned.
    pub(crate) fn outcome(&mut self, credential: &CallerCredential) -> (Option<Event>, Option<Event>) {
        self.call(credential);
        for _ in 0..15 {
            self.run(Duration::from_secs(1));
            if let Some(event) = verdict(&mut self.caller) {
                return (Some(event), self.listener.poll_event());
            }
        }
        (None, self.listener.poll_event())
    }
}

/// Returns the next event about the fate of a call or an association.
pub(crate) fn verdict(endpoint: &mut Endpoint) -> Option<Event> {
    std::iter::from_fn(|| endpoint.poll_event())
        .find(|event| !matches!(event, Event::CanSeal { .. } | Event::Doubted { .. }))
}

/// A path that loses, repeats and reorders a part of the datagrams.
pub(crate) fn bad_path(seed: u64) -> Path {
    let mut rng = Rng::from_seed(seed);
    Box::new(move |_| match rng.below(10) {
        0..3 => Fate::Lost,
        3 => Fate::Twice,
        4 => Fate::Late,
        _ => Fate::Arrives,
    })
}
