//! Client of a running daemon, for `timeous top` and `timeous paths`.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use timeous_ipc::{Client, ClientError, ConnectError, Options};

use crate::failure::Failure;

/// Connection to the daemon, re-established after its restart.
pub(crate) struct DaemonLink {
    client: Client,
}

impl DaemonLink {
    /// Connects to the daemon at `socket`, or at its default path.
    pub(crate) fn connect(socket: Option<PathBuf>) -> Result<Self, Failure> {
        Self::try_connect(socket).map_err(|error| match error {
            ConnectError::Foreign(_) | ConnectError::Refused(_) | ConnectError::NoAnswer => {
                Failure::Peer(error.to_string())
            }
            ConnectError::NoDaemon { .. } | ConnectError::System(_) => Failure::Environment(error.to_string()),
        })
    }

    /// Connects to the daemon; the error tells why it failed.
    pub(crate) fn try_connect(socket: Option<PathBuf>) -> Result<Self, ConnectError> {
        let mut options = Options::default();
        if let Some(path) = socket {
            options.path = path;
        }
        Ok(Self { client: Client::connect(options)? })
    }

    /// Current state: macroflows, flows and clients.
    pub(crate) fn snapshot<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        self.document(Client::snapshot)
    }

    /// Remembered path characteristics.
    pub(crate) fn paths<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        self.document(Client::paths)
    }

    /// Deletes the remembered paths to one address, or all. Returns their number.
    pub(crate) fn forget(&mut self, address: Option<IpAddr>) -> Result<u64, Failure> {
        self.client.forget_paths(address).map_err(failed)
    }

    fn document<T: DeserializeOwned>(
        &mut self,
        ask: impl FnOnce(&mut Client) -> Result<Vec<u8>, ClientError>,
    ) -> Result<T, Failure> {
        // Polling events re-establishes a lost connection.
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
