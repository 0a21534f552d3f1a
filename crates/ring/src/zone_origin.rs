//! Origin of a packet zone that a transport's process made.

use std::any::Any;
use std::fmt;

/// Secret by which an application names a zone to the transport's process. Whoever knows it can send from the zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneKey(pub u128);

impl fmt::Debug for ZoneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZoneKey(..)")
    }
}

/// Process of a transport that made a zone.
#[derive(Debug)]
pub(crate) struct Origin {
    key: ZoneKey,
    /// Value that lives as long as the zone, such as a connection to that process.
    _keeper: Box<dyn Any + Send + Sync>,
}

impl Origin {
    pub(crate) fn new(key: ZoneKey, keeper: impl Any + Send + Sync) -> Self {
        Self { key, _keeper: Box::new(keeper) }
    }

    /// Key by which that process knows the zone.
    pub(crate) fn key(&self) -> ZoneKey {
        self.key
    }
}
