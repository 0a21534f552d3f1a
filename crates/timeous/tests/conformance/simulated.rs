//! Simulator stage: a machine on each side of a link, in virtual time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::core::{AduMeta, AduSeq, Duration, Fate, Instant, Priority, Rng};
use timeous::seal::Secret;
use timeous::{CloseReason, Options, Status};
use timeous_engine::{DccpConfig, Producer, ServiceCode};
use timeous_host::{Application, Dccp, DccpSettings, Handle, Machine, Outlet, Refused, Session, Stream};
use timeous_net::sim::{Network, NodeId};

use crate::scene::Scene;
use crate::stage::{Refusal, Stage, Times};

const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 6_511;

/// Stage whose datagrams are encrypted if it is `SEALED`.
pub(crate) struct Simulated<const SEALED: bool> {
    network: Network<Machine>,
    near: NodeId,
    far: NodeId,
    options: Options,
    caller: Option<Handle<Dccp>>,
    listener: Option<Handle<Dccp>>,
    next_port: u16,
    fates: BTreeMap<u64, Fate>,
    received: Vec<Vec<u8>>,
}

/// As `timeous` sets up a connection.
fn settings<const SEALED: bool>(options: &Options, start: Instant) -> DccpSettings {
    let connection = DccpConfig {
        mps: options.mtu.unwrap_or(Options::BASE_MTU),
        connect_timeout: options.timeout,
        keep_alive: Some(options.timeout / 4),
        silence: options.timeout / 2,
        server_holds_timewait: true,
        msl: Duration::from_secs(2),
        ..DccpConfig::default()
    };
    let service = ServiceCode::from_bytes(options.service);
    let secret = SEALED.then(|| Secret::new([7; 32]));
    DccpSettings { connection, service, dccp_port: options.dccp_port, start, secret }
}

fn stream(options: &Options, application: impl Application) -> Stream {
    let stream = Stream::new(application).choice(options.choice()).slots(options.slots.next_power_of_two());
    if options.repairs() { stream.repair(Priority(1)) } else { stream }
}

/// Keeps what comes, and hears fates.
#[derive(Default)]
struct Ear {
    fates: Vec<(u64, Fate)>,
    received: Vec<Vec<u8>>,
}

impl Application for Ear {
    fn run(&mut self, _: Instant, _: &mut dyn Outlet) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn on_fate(&mut self, _: Instant, seq: AduSeq, fate: Fate) {
        self.fates.push((seq.0, fate));
    }

    fn on_received(&mut self, _: Instant, bytes: &[u8]) {
        self.received.push(bytes.to_vec());
    }
}

fn status(session: &Session) -> Status {
    match session.status() {
        timeous_host::Status::Connecting => Status::Connecting,
        timeous_host::Status::Open => Status::Open,
        timeous_host::Status::Closed(reason) => Status::Closed(reason),
    }
}

impl<const SEALED: bool> Simulated<SEALED> {
    fn sender(&self) -> &Session {
        self.network.host(self.near).agent(self.caller.expect("somebody called")).session().expect("and has begun")
    }

    fn receiver(&self) -> Option<&Session> {
        self.network.host(self.far).agent(self.listener.expect("somebody listens")).session()
    }

    fn with_sender<R>(&mut self, act: impl FnOnce(Instant, &mut Session) -> R) -> R {
        let caller = self.caller.expect("somebody called");
        self.network
            .with_host(self.near, |now, host| act(now, host.agent_mut(caller).session_mut().expect("and has begun")))
    }
}

impl<const SEALED: bool> Stage for Simulated<SEALED> {
    fn set(scene: &Scene) -> Self {
        let mut network = Network::new(7);
        let near = network.add_host(NEAR, Machine::new(NEAR));
        let far = network.add_host(FAR, Machine::new(FAR));
        network.connect(near, far, scene.forward.clone(), scene.back.clone());
        let options = scene.options.clone();
        let listener = scene.listens.then(|| {
            let (options, settings) = (options.clone(), settings::<SEALED>(&options, Instant::ZERO));
            let accept = move || stream(&options, Ear::default());
            network.with_host(far, |_, host| {
                let own = host.add_manager(timeous_cm::Kind::Aimd);
                host.add(PORT, own, Dccp::listener(accept, settings, Rng::from_seed(1)))
            })
        });
        let (fates, received) = Default::default();
        let (caller, next_port) = (None, 9_000);
        Self { network, near, far, options, caller, listener, next_port, fates, received }
    }

