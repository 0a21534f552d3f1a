//! Opening a stream: names become addresses, an engine calls or listens, and the handshake is waited for.

mod by_daemon;
mod by_engine;
mod handshake;

use std::sync::{Arc, Mutex};

use timeous_engine::{Engine, ReceiveHalf, SendHalf};
use timeous_ipc::{Client, ConnectError, daemon_socket};

use crate::error::Error;
use crate::options::{Daemon, Options, TransportName};
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
    let (stream, runner) = match daemon_for(&uri.options)? {
        Some(mut client) => (by_daemon::open(&mut client, uri)?, Runner::Daemon(Mutex::new(client))),
        None => {
            let engine = shared_engine()?;
            (by_engine::open(&engine, uri)?, Runner::Engine(engine))
        }
    };
    let (sending, receiving) = stream.split();
    Ok(Opened { sending, receiving, runner: Arc::new(runner) })
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
