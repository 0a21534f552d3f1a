//! Two network namespaces with a lossless veth pair between them, and the sockets at its ends.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBufForce, TcpCongestion, TcpMaxSeg};
use rustix::net::{AddressFamily, SocketType, connect, socket};
use timeous_net::emulator::Namespace;

use super::super::managed::machine;
use crate::experiment::LabError;

/// Addresses of both sides in two networks: one with delayed acknowledgements, one with an
/// acknowledgement per packet.
const DELAYED: [&str; 2] = ["10.81.1.1", "10.81.1.2"];
const AT_ONCE: [&str; 2] = ["10.81.2.1", "10.81.2.2"];
/// Socket buffer, in bytes: holds all packets of a round, so that none is lost.
const BUFFER: usize = 64 << 20;
/// Bytes of the timestamps option in each segment (RFC 7323 §3.2).
const TIMESTAMPS: usize = 12;

pub(super) struct Wire {
    left: Namespace,
    right: Namespace,
}

impl Wire {
    /// Builds namespaces and links.
    pub(super) fn make() -> Result<Self, LabError> {
        let name = |side: &str| format!("timeous-api-{}{side}", std::process::id());
        let open = |side: &str| Namespace::open_or_make(&name(side)).map_err(machine);
        let (left, right) = (open("l")?, open("r")?);
        let peer = name("r");
        left.ip(&["link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", &peer]).map_err(machine)?;
        for (side, namespace, device) in [(0, &left, "veth0"), (1, &right, "veth1")] {
            let ip = |words: &[&str]| namespace.ip(words).map_err(machine);
            // Segmentation offload is off, as in the paper: TCP and UDP then send equally many
            // packets.
            ip(&["link", "set", device, "gso_max_segs", "1"])?;
            for network in [DELAYED, AT_ONCE] {
                ip(&["address", "add", &format!("{}/24", network[side]), "dev", device])?;
            }
            ip(&["link", "set", device, "up"])?;
            namespace.set_sysctl("net/ipv4/tcp_no_metrics_save", "1").map_err(machine)?;
        }
        let route = ["route", "replace", "10.81.2.0/24", "dev", "veth1", "proto", "kernel", "scope", "link"];
        right.ip(&[&route[..], &["src", AT_ONCE[1], "quickack", "1"]].concat()).map_err(machine)?;
        Ok(Self { left, right })
    }

    /// Returns a sending and a receiving socket.
    pub(super) fn udp(&self) -> Result<(UdpSocket, UdpSocket), LabError> {
        let bind = |namespace: &Namespace, address: &str| {
            let opened = || -> io::Result<UdpSocket> {
                let socket = UdpSocket::bind((address, 0))?;
                setsockopt(&socket, RcvBufForce, &BUFFER)?;
                Ok(socket)
            };
            namespace.within(opened).map_err(machine)?.map_err(LabError::system("open a UDP socket in a namespace"))
        };
        Ok((bind(&self.left, AT_ONCE[0])?, bind(&self.right, AT_ONCE[1])?))
    }

    /// Opens a connection whose segments hold `size` bytes.
    pub(super) fn tcp(
        &self,
        congestion_control: &str,
        size: usize,
        nodelay: bool,
    ) -> Result<(TcpStream, TcpStream), LabError> {
        let failed = LabError::system;
        let address = if nodelay { AT_ONCE[1] } else { DELAYED[1] };
        let listener = self.right.within(|| TcpListener::bind((address, 0))).map_err(machine)?;
        let listener = listener.map_err(failed("listen in a namespace"))?;
        let called: SocketAddr = listener.local_addr().map_err(failed("look at a socket"))?;
        let call = || -> io::Result<TcpStream> {
            let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            setsockopt(&fd, TcpCongestion, &congestion_control.into())?;
            setsockopt(&fd, TcpMaxSeg, &((size + TIMESTAMPS) as u32))?;
            connect(&fd, &called)?;
            let stream = TcpStream::from(fd);
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let sending = self.left.within(call).map_err(machine)?.map_err(failed("connect to a namespace"))?;
        let (receiving, _) = listener.accept().map_err(failed("accept in a namespace"))?;
        Ok((sending, receiving))
    }
}
