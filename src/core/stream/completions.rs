//! `POST /v1/completions`: `data: {chunk}` events, ended by `data: [DONE]`.

use super::chunk::{self, Choice};
use super::json::Loose;
use super::reading::Reading;

/// One choice of a completions chunk.
#[derive(serde::Deserialize)]
pub(super) struct TextChoice<'a> {
    #[serde(borrow, default)]
    index: Loose<'a>,
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    finish_reason: Loose<'a>,
}

impl Choice for TextChoice<'_> {
    fn index(&self) -> u64 {
        self.index.count().unwrap_or(0)
    }
    fn has_content(&self) -> bool {
        self.text.filled()
    }
    fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.word()
    }
}

pub(super) fn read(data: &[u8]) -> Reading {
    chunk::read::<TextChoice<'_>>(data)
}
