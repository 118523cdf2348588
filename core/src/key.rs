//! Names in Redis: what is limited, and who.
//!
//! A state lives under `prefix:algorithm:name[#index]:{key}`. The braces put all limits of one
//! key into one Cluster slot; what could break out of its place is escaped, and keys that are
//! long or not printable are hashed.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result, quote};

/// Longer keys are hashed, so that neither Redis nor our own memory keeps megabytes.
const MAX_PLAIN_KEY: usize = 128;
const MAX_NAME: usize = 128;

/// Refuses an empty key, which is a defect upstream.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::argument(
            "key must not be empty; expected 1 byte or more that says who is limited",
        ));
    }
    Ok(())
}

/// What a hash begins with. Plain keys that begin so are hashed too, so none is taken for one.
const HASHED: &str = "%h";

/// Whether a key is kept as it is.
#[inline]
pub(crate) fn is_plain(key: &[u8]) -> bool {
    key.len() <= MAX_PLAIN_KEY && !key.starts_with(HASHED.as_bytes())
}

/// The key as it is kept: itself, or its hash where it is long.
pub(crate) fn kept(key: &[u8]) -> Cow<'_, [u8]> {
    if is_plain(key) { Cow::Borrowed(key) } else { Cow::Owned(hashed(key).into_bytes()) }
}

/// The last part of a Redis key, without the braces around it, from a key as it is kept.
pub(crate) fn escaped_key(key: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(key) {
        Ok(text) if text.starts_with(HASHED) => Cow::Borrowed(text),
        Ok(text) if text.chars().all(|c| !c.is_control() && !matches!(c, '{' | '}' | '%')) => {
            Cow::Borrowed(text)
        }
        Ok(text) if text.chars().all(|c| !c.is_control()) => Cow::Owned(escaped(text, &['{', '}', '%'])),
        _ => Cow::Owned(hashed(key)),
    }
}

