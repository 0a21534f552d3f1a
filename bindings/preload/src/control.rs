//! Control sockets: to ask receivers for reports from, and to be asked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

use crate::subscriber::PORTS;
use crate::wire::{MAX_LEN, Message};

/// Messages read in one turn from each socket. Chosen by us: a higher value delays the sending of datagrams under a flood.
const PER_TURN: usize = 64;

/// Addresses that stand for all of this host's.
const ANY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// Control sockets of this process.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Sockets to ask from, for each address family.
    askers: Vec<(bool, UdpSocket)>,
    /// Sockets to be asked at.
    listeners: Vec<UdpSocket>,
}

/// Message that has come.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) from: SocketAddr,
    pub(crate) message: Message,
    /// Number of the socket that it came to, for answers.
    pub(crate) at: usize,
}

impl Control {
    /// Listens at the first port from `base` on that no other process has, if there is one.
    pub(crate) fn listen(&mut self, base: u16) {
        let ports = || (0..PORTS).filter_map(|offset| base.checked_add(offset));
        let found = ports().find_map(|port| Some((port, open(SocketAddr::new(ANY[0], port))?)));
        if let Some((port, socket)) = found {
            self.listeners.push(socket);
            // The same port, so that a host has as many for each family. Without IPv6 there is none.
            self.listeners.extend(open(SocketAddr::new(ANY[1], port)));
        }
    }

    /// Whether it listens.
    pub(crate) fn listens(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Sends a message to a receiver. A message that the network refuses is lost as any other.
    pub(crate) fn ask(&mut self, to: SocketAddr, message: &Message) {
        let is_v4 = to.is_ipv4();
        if !self.askers.iter().any(|&(v4, _)| v4 == is_v4) {
            let socket = open(SocketAddr::new(ANY[usize::from(!is_v4)], 0));
            self.askers.extend(socket.map(|socket| (is_v4, socket)));
        }
        if let Some((_, socket)) = self.askers.iter().find(|&&(v4, _)| v4 == is_v4) {
            let _ = socket.send_to(&message.encode(), to);
        }
    }

    /// Sends a message from the socket with number `at`.
    pub(crate) fn answer(&self, at: usize, to: SocketAddr, message: &Message) {
        if let Some(socket) = self.sockets().nth(at) {
            let _ = socket.send_to(&message.encode(), to);
        }
    }

    /// Sends a report, from the listening socket of the subscriber's family.
    pub(crate) fn report(&self, to: SocketAddr, message: &Message) {
        if let Some(socket) = self.listeners.get(usize::from(to.is_ipv6())) {
            let _ = socket.send_to(&message.encode(), to);
        }
    }

    fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.listeners.iter().chain(self.askers.iter().map(|(_, socket)| socket))
    }

    /// Returns the messages that have come.
    pub(crate) fn receive(&self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        let mut buffer = [0; MAX_LEN + 1];
        for (at, socket) in self.sockets().enumerate() {
            for _ in 0..PER_TURN {
                match socket.recv_from(&mut buffer) {
                    Ok((len, from)) => {
                        let message = Message::decode(&buffer[..len]);
                        arrived.extend(message.map(|message| Arrived { from, message, at }));
                    }
                    // An ICMP message about an earlier ask says as much as silence.
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
        arrived
    }

    /// Descriptors that are readable when a message has come.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets().map(AsFd::as_fd)
    }
}

/// Opens a socket for one family; an IPv6 one leaves IPv4 to its sibling.
fn open(local: SocketAddr) -> Option<UdpSocket> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP)).ok()?;
    if local.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true).ok()?;
    }
    bind(&socket, &local).ok()?;
    Some(socket.into())
}
