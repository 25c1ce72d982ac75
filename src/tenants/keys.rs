//! Key hash → owner, in a time that depends on nothing but how many keys there are.
//!
//! A table keyed by the hash would be faster for very many keys, and would leak only prefixes of
//! hashes, which do not give a key of 256 random bits; but a key that somebody chose by hand can
//! be guessed offline from such a prefix. The scan needs no such argument and costs about two
//! nanoseconds a key: as much as the SHA-256 of the presented key for a hundred keys, and ten
//! microseconds for five thousand (optimised build, measured).

use crate::config::KeyHash;
use std::fmt;
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// A hash as four words: one comparison instead of 32.
type Words = [u64; 4];

/// Every configured hash with its owner.
pub(super) struct KeyTable {
    /// The hash, and its owner plus one: 0 is nobody.
    rows: Box<[(Words, u64)]>,
}

impl KeyTable {
    /// The hashes of each owner, counted from zero.
    pub fn of<'c>(owners: impl Iterator<Item = &'c [KeyHash]>) -> Self {
        let rows = owners
            .zip(1_u64..)
            .flat_map(|(hashes, owner)| hashes.iter().map(move |hash| (words(hash), owner)))
            .collect();
        Self { rows }
    }

    /// Who owns this hash. Reads every row whatever is found.
    pub fn owner(&self, hash: &KeyHash) -> Option<usize> {
        let wanted = words(hash);
        let mut owner = 0_u64;
        for (words, candidate) in &self.rows {
            let difference = words.iter().zip(&wanted).fold(0, |all, (a, b)| all | (a ^ b));
            owner.conditional_assign(candidate, difference.ct_eq(&0));
        }
        usize::try_from(owner.checked_sub(1)?).ok()
    }
}

/// Shows how many keys there are and nothing of them.
impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyTable({} keys)", self.rows.len())
    }
}

fn words(hash: &KeyHash) -> Words {
    let mut words = Words::default();
    for (word, bytes) in words.iter_mut().zip(hash.bytes().chunks_exact(8)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_bit_of_difference_is_another_key() {
        let hash = KeyHash::of(b"key");
        let table = KeyTable::of([&[][..], &[hash]].into_iter());
        assert_eq!(table.owner(&hash), Some(1));
        let text = hash.to_config();
        for at in "sha256:".len()..text.len() {
            let digit = char::from(text.as_bytes()[at]).to_digit(16).unwrap();
            for bit in 0..4 {
                let mut other = text.clone();
                let flipped = char::from_digit(digit ^ (1 << bit), 16).unwrap();
                other.replace_range(at..=at, &flipped.to_string());
                assert_eq!(table.owner(&KeyHash::from_config(&other).unwrap()), None, "{other}");
            }
        }
    }

    #[test]
    fn an_empty_table_owns_nothing() {
        assert_eq!(KeyTable::of(std::iter::empty()).owner(&KeyHash::of(b"")), None);
    }

    proptest! {
        #[test]
        fn each_key_has_its_owner(sizes in prop::collection::vec(0..4_usize, 1..40)) {
            let key = |owner: usize, n: usize| KeyHash::of(format!("{owner}/{n}").as_bytes());
            let owners: Vec<Vec<_>> = sizes
                .iter()
                .enumerate()
                .map(|(owner, size)| (0..*size).map(|n| key(owner, n)).collect())
                .collect();
            let table = KeyTable::of(owners.iter().map(Vec::as_slice));
            for (owner, size) in sizes.iter().enumerate() {
                for n in 0..*size {
                    prop_assert_eq!(table.owner(&key(owner, n)), Some(owner));
                }
                prop_assert_eq!(table.owner(&key(owner, *size)), None);
            }
        }
    }
}
