//! Source of receivers for `timeous send`: an outgoing call with redials, or a listener for any number of receivers.

use std::mem;

use timeous::core::Duration;
use timeous::{Intent, Listener, Receiver, Role, Sender, Uri, clock};

use crate::caller::Caller;
use crate::failure::Failure;
use crate::notice::tell;
use crate::place::{Player, StreamContainer};
use crate::send::player::{Arriving, Greeting, asks};

/// Both directions of a receiver.
type Both = (Sender, Receiver);

/// Callers that have not asked yet; the oldest goes. Chosen by us: a higher value takes more memory, and a lower one lets silent callers
/// keep others away.
const MOST_ARRIVING: usize = 64;

/// Source of receivers.
pub(super) enum Outlet {
    /// Calls one receiver.
    Call { caller: Caller, player: Option<Player> },
    /// Accepts receivers, once or repeatedly.
    Listen { listener: Box<Listener>, again: bool, player: Option<Player>, arriving: Vec<Arriving> },
}

impl Outlet {
    /// Calls or listens, by the role in the URI.
    pub(super) fn open(uri: &Uri, player: Option<Player>) -> Result<Self, Failure> {
        match &uri.role {
            Role::Caller { .. } => Ok(Self::Call { caller: Caller::begin(uri, Intent::Publish)?, player }),
            Role::Listener { .. } => {
                let listener = Listener::open(uri)?;
                let again = uri.options.reconnects();
                // By HTTP only who is served takes the place.
                if !again && !asks(player) {
                    listener.set_room(Some(1));
                }
                tell(format_args!("waiting for receivers at {}", listener.local_addr()));
                Ok(Self::Listen { listener: Box::new(listener), again, player, arriving: Vec::new() })
            }
        }
    }

    /// Sets the container of the stream for players, before [`poll`](Self::poll).
    pub(super) fn serve(&mut self, container: StreamContainer) {
        let (Self::Call { player, .. } | Self::Listen { player, .. }) = self;
        if let Some(player) = player {
            player.container = Some(container);
        }
    }

    /// Returns a receiver that has connected, and how it reads if it is a player.
    pub(super) fn poll(&mut self) -> Result<Option<(Both, Option<Player>)>, Failure> {
        match self {
            Self::Call { caller, player } => Ok(caller.poll()?.map(|both| (both, *player))),
            Self::Listen { listener, again, player, arriving } if asks(*player) => {
                while let Some(incoming) = listener.poll_accept()? {
                    arriving.push(Arriving::new(incoming.accept()));
                    if arriving.len() > MOST_ARRIVING {
                        arriving.remove(0);
                    }
                }
                let mut greeted = None;
                // A stream that is closed before it has begun is of no container.
                let container = player.and_then(|player| player.container).unwrap_or(StreamContainer::Flv);
                for mut next in mem::take(arriving) {
                    match if greeted.is_none() { next.greet(container) } else { Greeting::Busy } {
                        Greeting::Ready(protocol) => {
                            greeted = Some((next.into_both(), Some(Player { protocol, container: Some(container) })));
                        }
                        Greeting::Busy => arriving.push(next),
                        Greeting::Gone => {}
                    }
                }
                if greeted.is_some() && !*again {
                    listener.set_room(Some(0));
                }
                Ok(greeted)
            }
            Self::Listen { listener, player, .. } => {
                Ok(listener.poll_accept()?.map(|incoming| (incoming.accept(), *player)))
            }
        }
    }

    /// Handles the loss of a receiver; returns whether one may still connect.
    pub(super) fn gone(&mut self) -> bool {
        match self {
            Self::Call { caller, .. } => caller.again(),
            Self::Listen { again, .. } => *again,
        }
    }

    /// Whether it accepts several receivers at once.
    pub(super) fn is_listener(&self) -> bool {
        matches!(self, Self::Listen { .. })
    }

    /// Closes a connection that was made before there was anything to send.
    pub(super) fn close(mut self) {
        while let Ok(Some(((sender, _receiver), _))) = self.poll() {
            // The peer hears of it, or is gone.
            let _ = sender.finish();
        }
    }

    /// Waits for a connection.
    pub(super) fn wait(&mut self, limit: Duration) {
        match self {
            Self::Call { caller, .. } => caller.wait(clock::now() + limit),
            Self::Listen { listener, .. } => drop(listener.waker().wait(Some(limit))),
        }
    }
}
