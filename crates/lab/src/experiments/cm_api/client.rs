//! Client process whose system calls are counted: sends datagrams by one API.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;

use timeous::cm::{CongestionManager, ManagerLocation};
use timeous_testbed::machine::machine;

use super::super::system_calls::{be_traced, mark};
use super::alf::{Alf, ApiCalls};
use super::buffered;
use super::trial::{loopback_socket, send_by_tcp};
use crate::experiment::RunError;

/// Hidden command that runs a client; it is no experiment.
pub(crate) const COMMAND: &str = "cm-api-client";

/// Sender of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ClientKind {
    /// Connected UDP socket without acknowledgements and without a manager.
    Udp,
    /// TCP of the kernel: a write and a look at the socket for each packet.
    Tcp,
    /// Buffered socket.
    Buffered,
    /// Requests and callbacks on a connected socket.
    Alf,
    /// Requests and callbacks on an unconnected socket.
    NoConnect,
}

/// Arguments of a client.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    kind: ClientKind,
    remote: SocketAddr,
    /// Bytes of a packet.
    #[arg(long)]
    size: usize,
    #[arg(long)]
    packets: u64,
    /// Socket of the daemon; without it the manager is in the process.
    #[arg(long)]
    daemon: Option<PathBuf>,
    /// Returns each second grant, and requests another.
    #[arg(long)]
    returns_grants: bool,
}

/// Sends, with a mark before and after; prints the calls of the API.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn client(args: &ClientArgs) -> Result<(), RunError> {
    be_traced()?;
    let calls = args.send()?;
    mark()?;
    println!("{}", serde_json::to_string(&calls).map_err(machine)?);
    Ok(())
}

impl ClientArgs {
    fn send(&self) -> Result<ApiCalls, RunError> {
        let Self { remote, size, packets, .. } = *self;
        if self.kind == ClientKind::Tcp {
            let stream = TcpStream::connect(remote).map_err(RunError::system("connect to a receiver"))?;
            stream.set_nodelay(true).map_err(RunError::system("set up a connection"))?;
            mark()?;
            send_by_tcp(&stream, size, packets).map_err(RunError::system("send by TCP"))?;
            return Ok(ApiCalls::default());
        }
        let socket = loopback_socket()?;
        if self.kind == ClientKind::Udp {
            mark()?;
            send_plain(&socket, remote, size, packets).map_err(RunError::system("send by UDP"))?;
            return Ok(ApiCalls::default());
        }
        let place = self.daemon.clone().map_or(ManagerLocation::InProcess, |path| ManagerLocation::Daemon(Some(path)));
        let cm = CongestionManager::open(place).map_err(machine)?;
        mark()?;
        if self.kind == ClientKind::Buffered {
            return buffered::send(&cm, socket, remote, size, packets).map_err(machine);
        }
        let (connected, returns_grants) = (self.kind == ClientKind::Alf, self.returns_grants);
        Alf { cm: &cm, socket: &socket, remote, connected, size, packets, returns_grants }.send().map_err(machine)
    }
}

/// Sends numbered datagrams, and looks at no answer.
fn send_plain(socket: &UdpSocket, remote: SocketAddr, size: usize, packets: u64) -> std::io::Result<()> {
    socket.connect(remote)?;
    let mut payload = vec![0; size];
    for number in 0..packets {
        payload[..8].copy_from_slice(&number.to_be_bytes());
        socket.send(&payload)?;
    }
    Ok(())
}
