//! Opening a stream: names become addresses, the engine calls or listens, and the handshake is waited for.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use timeous_core::{Duration, Instant, Priority};
use timeous_engine::{
    CloseReason, Engine, EngineError, ReceiveHalf, SendHalf, ServiceCode, Status, Stream, StreamConfig, clock,
};

use crate::error::Error;
use crate::options::{Options, Role};
use crate::process::shared_engine;
use crate::uri::Uri;

/// A stream that is open, with the engine that runs it.
pub(crate) struct Opened {
    pub(crate) sending: SendHalf,
    pub(crate) receiving: ReceiveHalf,
    pub(crate) engine: Arc<Engine>,
}

/// Calls, or waits to be called, until the stream is open.
pub(crate) fn open(uri: &Uri) -> Result<Opened, Error> {
    let engine = shared_engine()?;
    let stream = match &uri.role {
        Role::Caller { host, port } => call(&engine, host, *port, &uri.options)?,
        Role::Listener { address, port } => be_called(&engine, *address, *port, &uri.options)?,
    };
    let (sending, receiving) = stream.split();
    Ok(Opened { sending, receiving, engine })
}

fn call(engine: &Engine, host: &str, port: u16, options: &Options) -> Result<Stream, Error> {
    let unknown = |error| Error::UnknownHost { host: host.to_owned(), error };
    let mut addresses = (host, port).to_socket_addrs().map_err(unknown)?;
    let none = || unknown(std::io::Error::other("the name has no address"));
    let remote = addresses.next().ok_or_else(none)?;
    let mut stream = engine.connect(remote, config(options))?;
    match handshake(&mut stream, Some(clock::now() + options.timeout)) {
        Ok(()) => Ok(stream),
        Err(None | Some(CloseReason::Timeout)) => Err(Error::NoAnswer { remote, after: options.timeout }),
        Err(Some(reason)) => Err(Error::Closed(reason)),
    }
}

/// A caller that does not finish its handshake is no caller: the next one is waited for.
fn be_called(engine: &Engine, address: Option<IpAddr>, port: u16, options: &Options) -> Result<Stream, Error> {
    let local = SocketAddr::new(address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), port);
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
