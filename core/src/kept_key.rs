//! A key as a table keeps it: a short one in its place, so that a look at it costs no further
//! cache line; a longer one in a box.

/// What fits beside a length and a mark in three words.
const SHORT: usize = 22;

#[derive(Debug)]
pub(crate) enum KeptKey {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<KeptKey>() == 24);

impl KeptKey {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            KeptKey::Short { len, bytes } => &bytes[..usize::from(*len)],
            KeptKey::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for KeptKey {
    fn from(key: &[u8]) -> KeptKey {
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
            assert_eq!(KeptKey::from(&key[..]).bytes(), key);
        }
    }
}
