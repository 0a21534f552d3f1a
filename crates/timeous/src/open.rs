//! Opening a stream: names become addresses, an engine calls or listens, and the handshake is waited for.

mod by_daemon;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};

use timeous_core::{Duration, Instant, Priority};
use timeous_engine::{
    CloseReason, Engine, EngineError, ReceiveHalf, SendHalf, ServiceCode, Status, Stream, StreamConfig, clock,
};
use timeous_ipc::{Client, ConnectError, daemon_socket};

use crate::error::Error;
use crate::options::{Daemon, Options, Role};
use crate::process::{self, shared_engine};
use crate::uri::Uri;

/// A stream that is open, with what runs it.
pub(crate) struct Opened {
    pub(crate) sending: SendHalf,
    pub(crate) receiving: ReceiveHalf,
    pub(crate) runner: Arc<Runner>,
}

/// What runs a stream. It has to outlive it.
#[derive(Debug)]
pub(crate) enum Runner {
    /// This process.
    Engine(#[expect(dead_code, reason = "it is held")] Arc<Engine>),
    /// The daemon, which ends what a client has when the client is gone.
    Daemon(#[expect(dead_code, reason = "it is held")] Mutex<Client>),
}

/// Calls, or waits to be called, until the stream is open.
pub(crate) fn open(uri: &Uri) -> Result<Opened, Error> {
    let (stream, runner) = match daemon_for(&uri.options.daemon)? {
        Some(mut client) => (by_daemon::open(&mut client, uri)?, Runner::Daemon(Mutex::new(client))),
        None => {
            let engine = shared_engine()?;
            (by_engine(&engine, uri)?, Runner::Engine(engine))
        }
    };
    let (sending, receiving) = stream.split();
    Ok(Opened { sending, receiving, runner: Arc::new(runner) })
}

/// The daemon that is to run a stream, if one is.
fn daemon_for(daemon: &Daemon) -> Result<Option<Client>, ConnectError> {
    match daemon {
        Daemon::Off => Ok(None),
        Daemon::Auto => process::find_daemon(&daemon_socket()),
        Daemon::At(path) => process::daemon(path).map(Some),
    }
}

fn by_engine(engine: &Engine, uri: &Uri) -> Result<Stream, Error> {
    match &uri.role {
        Role::Caller { host, port } => {
            call(host, *port, &uri.options, |remote| engine.connect(remote, config(&uri.options)).map_err(Error::from))
        }
        Role::Listener { address, port } => be_called(engine, local(*address, *port), &uri.options),
    }
}

fn local(address: Option<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port)
}

/// Looks the host up, has it called, and waits for its answer.
fn call(
    host: &str,
    port: u16,
    options: &Options,
    connect: impl FnOnce(SocketAddr) -> Result<Stream, Error>,
) -> Result<Stream, Error> {
    let unknown = |error| Error::UnknownHost { host: host.to_owned(), error };
    let mut addresses = (host, port).to_socket_addrs().map_err(unknown)?;
    let none = || unknown(std::io::Error::other("the name has no address"));
    let remote = addresses.next().ok_or_else(none)?;
    let mut stream = connect(remote)?;
    match handshake(&mut stream, Some(clock::now() + options.timeout)) {
        Ok(()) => Ok(stream),
        Err(None | Some(CloseReason::Timeout)) => Err(Error::NoAnswer { remote, after: options.timeout }),
        Err(Some(reason)) => Err(Error::Closed(reason)),
    }
}

/// A caller that does not finish its handshake is no caller: the next one is waited for.
fn be_called(engine: &Engine, local: SocketAddr, options: &Options) -> Result<Stream, Error> {
    let mut listener = engine.listen(local, config(options))?;
    loop {
        let Some(mut stream) = listener.accept(None) else { return Err(EngineError::Stopped.into()) };
        if handshake(&mut stream, Some(clock::now() + options.timeout)).is_ok() {
            return Ok(stream);
        }
    }
}

/// Waits until the stream is open; else why it ended, or `None` if time ran out.
fn handshake(stream: &mut Stream, deadline: Option<Instant>) -> Result<(), Option<CloseReason>> {
    loop {
        match stream.status() {
            Status::Open => return Ok(()),
            Status::Closed(reason) => return Err(Some(reason)),
            Status::Connecting => {}
        }
        if deadline.is_some_and(|at| clock::now() >= at) {
            return Err(None);
        }
        stream.sending().wait(deadline);
    }
}

/// The lowest priority that is repaired: what an application marks as worth nothing beside anything else is not.
const REPAIRED: Priority = Priority(1);

fn config(options: &Options) -> StreamConfig {
    let choice = options.clone();
    let dccp = timeous_engine::DccpConfig {
        mps: options.mtu,
        connect_timeout: options.timeout,
        // A peer that has nothing to say is asked after half of the time, and has the other half to answer.
        keep_alive: Some(options.timeout / 2),
        silence: options.timeout / 2,
        // A listener that ends may be gone before its caller could answer a CloseReq; a Close needs no more of it.
        server_holds_timewait: true,
        msl: TIMEWAIT / 2,
        ..timeous_engine::DccpConfig::default()
    };
    StreamConfig {
        dccp,
        service: ServiceCode::from_bytes(options.service),
        dccp_port: options.dccp_port,
        slots: options.slots.next_power_of_two(),
        choice: Arc::new(move || choice.choice()),
        repair: options.repairs().then_some(REPAIRED),
    }
}

/// How long a closed connection is remembered. The RFC's four minutes guard a pair of ports that is used again; ours
/// are the system's choice for each call, and a tool that ends should be gone.
const TIMEWAIT: Duration = Duration::from_secs(4);
