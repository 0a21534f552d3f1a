//! Opening of a stream that the daemon runs, with the ring shared between two processes.

mod credential;

use std::net::SocketAddr;

use timeous_choice::QueueLimit;
use timeous_choice::dbat::DropRule;
use timeous_engine::{CloseReason, Stream, clock};
use timeous_ipc::messages::{Dbat, Marked as Marks, Nanos, Policy, QueueLimit as Limit, StreamSpec};
use timeous_ipc::{Client, ClientError, Event};

use super::attempts::{Cancel, call};
use super::handshake::{REPAIRED, TIMEWAIT, handshake, local};
use super::purpose::Purpose;
use super::sealing::check_call;
use crate::error::Error;
use crate::options::{Encapsulation, Options, Role};
use crate::policy::{DbatSettings, Marked, PolicyName};
use crate::uri::Uri;
use credential::StreamProtection;

/// Calls, or waits for a caller, until the stream is open.
pub(super) fn open(
    client: &mut Client,
    uri: &Uri,
    purpose: Purpose,
    cancel: Option<Cancel<'_>>,
) -> Result<Option<Stream>, Error> {
    let options = &uri.options;
    match &uri.role {
        Role::Caller { host, port } => {
            let protection = credential::of_caller(options, host, purpose.intent())?;
            call((host, *port), options, cancel, |remote| {
                check_call(options, remote)?;
                hand_over(client, &protection)?;
                let [ring, socket] = client.connect_stream_with(remote, spec(options), protection.protection)?;
                Ok(Stream::remote(ring, socket)?)
            })
        }
        Role::Listener { address, port } => {
            let protection = credential::of_listener(options, purpose.callers())?;
            be_called(client, local(*address, *port), options, &protection).map(Some)
        }
    }
}

/// Hands over the credential for the next stream, which takes it.
fn hand_over(client: &mut Client, protection: &StreamProtection) -> Result<(), ClientError> {
    protection.credential.as_ref().map_or(Ok(()), |credential| client.give_credential(credential))
}

/// Waits for a caller; one that does not finish its handshake is ignored.
fn be_called(
    client: &mut Client,
    local: SocketAddr,
    options: &Options,
    protection: &StreamProtection,
) -> Result<Stream, Error> {
    loop {
        hand_over(client, protection)?;
        // The listener stays open with the stream, to tell other callers that it is busy.
        let (listener, _) = client.listen_with(local, spec(options), Some(1), protection.protection)?;
        if let Some(stream) = first_caller(client, options)? {
            return Ok(stream);
        }
        client.stop_listening(listener)?;
    }
}

/// Waits for the next caller; `None` if it did not finish its handshake.
fn first_caller(client: &mut Client, options: &Options) -> Result<Option<Stream>, Error> {
    loop {
        match client.poll_event() {
            Some(Event::Incoming { ring, socket, .. }) => {
                let mut stream = Stream::remote(ring, socket)?;
                return match handshake(&mut stream, Some(clock::now() + options.timeout)) {
                    // A caller that has already closed may have sent data.
                    Ok(()) | Err(Some(CloseReason::Peer)) => Ok(Some(stream)),
                    Err(_) => Ok(None),
                };
            }
            Some(Event::Disconnected(_)) => return Err(Error::Closed(CloseReason::Abandoned)),
            Some(_) => {}
            None => {
                client.wait(None);
            }
        }
    }
}

fn spec(options: &Options) -> StreamSpec {
    let nanos = |time| Nanos::from(time);
    StreamSpec {
        service: options.service,
        dccp_port: options.dccp_port,
        ccid: options.ccid.number(),
        controller: options.deciding().map(Into::into),
        local: options.local,
        native: options.encapsulation == Encapsulation::None,
        slots: options.slots.next_power_of_two(),
        mps: u32::try_from(options.mtu.unwrap_or(Options::MOST_MTU)).unwrap_or(u32::MAX),
        connect_timeout: nanos(options.timeout),
        keep_alive: options.asks_after().map(nanos),
        silence: nanos(options.timeout / 2),
        msl: nanos(TIMEWAIT / 2),
        server_holds_timewait: true,
        policy: policy(options),
        repair: options.repairs().then_some(REPAIRED.0),
    }
}

fn policy(options: &Options) -> Policy {
    match options.chooses_by() {
        PolicyName::Fifo => Policy::Fifo,
        PolicyName::Deadline => Policy::Deadline,
        PolicyName::Dbat => Policy::Dbat(dbat(options.dbat)),
        PolicyName::Layers => Policy::Layers,
        PolicyName::Punctual => Policy::Punctual,
        PolicyName::Dependencies => Policy::Dependencies,
        PolicyName::Age => Policy::Age(options.age.unwrap_or(options.latency).into()),
        PolicyName::Plan => {
            let mut weights = [None; Options::MOST_WEIGHTS];
            for (slot, weight) in weights.iter_mut().zip(&options.weights) {
                *slot = Some(*weight);
            }
            Policy::Plan(weights)
        }
        PolicyName::Frames => Policy::Frames(match options.queue {
            None | Some(QueueLimit::Deadlines) => Limit::Deadlines,
            Some(QueueLimit::Time(time)) => Limit::Time(time.into()),
            Some(QueueLimit::Packets(packets)) => Limit::Packets(u32::try_from(packets).unwrap_or(u32::MAX)),
        }),
    }
}

fn dbat(settings: DbatSettings) -> Dbat {
    let DbatSettings { marked, overfull, least_delay, max_threshold } = settings;
    Dbat {
        marked: match marked {
            Marked::Priority(least) => Marks::Priority(least.0),
            Marked::Layers(last) => Marks::Layers(last.0),
        },
        only_marked: overfull == DropRule::OnlyMarked,
        least_delay: least_delay.into(),
        max_threshold,
    }
}
