//! Encryption of a stream: the keys of the plain receiver, by which the capture is read, too.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use timeous_engine::{Sealing, clock};
use timeous_seal::{
    CallerCredential, Intent, ListenerCredential, Passphrase, Secret, Secrets, Session, SharedPassphrase, Trust,
};
use timeous_tcp::record::Framing;
use timeous_testbed::machine::{machine, no_connection};

use super::plan::{PATIENCE, Plan, SenderKind};
use crate::experiment::RunError;

/// Returns the secret of a stream over our own TCP, which has no handshake for keys.
pub(super) fn secret(plan: &Plan) -> Option<Secret> {
    plan.encrypted.then(|| Secret::new([7; 32]))
}

fn passphrase() -> Option<Passphrase> {
    Some(Passphrase::from_key([7; 32]))
}

/// Returns the sealing of a stream of the engine.
pub(super) fn sealing(plan: &Plan) -> Result<Sealing, RunError> {
    if !plan.encrypted {
        return Ok(Sealing::Off);
    }
    let credential = CallerCredential::new("10.77.0.2", &Trust::Passphrase, passphrase(), None, Intent::Publish);
    credential.map(Sealing::Caller).map_err(machine)
}

/// Returns the framing of an accepted connection, for which an encrypted stream of the engine agrees on keys first.
pub(super) fn framing(socket: &mut TcpStream, plan: &Plan) -> Result<Framing, RunError> {
    let secrets = match (secret(plan), plan.way) {
        (None, _) => None,
        (Some(secret), SenderKind::Own) => {
            let address = RunError::system("find a socket's address");
            let (local, peer) =
                socket.local_addr().and_then(|local| Ok((local, socket.peer_addr()?))).map_err(address)?;
            Some(Secrets::between(&secret, local, peer))
        }
        (Some(_), _) => Some(agree(socket)?),
    };
    Ok(Framing::of_received(secrets.as_ref()))
}

/// Agrees on keys with a caller.
fn agree(socket: &mut TcpStream) -> Result<Secrets, RunError> {
    let access = Arc::new(SharedPassphrase(passphrase()));
    let credential = ListenerCredential::new(None, None, access).map_err(machine)?;
    let mut session = Session::answer(&credential).map_err(machine)?;
    let mut buffer = [0; 4_096];
    let failed = RunError::system;
    let end = clock::now() + PATIENCE;
    loop {
        let len = match socket.read(&mut buffer) {
            // The socket waits briefly; a lost segment takes longer.
            Err(error) if error.kind() == ErrorKind::WouldBlock && clock::now() < end => continue,
            read => read.map_err(failed("read a handshake"))?,
        };
        // No record comes before the answer.
        session.read(&buffer[..len]).map_err(machine)?;
        let mut answer = Vec::new();
        session.write(&mut answer);
        socket.write_all(&answer).map_err(failed("write a handshake"))?;
        if let Some(agreement) = session.take_agreement() {
            return Ok(agreement.secrets);
        }
        if len == 0 {
            return Err(no_connection());
        }
    }
}
