//! A link with its settings, and all peers that send over it.

use super::links::{LinkName, Setting};
use super::peer::Peer;
use crate::bound::Bound;

/// Common parts of a link's runs.
#[derive(Clone, Debug)]
pub(crate) struct LinkRuns {
    /// The link.
    pub(crate) link: LinkName,
    /// Settings of all runs over the link.
    pub(crate) setting: Setting,
    /// Peers, set up for these settings; the same over every link, in the same order.
    pub(crate) peers: Vec<Peer>,
    /// Upper bound of decodable frames.
    pub(crate) bound: Bound,
}
