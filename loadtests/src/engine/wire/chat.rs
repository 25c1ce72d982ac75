//! `/v1/chat/completions`.

use super::completions::{closing, fingerprint_field, finish_json, join, plain_usage, usage_field};
use super::errors::openai_failure;
use super::{Choice, Event, Failure, Identity, Options, Piece, Usage, Wire};

/// Only the chunks that carry a choice have it.
const MORE_USAGE: &str = r#","completion_tokens_details":null"#;

pub(super) struct Chat {
    pub(super) identity: Identity,
    pub(super) options: Options,
}

impl Chat {
    fn prefix(&self, object: &str) -> String {
        let Identity { id, created, model, .. } = &self.identity;
        format!(
            r#"{{"id":{id},"object":"{object}","created":{created},"model":{model},"choices":["#
        )
    }

    fn continuous(&self, tokens: u64) -> String {
        if self.options.continuous_usage {
            usage_field(self.options.prompt_tokens, tokens, MORE_USAGE)
        } else {
            String::new()
        }
    }
}

const CHUNK: &str = "chat.completion.chunk";

impl Wire for Chat {
    fn opening(&mut self) -> Vec<Event> {
        let role = |choice| {
            Event::data(format!(
                r#"{}{{"index":{choice},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}]{},"prompt_token_ids":null,"prompt_text":null}}"#,
                self.prefix(CHUNK),
                self.continuous(0),
            ))
        };
        (0..self.options.choices).map(role).collect()
    }

    fn piece(&mut self, piece: &Piece<'_>) -> Event {
        let finish = finish_json(piece.finish);
        let stop = if piece.finish.is_some() { r#","stop_reason":null"# } else { "" };
        let mut data = self.prefix(CHUNK);
        data += &format!(
            r#"{{"index":{},"delta":{{"content":"{}"}},"logprobs":null,"finish_reason":{finish}{stop},"token_ids":null}}]{}"#,
            piece.choice,
            piece.text,
            self.continuous(piece.tokens),
        );
        if piece.last && !self.options.include_usage {
            data += &fingerprint_field(&self.identity);
        }
        data.push('}');
        Event::data(data)
    }

    fn closing(&mut self, usage: Usage) -> Vec<Event> {
        closing(self.prefix(CHUNK), &self.identity, self.options, usage)
    }

    fn failure(&mut self) -> Failure {
        openai_failure()
    }

    fn shows_abort(&self) -> bool {
        true
    }

    fn plain(&mut self, choices: &[Choice], usage: Usage) -> String {
        let choices = join(choices, |index, c| {
            format!(
                r#"{{"index":{index},"message":{{"role":"assistant","content":"{}","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":"{}","stop_reason":null,"token_ids":null,"routed_experts":null}}"#,
                c.text,
                c.finish.openai(),
            )
        });
        format!(
            r#"{}{choices}],"service_tier":null,"system_fingerprint":{},"usage":{},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#,
            self.prefix("chat.completion"),
            self.identity.fingerprint,
            plain_usage(self.options, usage),
        )
    }
}