    fn call(&mut self, service: [u8; 4]) -> Result<(), CloseReason> {
        let remote = SocketAddr::new(FAR, PORT);
        let (stream, port) = (stream(&self.options, Ear::default()), self.next_port);
        self.next_port += 1;
        let mut options = self.options.clone();
        options.service = service;
        let caller = self.network.with_host(self.near, |now, host| {
            let own = host.add_manager(timeous_cm::Kind::Aimd);
            let settings = settings::<SEALED>(&options, now);
            host.add(port, own, Dccp::caller(remote, stream, settings, Rng::from_seed(u64::from(port))))
        });
        self.caller = Some(caller);
        self.wait_until("the call is answered", |stage| stage.sending() != Status::Connecting);
        match self.sending() {
            Status::Closed(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    fn now(&self) -> Instant {
        self.network.now()
    }

    fn send(&mut self, bytes: &[u8], deadline: Option<Instant>) -> Result<u64, Refusal> {
        let (latency, has_deadlines) = (self.options.latency, self.options.has_deadlines());
        let sent = self.with_sender(|now, session| {
            let deadline = has_deadlines.then(|| deadline.unwrap_or(now + latency));
            session.outlet().send(AduMeta { enqueued: now, deadline, ..AduMeta::default() }, bytes)
        });
        match sent {
            Ok(seq) => Ok(seq.0),
            Err(Refused::Full) => Err(Refusal::Full),
            Err(Refused::TooLarge { max, .. }) => Err(Refusal::TooLarge { max }),
            Err(Refused::Closed) => Err(Refusal::Closed),
        }
    }

    fn with_ring<R>(&mut self, act: impl FnOnce(&mut Producer) -> R) -> R {
        self.with_sender(|_, session| act(session.outlet().ring().expect("a stream has a ring")))
    }

    fn pass(&mut self, time: Duration) {
        self.network.run_until(self.network.now() + time);
    }

    fn fates(&mut self) -> &BTreeMap<u64, Fate> {
        let told: Vec<_> = self.sender().application::<Ear>().expect("an ear").fates.clone();
        self.fates.clear();
        for (seq, fate) in told {
            let before = self.fates.insert(seq, fate);
            assert_eq!(before, None, "ADU {seq} has a second fate, {fate:?}");
        }
        &self.fates
    }

    fn received(&mut self) -> &[Vec<u8>] {
        let ear = self.receiver().and_then(|session| session.application::<Ear>());
        self.received = ear.map(|ear| ear.received.clone()).unwrap_or_default();
        &self.received
    }

    fn sending(&mut self) -> Status {
        status(self.sender())
    }

    fn receiving(&mut self) -> Status {
        self.receiver().map_or(Status::Connecting, status)
    }

    fn finish(&mut self) {
        self.with_sender(|_, session| session.outlet().finish());
    }

    fn drop_sender(&mut self) {
        let caller = self.caller.expect("somebody called");
        self.network.with_host(self.near, |now, host| host.agent_mut(caller).abandon(now));
    }

    fn drop_receiver(&mut self) {
        let listener = self.listener.expect("somebody listens");
        self.network.with_host(self.far, |now, host| host.agent_mut(listener).abandon(now));
    }

    fn cut(&mut self) {
        for node in [self.near, self.far] {
            self.network.with_host(node, |_, host| host.set_unplugged(true));
        }
    }

    fn times(&self) -> Option<Vec<Times>> {
        let adus = self.sender().journal().adus();
        let came = self.receiver()?.arrivals().first_by_seq(adus.len());
        let times = adus.iter().zip(came).map(|(adu, arrived)| Times {
            offered: adu.meta.enqueued,
            deadline: adu.meta.deadline,
            left: adu.left.clone(),
            arrived,
        });
        Some(times.collect())
    }
}
