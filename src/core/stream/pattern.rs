//! The short way for events of content.
//!
//! Within one stream they differ in nothing but their text: id, model and the fields around it
//! stay. So once one such event was read in full, its bytes before and after the text are kept,
//! and an event between the same bytes is known without parsing.
//!
//! Why that reads the same: the text that may differ is the value of a key that is asked only
//! whether it is empty (`content` of a chat delta, `text` of a completion or of a message's
//! delta). The bytes up to it end with `"content":"`, whose first quote is not escaped; in valid
//! JSON a quote before a letter opens a string, so this is a key and what follows is its value.
//! With another text that is not empty and has no quote, no backslash and no control character in
//! it, the JSON around it has the same structure, and the event the same lines. Whatever else the
//! reading depends on lies in the bytes that are compared.

use super::reading::{Reading, Step};
use crate::core::api::Api;
use memchr::memmem;

/// What the content events of one stream have in common; empty until one was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    /// The bytes before and after the text.
    around: Box<[u8]>,
    /// How many of them come before it.
    before: usize,
}

impl Pattern {
    /// The reading of `event`, if it is like the one that was [learned](Self::learn) from.
    pub(super) fn recognise(&self, event: &[u8]) -> Option<Reading> {
        let (before, after) = self.around.split_at_checked(self.before)?;
        let text = event.strip_prefix(before)?.strip_suffix(after)?;
        (!before.is_empty() && is_simple(text)).then(Reading::content)
    }

    /// Take `event`, which read in full gave `reading`, for the pattern of those to come, if it
    /// says nothing but text.
    pub(super) fn learn(&mut self, api: Api, event: &[u8], reading: &Reading) {
        if !reading.is_content_alone() || event.starts_with(BOM) || event.len() > LEARNED {
            return;
        }
        let Some((start, end)) = key(api).and_then(|key| text_of(event, key)) else { return };
        self.around = [&event[..start], &event[end..]].concat().into();
        self.before = start;
    }
}

