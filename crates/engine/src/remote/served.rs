//! Engine side of a stream whose application is another process, for a daemon between the two.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use timeous_ring::{SharedZone, Violation, ZoneKey, ZoneTable};
use timeous_stream::{Order, StreamId};

use super::message::{News, RemoteRequest};
use super::socket::{receive, try_send};
use crate::line::Orders;
use crate::shared::{Shared, Status};
use crate::waker::Waker;

/// Maximum number of requests read per turn, so that other streams have theirs. Chosen by us: a higher value costs
/// fewer wake-ups and delays the others.
const MAX_REQUESTS: usize = 64;
/// Maximum number of notices sent per turn. Chosen by us: a higher value costs fewer wake-ups and delays the others.
const MAX_NOTICES: usize = 256;

/// A stream that this process's engine runs for another process.
///
/// The holder polls [`socket`](Self::socket) and [`bell`](Self::bell), and calls [`pump`](Self::pump) when one of them
/// is ready. Dropping it ends the connection. Nothing here waits for the other process, which can do no harm but end
/// the stream.
#[derive(Debug)]
pub struct Served {
    id: StreamId,
    shared: Arc<Shared>,
    orders: Orders,
    bell: Waker,
    socket: OwnedFd,
    /// Zones attached to the ring.
    zones: ZoneTable,
    told: Status,
    told_peer: Option<SocketAddr>,
    /// Whether the stream ID was sent, or there is none.
    told_stream_id: bool,
    /// Whether the caller's intent was sent, or there is none.
    told_intent: bool,
    /// Whether the reason was sent why the stream's packets cannot be encrypted.
    told_seal_error: bool,
    /// Message for which the socket had no room.
    waiting: Option<Vec<u8>>,
    /// Whether the application has to be notified of changes in the ring.
    writable: bool,
    /// Whether the application asked for a snapshot.
    asked: bool,
    /// Answer to a request to attach a zone.
    zone: Option<bool>,
}

/// Reason why a stream need not be served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// The application closed the stream.
    #[error("the application has let go of the stream")]
    Left,
    /// The application sent what no honest one sends.
    #[error("the application sent a message on its stream that is none")]
    NotAWish,
    /// The application corrupted the ring.
    #[error("the application's packet ring: {0}")]
    Ring(#[from] Violation),
    /// The connection is closed, and the application was notified.
    #[error("the connection is closed")]
    Closed,
}

impl Served {
    pub(crate) fn new(
        (id, shared): (StreamId, Arc<Shared>),
        orders: Orders,
        bell: Waker,
        socket: OwnedFd,
        zones: ZoneTable,
    ) -> Self {
        Self {
            id,
            shared,
            orders,
            bell,
            socket,
            zones,
            told: Status::Connecting,
            told_peer: None,
            told_stream_id: false,
            told_intent: false,
            told_seal_error: false,
            waiting: None,
            writable: false,
            asked: false,
            zone: None,
        }
    }

    /// Returns the connection's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Refuses an incoming connection as busy.
    pub fn refuse(self) {
        self.orders.send((self.id, Order::Refuse));
    }

