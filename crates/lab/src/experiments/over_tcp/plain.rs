//! Plain TCP: a program that writes into a socket, and blocks while its buffer is full.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};

use timeous::core::{AduSeq, Instant};
use timeous_engine::clock;
use timeous_host::stamp;
use timeous_net::emulator::Namespace;
use timeous_tcp::record;
use timeous_testbed::machine::{machine, sleep_until};

use super::plan::{LEAD, LOOK, PATIENCE, Plan, RIGHT, SenderStatus};
use crate::experiment::RunError;

/// Streams from a namespace.
pub(super) fn stream(from: &Namespace, plan: &Plan) -> Result<(Instant, SenderStatus), RunError> {
    let to: SocketAddr = RIGHT.parse().expect("an address and a port");
    let mut socket = connect(from, to)?;
    let begin = clock::now() + LEAD;
    let end = begin + plan.lasting;
    let (mut payload, mut bytes) = (Vec::new(), Vec::new());
    for (index, offer) in plan.offers.iter().enumerate() {
        sleep_until(begin + offer.at);
        stamp::write(AduSeq(index as u64), offer.len, &mut payload);
        bytes.clear();
        record::numbered(record::TIMED, index as u32, &payload, &mut bytes);
        match write(&mut socket, &bytes, end) {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => return Ok((begin, SenderStatus { ended: true, ..SenderStatus::default() })),
        }
    }
    sleep_until(end);
    Ok((begin, SenderStatus::default()))
}

fn connect(from: &Namespace, to: SocketAddr) -> Result<TcpStream, RunError> {
    let socket = from.within(|| TcpStream::connect_timeout(&to, PATIENCE.into())).map_err(machine)?;
    let socket = socket.map_err(RunError::system("connect across the link"))?;
    // Each datagram leaves without Nagle's delay.
    socket.set_nodelay(true).map_err(RunError::system("set a socket"))?;
    socket.set_write_timeout(Some(LOOK.into())).map_err(RunError::system("set a socket's patience"))?;
    Ok(socket)
}

/// Writes all bytes; returns `false` if the time ran out first.
fn write(socket: &mut TcpStream, mut bytes: &[u8], end: Instant) -> std::io::Result<bool> {
    while !bytes.is_empty() {
        if clock::now() >= end {
            return Ok(false);
        }
        match socket.write(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
