//! How a state is kept between calls: as little as it can be.
//!
//! The states of four algorithms are three words, so that a table can keep a key, whose it is and
//! its state in one cache line. The others have a box.

use std::num::NonZeroU64;

use super::State;

/// A state of three words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub(super) numbers: [u64; 2],
    /// Never 0, which is what says that a state is in a box.
    pub(super) unit: NonZeroU64,
}

/// A state that fits in three words.
pub(crate) trait Small: Copy {
    fn words(self) -> Words;
    fn of(words: Words) -> Self;
}

impl Words {
    /// `unit` is below 2^64 - 1, and so kept plus one.
    #[inline]
    pub(super) fn new(numbers: [u64; 2], unit: u64) -> Words {
        Words { numbers, unit: NonZeroU64::MIN.saturating_add(unit) }
    }

    #[inline]
    pub(super) fn unit(&self) -> u64 {
        self.unit.get() - 1
    }
}

/// A state as a table keeps it. Which algorithm three words are of, the twin knows that works with them.
#[derive(Debug)]
pub(crate) enum Kept {
    Words(Words),
    Boxed(Box<State>),
}

const _: () = assert!(size_of::<Kept>() == 24);

impl From<State> for Kept {
    fn from(state: State) -> Kept {
        match state {
            State::TokenBucket(state) | State::LeakyBucket(state) => Kept::Words(state.words()),
            State::Gcra(state) => Kept::Words(state.words()),
            State::FixedWindow(state) => Kept::Words(state.words()),
            large => Kept::Boxed(Box::new(large)),
        }
    }
}
