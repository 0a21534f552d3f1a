//! Table with keys that are not reused, for the lookup of flows and macroflows per packet.

/// Keys hold the index in their lower half and a serial number in the upper one, so that they increase with time.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    serial: u32,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    key: u64,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), serial: 0 }
    }
}

impl<T> Slab<T> {
    /// Index of a key.
    pub(crate) const fn place(key: u64) -> usize {
        (key & 0xffff_ffff) as usize
    }

    /// Adds a value; returns its key.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { key: 0, value: None });
            (self.entries.len() - 1) as u32
        });
        let key = u64::from(self.serial) << 32 | u64::from(place);
        self.serial = self.serial.wrapping_add(1);
        self.entries[place as usize] = Entry { key, value: Some(value) };
        key
    }

    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        let entry = self.entries.get_mut(Self::place(key)).filter(|entry| entry.key == key)?;
        let value = entry.value.take()?;
        self.free.push(Self::place(key) as u32);
        Some(value)
    }

    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        self.entries.get(Self::place(key)).filter(|entry| entry.key == key)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.entries.get_mut(Self::place(key)).filter(|entry| entry.key == key)?.value.as_mut()
    }

    /// Key and value at an index, if it is in use.
    pub(crate) fn at_mut(&mut self, place: usize) -> Option<(u64, &mut T)> {
        let entry = self.entries.get_mut(place)?;
        Some((entry.key, entry.value.as_mut()?))
    }

    /// All entries, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().filter_map(|entry| Some((entry.key, entry.value.as_ref()?)))
    }

    /// All entries, by index.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.entries.iter_mut().filter_map(|entry| Some((entry.key, entry.value.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_used_again_though_its_place_is() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert!(a < b);
        assert_eq!((slab.remove(a), slab.remove(a)), (Some('a'), None));
        let c = slab.insert('c');
        assert_eq!(Slab::<char>::place(c), Slab::<char>::place(a));
        assert!(c > b);
        assert_eq!((slab.get(a), slab.get(c), slab.get(b)), (None, Some(&'c'), Some(&'b')));
        assert_eq!(slab.get(u64::MAX), None);
        assert_eq!(slab.iter().map(|(_, &value)| value).collect::<String>(), "cb");
    }
}
