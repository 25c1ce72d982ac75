//! Token usage: what an engine reported, and what can be said while it has not.

use super::json::{Loose, Object};
use serde::Deserialize;

/// Tokens of one request as the engine reported them. `None`: not reported, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// All prompt tokens, cached ones included.
    pub prompt: Option<u64>,
    /// Generated tokens over all choices, reasoning included.
    pub completion: Option<u64>,
    /// Prompt tokens that came from the engine's prefix cache.
    pub cached: Option<u64>,
}

impl Usage {
    /// Nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The usage objects of all APIs: field names do not collide, so one shape reads them all.
#[derive(Debug, Default, Deserialize)]
pub(super) struct UsageFields<'a> {
    #[serde(borrow, default)]
    prompt_tokens: Loose<'a>,
    #[serde(borrow, default)]
    completion_tokens: Loose<'a>,
    #[serde(borrow, default)]
    prompt_tokens_details: Object<Details<'a>>,
    #[serde(borrow, default)]
    input_tokens: Loose<'a>,
    #[serde(borrow, default)]
    output_tokens: Loose<'a>,
    #[serde(borrow, default)]
    input_tokens_details: Object<Details<'a>>,
    #[serde(borrow, default)]
    cache_read_input_tokens: Loose<'a>,
    #[serde(borrow, default)]
    cache_creation_input_tokens: Loose<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    cached_tokens: Loose<'a>,
}

impl UsageFields<'_> {
    /// Completions, chat and embeddings: `prompt_tokens` counts cached tokens too.
    pub(super) fn openai(&self) -> Usage {
        Usage {
            prompt: self.prompt_tokens.count(),
            completion: self.completion_tokens.count(),
            cached: cached(&self.prompt_tokens_details),
        }
    }

    /// Responses: `input_tokens` counts cached tokens too.
    pub(super) fn responses(&self) -> Usage {
        Usage {
            prompt: self.input_tokens.count(),
            completion: self.output_tokens.count(),
            cached: cached(&self.input_tokens_details),
        }
    }

    /// Messages: `input_tokens` leaves out what was read from or written to the cache, so the
    /// prompt is the sum of the three (Anthropic's prompt caching documentation).
    pub(super) fn anthropic(&self) -> Usage {
        let read = self.cache_read_input_tokens.count();
        let written = self.cache_creation_input_tokens.count();
        let add = |input: u64| {
            input.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0))
        };
        Usage {
            prompt: self.input_tokens.count().map(add),
            completion: self.output_tokens.count(),
            cached: read,
        }
    }
}

fn cached(details: &Object<Details<'_>>) -> Option<u64> {
    details.0.as_ref().and_then(|details| details.cached_tokens.count())
}

/// Whom a usage report in a stream speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The whole answer.
    Answer,
    /// One choice so far (continuous usage statistics).
    Choice(u64),
}

/// Choices tracked apart; more are folded into the last. Only bounds memory.
const MAX_CHOICES: usize = 256;

/// Collects the reports of one stream. Reports are running totals: the last one counts, so a
/// repeated report is never added up.
#[derive(Clone, Debug, Default)]
pub(super) struct UsageMeter {
    prompt: Option<u64>,
    cached: Option<u64>,
    completion: Option<u64>,
    by_choice: Vec<(u64, u64)>,
    /// Events with content since the last report of completion tokens.
    unreported: u64,
}

impl UsageMeter {
    /// An event with content came. Call before [`report`](Self::report) of the same event.
    pub(super) fn content(&mut self) {
        self.unreported += 1;
    }

    /// A field that is absent leaves the earlier value.
    pub(super) fn report(&mut self, usage: Usage, scope: Scope) {
        self.prompt = usage.prompt.or(self.prompt);
        self.cached = usage.cached.or(self.cached);
        let Some(completion) = usage.completion else { return };
        self.unreported = 0;
        match scope {
            Scope::Answer => {
                self.by_choice.clear();
                self.completion = Some(completion);
            }
            Scope::Choice(choice) => {
                self.note_choice(choice, completion);
                self.completion = Some(self.by_choice.iter().map(|(_, tokens)| tokens).sum());
            }
        }
    }

    fn note_choice(&mut self, choice: u64, completion: u64) {
        let full = self.by_choice.len() == MAX_CHOICES;
        if let Some(known) = self.by_choice.iter_mut().find(|(known, _)| *known == choice) {
            known.1 = completion;
        } else if !full {
            self.by_choice.push((choice, completion));
        } else if let Some(last) = self.by_choice.last_mut() {
            last.1 = last.1.max(completion);
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { prompt: self.prompt, completion: self.completion, cached: self.cached }
    }

    /// The completion tokens were reported at or after the last content.
    pub(super) fn is_settled(&self) -> bool {
        self.completion.is_some() && self.unreported == 0
    }

    /// Tokens generated as far as the stream tells: the last report plus one for every event with
    /// content since. A lower bound, as engines merge tokens into one event under load.
    pub(super) fn at_least(&self) -> u64 {
        self.completion.unwrap_or(0).saturating_add(self.unreported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(tokens: u64) -> Usage {
        Usage { completion: Some(tokens), ..Usage::default() }
    }

    #[test]
    fn repeated_reports_are_not_added_up() {
        let mut meter = UsageMeter::default();
        for tokens in 1..=4 {
            meter.content();
            meter.report(completion(tokens), Scope::Choice(0));
        }
        assert_eq!(meter.usage().completion, Some(4));
        meter.report(completion(4), Scope::Answer);
        assert_eq!(meter.usage().completion, Some(4));
        assert!(meter.is_settled());
    }

    #[test]
    fn running_reports_of_choices_are_summed_until_the_whole_is_reported() {
        let mut meter = UsageMeter::default();
        meter.report(completion(3), Scope::Choice(0));
        meter.report(completion(2), Scope::Choice(1));
        meter.report(completion(4), Scope::Choice(0));
        assert_eq!(meter.usage().completion, Some(6));
        meter.report(completion(8), Scope::Answer);
        assert_eq!(meter.usage().completion, Some(8));
    }

    #[test]
    fn content_after_a_report_counts_one_token_an_event() {
        let mut meter = UsageMeter::default();
        meter.report(Usage { prompt: Some(24), completion: Some(0), cached: None }, Scope::Answer);
        meter.content();
        meter.content();
        assert_eq!((meter.at_least(), meter.is_settled()), (2, false));
        meter.report(completion(5), Scope::Answer);
        assert_eq!((meter.at_least(), meter.is_settled()), (5, true));
        assert_eq!(meter.usage().prompt, Some(24));
    }

    #[test]
    fn the_anthropic_prompt_includes_what_the_cache_gave() {
        let fields: UsageFields<'_> = serde_json::from_str(
            r#"{"input_tokens":4,"output_tokens":2,"cache_read_input_tokens":20,"cache_creation_input_tokens":0}"#,
        )
        .unwrap();
        let usage = fields.anthropic();
        assert_eq!(usage, Usage { prompt: Some(24), completion: Some(2), cached: Some(20) });
    }

    #[test]
    fn choices_are_bounded() {
        let mut meter = UsageMeter::default();
        for choice in 0..10_000 {
            meter.report(completion(1), Scope::Choice(choice));
        }
        assert_eq!(meter.by_choice.len(), MAX_CHOICES);
    }
}
