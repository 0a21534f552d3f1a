//! Opening of streams: name resolution, calling or listening, and the wait for the handshake.

mod attempts;
mod by_daemon;
mod by_engine;
mod handshake;
mod purpose;
mod sealing;

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use timeous_engine::{Engine, Listener, PacketZone, ReceiveHalf, RemoteError, SendHalf, Stream, ZoneKey};
use timeous_ipc::{Client, ConnectError, daemon_socket};

pub(crate) use attempts::Cancel;
pub(crate) use purpose::Purpose;

use crate::error::Error;
use crate::options::contradictions::Contradiction;
use crate::options::{Daemon, Options, Role, TransportName};
use crate::policy::DbatSettings;
use crate::process::{self, shared_engine};
use crate::uri::{Uri, UriError};

/// An open stream with its runner.
pub(crate) struct Opened {
    pub(crate) sending: SendHalf,
    pub(crate) receiving: ReceiveHalf,
    pub(crate) runner: Arc<Runner>,
    pub(crate) stream_id: Option<Arc<str>>,
}

impl Opened {
    pub(crate) fn by_engine(stream: Stream, engine: Arc<Engine>, listener: Option<Listener>) -> Self {
        Self::new(stream, Runner::Engine(listener, engine))
    }

    fn new(stream: Stream, runner: Runner) -> Self {
        let stream_id = stream_id(&stream);
        let (sending, receiving) = stream.split();
        Self { sending, receiving, runner: Arc::new(runner), stream_id }
    }
}

/// Stream ID that a caller has named; streams without encryption have none.
pub(crate) fn stream_id(stream: &Stream) -> Option<Arc<str>> {
    stream.stream_id().map(Arc::from)
}

/// Runner of a stream, which must outlive it.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held")]
pub(crate) enum Runner {
    /// This process. The stream's listener, if any, stays to tell other callers that it is busy.
    Engine(Option<Listener>, Arc<Engine>),
    /// The daemon, which closes its client's streams when the client is gone.
    Daemon(Mutex<Client>),
}

/// Checks that a choice of the application's own decides alone, and in this process.
fn check_own_choice(options: &Options) -> Result<(), Contradiction> {
    let Some(_) = &options.own_choice else { return Ok(()) };
    if matches!(options.daemon, Daemon::At(_)) {
        return Err(Contradiction::new(
            &["daemon"],
            "a choice of one's own runs in this process, and the daemon's streams in the daemon's: leave out daemon",
        ));
    }
    let Options { policy, queue, age, weights, dbat, .. } = options;
    let is_set = policy.is_some() || queue.is_some() || age.is_some() || !weights.is_empty();
    if is_set || *dbat != DbatSettings::default() {
        return Err(Contradiction::new(
            &["policy", "queue", "age", "weights", "marked", "overfull", "mindelay", "maxth"],
            "a choice of one's own takes the place of a policy: leave out policy and its settings",
        ));
    }
    Ok(())
}

/// Checks options that a program may have changed since the URI was parsed.
fn check(uri: &Uri) -> Result<(), Contradiction> {
    check_own_choice(&uri.options)?;
    uri.options.check_security(matches!(uri.role, Role::Listener { .. }))
}

/// Opens a stream: calls, or waits for a caller.
pub(crate) fn open(uri: &Uri, purpose: Purpose) -> Result<Opened, Error> {
    open_unless(uri, purpose, None).map(|opened| opened.expect("nobody can cancel it"))
}

/// Same as [`open`], but can be cancelled; `None`: it was.
pub(crate) fn open_unless(uri: &Uri, purpose: Purpose, cancel: Option<Cancel<'_>>) -> Result<Option<Opened>, Error> {
    check(uri)?;
    match daemon_for(&uri.options)? {
        Some(mut client) => {
            let stream = by_daemon::open(&mut client, uri, purpose, cancel)?;
            Ok(stream.map(|stream| Opened::new(stream, Runner::Daemon(Mutex::new(client)))))
        }
        None => {
            let engine = shared_engine()?;
            let opened = by_engine::open(&engine, uri, purpose, cancel)?;
            Ok(opened.map(|(stream, listener)| Opened::by_engine(stream, engine, listener)))
        }
    }
}

/// Runs a stream over a connected TCP socket, in this process.
pub(crate) fn adopt(socket: TcpStream, options: &Options) -> Result<Opened, Error> {
    check_own_choice(options)?;
    if options.transport != TransportName::Tcp {
        return Err(Contradiction::new(&["transport"], "an adopted connection is one of TCP: say transport=tcp").into());
    }
    let engine = shared_engine()?;
    Ok(Opened::by_engine(by_engine::adopt(&engine, socket, options)?, engine, None))
}

/// Listens for any number of callers, in this process.
pub(crate) fn listen(uri: &Uri) -> Result<(Arc<Engine>, Listener), Error> {
    let Role::Listener { address, port } = uri.role else {
        return Err(UriError::BadMode("this URI calls a host: leave out the host, or say mode=listener").into());
    };
    if matches!(uri.options.daemon, Daemon::At(_)) {
        return Err(Contradiction::new(
            &["daemon"],
            "a listener for many callers is run by its process: leave out daemon",
        )
        .into());
    }
    check(uri)?;
    let engine = shared_engine()?;
    let listener = by_engine::listen(&engine, handshake::local(address, port), &uri.options, None, None)?;
    Ok((engine, listener))
}

/// Makes a zone where the streams of the URI run.
pub(crate) fn zone(uri: &Uri, buffer_size: u32, buffers: u32) -> Result<PacketZone, Error> {
    check(uri)?;
    zone_for(&uri.options, buffer_size, buffers)
}

/// Makes a zone for a stream with these options.
pub(crate) fn zone_for(options: &Options, buffer_size: u32, buffers: u32) -> Result<PacketZone, Error> {
    match daemon_for(options)? {
        Some(mut client) => {
            let (key, memory) = client.make_zone(buffer_size, buffers)?;
            // The daemon keeps the zone while its client exists.
            let opened = PacketZone::open(memory, buffer_size, buffers, ZoneKey(key), Mutex::new(client));
            Ok(opened.map_err(RemoteError::Ring)?)
        }
        None => Ok(PacketZone::new(buffer_size, buffers)?),
    }
}

/// Connects to the daemon that should run a stream, if any.
fn daemon_for(options: &Options) -> Result<Option<Client>, ConnectError> {
    match &options.daemon {
        // The daemon runs streams over DCCP only.
        _ if options.transport != TransportName::Dccp => Ok(None),
        // It cannot run the application's code.
        _ if options.own_choice.is_some() || options.security.own_access.is_some() => Ok(None),
        Daemon::Off => Ok(None),
        Daemon::Auto => process::find_daemon(&daemon_socket()),
        Daemon::At(path) => process::daemon(path).map(Some),
    }
}
