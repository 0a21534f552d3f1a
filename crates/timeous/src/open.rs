//! Opening a stream: names become addresses, an engine calls or listens, and the handshake is waited for.

mod attempts;
mod by_daemon;
mod by_engine;
mod handshake;

use std::sync::{Arc, Mutex};

use timeous_engine::{Engine, Listener, ReceiveHalf, SendHalf, Stream};
use timeous_ipc::{Client, ConnectError, daemon_socket};

pub(crate) use attempts::Cancel;

use crate::error::Error;
use crate::options::{Daemon, Options, Role, TransportName};
use crate::process::{self, shared_engine};
use crate::uri::{Uri, UriError};

/// A stream that is open, with what runs it.
pub(crate) struct Opened {
    pub(crate) sending: SendHalf,
    pub(crate) receiving: ReceiveHalf,
    pub(crate) runner: Arc<Runner>,
}

impl Opened {
    pub(crate) fn by_engine(stream: Stream, engine: Arc<Engine>, listener: Option<Listener>) -> Self {
        Self::new(stream, Runner::Engine(listener, engine))
    }

    fn new(stream: Stream, runner: Runner) -> Self {
        let (sending, receiving) = stream.split();
        Self { sending, receiving, runner: Arc::new(runner) }
    }
}

/// What runs a stream. It has to outlive it.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held")]
pub(crate) enum Runner {
    /// This process. The listener that the stream came in by tells other callers that it is busy.
    Engine(Option<Listener>, Arc<Engine>),
    /// The daemon, which ends what a client has when the client is gone.
    Daemon(Mutex<Client>),
}

/// Calls, or waits to be called, until the stream is open.
pub(crate) fn open(uri: &Uri) -> Result<Opened, Error> {
    open_unless(uri, None).map(|opened| opened.expect("nobody can cancel it"))
}

/// [`open`], for a caller who may change his mind; `None`: he has.
pub(crate) fn open_unless(uri: &Uri, cancel: Option<Cancel<'_>>) -> Result<Option<Opened>, Error> {
    match daemon_for(&uri.options)? {
        Some(mut client) => {
            let stream = by_daemon::open(&mut client, uri, cancel)?;
            Ok(stream.map(|stream| Opened::new(stream, Runner::Daemon(Mutex::new(client)))))
        }
        None => {
            let engine = shared_engine()?;
            let opened = by_engine::open(&engine, uri, cancel)?;
            Ok(opened.map(|(stream, listener)| Opened::by_engine(stream, engine, listener)))
        }
    }
}

/// Waits to be called, by any number of callers, in this process.
pub(crate) fn listen(uri: &Uri) -> Result<(Arc<Engine>, Listener), Error> {
    let Role::Listener { address, port } = uri.role else {
        return Err(UriError::BadMode("this URI calls a host: leave out the host, or say mode=listener").into());
    };
    if matches!(uri.options.daemon, Daemon::At(_)) {
        return Err(UriError::BadMode("a listener for many callers is run by its process: leave out daemon").into());
    }
    let engine = shared_engine()?;
    let listener = by_engine::listen(&engine, handshake::local(address, port), &uri.options, None)?;
    Ok((engine, listener))
}

/// The daemon that is to run a stream, if one is.
fn daemon_for(options: &Options) -> Result<Option<Client>, ConnectError> {
    match &options.daemon {
        // It runs DCCP only.
        _ if options.transport != TransportName::Dccp => Ok(None),
        Daemon::Off => Ok(None),
        Daemon::Auto => process::find_daemon(&daemon_socket()),
        Daemon::At(path) => process::daemon(path).map(Some),
    }
}
