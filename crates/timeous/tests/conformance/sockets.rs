//! Socket stage: both ends in this process, with the emulated link between them.

use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};

use timeous::core::{Duration, Fate, Instant};
use timeous::{
    Arrival, CloseReason, Error, Hints, Options, PassphraseSource, Receiver, Role, SendError, Sender, Status, Uri,
    clock, open_both,
};
use timeous_engine::Producer;

use crate::scene::Scene;
use crate::stage::{Refusal, Stage, Times};
use crate::support::{TestLink, free_port};

/// Both directions of an end. One that is not looked at is kept, so that the stream lasts.
type End = (Sender, Receiver);

/// Stage whose packets are encrypted if it is `SEALED`.
pub(crate) struct Sockets<const SEALED: bool> {
    link: TestLink,
    options: Options,
    listening: Option<JoinHandle<End>>,
    near: Option<End>,
    far: Option<End>,
    fates: BTreeMap<u64, Fate>,
    received: Vec<Vec<u8>>,
}

impl<const SEALED: bool> Sockets<SEALED> {
    /// Hears and reads what there is.
    fn look(&mut self) {
        if let Some((sender, _)) = &mut self.near {
            while let Some(delivery) = sender.poll_delivery() {
                let before = self.fates.insert(delivery.seq.0, delivery.fate);
                assert_eq!(before, None, "ADU {} has a second fate, {:?}", delivery.seq.0, delivery.fate);
            }
        }
        if let Some((_, receiver)) = &mut self.far {
            while let Ok(Some(Arrival::Data(data))) = receiver.poll_receive() {
                self.received.push(data.bytes);
            }
        }
    }

    fn sender(&mut self) -> &mut Sender {
        &mut self.near.as_mut().expect("the sender is there").0
    }
}

impl<const SEALED: bool> Stage for Sockets<SEALED> {
    fn set(scene: &Scene) -> Self {
        let port = free_port();
        let link = TestLink::to(port, scene.forward.clone(), scene.back.clone());
        let role = Role::Listener { address: Some([127, 0, 0, 1].into()), port };
        let mut options = scene.options.clone();
        options.security.passphrase = SEALED.then(|| PassphraseSource::bare("correct horse battery"));
        let uri = Uri { role, options: options.clone() };
        let listening = scene.listens.then(|| thread::spawn(move || open_both(&uri).unwrap()));
        let (fates, received) = Default::default();
        Self { link, options, listening, near: None, far: None, fates, received }
    }

    fn call(&mut self, service: [u8; 4]) -> Result<(), CloseReason> {
        let near = self.link.near;
        let role = Role::Caller { host: near.ip().to_string(), port: near.port() };
        let mut uri = Uri { role, options: self.options.clone() };
        uri.options.service = service;
        let end = loop {
            match open_both(&uri) {
                Ok(end) => break end,
                // The listener's thread may not have come to listen yet.
                Err(Error::NoAnswer { .. }) if self.listening.is_some() => {}
                Err(Error::NoAnswer { .. }) => return Err(CloseReason::Timeout),
                Err(Error::Closed(reason)) => return Err(reason),
                Err(error) => panic!("{error}"),
            }
        };
        self.near = Some(end);
        self.far = self.listening.take().map(|listening| listening.join().unwrap());
        Ok(())
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn send(&mut self, bytes: &[u8], deadline: Option<Instant>) -> Result<u64, Refusal> {
        match self.sender().send(bytes, Hints { deadline, ..Hints::default() }) {
            Ok(seq) => Ok(seq.0),
            Err(SendError::Full) => Err(Refusal::Full),
            Err(SendError::TooLarge { max, .. }) => Err(Refusal::TooLarge { max }),
            Err(SendError::Closed(_)) => Err(Refusal::Closed),
            Err(error) => panic!("{error}"),
        }
    }

    fn with_ring<R>(&mut self, act: impl FnOnce(&mut Producer) -> R) -> R {
        let done = act(self.sender().ring());
        self.sender().notify();
        done
    }

    fn pass(&mut self, time: Duration) {
        let end = clock::now() + time;
        while clock::now() < end {
            self.look();
            match (&self.near, &self.far) {
                (Some((sender, _)), _) => drop(sender.wait(Some(end))),
                (None, Some((other, _))) => drop(other.wait(Some(end))),
                (None, None) => panic!("nobody is left to wait for"),
            }
        }
        self.look();
    }

    fn fates(&mut self) -> &BTreeMap<u64, Fate> {
        self.look();
        &self.fates
    }

    fn received(&mut self) -> &[Vec<u8>] {
        self.look();
        &self.received
    }

    fn sending(&mut self) -> Status {
        self.sender().status()
    }

    fn receiving(&mut self) -> Status {
        // Read first: what came before the end is read below.
        let status = self.far.as_ref().expect("the receiver is there").1.status();
        self.look();
        status
    }

    fn finish(&mut self) {
        self.sender().begin_finish();
    }

    fn drop_sender(&mut self) {
        self.near = None;
    }

    fn drop_receiver(&mut self) {
        self.look();
        self.far = None;
    }

    fn cut(&mut self) {
        self.link.cut();
    }

    fn times(&self) -> Option<Vec<Times>> {
        None
    }
}