    /// Returns the socket, readable when there is a request of the application.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns a descriptor that is readable when there is a notice for the application.
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Returns whether the socket was full: then [`pump`](Self::pump) is due when it is writable again.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.waiting.is_some()
    }

    /// Processes the application's requests, and sends it notices. The application has no packet zones.
    ///
    /// # Errors
    /// The reason why the stream need not be served any more: drop it then.
    pub fn pump(&mut self) -> Result<(), Gone> {
        self.pump_with(|_| None)
    }

    /// As [`pump`](Self::pump), for an application with packet zones: `zone` returns the zone of a key, if the
    /// application may use one.
    ///
    /// # Errors
    /// As [`pump`](Self::pump)'s.
    pub fn pump_with(&mut self, zone: impl FnMut(ZoneKey) -> Option<SharedZone>) -> Result<(), Gone> {
        self.hear(zone)?;
        // Cleared before the state is read, so that later changes signal again.
        self.writable |= self.bell.clear();
        if let Some(violation) = self.shared.violation() {
            return Err(violation.into());
        }
        // Read before the inbox: data received before the end is delivered before the end.
        let status = self.shared.status();
        if !self.tell()? {
            return Ok(());
        }
        let peer = self.shared.peer();
        if peer != self.told_peer
            && let Some(peer) = peer
        {
            self.told_peer = Some(peer);
            if !self.say(&News::Peer(peer))? {
                return Ok(());
            }
        }
        // Before the status: whoever waits for that finds them.
        if status != self.told && !self.tell_about_sealing()? {
            return Ok(());
        }
        if status != self.told {
            self.told = status;
            if !self.say(&News::Status(status))? {
                return Ok(());
            }
        }
        if matches!(self.told, Status::Closed(_)) { Err(Gone::Closed) } else { Ok(()) }
    }

    fn hear(&mut self, mut zone: impl FnMut(ZoneKey) -> Option<SharedZone>) -> Result<(), Gone> {
        let mut message = [0; RemoteRequest::LONGEST];
        let mut notify = false;
        let mut rate = None;
        for _ in 0..MAX_REQUESTS {
            let length = match receive(&self.socket, &mut message, false) {
                Ok(Some(length)) if length > 0 => length,
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => return Err(Gone::Left),
            };
            match message.get(..length).and_then(RemoteRequest::read).ok_or(Gone::NotAWish)? {
                // One notice for the whole turn is enough.
                RemoteRequest::Notify => notify = true,
                RemoteRequest::Finish => {
                    self.orders.send((self.id, Order::Finish));
                }
                RemoteRequest::Ignore => {
                    self.orders.send((self.id, Order::Ignore));
                }
                RemoteRequest::Refuse => {
                    self.orders.send((self.id, Order::Refuse));
                }
                RemoteRequest::Tell => self.asked = true,
                // An application waits for each answer.
                RemoteRequest::Zone(..) if self.zone.is_some() => return Err(Gone::NotAWish),
                RemoteRequest::Zone(number, key) => {
                    self.zone = Some(zone(key).is_some_and(|zone| self.zones.attach(number, &zone)));
                }
                // Only the latest rate matters.
                RemoteRequest::Rate(said) => rate = Some(said),
            }
        }
        if let Some(rate) = rate {
            self.orders.send((self.id, Order::Rate(rate)));
        }
        if notify {
            self.orders.send((self.id, Order::Notify));
        }
        if self.asked {
            // This reply carries the last known snapshot; a later request gets the one ordered here.
            self.shared.want_snapshot();
            self.orders.send((self.id, Order::Tell));
        }
        Ok(())
    }

    /// Sends the stream ID that the caller has named, its intent, and the reason why packets cannot be encrypted; `false` if the socket is full.
    fn tell_about_sealing(&mut self) -> Result<bool, Gone> {
        if !std::mem::replace(&mut self.told_stream_id, true)
            && let Some(stream_id) = self.shared.stream_id()
            && !self.say(&News::StreamId(stream_id))?
        {
            return Ok(false);
        }
        if !std::mem::replace(&mut self.told_intent, true)
            && let Some(intent) = self.shared.intent()
            && !self.say(&News::Intent(intent))?
        {
            return Ok(false);
        }
        if !self.told_seal_error
            && let Some(error) = self.shared.seal_error()
        {
            self.told_seal_error = true;
            return self.say(&News::SealError(error));
        }
        Ok(true)
    }

    /// Returns `false` if the socket is full.
    fn tell(&mut self) -> Result<bool, Gone> {
        if let Some(message) = self.waiting.take()
            && !self.send(message)?
        {
            return Ok(false);
        }
        if let Some(attached) = self.zone.take()
            && !self.say(&News::Zone(attached))?
        {
            return Ok(false);
        }
        if std::mem::take(&mut self.writable) && !self.say(&News::Writable)? {
            return Ok(false);
        }
        if std::mem::take(&mut self.asked) && !self.say(&News::Snapshot(Box::new(self.shared.snapshot())))? {
            return Ok(false);
        }
        if let Some(advice) = self.shared.take_advice()
            && !self.say(&News::Advice(advice))?
        {
            return Ok(false);
        }
        for _ in 0..MAX_NOTICES {
            let Some(received) = self.shared.inbox.pop() else { return Ok(true) };
            if !self.say(&News::Received(received))? {
                return Ok(false);
            }
        }
        // The rest is sent in the next turn, after other streams.
        self.bell.wake();
        Ok(false)
    }

    fn say(&mut self, news: &News) -> Result<bool, Gone> {
        self.send(news.write())
    }

    fn send(&mut self, message: Vec<u8>) -> Result<bool, Gone> {
        let sent = try_send(&self.socket, &message).map_err(|_| Gone::Left)?;
        self.waiting = (!sent).then_some(message);
        Ok(sent)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.orders.send((self.id, Order::Abandon));
    }
}

#[cfg(test)]
mod tests {
    use timeous_ring::Config;

    use super::*;
    use crate::inbox::Inbox;
    use crate::line::Line;
    use crate::remote::pair;

    #[test]
    fn a_violation_found_during_a_turn_ends_the_stream_in_that_turn() {
        let bell = Waker::new().unwrap();
        let shared = Shared::with(Inbox::new(1 << 10), bell.clone(), bell.clone());
        let (orders, _worker) = Line::new(Waker::new().unwrap());
        let (here, there) = pair().unwrap();
        let (consumer, _ring) = timeous_ring::create_shared_for_producer(&Config::new(8)).unwrap();
        let mut served = Served::new((StreamId(1), shared.clone()), orders, bell, here, consumer.zones());
        rustix::io::write(&there, &RemoteRequest::Zone(1, ZoneKey(1)).write()).unwrap();
        let violation = Violation::Contended { attempts: 1 };
        let found = served.pump_with(|_| {
            shared.set_violation(violation);
            None
        });
        assert_eq!(found, Err(Gone::Ring(violation)));
    }
}