/// A larger event is no pattern: it is not worth its copy.
const LEARNED: usize = 16 * 1024;
/// Dropped at the start of a stream only, so an event with it is no pattern.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The key whose value is the text, with its colon. The events of the responses API carry a
/// number each and are alike nowhere.
fn key(api: Api) -> Option<&'static [u8]> {
    match api {
        Api::Chat => Some(br#""content":"#),
        Api::Completions | Api::Messages => Some(br#""text":"#),
        Api::Responses | Api::Plain => None,
    }
}

/// Where the text lies in `event`.
fn text_of(event: &[u8], key: &[u8]) -> Option<(usize, usize)> {
    let at = memmem::find(event, key)?;
    if event[..at].last() == Some(&b'\\') {
        return None;
    }
    let value = &event[at + key.len()..];
    let space = usize::from(value.first() == Some(&b' '));
    let text = value[space..].strip_prefix(b"\"")?;
    let length = memchr::memchr(b'"', text)?;
    let start = at + key.len() + space + 1;
    is_simple(&text[..length]).then_some((start, start + length))
}

/// Whether this is the inside of a JSON string that is not empty and has no escapes.
fn is_simple(text: &[u8]) -> bool {
    let plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    !text.is_empty() && text.iter().all(plain) && std::str::from_utf8(text).is_ok()
}

impl Reading {
    fn content() -> Self {
        Self { step: Step::Content, ..Self::default() }
    }

    /// It says that there is content, and nothing else.
    fn is_content_alone(&self) -> bool {
        let Self {
            step,
            finish,
            usage,
            error,
            abort,
            unexplained_end,
            terminal,
            only_usage,
            unread,
            sequence,
        } = self;
        *step == Step::Content
            && finish.is_empty()
            && usage.is_none()
            && error.is_none()
            && sequence.is_none()
            && !(*abort || *unexplained_end || *terminal || *only_usage || *unread)
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapter;
    use super::*;
    use crate::core::sse::Event;
    use proptest::prelude::*;

    fn read(api: Api, event: &[u8]) -> Option<Reading> {
        adapter::read(api, &Event::parse(event, false))
    }

    fn chat(text: &str) -> String {
        format!(
            "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
        )
    }

    fn completion(text: &str) -> String {
        format!("data: {{\"choices\": [{{\"index\": 0, \"text\": \"{text}\"}}]}}\r\n\r")
    }

    fn message(text: &str) -> String {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    }

    fn learned(api: Api, event: &str) -> Pattern {
        let mut pattern = Pattern::default();
        let reading = read(api, event.as_bytes()).unwrap();
        pattern.learn(api, event.as_bytes(), &reading);
        pattern
    }

    #[test]
    fn events_of_each_api_are_recognised_by_their_surroundings() {
        let pattern = learned(Api::Chat, &chat(" a"));
        assert!(pattern.recognise(chat("Größe").as_bytes()).is_some());
        assert!(pattern.recognise(completion("b").as_bytes()).is_none());
        let pattern = learned(Api::Messages, &message(" a"));
        assert!(pattern.recognise(message("b").as_bytes()).is_some());
        let pattern = learned(Api::Completions, &completion("a"));
        assert!(pattern.recognise(completion("b").as_bytes()).is_some());
    }

    #[test]
    fn nothing_is_recognised_before_one_was_learned() {
        for event in ["", "data: x\n\n", &chat("a")] {
            assert!(Pattern::default().recognise(event.as_bytes()).is_none());
        }
    }

    #[test]
    fn texts_that_need_reading_are_read() {
        let pattern = learned(Api::Chat, &chat("a"));
        for text in ["", "\\n", "\\\"", "\"", "\"},\"x\":{\"y\":\"", "\n", "\t", "\u{1}", "\\ud800"]
        {
            assert!(pattern.recognise(chat(text).as_bytes()).is_none(), "{text:?}");
        }
        let mut event = chat("Z").into_bytes();
        assert!(pattern.recognise(&event).is_some());
        let at = event.iter().position(|byte| *byte == b'Z').unwrap();
        event[at] = 0xff;
        assert!(pattern.recognise(&event).is_none());
    }

    #[test]
    fn events_that_say_more_than_text_are_no_pattern() {
        for event in [
            r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}"#,
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"a\n"}}]}"#,
            r#"{"error":{"content":"a"}}"#,
            r#"{"choices":[{"delta":{"x\"content":"a"}}]}"#,
            r#"{"content":"a"}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"choices":[]}"#,
            r#"{"choices":[{"delta":{"content":"a"},"delta":{"content":"b"}}]}"#,
        ] {
            let event = format!("data: {event}\n\n");
            let pattern = learned(Api::Chat, &event);
            assert!(pattern.recognise(event.as_bytes()).is_none(), "{event}");
        }
    }

    /// The text lies elsewhere than in the answer: another field of the event, another key, the
    /// second of two choices or data lines.
    #[test]
    fn a_text_in_another_place_is_read_alike() {
        let delta = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
        for event in [
            format!("event: \"content\":\"b\"\ndata: {delta}\n\n"),
            format!(": \"content\":\"b\"\ndata: {delta}\n\n"),
            format!("id: \"content\":\"b\"\ndata: {delta}\n\n"),
            "data: {\"choices\":[{\"delta\":{\"x\":\ndata: {\"content\":\"b\"}}}]}\n\n".to_owned(),
            "data: {\"content\":\"b\",\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}\n\n".to_owned(),
            "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}},{\"delta\":{\"content\":\"a\"},\"index\":1}]}\n\n"
                .to_owned(),
        ] {
            let pattern = learned(Api::Chat, &event);
            let next = event.replacen("\"b\"", "\"error\"", 1);
            let short = pattern.recognise(next.as_bytes()).expect("it is a pattern");
            let long = read(Api::Chat, next.as_bytes()).expect("it has data");
            assert_eq!(format!("{short:?}"), format!("{long:?}"), "{event}");
        }
    }

    /// Parts of events, so that keys, quotes and escapes meet in every order.
    fn json() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "{\"choices\":[{\"delta\":",
            "{\"content\":\"",
            "{\"text\":\"",
            ",\"content\":\"",
            ",\"text\":\"",
            "a",
            "é",
            "\\",
            "\\\"",
            "\"",
            "\"}",
            "}]}",
            "}",
            ",",
            "{",
            "]",
            ":",
            "\"logprobs\":null",
            "\"finish_reason\":\"stop\"",
            "\"usage\":{\"prompt_tokens\":1}",
            "\"error\":",
            "null",
            "\"delta\":",
            "[",
            "\"x\":",
            " ",
        ]);
        prop::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// Whatever was learned and whatever comes: recognising is reading.
        #[test]
        fn the_short_way_reads_as_the_long_way(
            api in prop::sample::select(Api::ALL.to_vec()),
            first in json(),
            text in "[a-z\"\\\\ é{},:]{0,6}",
            whole in any::<bool>(),
        ) {
            let event = if whole { chat(&first) } else { format!("data: {first}\n\n") };
            let Some(reading) = read(api, event.as_bytes()) else { return Ok(()) };
            let mut pattern = Pattern::default();
            pattern.learn(api, event.as_bytes(), &reading);
            let (before, after) = pattern.around.split_at(pattern.before);
            let next = [before, text.as_bytes(), after].concat();
            if let Some(short) = pattern.recognise(&next) {
                let long = read(api, &next).expect("it has data");
                prop_assert_eq!(format!("{short:?}"), format!("{long:?}"));
            }
        }
    }
}
