//! The engine's thread: an endless loop of receiving, timers, sending and sleeping.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags};
use timeous_cm::Manager;
use timeous_core::{Duration, Instant, Rng};
use timeous_dccp::ConnectError;
use timeous_kernel_tcp::{KernelTcp, Route, TcpFraming};
use timeous_stream::{Order, StreamId};

use crate::binding::{any_local, at_or_in_ipv4, bind, bind_both, refused};
use crate::carrier::Carrier;
use crate::clock;
use crate::command::{Command, Incoming, ListenReply, ListenerId, Made, PortLife, User};
use crate::config::StreamConfig;
use crate::congestion::Congestion;
use crate::error::EngineError;
use crate::follow::Followers;
use crate::line::Orders;
use crate::listening::Listening;
use crate::port::{Port, is_of_this_host};
use crate::port_group::{GroupShare, PortGroup};
use crate::sealing::Sealing;
use crate::session::Session;
use crate::streams::Streams;
use crate::udp::{Reservation, Socket, local_for, second_uplink};
use crate::waker::{Waker, timespec};

/// Duration of a round's work beyond which the machine has paused. Chosen by us: a round that sends full batches takes a few hundred
/// microseconds; a lower value costs rounds, a higher one lets timers expire for acknowledgements that have arrived.
const PAUSE: Duration = Duration::from_millis(2);

/// Key of a UDP port that several calls share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CallingPort {
    /// Local address, unspecified unless the caller has chosen one; port zero.
    local: SocketAddr,
    /// That address, if it is another uplink's.
    source: Option<IpAddr>,
    is_sealed: bool,
}

pub(crate) struct Worker {
    commands: mpsc::Receiver<Command>,
    orders: mpsc::Receiver<(StreamId, Order)>,
    waker: Waker,
    congestion: Congestion,
    ports: BTreeMap<u64, Port>,
    tcp: KernelTcp<Session, Listening>,
    followers: Followers,
    next_port: u64,
    /// UDP ports that calls share: in IPv4, in IPv6; then those that encrypt.
    calling: BTreeMap<CallingPort, u64>,
    next_listener: u64,
    streams: Streams,
    rng: Rng,
}

impl Worker {
    /// Creates a worker. `rng` makes the ports and sequence numbers that peers see.
    pub(crate) fn new(commands: mpsc::Receiver<Command>, waker: Waker, congestion: Congestion, rng: Rng) -> Self {
        assert!(rng.is_unpredictable(), "peers could compute our sequence numbers (RFC 6528)");
        let (to_here, orders) = Orders::new(waker.clone());
        Self {
            commands,
            orders,
            waker,
            congestion,
            ports: BTreeMap::new(),
            tcp: KernelTcp::new(clock::now),
            followers: Followers::default(),
            next_port: 0,
            calling: BTreeMap::new(),
            next_listener: 0,
            streams: Streams::new(to_here),
            rng,
        }
    }

    /// Runs until it is told to stop. A panic drops `running` before the streams, so that whoever sees them end knows why.
    pub(crate) fn run(mut self, running: Arc<()>) {
        let _running = running;
        let congestion = self.congestion.clone();
        while self.obey() {
            // The lock is held for a whole round, not per packet; nothing blocks meanwhile.
            let mut cm = congestion.round();
            let now = self.receive(clock::now(), &mut cm);
            self.pass_time(now, &mut cm);
            let is_drained = self.drain(now, &mut cm);
            self.ports.retain(|_, port| !port.is_idle());
            self.tcp.retain_listeners(|port| self.ports.contains_key(&port));
            if !is_drained {
                continue;
            }
            let now = clock::now();
            let due = cm.sleeps(now, self.poll_timeout(now));
            drop(cm);
            self.sleep(due);
        }
        self.end(&mut congestion.round());
        congestion.detach();
    }

