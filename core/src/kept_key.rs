//! A key as a table or a call keeps it: a short one in its place, so that a look at it costs no
//! further cache line, and a copy no allocation; a longer one behind a counted reference.

use std::ops::Deref;
use std::sync::Arc;

/// What fits beside a length and a mark in three words.
const SHORT: usize = 22;

#[derive(Debug, Clone)]
pub(crate) enum KeptKey {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Arc<[u8]>),
}

const _: () = assert!(size_of::<KeptKey>() == 24);

impl KeptKey {
    #[inline(always)]
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        match self {
            KeptKey::Short { len, bytes } if (8..=SHORT).contains(&key.len()) => {
                usize::from(*len) == key.len() && begins_with(bytes, key)
            }
            _ => self.is_any(key),
        }
    }

    #[inline(never)]
    fn is_any(&self, key: &[u8]) -> bool {
        **self == *key
    }
}

/// Whether the first bytes are the key's, which has 8 to 22: three comparisons of words, which may
/// overlap, cost less than a call to compare bytes.
#[inline(always)]
fn begins_with(bytes: &[u8; SHORT], key: &[u8]) -> bool {
    let word = |bytes: &[u8], from: usize| bytes.get(from..).and_then(<[u8]>::first_chunk::<8>).copied();
    let same =
        |from: usize| word(bytes, from).map(u64::from_ne_bytes) == word(key, from).map(u64::from_ne_bytes);
    same(0) && same(key.len().min(16) - 8) && same(key.len() - 8)
}

impl Deref for KeptKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            KeptKey::Short { len, bytes } => &bytes[..usize::from(*len)],
            KeptKey::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for KeptKey {
    fn eq(&self, other: &KeptKey) -> bool {
        **self == **other
    }
}

impl<K: AsRef<[u8]>> From<K> for KeptKey {
    fn from(key: K) -> KeptKey {
        let key = key.as_ref();
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..key.len()), u8::try_from(key.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(key);
                KeptKey::Short { len, bytes }
            }
            _ => KeptKey::Long(key.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_length_is_kept_as_it_is() {
        for len in 0..=130 {
            let key: Vec<u8> = (0..len).collect();
            let kept = KeptKey::from(&key[..]);
            assert_eq!(*kept, *key);
            assert!(kept.is(&key));
            for changed in 0..key.len() {
                let mut other = key.clone();
                other[changed] ^= 1;
                assert!(!kept.is(&other) && !kept.is(&other[..changed]));
            }
        }
    }
}
