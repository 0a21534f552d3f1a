//! Where flows go, and on whose behalf: what they must have in common to share congestion state.

use std::net::IpAddr;

/// A user of the host, by the number that the host knows him by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u32);

/// What flows must have in common to share congestion state.
///
/// The port is not part of it: all flows to one host are thought to take one path (Andersen et al. §2). A DSCP other
/// than the default may be queued apart, and so is a macroflow of its own. So are the flows of each user whose feedback
/// the host cannot check: whoever lies about his packets lies to himself (Andersen et al. §5, "Trust issues").
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::{Destination, User};
/// let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// assert_ne!(Destination::from(host), Destination::from(host).with_user(User(1_000)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The host.
    pub addr: IpAddr,
    /// The Differentiated Services code point of its packets.
    pub dscp: u8,
    /// Whose flows they are, if nothing but his word tells what became of his packets. `None`: the host's own transports
    /// took the feedback from the wire, and trust each other.
    pub user: Option<User>,
}

impl Destination {
    /// The same host with another code point.
    pub fn with_dscp(self, dscp: u8) -> Self {
        Self { dscp, ..self }
    }

    /// The same host for flows of `user` alone.
    pub fn with_user(self, user: User) -> Self {
        Self { user: Some(user), ..self }
    }
}

impl From<IpAddr> for Destination {
    fn from(addr: IpAddr) -> Self {
        Self { addr, dscp: 0, user: None }
    }
}
