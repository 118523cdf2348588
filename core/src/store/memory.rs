//! State in this process's memory: a table in shards, each behind a lock of its own.
//!
//! All limits of one key are in the same shard, so most calls take one lock. The table is
//! bounded: full, it drops what is as good as fresh; it never forgets a key that is used up.
//!
//! What a call costs here is above all the memory that it touches. So a slot, with a short key and
//! the state of most algorithms in it, is one cache line, and the commonest call, which takes from
//! one limit, has a way of its own: `take`.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::OccupiedEntry;
use smallvec::SmallVec;

use super::{Member, Op, Outcome, Part, Rules, Views};
use crate::algorithm::{Ask, Kept, Mark, State, Taken, Twin};
use crate::clock::Micros;
use crate::kept_key::KeptKey;

const SHARDS: usize = 64;

#[derive(Debug)]
pub(crate) struct MemoryStore {
    shards: Box<[Line<Mutex<Shard>>]>,
    hasher: RandomState,
    max_keys_per_shard: usize,
    /// Calls on new keys that found the table full.
    refused_full: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    slots: HashTable<Slot>,
    /// No slot is as good as fresh before this time.
    fresh_from: Micros,
}

/// Alone on its cache lines, so that who works on it is in nobody's way.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line<T>(T);

#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    id: u64,
    fresh_at: Micros,
    state: Kept,
    key: KeptKey,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// There was no room for a new key. Some may be free after this many microseconds.
#[derive(Debug)]
pub(crate) struct Full(pub(crate) Micros);

impl MemoryStore {
    pub(crate) fn new(max_keys: usize) -> Self {
        let mut shards = Vec::with_capacity(SHARDS);
        shards.resize_with(SHARDS, Line::default);
        MemoryStore {
            shards: shards.into_boxed_slice(),
            hasher: RandomState::default(),
            max_keys_per_shard: max_keys.div_ceil(SHARDS),
            refused_full: AtomicU64::new(0),
        }
    }

