//! Refused connections, on either side.

use std::net::SocketAddr;

use timeous_core::Duration;
use timeous_dccp::{Ccid, ResetCode};
use timeous_engine::{CloseReason, ServiceCode, Status, StreamConfig, clock};

use crate::machine::{Machine, Nothing, OURS, THEIRS};
use crate::session::{self, SERVICE};

const PATIENCE: Duration = Duration::from_secs(30);
const OTHER: &str = "ELSE";

fn check<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, should: &T) -> Result<(), Nothing> {
    if is == should { Ok(()) } else { Err(Nothing(format!("{what}: {is:?}, and not {should:?}"))) }
}

/// Returns the reset code with which Linux refuses a call.
fn called(machine: &Machine, config: StreamConfig) -> Result<ResetCode, Nothing> {
    let engine = session::engine(machine);
    let mut stream = engine.connect(SocketAddr::new(THEIRS.parse().unwrap(), config.dccp_port), config)?;
    let end = clock::now() + PATIENCE;
    while clock::now() < end {
        match stream.status() {
            Status::Closed(CloseReason::Reset(with)) => return Ok(with.code),
            Status::Closed(reason) => return Err(Nothing(format!("our call ended otherwise: {reason}"))),
            _ => stream.receiving().wait(Some(end)),
        };
    }
    Err(Nothing(format!("our call is {:?}", stream.status())))
}

/// Makes Linux listen with CCID 2 for `SERVICE`.
fn linux_listens(machine: &mut Machine, port: u16) -> Result<(), Nothing> {
    machine.order(&format!("listen r{port} {port} 2 {SERVICE} 1 100"));
    machine.wait(&format!("r{port}"), "listening").map(drop)
}

fn linux_stops(machine: &mut Machine, port: u16) -> Result<(), Nothing> {
    machine.order(&format!("close r{port}"));
    machine.wait(&format!("r{port}"), "closed").map(drop)
}

fn with_service(service: &str, port: u16) -> StreamConfig {
    let service = ServiceCode::from_bytes(*service.as_bytes().first_chunk().unwrap());
    StreamConfig { service, ..session::config(Ccid::Ccid2, port) }
}

/// Linux refuses a service that it does not offer (RFC 4340 §8.1.2).
pub(crate) fn our_wrong_service(machine: &mut Machine) -> Result<(), Nothing> {
    linux_listens(machine, 5_101)?;
    check("our wrong service", &called(machine, with_service(OTHER, 5_101))?, &ResetCode::BadServiceCode)?;
    linux_stops(machine, 5_101)
}

/// This side refuses such a service, too.
pub(crate) fn linuxs_wrong_service(machine: &mut Machine) -> Result<(), Nothing> {
    let engine = session::engine(machine);
    let mut listener = engine.listen(SocketAddr::new(OURS.parse().unwrap(), 6_101), with_service(SERVICE, 6_101))?;
    machine.order(&format!("connect r6101 {OURS} 6101 2 {OTHER} 1 100"));
    let said = machine.wait("r6101", "failed")?;
    check("what Linux says of its wrong service", &said.as_str(), &"connect EBADRQC")?;
    check("whom we heard of", &listener.poll_accept().is_some(), &false)
}

/// No listener on the port. RFC 4340 §8.1.3 has a reset code for that, but Linux uses "No Connection".
pub(crate) fn our_wrong_port(machine: &mut Machine) -> Result<(), Nothing> {
    check("our wrong port", &called(machine, with_service(SERVICE, 5_102))?, &ResetCode::NoConnection)
}

/// This side allows only CCID 3, by a Mandatory option (RFC 4340 §6.6.9, §10), and Linux only CCID 2.
pub(crate) fn our_wrong_ccid(machine: &mut Machine) -> Result<(), Nothing> {
    linux_listens(machine, 5_103)?;
    let code = called(machine, session::config(Ccid::Ccid3, 5_103))?;
    check("our wrong CCID", &code, &ResetCode::MandatoryError)?;
    linux_stops(machine, 5_103)
}
