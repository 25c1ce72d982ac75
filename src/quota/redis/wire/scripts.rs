//! The scripts: the common part and their own, as one text each.

use std::sync::LazyLock;

/// One script.
pub(in crate::quota::redis) struct Script {
    pub text: &'static str,
    /// SHA-1 of the text, in hex: its name in EVALSHA.
    pub name: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, name: redis::Script::new(text).get_hash().to_owned() }
    }
}

macro_rules! script {
    ($file:literal) => {
        LazyLock::new(|| {
            Script::new(concat!(include_str!("../lua/common.lua"), include_str!($file)))
        })
    };
}

pub(super) static JOIN: LazyLock<Script> = script!("../lua/join.lua");
pub(super) static BEAT: LazyLock<Script> = script!("../lua/beat.lua");
pub(super) static SET: LazyLock<Script> = script!("../lua/set.lua");
pub(in crate::quota::redis) static BOARD: LazyLock<Script> = script!("../lua/board.lua");
pub(super) static LOOK: LazyLock<Script> = script!("../lua/look.lua");
