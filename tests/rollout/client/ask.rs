//! A request whose answer can be judged.

use super::Fate;
use crate::support::Api;
use crate::support::request::Request;
use crate::support::wire::{Answer, Ending};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;
use std::ops::RangeInclusive;

/// A request for so many tokens.
#[derive(Clone, Debug)]
pub struct Ask {
    pub request: Request,
    api: Api,
    tokens: u32,
    stream: bool,
}

impl Ask {
    /// A stream of any API.
    pub fn stream(tokens: RangeInclusive<u32>, random: &mut StdRng) -> Self {
        let (api, tokens) = (any(random), random.random_range(tokens));
        let request = match api {
            Api::Chat | Api::Completions => {
                let usage = json!({"stream_options": {"include_usage": true}});
                api.stream_with(tokens, usage)
            }
            Api::Responses | Api::Messages => api.stream(tokens),
        };
        Self { request, api, tokens, stream: true }
    }

    /// Either a plain request or a stream.
    pub fn short(tokens: RangeInclusive<u32>, random: &mut StdRng) -> Self {
        if random.random() {
            return Self::stream(tokens, random);
        }
        let (api, tokens) = (any(random), random.random_range(tokens));
        Self { request: api.plain(tokens), api, tokens, stream: false }
    }

    /// Complete is: 200, a whole body with its terminal event, no error, all tokens.
    pub fn judge(&self, answer: &Answer) -> Fate {
        let text = answer.text();
        if answer.status != 200 {
            let reason = answer.reason().unwrap_or("-").to_owned();
            return Fate::Answered(answer.status, reason);
        }
        let told = text.contains("event: error");
        let ended = !self.stream || self.api.has_terminal(&text);
        let whole = answer.ending == Ending::Whole && ended;
        if whole && !told && tokens(&text) == Some(self.tokens) {
            return Fate::Complete;
        }
        let tail = text.get(text.len().saturating_sub(300)..).unwrap_or_default();
        Fate::Broken { told, how: format!("{:?} of {self:?}: …{tail}", answer.ending) }
    }
}

fn any(random: &mut StdRng) -> Api {
    Api::ALL[random.random_range(0..Api::ALL.len())]
}

/// The output tokens of the last usage in an answer.
fn tokens(text: &str) -> Option<u32> {
    let marks = [r#""completion_tokens":"#, r#""output_tokens":"#];
    let after = marks.iter().find_map(|mark| Some(text.rsplit_once(mark)?.1))?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}
