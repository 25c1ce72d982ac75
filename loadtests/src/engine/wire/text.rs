//! The words an engine says: one ASCII word a token, fixed by the prompt.

use std::fmt::Write;

/// Appends the `index`-th word of a choice. The same prompt gives the same words on every
/// engine, so that answers can be compared byte for byte.
pub(crate) fn push_word(out: &mut String, seed: u64, choice: u32, index: u32) {
    let mut x = seed ^ (u64::from(choice) << 32) ^ u64::from(index);
    // splitmix64's finalizer: neighbours in, unrelated words out.
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // A String takes every write.
    let _ = write!(out, " w{:03}", (x ^ (x >> 31)) % 512);
}
