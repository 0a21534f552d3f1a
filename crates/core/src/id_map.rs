//! Map from identifiers that we assign to values, for one lookup per packet among thousands.

use std::fmt;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

#[expect(clippy::disallowed_types, reason = "its hash is fixed, and its order never shows")]
type Table<K, V> = std::collections::HashMap<K, V, FxBuildHasher>;

/// Hash table without iteration in its own order: the order of results does not depend on hashes.
///
/// For identifiers that this program assigns. Peers could choose other keys such that lookups become slow.
///
/// ```
/// use timeous_core::IdMap;
/// let mut map = IdMap::default();
/// map.insert(7, "seven");
/// map.insert(3, "three");
/// assert_eq!(map.get(7), Some(&"seven"));
/// assert_eq!(map.ids(), [3, 7]);
/// ```
#[derive(Clone)]
pub struct IdMap<K, V>(Table<K, V>);

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self(Table::default())
    }
}

impl<K: Copy + Ord + Hash, V> IdMap<K, V> {
    /// Adds or replaces a value; returns the old one.
    pub fn insert(&mut self, id: K, value: V) -> Option<V> {
        self.0.insert(id, value)
    }

    /// Removes a value.
    pub fn remove(&mut self, id: K) -> Option<V> {
        self.0.remove(&id)
    }

    /// Value of an identifier.
    pub fn get(&self, id: K) -> Option<&V> {
        self.0.get(&id)
    }

    /// Value of an identifier.
    pub fn get_mut(&mut self, id: K) -> Option<&mut V> {
        self.0.get_mut(&id)
    }

    /// Value of an identifier, added if it is missing.
    pub fn get_or_default(&mut self, id: K) -> &mut V
    where
        V: Default,
    {
        self.0.entry(id).or_default()
    }

    /// Whether there is a value.
    pub fn contains(&self, id: K) -> bool {
        self.0.contains_key(&id)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All identifiers, in ascending order.
    pub fn ids(&self) -> Vec<K> {
        let mut ids: Vec<K> = self.0.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for IdMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
