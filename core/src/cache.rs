//! A bounded memory of recent things.

use std::collections::HashMap;
use std::mem;

use foldhash::fast::RandomState;

/// A map that forgets what was not touched for longest, roughly: two generations, of which the
/// older is dropped whole when the younger is full. Every operation is O(1).
#[derive(Debug)]
pub(crate) struct Recent<V> {
    young: Generation<V>,
    old: Generation<V>,
    generation_size: usize,
}

type Generation<V> = HashMap<(u64, Box<[u8]>), V, RandomState>;

impl<V: Clone> Recent<V> {
    pub(crate) fn new(max: usize) -> Self {
        Recent { young: HashMap::default(), old: HashMap::default(), generation_size: (max / 2).max(1) }
    }

    pub(crate) fn put(&mut self, id: u64, key: &[u8], value: V) {
        if self.young.len() >= self.generation_size {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert((id, key.into()), value);
    }

    pub(crate) fn get(&self, id: u64, key: &[u8]) -> Option<V> {
        let wanted = (id, key.into());
        self.young.get(&wanted).or_else(|| self.old.get(&wanted)).cloned()
    }

    pub(crate) fn remove(&mut self, id: u64, key: &[u8]) {
        let wanted = (id, key.into());
        self.young.remove(&wanted);
        self.old.remove(&wanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_the_newest() {
        let mut recent = Recent::new(10);
        for i in 0..1000_u64 {
            recent.put(i, b"k", i);
        }
        assert!(recent.young.len() + recent.old.len() <= 10);
        assert_eq!(recent.get(999, b"k"), Some(999));
        assert_eq!(recent.get(1, b"k"), None);
        recent.remove(999, b"k");
        assert_eq!(recent.get(999, b"k"), None);
    }
}
