//! Fallback of DCCP streams to TCP where UDP is blocked, at the beginning or later.
//!
//! Only the caller can open the TCP connection, so it does the watching. DCCP probes a silent peer (`keep_alive`): after one second without
//! a packet the caller connects by TCP, and if that succeeds while DCCP is still silent, the stream moves there. It does not move back.

use std::collections::BTreeMap;
use std::io;

use timeous_core::{Duration, Instant};
use timeous_kernel_tcp::{Call, HandshakeFailure, Hello, KernelTcp, Route, TcpConfig};
use timeous_seal::{CallerCredential, SealError};
use timeous_stream::StreamId;

use crate::listening::Listening;
use crate::port::Port;
use crate::session::Session;

/// Time for the listener to answer by DCCP before a TCP connection is tried as well. Chosen by us: a higher value
/// begins later where UDP is blocked; a lower one tries TCP needlessly on long paths.
const HANDSHAKE: Duration = Duration::from_millis(700);
/// Silence after which TCP is tried. DCCP probes the peer after less than half of it. Chosen by us: a higher value
/// interrupts the stream for longer where UDP becomes blocked.
const SILENCE: Duration = Duration::from_secs(1);
/// Interval between failed connection attempts. Chosen by us: a higher value connects later after the peer returns.
const CALL_AGAIN: Duration = Duration::from_millis(200);
/// Polling interval of a pending connection attempt. Chosen by us: a higher value notices the result later.
const LOOK: Duration = Duration::from_millis(10);

/// A watched stream.
pub(crate) struct Follower {
    pub(crate) id: StreamId,
    pub(crate) route: Route,
    /// UDP port that the stream uses.
    pub(crate) port: u64,
    pub(crate) tcp: TcpConfig,
    /// Credential of an encrypted stream, for both transports.
    pub(crate) credential: Option<CallerCredential>,
    activity: PeerActivity,
    call: Option<Call>,
    next_call: Instant,
    /// Whether the TCP port refused the connection.
    tcp_refused: bool,
    /// Reason why the agreement on keys over TCP has failed, to be reported once.
    tcp_error: Option<SealError>,
}

/// Progress of the DCCP connection: packets received, and whether it is open.
#[derive(Clone, Copy, Debug)]
struct PeerActivity {
    last: Instant,
    packets: u64,
    is_open: bool,
}

impl PeerActivity {
    fn deadline(&self) -> Instant {
        self.last + if self.is_open { SILENCE } else { HANDSHAKE }
    }
}

/// All watched streams.
#[derive(Default)]
pub(crate) struct Followers(Vec<Follower>);

impl Followers {
    /// Adds a stream that connects at `now`.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        (id, port): (StreamId, u64),
        route: Route,
        (tcp, credential): (TcpConfig, Option<CallerCredential>),
    ) {
        let activity = PeerActivity { last: now, packets: 0, is_open: false };
        self.0.push(Follower {
            id,
            route,
            port,
            tcp,
            credential,
            activity,
            call: None,
            next_call: now,
            tcp_refused: false,
            tcp_error: None,
        });
    }

    /// Connects by TCP for silent streams, and moves those that are answered there.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        ports: &mut BTreeMap<u64, Port>,
        tcp: &mut KernelTcp<Session, Listening>,
    ) {
        self.0.retain_mut(|follower| {
            let Some(port) = ports.get_mut(&follower.port) else { return false };
            let Some((packets, is_open)) = port.heard(follower.id) else { return false };
            let is_refused = port.is_refused(follower.id);
            let answered = follower.look(now, packets, is_open, is_refused);
            if is_refused && follower.tcp_refused {
                port.give_in(now, follower.id);
                return false;
            }
            if let Some(error) = follower.tcp_error.take() {
                port.note_tcp_failure(follower.id, error);
            }
            if let Some(call) = answered {
                let hello = Hello(port.identity(follower.id).filter(|_| is_open));
                if let Some(session) = port.take(now, follower.id) {
                    tracing::debug!("UDP does not pass: a stream goes on over TCP");
                    tcp.go_on(now, call, &hello, session, &follower.tcp);
                }
                return false;
            }
            true
        });
    }

    /// Returns the time of the next check.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.0.iter().map(|follower| follower.poll_timeout(now)).min()
    }
}

impl Follower {
    /// Returns the TCP connection attempt, if the stream is to move there.
    fn look(&mut self, now: Instant, packets: u64, is_open: bool, is_refused: bool) -> Option<Call> {
        if packets != self.activity.packets || is_open != self.activity.is_open {
            self.activity = PeerActivity { last: now, packets, is_open };
            self.call = None;
        }
        if now < self.activity.deadline() && !is_refused {
            return None;
        }
        match &mut self.call {
            None if now >= self.next_call => {
                self.next_call = now + CALL_AGAIN;
                self.call = Call::start(self.route, self.credential.as_ref()).ok();
                None
            }
            None => None,
            Some(call) => match call.advance() {
                Ok(true) => self.call.take(),
                Ok(false) => None,
                Err(failure) => {
                    match failure {
                        HandshakeFailure::Socket(error) => {
                            self.tcp_refused = error.kind() == io::ErrorKind::ConnectionRefused;
                        }
                        HandshakeFailure::Seal(error) => self.tcp_error = Some(error),
                    }
                    self.call = None;
                    self.next_call = now + CALL_AGAIN;
                    None
                }
            },
        }
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        match &self.call {
            Some(_) => now + LOOK,
            None => self.activity.deadline().max(self.next_call).max(now),
        }
    }
}
