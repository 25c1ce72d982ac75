//! Values that must not be seen: their `Debug` is `***`.

use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// A secret text. Never printed; read it with [`Secret::expose`] where it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The text itself. Do not log what this returns.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: AsRef<str>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(Arc::from(text.as_ref()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The SHA-256 of an API key, which is all that is stored of it. Keys are 32 random bytes, so a
/// slow password hash would add nothing; a leaked hash does not give the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    const PREFIX: &'static str = "sha256:";

    /// The hash of a presented key.
    pub fn of(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// The form in the configuration, `sha256:<64 hex>` in either case; `None` if it is another.
    pub fn from_config(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(Self::PREFIX)?.as_bytes();
        let mut hash = [0; 32];
        if hex.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self(hash))
    }

    /// The form in the configuration, lower case.
    pub fn to_config(self) -> String {
        use fmt::Write;
        self.0.iter().fold(Self::PREFIX.to_owned(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The 32 bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::from("hush")), "***");
        assert_eq!(format!("{:?}", Some(KeyHash::of(b"hush"))), "Some(***)");
    }

    #[test]
    fn the_hash_is_sha_256_and_its_text_form_round_trips() {
        // The published test vector for "abc" (FIPS 180-2, B.1).
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(KeyHash::of(b"abc").to_config(), text);
        assert_eq!(KeyHash::from_config(text), Some(KeyHash::of(b"abc")));
        let upper = format!("sha256:{}", text["sha256:".len()..].to_uppercase());
        assert_eq!(KeyHash::from_config(&upper), Some(KeyHash::of(b"abc")));
    }

    #[test]
    fn any_other_form_is_not_a_hash() {
        for text in [
            "",
            "sha256:",
            "sg-abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015",
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015azz",
            "sha256:za7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "sha256:é7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015adé",
        ] {
            assert_eq!(KeyHash::from_config(text), None, "{text}");
        }
    }
}