fn hashed(key: &[u8]) -> String {
    let mut text = HASHED.to_owned();
    for byte in Sha256::digest(key) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn escaped(text: &str, special: &[char]) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if special.contains(&c) {
            let _ = write!(safe, "%{:02X}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The Cluster slot of a key as it is kept.
pub(crate) fn slot(key: &[u8]) -> u16 {
    slot_of_tag(&escaped_key(key))
}

/// The Cluster slot of what stands between the braces.
pub(crate) fn slot_of_tag(tag: &str) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes()) % SLOTS
}

/// How many slots a Cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// Where a limiter keeps who is there. Behind a prefix that ends with an algorithm's name they stand
/// where a limit's name would.
const OWN: [&str; 2] = ["members", "heartbeats"];

/// A limit's name as it stands in keys.
pub(crate) fn escaped_name(name: &str) -> Result<String> {
    check_text("name", name, MAX_NAME)?;
    if let Some(own) = OWN.into_iter().find(|own| *own == name) {
        let (first, rest) = own.split_at(1);
        return Ok(format!("%{:02X}{rest}", first.as_bytes()[0]));
    }
    Ok(escaped(name, &['{', '}', '%', ':', '#', ' ']))
}

/// The prefix of all keys of a limiter.
pub(crate) fn checked_prefix(prefix: &str) -> Result<String> {
    check_text("prefix", prefix, MAX_NAME)?;
    match prefix.chars().find(|c| matches!(c, '{' | '}' | ' ')) {
        Some(c) => Err(Error::config(format!("prefix {} must not contain {c:?}", quote(prefix)))),
        None => Ok(prefix.to_owned()),
    }
}

fn check_text(field: &str, text: &str, most: usize) -> Result<()> {
    let refuse = |why: String| {
        let message = format!("{field} {} {why}; expected 1 to {most} bytes of text", quote(text));
        Err(if field == "name" { Error::argument(message) } else { Error::config(message) })
    };
    if text.is_empty() {
        refuse("must not be empty".to_owned())
    } else if text.len() > most {
        refuse(format!("is {} bytes long", text.len()))
    } else if text.chars().any(char::is_control) {
        refuse("holds a control character".to_owned())
    } else {
        Ok(())
    }
}

/// A number that names a rule's states in this process's memory: equal exactly where the
/// rule's key in Redis would be.
pub(crate) fn state_id(head: &str) -> u64 {
    let digest = Sha256::digest(head.as_bytes());
    digest.iter().take(8).fold(0, |id, byte| id << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::rngs::SmallRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::membership::Membership;
    use crate::spec::Algorithm;

    /// What keys and names are made of here: what means something to us, to Redis, to RESP or to Lua.
    const PIECES: [&str; 36] = [
        "",
        "a",
        "b",
        "{",
        "}",
        "{}",
        "}{",
        "%",
        "%7B",
        "%7D",
        "%25",
        "%h",
        "%h00",
        ":",
        "#",
        "#0",
        "*",
        "?",
        "[a-z]",
        "\\",
        "\"",
        "'",
        " ",
        "\0",
        "\r\n",
        "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
        "$-1\r\n",
        "]]",
        "--[[",
        "\u{7f}",
        "é",
        "🚰",
        "\u{2028}",
        "members",
        "sg",
        "sg:gcra",
    ];

    fn hostile(random: &mut SmallRng) -> Vec<u8> {
        let mut key: Vec<u8> = Vec::new();
        for _ in 0..random.random_range(1..6) {
            match random.random_range(0..12) {
                0 => key.push(random.random()),
                1 => key.extend(b"x".repeat(random.random_range(0..300))),
                2 => key.extend(escaped_key(&kept(&key.clone())).bytes()),
                _ => key.extend(PIECES.choose(random).unwrap().bytes()),
            }
        }
        key
    }

    /// A key's whole place in Redis.
    fn place(prefix: &str, algorithm: Algorithm, name: &str, index: &str, key: &[u8]) -> String {
        let head = format!("{prefix}:{}:{name}{index}", algorithm.as_str());
        format!("{head}:{{{}}}", escaped_key(&kept(key)))
    }

    #[test]
    fn no_two_keys_share_a_place_and_none_leaves_it() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let mut seen: HashMap<String, Vec<u8>> = HashMap::new();
        let mut in_memory: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
        for _ in 0..100_000 {
            let key = hostile(&mut random);
            if check_key(&key).is_err() {
                continue;
            }
            let kept = kept(&key);
            assert!(kept.len() <= MAX_PLAIN_KEY);
            let before = in_memory.entry(kept.to_vec()).or_insert_with(|| key.clone());
            assert_eq!(*before, key, "two keys are one in memory");
            let place = escaped_key(&kept).into_owned();
            assert!(place.len() <= 3 * MAX_PLAIN_KEY && !place.is_empty());
            assert!(!place.chars().any(|c| c.is_control() || c == '{' || c == '}'), "{place:?}");
            let before = seen.entry(place).or_insert_with(|| key.clone());
            assert_eq!(*before, key, "two keys are one in Redis");
        }
        assert!(seen.len() > 10_000, "{}", seen.len());
    }

    /// Every way to put these parts together, as prefix, algorithm, name, index and key.
    #[test]
    fn no_two_limits_share_a_place() {
        let parts = [
            "sg",
            "sg:gcra",
            "sg:gcra:members",
            "gcra",
            "members",
            "heartbeats",
            "a",
            "a:b",
            "#0",
            "a#0",
            "%3A",
            "x y",
        ];
        let prefixes = || parts.into_iter().filter_map(|prefix| checked_prefix(prefix).ok());
        let mut seen = HashMap::new();
        for prefix in prefixes() {
            for name in parts {
                let escaped = escaped_name(name).unwrap();
                for (algorithm, index) in
                    Algorithm::ALL.into_iter().flat_map(|a| [(a, ""), (a, "#0"), (a, "#1")])
                {
                    for key in parts {
                        let place = place(&prefix, algorithm, &escaped, index, key.as_bytes());
                        assert!(place.starts_with(&format!("{prefix}:")), "{place}");
                        assert_eq!(place.matches(['{', '}']).count(), 2, "{place}");
                        let before = seen.insert(place, (prefix.clone(), name, algorithm, index, key));
                        assert_eq!(before, None, "two limits are one in Redis");
                    }
                }
            }
        }
        for prefix in prefixes() {
            for key in Membership::new(&prefix).keys() {
                assert!(!seen.contains_key(key), "{key}: {:?}", seen[key]);
            }
        }
    }

    #[test]
    fn odd_keys_have_places_of_their_own() {
        let long = vec![b'x'; 129];
        let keys: [&[u8]; 10] =
            [b"a", b"a}", b"a%7D", b"{a}", b"a\0b", b"\xff", &long, b"%h00", "é".as_bytes(), "🚰".as_bytes()];
        let mut seen: Vec<_> = keys.iter().map(|key| escaped_key(&kept(key)).into_owned()).collect();
        assert!(seen.iter().all(|key| !key.contains(['{', '}'])));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), keys.len());
    }
}
