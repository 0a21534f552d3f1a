//! The tool's way to a running daemon.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use timeous_ipc::{Client, ClientError, ConnectError, Options};

use crate::failure::Failure;

/// A connection to the daemon, made anew if the daemon was.
pub(crate) struct DaemonLink {
    client: Client,
}

impl DaemonLink {
    /// Connects to the daemon at `socket`, or where it usually is.
    pub(crate) fn connect(socket: Option<PathBuf>) -> Result<Self, Failure> {
        Self::try_connect(socket).map_err(|error| match error {
            ConnectError::Foreign(_) | ConnectError::Refused(_) | ConnectError::NoAnswer => {
                Failure::Peer(error.to_string())
            }
            ConnectError::NoDaemon { .. } | ConnectError::System(_) => Failure::Environment(error.to_string()),
        })
    }

    /// The same, where it matters why there is no connection.
    pub(crate) fn try_connect(socket: Option<PathBuf>) -> Result<Self, ConnectError> {
        let mut options = Options::default();
        if let Some(path) = socket {
            options.path = path;
        }
        Ok(Self { client: Client::connect(options)? })
    }

    /// What there is to see.
    pub(crate) fn snapshot<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        self.document(Client::snapshot)
    }

    /// What is remembered of paths.
    pub(crate) fn paths<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        self.document(Client::paths)
    }

    /// Forgets paths to one address, or all. Gives how many.
    pub(crate) fn forget(&mut self, address: Option<IpAddr>) -> Result<u64, Failure> {
        self.client.forget_paths(address).map_err(failed)
    }

    fn document<T: DeserializeOwned>(
        &mut self,
        ask: impl FnOnce(&mut Client) -> Result<Vec<u8>, ClientError>,
    ) -> Result<T, Failure> {
        // A connection that was lost is made anew while events are heard.
        while self.client.poll_event().is_some() {}
        let json = ask(&mut self.client).map_err(failed)?;
        serde_json::from_slice(&json).map_err(|error| {
            Failure::Peer(format!("the daemon is of another version: its answer cannot be read ({error})"))
        })
    }
}

fn failed(error: ClientError) -> Failure {
    Failure::Peer(error.to_string())
}
