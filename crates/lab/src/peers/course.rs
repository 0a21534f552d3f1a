//! A link with what is asked for over it, and all who send over it.

use super::links::{LinkName, Setting};
use super::peer::Peer;
use crate::bound::Bound;

/// What each of a link's runs has in common.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// The link.
    pub(crate) link: LinkName,
    /// What all are asked for over it.
    pub(crate) setting: Setting,
    /// Each set up for that; the same ones over every link, in the same order.
    pub(crate) peers: Vec<Peer>,
    /// The most frames that anybody could make decodable.
    pub(crate) bound: Bound,
}
