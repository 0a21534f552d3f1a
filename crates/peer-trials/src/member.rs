//! Timeous as one of the peers: a program at each end, connected by datagrams over loopback.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration as StdDuration;

use clap::{Args, Subcommand};
use timeous::core::{Duration, FrameId, Priority, References};
use timeous::{Arrival, DialEvent, Dialer, Hints, Receiver, Sender, Uri, clock};
use timeous_testbed::RunError;
use timeous_testbed::machine::machine;

use crate::datagram::{END, Header};

/// Name of the hidden subcommand.
pub(crate) const COMMAND: &str = "member";
/// Interval between checks for fates when no datagram comes.
const LOOK: StdDuration = StdDuration::from_millis(50);

/// One end of a stream.
#[derive(Args, Clone, Debug)]
pub(crate) struct MemberArgs {
    #[command(subcommand)]
    end: End,
}

#[derive(Clone, Debug, Subcommand)]
enum End {
    /// Sends what comes at an address
    Send(Ends),
    /// Gives what it receives to an address
    Receive(Ends),
}

#[derive(Args, Clone, Debug)]
struct Ends {
    uri: Uri,
    local: SocketAddr,
}

/// Runs one end until the stream is over.
///
/// # Errors
/// Something that the machine lacks.
pub(crate) fn run(args: &MemberArgs) -> Result<(), RunError> {
    match &args.end {
        End::Send(ends) => send(ends),
        End::Receive(ends) => receive(ends),
    }
}

fn send(Ends { uri, local }: &Ends) -> Result<(), RunError> {
    let mut sender = call(uri).map_err(machine)?;
    let socket = UdpSocket::bind(local).map_err(RunError::system("open a UDP socket"))?;
    socket.set_read_timeout(Some(LOOK)).map_err(RunError::system("set a socket's patience"))?;
    let latency = uri.options.latency;
    let mut bytes = vec![0; 1 << 16];
    let mut refused = 0;
    loop {
        if let Ok(len) = socket.recv(&mut bytes) {
            let datagram = &bytes[..len];
            if datagram.starts_with(END) {
                break;
            }
            // The ring is full: the datagram is dropped.
            refused += u64::from(sender.send(datagram, hints(datagram, latency)).is_err());
        }
        while sender.poll_delivery().is_some() {}
    }
    let stats = serde_json::to_string(&sender.stats()).expect("numbers are JSON");
    println!("{{\"refused\":{refused},\"stats\":{stats}}}");
    // The remaining ADUs have a fate, or soon pass their deadline.
    sender.finish().map(drop).map_err(machine)
}

/// Calls the other member, which may not listen yet.
fn call(uri: &Uri) -> Result<Sender, timeous::Error> {
    let (dialer, end) = (Dialer::new(uri.clone())?, clock::now() + uri.options.timeout);
    loop {
        match dialer.poll() {
            Some(DialEvent::Connected(sender, _)) => return Ok(sender),
            Some(DialEvent::Failed { error, .. }) if clock::now() >= end => return Err(error),
            Some(DialEvent::GivenUp { error }) => return Err(error),
            Some(_) => {}
            None => {
                dialer.wait(None);
            }
        }
    }
}

/// Metadata of a datagram, from its header.
fn hints(datagram: &[u8], latency: Duration) -> Hints {
    let Some(header) = Header::read(datagram) else { return Hints::default() };
    let mut references = References::NONE;
    for id in header.references.into_iter().filter(|id| *id != 0) {
        let held = references.push(FrameId(id));
        debug_assert!(held, "a header has no more references than an ADU");
    }
    Hints {
        deadline: Some(header.at + latency),
        priority: Priority(header.priority),
        frame: FrameId(header.frame),
        references,
        ..Hints::default()
    }
}

fn receive(Ends { uri, local }: &Ends) -> Result<(), RunError> {
    let mut receiver = Receiver::open(uri).map_err(machine)?;
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(RunError::system("open a UDP socket"))?;
    loop {
        match receiver.receive(None).map_err(machine)? {
            // Fails if the receiving end has gone: the run is over.
            Arrival::Data(datagram) => drop(socket.send_to(&datagram.bytes, local)),
            Arrival::Nothing => {}
            Arrival::End => return Ok(()),
        }
    }
}