    /// How many keys are kept.
    pub(crate) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).slots.len()).sum()
    }

    /// How many calls on new keys found no room.
    pub(crate) fn refused_full(&self) -> u64 {
        self.refused_full.load(Ordering::Relaxed)
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *lock(shard) = Shard::default();
        }
    }

    /// Whether a part's state is known here, and is as good as fresh.
    pub(crate) fn is_fresh(&self, now: Micros, part: &Part<'_>) -> bool {
        let hash = self.hash(part.key);
        let shard = lock(&self.shards[shard_of(hash)]);
        part.plan.members.iter().all(|member| {
            let found = shard.slots.find(mix(hash, member.id), |slot| slot.is(member.id, part.key));
            found.is_some_and(|slot| slot.fresh_at <= now)
        })
    }

    /// Carries out a call on one or several parts: all of them, or none.
    pub(crate) fn run(
        &self,
        now: Micros,
        op: Op,
        parts: &[Part<'_>],
        rules: &dyn Rules,
    ) -> Result<Outcome, Full> {
        let hashes: SmallVec<[u64; 1]> = parts.iter().map(|part| self.hash(part.key)).collect();
        // Always in ascending order, so that two calls never wait for each other.
        let mut wanted: SmallVec<[usize; 1]> = hashes.iter().map(|hash| shard_of(*hash)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut shards: SmallVec<[(usize, MutexGuard<'_, Shard>); 1]> =
            wanted.iter().map(|index| (*index, lock(&self.shards[*index]))).collect();
        let mut places: SmallVec<[(usize, u64); 1]> = SmallVec::with_capacity(parts.len());
        for hash in &hashes {
            let index = shard_of(*hash);
            let held = shards.iter().position(|(shard, _)| *shard == index);
            places.push((held.unwrap_or_else(|| unreachable!("every shard was locked")), *hash));
        }
        let mut step = Steps { store: self, now, op, rules };
        let mut admitted = 1;
        if step.decides() {
            for (part, (held, hash)) in parts.iter().zip(&places) {
                admitted = admitted.min(step.fit(&mut shards[*held].1, *hash, part)?);
            }
        }
        let mut views = SmallVec::with_capacity(parts.len());
        for (part, (held, hash)) in parts.iter().zip(&places) {
            views.push(step.apply(&mut shards[*held].1, *hash, part, &mut admitted));
        }
        Ok(Outcome { now, admitted, views })
    }

    /// Takes `cost` now from one limit alone, as [`MemoryStore::run`] does. `None` where that is to
    /// be asked: for a state that is not here, and for a large one.
    #[inline(always)]
    pub(crate) fn take(&self, now: Micros, member: &Member, key: &[u8], cost: u64) -> Option<Taken> {
        let hash = self.hash(key);
        let Shard { slots, fresh_from } = &mut *lock(&self.shards[shard_of(hash)]);
        let slot = slots.find_mut(mix(hash, member.id), |slot| slot.is(member.id, key))?;
        let taken = member.twin.take_small(&mut slot.state, now, cost)?;
        if taken.changed {
            slot.fresh_at = taken.fresh_at(now);
            *fresh_from = slot.fresh_at.min(*fresh_from);
        }
        Some(taken)
    }

    /// [`MemoryStore::take`] for any state, here or not. `None` where the table may have no room.
    pub(crate) fn take_any(&self, now: Micros, member: &Member, key: &[u8], cost: u64) -> Option<Taken> {
        let (hash, twin) = (self.hash(key), &member.twin);
        let Shard { slots, fresh_from } = &mut *lock(&self.shards[shard_of(hash)]);
        if let Some(slot) = slots.find_mut(mix(hash, member.id), |slot| slot.is(member.id, key)) {
            let taken = twin.take(&mut slot.state, now, cost);
            if taken.changed {
                slot.fresh_at = taken.fresh_at(now);
                *fresh_from = slot.fresh_at.min(*fresh_from);
            }
            return Some(taken);
        }
        if slots.len() >= self.max_keys_per_shard {
            return None;
        }
        let mut state = Kept::from(twin.fresh());
        let taken = twin.take(&mut state, now, cost);
        let fresh_at = taken.fresh_at(now);
        if fresh_at > now {
            *fresh_from = fresh_at.min(*fresh_from);
            let slot = Slot { id: member.id, fresh_at, state, key: key.into() };
            slots.insert_unique(mix(hash, member.id), slot, |slot| self.place(slot));
        }
        Some(taken)
    }

    /// With its length, which is hashed in a round of its own: after one round alone, keys that follow
    /// each other fill the shards unevenly.
    #[inline(always)]
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn place(&self, slot: &Slot) -> u64 {
        mix(self.hash(&slot.key), slot.id)
    }

    /// Gives back a turn that has not come.
    pub(crate) fn cancel(&self, now: Micros, part: &Part<'_>, marks: &[Mark], rules: &dyn Rules) {
        let hash = self.hash(part.key);
        let Shard { slots, fresh_from } = &mut *lock(&self.shards[shard_of(hash)]);
        for (index, mark) in marks.iter().enumerate() {
            let twin = rules.twin(part, index);
            let (id, key) = (part.plan.members[index].id, part.key);
            if let Ok(entry) = slots.find_entry(mix(hash, id), |slot| slot.is(id, key)) {
                let cancel = |state: &mut State| ((), twin.cancel(state, now, part.cost, *mark));
                work(&twin, entry, fresh_from, now, cancel);
            }
        }
    }
}

/// One call's way through the members of its parts, with their shards locked.
struct Steps<'a> {
    store: &'a MemoryStore,
    now: Micros,
    op: Op,
    rules: &'a dyn Rules,
}

impl Steps<'_> {
    fn decides(&self) -> bool {
        matches!(self.op, Op::Take { .. } | Op::Hold(_) | Op::Peek)
    }

    fn ask(&self, part: &Part<'_>) -> Ask {
        Ask { calls: 1, cost: part.cost, wait: self.op.wait() }
    }

    /// Whether every member of the part admits the call: 0 or 1. Makes sure that there is room.
    fn fit(&mut self, shard: &mut Shard, hash: u64, part: &Part<'_>) -> Result<u64, Full> {
        let ask = self.ask(part);
        let (mut admitted, mut missing) = (1, 0);
        for (index, member) in part.plan.members.iter().enumerate() {
            let twin = self.rules.twin(part, index);
            let found = shard.slots.find_mut(mix(hash, member.id), |slot| slot.is(member.id, part.key));
            let fits = if let Some(slot) = found {
                twin.work(&mut slot.state, self.now, |state| (twin.fit(state, self.now, &ask), false)).0
            } else {
                missing += 1;
                let state = self.rules.state(part, index, self.now);
                twin.fit(&state, self.now, &ask)
            };
            admitted = admitted.min(fits);
        }
        if self.op != Op::Peek && part.cost > 0 && admitted > 0 {
            shard.make_room(self.store, self.now, missing)?;
        }
        Ok(admitted)
    }

    fn apply(&mut self, shard: &mut Shard, hash: u64, part: &Part<'_>, admitted: &mut u64) -> Views {
        let mut views = Views::with_capacity(part.plan.members.len());
        for (index, member) in part.plan.members.iter().enumerate() {
            let twin = self.rules.twin(part, index);
            let place = mix(hash, member.id);
            let Shard { slots, fresh_from } = &mut *shard;
            let mut change = |state: &mut State| {
                let changed = self.change(&twin, state, part, admitted);
                (twin.view(state, self.now, part.cost), changed)
            };
            let view = match slots.find_entry(place, |slot| slot.is(member.id, part.key)) {
                Ok(entry) => work(&twin, entry, fresh_from, self.now, change),
                Err(absent) => {
                    let mut state = self.rules.state(part, index, self.now);
                    let (view, _) = change(&mut state);
                    let fresh_at = twin.fresh_at(&state);
                    if fresh_at > self.now {
                        *fresh_from = fresh_at.min(*fresh_from);
                        let slot =
                            Slot { id: member.id, fresh_at, state: state.into(), key: part.key.into() };
                        absent.into_table().insert_unique(place, slot, |slot| self.store.place(slot));
                    }
                    view
                }
            };
            views.push(view);
        }
        views
    }

    /// Says whether there was something to change.
    fn change(&self, twin: &Twin, state: &mut State, part: &Part<'_>, admitted: &mut u64) -> bool {
        let cost = part.cost;
        let takes = self.decides() && self.op != Op::Peek && *admitted > 0 && cost > 0;
        match (self.op, twin, &mut *state) {
            (Op::Hold(holder), _, State::Concurrency(holders)) if takes => {
                holders.next = holder;
                twin.spend(state, self.now, cost);
            }
            (Op::Take { .. } | Op::Hold(_), ..) if takes => twin.spend(state, self.now, cost),
            (Op::Refund, ..) if cost > 0 => twin.give(state, self.now, cost),
            (Op::Debit, ..) => {
                let units = cost.min(twin.left(state, self.now));
                if units == 0 {
                    return false;
                }
                twin.spend(state, self.now, units);
            }
            (Op::Renew(holder), Twin::Concurrency(twin), State::Concurrency(holders)) => {
                *admitted = u64::from(twin.renew(holders, self.now, holder));
                return *admitted > 0;
            }
            (Op::Release(holder), Twin::Concurrency(twin), State::Concurrency(holders)) => {
                *admitted = u64::from(twin.release(holders, self.now, holder));
                return *admitted > 0;
            }
            (Op::Reset, ..) => {
                *state = twin.fresh();
                twin.load(state, self.now);
            }
            _ => return false,
        }
        true
    }
}

impl Shard {
    /// Makes sure that `more` slots can be added, by dropping what is as good as fresh.
    fn make_room(&mut self, store: &MemoryStore, now: Micros, more: usize) -> Result<(), Full> {
        if more == 0 || self.slots.len() + more <= store.max_keys_per_shard.max(more) {
            return Ok(());
        }
        if self.fresh_from <= now {
            self.slots.retain(|slot| slot.fresh_at > now);
            self.fresh_from = self.slots.iter().map(|slot| slot.fresh_at).min().unwrap_or(Micros::MAX);
        }
        if self.slots.len() + more <= store.max_keys_per_shard.max(more) {
            return Ok(());
        }
        store.refused_full.fetch_add(1, Ordering::Relaxed);
        Err(Full(self.fresh_from.saturating_sub(now).max(1)))
    }
}

impl Slot {
    fn is(&self, id: u64, key: &[u8]) -> bool {
        self.id == id && self.key.is(key)
    }
}

/// Works on a slot's state with `change`, and drops the slot where that leaves it as good as fresh.
fn work<R>(
    twin: &Twin,
    mut entry: OccupiedEntry<'_, Slot>,
    fresh_from: &mut Micros,
    now: Micros,
    change: impl FnOnce(&mut State) -> (R, bool),
) -> R {
    let slot = entry.get_mut();
    let (result, fresh_at) = twin.work(&mut slot.state, now, change);
    if let Some(fresh_at) = fresh_at {
        slot.fresh_at = fresh_at;
        *fresh_from = fresh_at.min(*fresh_from);
        if fresh_at <= now {
            entry.remove();
        }
    }
    result
}

/// From the middle: the table itself uses both ends of a hash.
fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

fn mix(hash: u64, id: u64) -> u64 {
    hash ^ id
}

/// A panic elsewhere can't leave a state half changed, so a poisoned lock is a sound one.
fn lock(Line(shard): &Line<Mutex<Shard>>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
