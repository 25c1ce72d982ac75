//! `/v1/completions`.

use super::errors::openai_failure;
use super::{Choice, Event, Failure, Finish, Identity, Options, Piece, Usage, Wire};

pub(super) struct Completions {
    pub(super) identity: Identity,
    pub(super) options: Options,
}

impl Completions {
    fn prefix(&self) -> String {
        let Identity { id, created, model, .. } = &self.identity;
        format!(
            r#"{{"id":{id},"object":"text_completion","created":{created},"model":{model},"choices":["#
        )
    }
}

impl Wire for Completions {
    fn piece(&mut self, piece: &Piece<'_>) -> Event {
        let finish = finish_json(piece.finish);
        let mut data = self.prefix();
        data += &format!(
            r#"{{"index":{},"text":"{}","logprobs":null,"finish_reason":{finish},"stop_reason":null,"prompt_token_ids":null,"token_ids":null}}]"#,
            piece.choice, piece.text,
        );
        if self.options.continuous_usage {
            data += &usage_field(self.options.prompt_tokens, piece.tokens, "");
        }
        if piece.last && !self.options.include_usage {
            data += &fingerprint_field(&self.identity);
        }
        data.push('}');
        Event::data(data)
    }

    fn closing(&mut self, usage: Usage) -> Vec<Event> {
        closing(self.prefix(), &self.identity, self.options, usage)
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
                r#"{{"index":{index},"text":"{}","logprobs":null,"finish_reason":"{}","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}}"#,
                c.text,
                c.finish.openai(),
            )
        });
        format!(
            r#"{}{choices}],"service_tier":null,"system_fingerprint":{},"usage":{},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}}"#,
            self.prefix(),
            self.identity.fingerprint,
            plain_usage(self.options, usage),
        )
    }
}

/// The last events of both OpenAI streams.
pub(super) fn closing(
    prefix: String,
    identity: &Identity,
    options: Options,
    usage: Usage,
) -> Vec<Event> {
    let mut events = Vec::with_capacity(2);
    if options.include_usage {
        let usage = usage_field(usage.prompt, usage.completion, "");
        events.push(Event::data(format!("{prefix}]{usage}{}}}", fingerprint_field(identity))));
    }
    events.push(Event::done());
    events
}

/// `,"usage":{…}` with more fields at its end.
pub(super) fn usage_field(prompt: u64, completion: u64, more: &str) -> String {
    let total = prompt + completion;
    format!(
        r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion}{more}}}"#
    )
}

/// The `usage` object of a plain answer.
pub(super) fn plain_usage(options: Options, usage: Usage) -> String {
    if options.no_usage {
        return "null".into();
    }
    let (prompt, completion) = (usage.prompt, usage.completion);
    format!(
        r#"{{"prompt_tokens":{prompt},"total_tokens":{},"completion_tokens":{completion},"prompt_tokens_details":null,"completion_tokens_details":null}}"#,
        prompt + completion
    )
}

pub(super) fn fingerprint_field(identity: &Identity) -> String {
    format!(r#","system_fingerprint":{}"#, identity.fingerprint)
}

/// `null`, or the reason as a JSON string.
pub(super) fn finish_json(finish: Option<Finish>) -> String {
    finish.map_or_else(|| "null".into(), |f| format!("\"{}\"", f.openai()))
}

/// Items joined by commas.
pub(super) fn join(choices: &[Choice], render: impl Fn(usize, &Choice) -> String) -> String {
    let items: Vec<String> = choices.iter().enumerate().map(|(i, c)| render(i, c)).collect();
    items.join(",")
}
