//! `POST /v1/chat/completions`: `data: {chunk}` events, ended by `data: [DONE]`.

use super::chunk::{self, Choice};
use super::json::{Adds, Loose};
use super::reading::Reading;

/// One choice of a chat chunk. A delta with only a role opens the answer; any other filled field
/// (`content`, `reasoning`, `tool_calls`, `refusal`, `audio`, …) is content.
#[derive(serde::Deserialize)]
pub(super) struct ChatChoice<'a> {
    #[serde(borrow, default)]
    index: Loose<'a>,
    #[serde(default)]
    delta: Adds,
    #[serde(borrow, default)]
    finish_reason: Loose<'a>,
}

impl Choice for ChatChoice<'_> {
    fn index(&self) -> u64 {
        self.index.count().unwrap_or(0)
    }
    fn has_content(&self) -> bool {
        self.delta.0
    }
    fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.word()
    }
}

pub(super) fn read(data: &[u8]) -> Reading {
    chunk::read::<ChatChoice<'_>>(data)
}
