//! The chunk that completions and chat share: `choices`, `usage`, `error`.

use super::error::EngineError;
use super::json::{Loose, Object};
use super::reading::{Reading, Step};
use super::usage::{Scope, UsageFields};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;

/// One element of `choices`, as its API shapes it.
pub(super) trait Choice {
    fn index(&self) -> u64;
    /// It brings text, reasoning, a tool call or the like.
    fn has_content(&self) -> bool;
    fn finish_reason(&self) -> Option<&str>;
}

#[derive(serde::Deserialize)]
#[serde(bound = "C: Deserialize<'de> + Choice")]
struct Chunk<'a, C> {
    #[serde(default = "Choices::absent")]
    choices: Choices<C>,
    #[serde(borrow, default)]
    usage: Object<UsageFields<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    /// `error` in the error shape of older engines, which has no wrapping object.
    #[serde(borrow, default)]
    object: Loose<'a>,
}

/// The array of choices, folded while it is read: nothing is allocated unless one finishes.
struct Choices<C> {
    /// `None`: there is no array.
    count: Option<usize>,
    /// Index of the first choice.
    first: u64,
    reading: Reading,
    shape: PhantomData<C>,
}

impl<C> Choices<C> {
    fn absent() -> Self {
        Self { count: None, first: 0, reading: Reading::default(), shape: PhantomData }
    }
}

impl<C: Choice> Choices<C> {
    fn fold(&mut self, choice: &C) {
        if self.count == Some(0) {
            self.first = choice.index();
        }
        self.count = self.count.map(|count| count + 1);
        if choice.has_content() {
            self.reading.step = Step::Content;
        }
        if let Some(reason) = choice.finish_reason() {
            self.reading.step = self.reading.step.max(Step::Progress);
            self.reading.finished(choice.index(), reason);
        }
    }
}

impl<'de, C: Deserialize<'de> + Choice> Deserialize<'de> for Choices<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ChoicesVisitor(PhantomData))
    }
}

struct ChoicesVisitor<C>(PhantomData<C>);

impl<'de, C: Deserialize<'de> + Choice> Visitor<'de> for ChoicesVisitor<C> {
    type Value = Choices<C>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of choices")
    }
    fn visit_unit<E>(self) -> Result<Choices<C>, E> {
        Ok(Choices::absent())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Choices<C>, A::Error> {
        let mut choices = Choices { count: Some(0), ..Choices::absent() };
        while let Some(choice) = seq.next_element::<Object<C>>()? {
            if let Some(choice) = choice.0 {
                choices.fold(&choice);
            }
        }
        Ok(choices)
    }
}

/// Read the data of one event of completions or chat.
pub(super) fn read<'a, C: Deserialize<'a> + Choice>(data: &'a [u8]) -> Reading {
    if data.trim_ascii() == b"[DONE]" {
        return Reading::terminal();
    }
    match serde_json::from_slice::<Chunk<'a, C>>(data) {
        Ok(chunk) => understand(chunk, data),
        Err(_) => Reading::unread(),
    }
}

fn understand<C>(chunk: Chunk<'_, C>, data: &[u8]) -> Reading {
    if let Some(error) = chunk.error {
        return Reading::error(EngineError::read(error.get().as_bytes()));
    }
    if chunk.object.text() == Some("error") {
        return Reading::error(EngineError::read(data));
    }
    let Choices { count, first, mut reading, .. } = chunk.choices;
    if reading.finish.iter().any(|finish| &*finish.reason == "error") {
        return Reading { error: Some(EngineError::named("finish_reason")), ..reading };
    }
    if let Some(usage) = &chunk.usage.0 {
        let scope = if count == Some(1) { Scope::Choice(first) } else { Scope::Answer };
        reading.usage = Some((usage.openai(), scope));
        reading.only_usage = count == Some(0);
    }
    reading.unread = count.is_none() && reading.usage.is_none();
    if reading.unread {
        reading.step = Step::Progress;
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::super::chat::ChatChoice;
    use super::*;

    fn chat(json: &str) -> Reading {
        read::<ChatChoice<'_>>(json.as_bytes())
    }

    #[test]
    fn only_a_chunk_with_empty_choices_and_usage_is_the_extra_one() {
        assert!(chat(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#).only_usage);
        assert!(!chat(r#"{"choices":[],"usage":null}"#).only_usage);
        assert!(!chat(r#"{"choices":[{"index":0,"delta":{}}],"usage":{}}"#).only_usage);
        assert!(!chat(r#"{"usage":{"prompt_tokens":1}}"#).only_usage);
    }
}
