//! Streams that call by DCCP, and go on over TCP when UDP does not pass: from the beginning, or later.
//!
//! Only the caller can make the other connection, so that it is the one who watches. DCCP asks a silent peer whether it
//! lives (`keep_alive`): hears it nothing for a second all the same, it calls by TCP, and if that is answered while DCCP is
//! still silent, the stream goes on there. It does not come back: TCP passes wherever it has passed.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use timeous_core::{Duration, Instant};

use crate::carrier::TcpConfig;
use crate::identity::Hello;
use crate::kernel_tcp::{Call, KernelTcp};
use crate::order::StreamId;
use crate::port::Port;

/// So long the listener may take to answer by DCCP before it is called by TCP, too.
const HANDSHAKE: Duration = Duration::from_millis(700);
/// So long it may be silent. It is asked after less than half of that.
const SILENCE: Duration = Duration::from_secs(1);
/// After so long a call that failed is made again.
const CALL_AGAIN: Duration = Duration::from_millis(200);
/// So often it is looked at a call.
const LOOK: Duration = Duration::from_millis(10);

/// A stream that is watched.
pub(crate) struct Follower {
    pub(crate) id: StreamId,
    pub(crate) remote: SocketAddr,
    /// The UDP port that it uses.
    pub(crate) port: u64,
    pub(crate) tcp: TcpConfig,
    heard: Heard,
    call: Option<Call>,
    next_call: Instant,
    /// Whether nobody listens at the TCP port.
    tcp_refused: bool,
}

/// What has come by DCCP.
#[derive(Clone, Copy, Debug)]
struct Heard {
    last: Instant,
    packets: u64,
    is_open: bool,
}

impl Heard {
    fn until(&self) -> Instant {
        self.last + if self.is_open { SILENCE } else { HANDSHAKE }
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Followers(Vec<Follower>);

impl Followers {
    /// A stream begins to call at `now`.
    pub(crate) fn add(&mut self, now: Instant, (id, port): (StreamId, u64), remote: SocketAddr, tcp: TcpConfig) {
        let heard = Heard { last: now, packets: 0, is_open: false };
        self.0.push(Follower { id, remote, port, tcp, heard, call: None, next_call: now, tcp_refused: false });
    }

    /// Calls for those who hear nothing, and lets those go on over TCP who are answered there.
    pub(crate) fn look(&mut self, now: Instant, ports: &mut BTreeMap<u64, Port>, tcp: &mut KernelTcp) {
        self.0.retain_mut(|follower| {
            let Some(port) = ports.get_mut(&follower.port) else { return false };
            let Some((packets, is_open)) = port.heard(follower.id) else { return false };
            let is_refused = port.is_refused();
            let answered = follower.look(now, packets, is_open, is_refused);
            if is_refused && follower.tcp_refused {
                port.give_in(now);
                return false;
            }
            if let Some(call) = answered {
                let hello = Hello(port.identity(follower.id).filter(|_| is_open));
                if let Some(session) = port.take(now, follower.id) {
                    tracing::debug!("UDP does not pass: a stream goes on over TCP");
                    tcp.go_on(now, call, hello, session, &follower.tcp);
                }
                return false;
            }
            true
        });
    }

    /// When it is to be looked again.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.0.iter().map(|follower| follower.poll_timeout(now)).min()
    }
}

impl Follower {
    /// The call, if the stream is to go on there.
    fn look(&mut self, now: Instant, packets: u64, is_open: bool, is_refused: bool) -> Option<Call> {
        if packets != self.heard.packets || is_open != self.heard.is_open {
            self.heard = Heard { last: now, packets, is_open };
            self.call = None;
        }
        if now < self.heard.until() && !is_refused {
            return None;
        }
        match &self.call {
            None if now >= self.next_call => {
                self.next_call = now + CALL_AGAIN;
                self.call = Call::start(self.remote).ok();
                None
            }
            None => None,
            Some(call) => match call.is_answered() {
                Ok(true) => self.call.take(),
                Ok(false) => None,
                Err(error) => {
                    self.tcp_refused = error.kind() == io::ErrorKind::ConnectionRefused;
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
            None => self.heard.until().max(self.next_call).max(now),
        }
    }
}
