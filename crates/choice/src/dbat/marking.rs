//! Marking of packets that are sent even when the send buffer is overfull (Hasan et al. §3).

use std::fmt;

use timeous_core::{AduMeta, Priority, SubStream};

type Predicate = Box<dyn Fn(&AduMeta) -> bool + Send>;

/// Rule that selects marked packets, which the paper leaves to the application.
#[non_exhaustive]
pub enum Marking {
    /// Packets of at least this priority.
    Priority(Priority),
    /// Packets of the sub-streams up to this one: the base layer of layered media, if that is sub-stream 0.
    Layers(SubStream),
    /// Packets selected by the application.
    By(Predicate),
}

impl Marking {
    /// Marks packets for which `marked` returns true.
    ///
    /// ```
    /// use timeous_choice::dbat::Marking;
    /// use timeous_core::{AduMeta, References};
    /// let useful_by_itself = Marking::by(|meta| meta.references.is_empty());
    /// assert!(useful_by_itself.is_marked(&AduMeta::default()));
    /// ```
    pub fn by(marked: impl Fn(&AduMeta) -> bool + Send + 'static) -> Self {
        Self::By(Box::new(marked))
    }

    /// Whether this packet is marked.
    #[must_use]
    pub fn is_marked(&self, meta: &AduMeta) -> bool {
        match self {
            Self::Priority(least) => meta.priority >= *least,
            Self::Layers(last) => meta.substream <= *last,
            Self::By(marked) => marked(meta),
        }
    }
}

impl Default for Marking {
    /// Marks the highest priority: the keyframes of media.
    fn default() -> Self {
        Self::Priority(Priority::HIGHEST)
    }
}

impl fmt::Debug for Marking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Priority(least) => f.debug_tuple("Priority").field(least).finish(),
            Self::Layers(last) => f.debug_tuple("Layers").field(last).finish(),
            Self::By(_) => f.write_str("By(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_marked_by_priority_by_layer_or_as_one_likes() {
        let meta = |priority, layer| AduMeta {
            priority: Priority(priority),
            substream: SubStream(layer),
            ..AduMeta::default()
        };
        assert!(Marking::default().is_marked(&meta(255, 9)));
        assert!(!Marking::default().is_marked(&meta(254, 0)));
        assert!(Marking::Layers(SubStream(1)).is_marked(&meta(0, 1)));
        assert!(!Marking::Layers(SubStream(1)).is_marked(&meta(255, 2)));
        let odd = Marking::by(|meta| meta.priority.0 % 2 == 1);
        assert!(odd.is_marked(&meta(7, 0)) && !odd.is_marked(&meta(8, 0)));
    }
}
