//! Two network namespaces with a lossless veth pair between them, and the sockets at its ends.

use std::io;
use std::net::{TcpStream, UdpSocket};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use timeous_net::emulator::Namespace;

use crate::experiment::LabError;
use crate::machine::{Call, machine, veth};

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
        let [left, right] = veth("api", &[DELAYED, AT_ONCE], false)?;
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
        let address = if nodelay { AT_ONCE[1] } else { DELAYED[1] };
        let address = format!("{address}:0").parse().expect("an address and a port");
        let segment = Some((size + TIMESTAMPS) as u32);
        Call { congestion_control, segment, nodelay: true }.open(&self.left, &self.right, address)
    }
}