    /// Executes commands; returns `false` for a stop.
    fn obey(&mut self) -> bool {
        self.waker.clear();
        loop {
            let command = self.commands.try_recv();
            // A stream's requests from before a command take effect before it.
            self.obey_streams();
            let now = clock::now();
            match command {
                Ok(Command::Connect { remote, user, config, reply }) => {
                    // The requester may be gone.
                    let _ = reply.send(self.connect(now, (remote, user), &config));
                }
                Ok(Command::Adopt { socket, config, reply }) => {
                    let _ = reply.send(self.adopt(now, socket, &config));
                }
                Ok(Command::Listen { local, user, config, incoming, group, reply }) => {
                    let _ = reply.send(self.listen(local, group, (user, *config), incoming));
                }
                Ok(Command::StopListening(id, incoming)) => {
                    for port in self.ports.values_mut() {
                        port.stop_listening(id);
                    }
                    self.tcp.stop_listening(|listening| listening.id == id);
                    incoming.refuse_all();
                }
                Err(mpsc::TryRecvError::Empty) => return true,
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn obey_streams(&mut self) {
        while let Ok((id, order)) = self.orders.try_recv() {
            let now = clock::now();
            let port = self.streams.port(id).and_then(|number| self.ports.get_mut(&number));
            match port.filter(|port| port.has(id)) {
                Some(port) => port.obey(now, id, order),
                // A stream that began over TCP, or went on there.
                None => self.tcp.obey(now, id, order),
            }
            if matches!(order, Order::Abandon | Order::Refuse) {
                self.streams.forget(id);
            }
        }
    }

    fn connect(
        &mut self,
        now: Instant,
        (remote, user): (SocketAddr, User),
        config: &StreamConfig,
    ) -> Result<Made, EngineError> {
        match (&config.sealing, config.carrier) {
            (Sealing::Local, _) if !is_of_this_host(remote.ip()) => return Err(EngineError::Unencrypted(remote)),
            (Sealing::Local | Sealing::Off, _) | (Sealing::Caller(_), Carrier::Udp) => {}
            (Sealing::Caller(_), Carrier::Tcp | Carrier::Auto) => check_framing(config)?,
            _ => return Err(EngineError::WrongSealing),
        }
        if let Some(local) = config.local.filter(|local| local.is_ipv4() != remote.is_ipv4()) {
            return Err(EngineError::OtherFamily { local, remote });
        }
        if let Some(local) = config.local {
            // The TCP of some carriers comes later: an address that this host does not have is refused now.
            UdpSocket::bind((local, 0)).map_err(|error| EngineError::Socket { local: (local, 0).into(), error })?;
        }
        let uplink = config.local.and_then(|local| second_uplink(local, remote.ip()));
        let route = Route { remote, local: config.local, uplink };
        match config.carrier {
            Carrier::Tcp => {
                let (session, stream) = self.streams.make(user, config, PortLife::default())?;
                config.tcp.check_tap().map_err(EngineError::NoPacketTap)?;
                self.tcp.connect(now, route, session, &config.tcp, config.sealing.of_caller())?;
                Ok(stream)
            }
            Carrier::Udp | Carrier::Auto => {
                let (number, (id, stream)) = self.call(now, (remote, user), uplink, config)?;
                if config.carrier == Carrier::Auto {
                    let settings = (config.tcp.clone(), config.sealing.of_caller().cloned());
                    self.followers.add(now, (id, number), route, settings);
                }
                Ok(stream)
            }
            Carrier::Ip => {
                let nowhere = |error| EngineError::Socket { local: any_local(remote), error };
                let number = self.native_port(local_for(remote.ip()).map_err(nowhere)?)?;
                let port = self.ports.get_mut(&number).expect("it was found, or made, just now");
                Ok(port.connect(now, (remote, user), config, &mut self.streams)?.1)
            }
        }
    }

    /// Runs a stream over a TCP connection of the application's, which protects it in its own way, or not.
    fn adopt(&mut self, now: Instant, socket: TcpStream, config: &StreamConfig) -> Result<Made, EngineError> {
        if config.carrier != Carrier::Tcp || !matches!(config.sealing, Sealing::Off) {
            return Err(EngineError::WrongSealing);
        }
        config.tcp.check_tap().map_err(EngineError::NoPacketTap)?;
        let (session, stream) = self.streams.make(User::Here, config, PortLife::default())?;
        self.tcp.adopt_socket(now, socket, session, &config.tcp)?;
        Ok(stream)
    }

    /// Calls from the UDP port that calls from this local address share, or from a new one if no connection fits there.
    fn call(
        &mut self,
        now: Instant,
        (remote, user): (SocketAddr, User),
        source: Option<IpAddr>,
        config: &StreamConfig,
    ) -> Result<(u64, (StreamId, Made)), EngineError> {
        let local = config.local.map_or_else(|| any_local(remote), |local| (local, 0).into());
        let shared = CallingPort { local, source, is_sealed: config.sealing.is_sealed() };
        if let Some((number, port)) =
            self.calling.get(&shared).and_then(|&number| Some((number, self.ports.get_mut(&number)?)))
        {
            match port.connect(now, (remote, user), config, &mut self.streams) {
                Err(EngineError::Connect(ConnectError::NoPort(_) | ConnectError::TooMany(_))) => {}
                made => return Ok((number, made?)),
            }
        }
        let number = self.add(bind(local)?, source, shared.is_sealed);
        self.calling.retain(|_, number| self.ports.contains_key(number));
        self.calling.insert(shared, number);
        let port = self.ports.get_mut(&number).expect("it was made just now");
        Ok((number, port.connect(now, (remote, user), config, &mut self.streams)?))
    }

    fn listen(
        &mut self,
        local: SocketAddr,
        group: Option<(Arc<PortGroup>, usize)>,
        (user, config): (User, StreamConfig),
        incoming: Arc<Incoming>,
    ) -> ListenReply {
        match (&config.sealing, config.carrier) {
            (Sealing::Local | Sealing::Off, _) | (Sealing::Listener(_), Carrier::Udp) => {}
            (Sealing::Listener(_), Carrier::Tcp | Carrier::Auto) => check_framing(&config)?,
            _ => return Err(EngineError::WrongSealing),
        }
        let id = ListenerId(self.next_listener);
        self.next_listener += 1;
        let listening = Listening { id, user, config, incoming, life: Arc::new(()) };
        match listening.config.carrier {
            Carrier::Tcp => return self.listen_by_tcp(at_or_in_ipv4(local, TcpListener::bind)?, listening, None),
            Carrier::Ip => return self.listen_natively(local.ip(), listening),
            Carrier::Udp | Carrier::Auto => {}
        }
        let (socket, beside) = match &group {
            Some((group, place)) => {
                let bind = |local| Socket::bind_shared(local, (*place == 0).then(|| group.count()));
                (at_or_in_ipv4(local, bind)?, None)
            }
            None if listening.config.carrier == Carrier::Auto => {
                let (udp, tcp) = bind_both(local)?;
                (udp, Some((tcp, listening.clone())))
            }
            None => (bind(local)?, None),
        };
        let number = self.add(socket, None, listening.config.sealing.is_sealed());
        let port = self.ports.get_mut(&number).expect("it was made just now");
        port.share(group.map(|(group, place)| GroupShare::new(group, place)));
        let (local, life) = (port.local_addr()?, port.life());
        port.listen(listening, None);
        if let Some((socket, listening)) = beside {
            self.listen_by_tcp(socket, listening, Some(number))?;
        }
        Ok((id, local, life))
    }

    /// Listens by TCP, also for streams that move there from the UDP port `beside`.
    fn listen_by_tcp(&mut self, socket: TcpListener, listening: Listening, beside: Option<u64>) -> ListenReply {
        listening.config.tcp.check_tap().map_err(EngineError::NoPacketTap)?;
        let (id, life) = (listening.id, PortLife::of(&listening.life));
        let credential = listening.config.sealing.of_listener().cloned();
        let awaits_data = listening.config.tcp.awaits_data;
        Ok((id, self.tcp.listen(socket, listening, beside, credential, awaits_data)?, life))
    }

    /// Listens without UDP, at all addresses of both families if `local` is IPv6's unspecified address.
    fn listen_natively(&mut self, local: IpAddr, listening: Listening) -> ListenReply {
        let number = listening.config.dccp_port;
        let (id, life) = (listening.id, PortLife::of(&listening.life));
        let both = [Ipv4Addr::UNSPECIFIED.into(), local];
        let locals = if local == Ipv6Addr::UNSPECIFIED { &both[..] } else { &both[1..] };
        let mut failed = None;
        for &local in locals {
            match self.reserved(local, number) {
                Ok((port, reservation)) => port.listen(listening.clone(), Some(reservation)),
                // A host without IPv6 has only IPv4 addresses.
                Err(EngineError::Socket { .. }) if local.is_ipv6() && locals.len() > 1 => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => Ok((id, SocketAddr::new(local, number), life)),
            Some(error) => {
                for port in self.ports.values_mut() {
                    port.stop_listening(id);
                }
                Err(error)
            }
        }
    }

    /// Returns the raw socket's port, with the DCCP port `number` reserved on it.
    fn reserved(&mut self, local: IpAddr, number: u16) -> Result<(&mut Port, Reservation), EngineError> {
        let place = SocketAddr::new(local, number);
        let at = self.native_port(local)?;
        let reservation = Reservation::take(local, number).map_err(|error| refused(place, error))?;
        let port = self.ports.get_mut(&at).expect("it was found, or made, just now");
        Ok((port, reservation))
    }

    /// Returns the port for DCCP without UDP at the address `local`, which streams share.
    fn native_port(&mut self, local: IpAddr) -> Result<u64, EngineError> {
        if let Some((&number, _)) = self.ports.iter().find(|(_, port)| port.native() == Some(local)) {
            return Ok(number);
        }
        let socket = Socket::bind_raw(local).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => EngineError::NoRawSocket,
            _ => EngineError::Socket { local: (local, 0).into(), error },
        })?;
        Ok(self.add(socket, None, false))
    }

    /// Adds a port, of another uplink if there is a `source`, which encrypts if it `is_sealed`.
    fn add(&mut self, socket: Socket, source: Option<IpAddr>, is_sealed: bool) -> u64 {
        let number = self.next_port;
        let secret = is_sealed.then(secret);
        self.ports.insert(number, Port::new(number, socket, source, &mut self.rng, secret.as_ref()));
        self.next_port += 1;
        number
    }

    /// Handles what has arrived since the last round; returns the time after that.
    fn receive(&mut self, now: Instant, cm: &mut Manager) -> Instant {
        let now = self.ports.values_mut().fold(now, |now, port| port.receive(now, cm));
        self.accept(now);
        self.tcp.receive(now);
        self.followers.look(now, &mut self.ports, &mut self.tcp);
        now
    }

    /// Accepts TCP connections: for new streams, and for streams that move there.
    fn accept(&mut self, now: Instant) {
        let is_allowed = |incoming: &timeous_kernel_tcp::Incoming<Listening>| {
            let is_local = matches!(incoming.listening.config.sealing, Sealing::Local);
            incoming.peer().is_ok_and(|peer| !is_local || is_of_this_host(peer.ip()))
        };
        // A stream that moves here needs no room.
        let has_room = |incoming: &timeous_kernel_tcp::Incoming<Listening>| {
            incoming.beside.is_some() || incoming.listening.incoming.room() > 0
        };
        for incoming in self.tcp.accept(now, |incoming| is_allowed(incoming) && has_room(incoming)) {
            // Without encryption, which nobody has asked for, the connection is closed.
            if !is_allowed(&incoming) {
                continue;
            }
            let Listening { user, config, incoming: queue, .. } = incoming.listening.clone();
            if let Some(identity) = &incoming.identity {
                let port = incoming.beside.and_then(|number| self.ports.get_mut(&number));
                match port.and_then(|port| port.take(now, port.identified(identity, &incoming.stream_id)?)) {
                    Some(session) => self.tcp.adopt(now, incoming, session, &config.tcp),
                    // The stream is gone: what was sent here is lost.
                    None => incoming.refuse(),
                }
                continue;
            }
            // A silent caller came without a place, and takes none that has become free since.
            if incoming.is_silent() || queue.room() == 0 {
                incoming.refuse();
                continue;
            }
            match self.streams.make(user, &config, PortLife::default()) {
                Ok((session, stream)) => {
                    if !incoming.stream_id.is_empty() {
                        session.set_stream_id(&incoming.stream_id);
                    }
                    if let Some(intent) = incoming.intent {
                        session.set_intent(intent);
                    }
                    self.tcp.adopt(now, incoming, session, &config.tcp);
                    if let Err(stream) = queue.push(stream) {
                        stream.refuse();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no stream for a caller");
                    incoming.refuse();
                }
            }
        }
    }

    fn pass_time(&mut self, now: Instant, cm: &mut Manager) {
        cm.handle_timeout(now);
        for port in self.ports.values_mut() {
            port.handle_timeout(now, cm);
        }
    }

    /// Sends and notifies applications until there is no more progress; returns `false` if a pause of the machine ended it before: the
    /// next round follows at once.
    fn drain(&mut self, now: Instant, cm: &mut Manager) -> bool {
        let mut now = now;
        let is_drained = loop {
            let mut progress = false;
            while let Some(flow) = cm.poll_granted() {
                let _ = self.ports.values_mut().any(|port| port.granted(flow));
            }
            for port in self.ports.values_mut() {
                progress |= port.drain(now, cm, &mut self.streams);
            }
            progress |= self.tcp.drain(now, cm);
            // On a busy machine that may have taken long: datagrams that expired meanwhile must not be chosen.
            let began = now;
            now = clock::now().max(now);
            // After a pause of the machine, the next round first reads what arrived meanwhile: an acknowledgement that waits in the
            // socket is no timeout.
            if !progress || now.saturating_since(began) > PAUSE {
                break !progress;
            }
            self.pass_time(now, cm);
        };
        for port in self.ports.values_mut() {
            port.wake_applications(now, cm);
        }
        self.tcp.wake_applications(now, cm);
        is_drained
    }

    fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let ports = self.ports.values_mut().filter_map(Port::poll_timeout);
        ports.chain(self.tcp.poll_timeout()).chain(self.followers.poll_timeout(now)).min()
    }

    fn sleep(&mut self, due: Option<Instant>) {
        let timeout = due.map(|due| timespec(due.saturating_since(clock::now())));
        let mut fds = vec![PollFd::new(&self.waker, PollFlags::IN)];
        fds.extend(self.ports.values().map(|port| {
            let writable = if port.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(port.socket(), PollFlags::IN | writable)
        }));
        fds.extend(self.tcp.poll_fds());
        // Interrupted or not, the next round checks everything.
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
    }

    /// Closes every connection once: there is no time left to wait for answers.
    fn end(&mut self, cm: &mut Manager) {
        let now = clock::now();
        for port in self.ports.values_mut() {
            port.close_all(now);
        }
        self.tcp.close_all(now);
        self.drain(now, cm);
    }
}

/// Checks that the framing of a stream over TCP can be encrypted.
fn check_framing(config: &StreamConfig) -> Result<(), EngineError> {
    match config.tcp.framing {
        TcpFraming::Records => Ok(()),
        _ => Err(EngineError::SealedFraming),
    }
}

/// Returns a secret that nobody else knows.
fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    // Waits, if at all, while the machine starts.
    rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
        .expect("the system gives 32 random bytes at once");
    secret
}
