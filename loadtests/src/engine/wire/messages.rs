//! `/v1/messages`, Anthropic's form.

use super::errors::MESSAGES_DEAD;
use super::{Choice, Event, Failure, Finish, Identity, Options, Piece, Usage, Wire};

pub(super) struct Messages {
    identity: Identity,
    options: Options,
    finish: Finish,
}

impl Messages {
    pub(super) fn new(identity: Identity, options: Options) -> Self {
        Self { identity, options, finish: Finish::Length }
    }

    fn usage(&self, output: u64) -> String {
        if self.options.no_usage {
            return "null".into();
        }
        format!(r#"{{"input_tokens":{},"output_tokens":{output}}}"#, self.options.prompt_tokens)
    }
}

fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "max_tokens",
        Finish::Stop => "end_turn",
        Finish::Abort => "abort",
    }
}

impl Wire for Messages {
    fn opening(&mut self) -> Vec<Event> {
        let Identity { id, model, .. } = &self.identity;
        let start = format!(
            r#"{{"type":"message_start","message":{{"id":{id},"type":"message","role":"assistant","content":[],"model":{model},"stop_reason":null,"stop_sequence":null,"usage":{}}}}}"#,
            self.usage(0),
        );
        let block =
            r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#;
        vec![
            Event::named("message_start", start),
            Event::named("content_block_start", block.into()),
        ]
    }

    fn piece(&mut self, piece: &Piece<'_>) -> Event {
        if let Some(finish) = piece.finish {
            self.finish = finish;
        }
        Event::named(
            "content_block_delta",
            format!(
                r#"{{"type":"content_block_delta","delta":{{"type":"text_delta","text":"{}"}},"index":0}}"#,
                piece.text
            ),
        )
    }

    fn closing(&mut self, usage: Usage) -> Vec<Event> {
        let delta = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{}}}"#,
            stop_reason(self.finish),
            self.usage(usage.completion),
        );
        vec![
            Event::named("content_block_stop", r#"{"type":"content_block_stop","index":0}"#.into()),
            Event::named("message_delta", delta),
            Event::named("message_stop", r#"{"type":"message_stop"}"#.into()),
        ]
    }

    fn failure(&mut self) -> Failure {
        Failure { events: vec![Event::named("error", MESSAGES_DEAD.into())], proper_end: true }
    }

    fn plain(&mut self, choices: &[Choice], usage: Usage) -> String {
        let Identity { id, model, .. } = &self.identity;
        let (text, finish) =
            choices.first().map_or(("", Finish::Length), |c| (c.text.as_str(), c.finish));
        format!(
            r#"{{"id":{id},"type":"message","role":"assistant","content":[{{"type":"text","text":"{text}"}}],"model":{model},"stop_reason":"{}","usage":{}}}"#,
            stop_reason(finish),
            self.usage(usage.completion),
        )
    }
}
