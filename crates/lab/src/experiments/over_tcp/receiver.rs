//! Receiver: a plain socket, and the records in the received bytes.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};

use timeous::core::{AduSeq, Duration, Instant};
use timeous_engine::clock;
use timeous_host::stamp;
use timeous_tcp::record::{Framing, Ordered};
use timeous_testbed::machine::{machine, no_connection, sleep_until};
use timeous_testbed::network::TestNetwork;

use super::encryption;
use super::plan::{LEAD, LOOK, PATIENCE, Plan, RIGHT};
use crate::experiment::RunError;

/// Interval between attempts to accept a connection.
const ACCEPT_LOOK: Duration = Duration::from_millis(2);

/// First arrival of each datagram, the number of altered or repeated ones, and the framing of each connection.
pub(super) type Received = (Vec<Option<Instant>>, u64, Vec<Framing>);

/// Opens the listening socket for all connections.
pub(super) fn listen(network: &TestNetwork) -> Result<TcpListener, RunError> {
    let listener = network.right.within(|| TcpListener::bind(RIGHT)).map_err(machine)?;
    listener.map_err(RunError::system("listen in a namespace"))
}

/// Receives one stream for its planned duration. A new connection continues the stream, whether the
/// end of the previous one has arrived or not: it may have been lost.
pub(super) fn receive(listener: &TcpListener, plan: &Plan) -> Result<Received, RunError> {
    listener.set_nonblocking(true).map_err(RunError::system("set a socket"))?;
    let mut received = (vec![None; plan.offers.len()], 0, Vec::new());
    let first = accept(listener, clock::now() + PATIENCE)?.ok_or_else(no_connection)?;
    let end = clock::now() + LEAD + plan.lasting;
    let mut stream = Some(first);
    while let Some(open) = stream {
        stream = match read(open, listener, plan, end, &mut received)? {
            Some(next) => Some(next),
            None => accept(listener, end)?,
        };
    }
    Ok(received)
}

/// Reads until the connection or the time ends, or until a new connection arrives.
fn read(
    mut stream: TcpStream,
    listener: &TcpListener,
    plan: &Plan,
    end: Instant,
    received: &mut Received,
) -> Result<Option<TcpStream>, RunError> {
    let framing = encryption::framing(&mut stream, plan)?;
    received.2.push(framing.clone());
    let mut records = Ordered::new(framing, plan.longest());
    let mut buffer = vec![0; 64 << 10];
    while clock::now() < end {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(len) => {
                let now = clock::now();
                records.push(&buffer[..len], |datagram| note(received, plan, now, datagram.payload));
            }
            // No data: checks for a new connection.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if let Some(next) = accept(listener, clock::now())? {
                    return Ok(Some(next));
                }
            }
            // A middlebox may have reset the connection.
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Accepts a connection, if one arrives by `until`.
fn accept(listener: &TcpListener, until: Instant) -> Result<Option<TcpStream>, RunError> {
    let failed = RunError::system;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(failed("set a socket"))?;
                stream.set_read_timeout(Some(LOOK.into())).map_err(failed("set a socket's patience"))?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && clock::now() < until => {
                sleep_until(clock::now() + ACCEPT_LOOK);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(failed("accept across the link")(error)),
        }
    }
}

fn note((arrived, corrupt, _): &mut Received, plan: &Plan, now: Instant, payload: &[u8]) {
    let index = stamp::read(payload).map_or(usize::MAX, |seq| seq.0 as usize);
    let mut expected = Vec::new();
    if let Some(offer) = plan.offers.get(index) {
        stamp::write(AduSeq(index as u64), offer.len, &mut expected);
    }
    match arrived.get_mut(index) {
        Some(slot @ None) if expected == payload => *slot = Some(now),
        _ => *corrupt += 1,
    }
}
