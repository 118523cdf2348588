//! A bounded memory of recent things about keys.

use std::hash::BuildHasher;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::kept_key::KeptKey;

const SHARDS: usize = 16;

/// A map that forgets what was not put for longest, roughly: each of its shards has two
/// generations, and drops the older whole when the younger is full. Every operation is O(1).
#[derive(Debug)]
pub(crate) struct Recent<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    hasher: RandomState,
    generation_size: usize,
}

#[derive(Debug)]
struct Shard<V> {
    young: HashTable<Slot<V>>,
    old: HashTable<Slot<V>>,
}

#[derive(Debug)]
struct Slot<V> {
    id: u64,
    key: KeptKey,
    value: V,
}

impl<V: Copy> Recent<V> {
    pub(crate) fn new(max: usize) -> Self {
        let mut shards = Vec::with_capacity(SHARDS);
        shards.resize_with(SHARDS, || Mutex::new(Shard { young: HashTable::new(), old: HashTable::new() }));
        let generation_size = (max / SHARDS / 2).max(1);
        Recent { shards: shards.into_boxed_slice(), hasher: RandomState::default(), generation_size }
    }

    pub(crate) fn put(&self, id: u64, key: &[u8], value: V) {
        self.put_if(id, key, value, |_| true);
    }

    /// Where there is a value, it is replaced only if `replaces` says so of it.
    pub(crate) fn put_if(&self, id: u64, key: &[u8], value: V, replaces: impl FnOnce(&V) -> bool) {
        let (hash, mut shard) = self.shard(id, key);
        if shard.young.len() >= self.generation_size {
            shard.old = mem::take(&mut shard.young);
        }
        let rehash = |slot: &Slot<V>| self.hash(slot.id, &slot.key);
        match shard.young.entry(hash, |slot| slot.is(id, key), rehash) {
            Entry::Occupied(mut entry) => {
                if replaces(&entry.get().value) {
                    entry.get_mut().value = value;
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(Slot { id, key: key.into(), value });
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: u64, key: &[u8]) -> Option<V> {
        let (hash, shard) = self.shard(id, key);
        let find =
            |table: &HashTable<Slot<V>>| table.find(hash, |slot| slot.is(id, key)).map(|slot| slot.value);
        find(&shard.young).or_else(|| find(&shard.old))
    }

    pub(crate) fn remove(&self, id: u64, key: &[u8]) {
        let (hash, mut shard) = self.shard(id, key);
        let Shard { young, old } = &mut *shard;
        for table in [young, old] {
            if let Ok(entry) = table.find_entry(hash, |slot| slot.is(id, key)) {
                entry.remove();
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.map(|shard| shard.young.len() + shard.old.len()).sum()
    }

    fn hash(&self, id: u64, key: &[u8]) -> u64 {
        self.hasher.hash_one((id, key))
    }

    fn shard(&self, id: u64, key: &[u8]) -> (u64, MutexGuard<'_, Shard<V>>) {
        let hash = self.hash(id, key);
        // From the middle: the table itself uses both ends of a hash.
        let shard = &self.shards[(hash >> 40) as usize % SHARDS];
        (hash, shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<V> Slot<V> {
    fn is(&self, id: u64, key: &[u8]) -> bool {
        self.id == id && self.key.is(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_the_newest() {
        let recent = Recent::new(1000);
        for i in 0..100_000_u64 {
            recent.put(i, b"k", i);
        }
        assert!(recent.len() <= 1000);
        assert_eq!(recent.get(99_999, b"k"), Some(99_999));
        assert_eq!(recent.get(1, b"k"), None);
        recent.remove(99_999, b"k");
        assert_eq!(recent.get(99_999, b"k"), None);
    }
}
