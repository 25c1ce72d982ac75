//! `/v1/responses`.

use super::ids::{hex_id, json_string};
use super::{Choice, Event, Failure, Finish, Generation, Identity, Options, Piece, Usage, Wire};

pub(super) struct Responses {
    identity: Identity,
    options: Options,
    item: String,
    echo: Echo,
    sequence: u32,
    text: String,
    finish: Finish,
}

/// Fields of the request that the answer repeats, as JSON.
struct Echo {
    instructions: String,
    metadata: String,
    user: String,
    temperature: f64,
    top_p: f64,
    max_output_tokens: u32,
}

impl Responses {
    pub(super) fn new(identity: Identity, options: Options, request: &Generation) -> Self {
        let text = |t: &Option<String>| t.as_deref().map_or_else(|| "null".into(), json_string);
        let echo = Echo {
            instructions: text(&request.instructions),
            metadata: request.metadata.as_ref().map_or_else(|| "null".into(), ToString::to_string),
            user: text(&request.user),
            temperature: request.temperature.unwrap_or(1.0),
            top_p: request.top_p.unwrap_or(1.0),
            max_output_tokens: request.max_tokens,
        };
        let item = json_string(&format!("msg_{}", hex_id()));
        let (sequence, text, finish) = (0, String::new(), Finish::Length);
        Self { identity, options, item, echo, sequence, text, finish }
    }

    /// The response object; without usage it is in progress.
    fn response(&self, usage: Option<Usage>) -> String {
        let Identity { id, model, created, .. } = &self.identity;
        let Echo { instructions, metadata, user, temperature, top_p, max_output_tokens } =
            &self.echo;
        let (output, incomplete, status) = match (usage, self.finish) {
            (None, _) => (String::new(), "null", "in_progress"),
            (Some(_), Finish::Length) => {
                (self.item_done(), r#"{"reason":"max_output_tokens"}"#, "incomplete")
            }
            (Some(_), Finish::Stop) => (self.item_done(), "null", "completed"),
            (Some(_), Finish::Abort) => (self.item_done(), "null", "cancelled"),
        };
        let usage = usage.filter(|_| !self.options.no_usage).map_or("null".into(), usage_json);
        format!(
            r#"{{"id":{id},"created_at":{created},"incomplete_details":{incomplete},"instructions":{instructions},"metadata":{metadata},"model":{model},"object":"response","output":[{output}],"parallel_tool_calls":true,"temperature":{temperature:?},"tool_choice":"none","tools":[],"top_p":{top_p:?},"background":false,"max_output_tokens":{max_output_tokens},"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"{status}","text":null,"top_logprobs":null,"truncation":"disabled","usage":{usage},"user":{user},"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}}"#
        )
    }

    fn part_done(&self) -> String {
        format!(
            r#"{{"annotations":[],"text":"{}","type":"output_text","logprobs":null}}"#,
            self.text
        )
    }

    fn item_done(&self) -> String {
        format!(
            r#"{{"id":{},"content":[{}],"role":"assistant","status":"completed","type":"message","phase":null}}"#,
            self.item,
            self.part_done()
        )
    }

    /// An event with fields before, and after, the fields that all have.
    fn event(&mut self, name: &'static str, before: &str, after: &str) -> Event {
        let sequence = self.sequence;
        self.sequence += 1;
        Event::named(
            name,
            format!(r#"{{{before},"sequence_number":{sequence}{after},"type":"{name}"}}"#),
        )
    }

    /// An event about the whole response.
    fn whole(&mut self, name: &'static str, usage: Option<Usage>) -> Event {
        let fields = format!(r#""response":{}"#, self.response(usage));
        self.event(name, &fields, "")
    }
}

impl Wire for Responses {
    fn early(&mut self) -> Vec<Event> {
        vec![self.whole("response.created", None), self.whole("response.in_progress", None)]
    }

    fn opening(&mut self) -> Vec<Event> {
        let item = format!(
            r#""item":{{"id":{},"content":[],"role":"assistant","status":"in_progress","type":"message","phase":null}},"output_index":0"#,
            self.item
        );
        let part = format!(
            r#""content_index":0,"item_id":{},"output_index":0,"part":{{"annotations":[],"text":"","type":"output_text","logprobs":[]}}"#,
            self.item
        );
        vec![
            self.event("response.output_item.added", &item, ""),
            self.event("response.content_part.added", &part, ""),
        ]
    }

    fn piece(&mut self, piece: &Piece<'_>) -> Event {
        self.text.push_str(piece.text);
        if let Some(finish) = piece.finish {
            self.finish = finish;
        }
        let fields = format!(
            r#""content_index":0,"delta":"{}","item_id":{},"logprobs":[],"output_index":0"#,
            piece.text, self.item
        );
        self.event("response.output_text.delta", &fields, "")
    }

    fn closing(&mut self, usage: Usage) -> Vec<Event> {
        let item = &self.item;
        let text = format!(r#""content_index":0,"item_id":{item},"logprobs":[],"output_index":0"#);
        let part = format!(
            r#""content_index":0,"item_id":{item},"output_index":0,"part":{}"#,
            self.part_done()
        );
        let done = format!(r#""item":{},"output_index":0"#, self.item_done());
        let whole_text = format!(r#","text":"{}""#, self.text);
        vec![
            self.event("response.output_text.done", &text, &whole_text),
            self.event("response.content_part.done", &part, ""),
            self.event("response.output_item.done", &done, ""),
            self.whole("response.completed", Some(usage)),
        ]
    }

    fn failure(&mut self) -> Failure {
        Failure::default()
    }

    fn plain(&mut self, choices: &[Choice], usage: Usage) -> String {
        if let Some(choice) = choices.first() {
            self.text.clone_from(&choice.text);
            self.finish = choice.finish;
        }
        self.response(Some(usage))
    }
}

fn usage_json(usage: Usage) -> String {
    let Usage { prompt, completion } = usage;
    format!(
        r#"{{"input_tokens":{prompt},"input_tokens_details":{{"cached_tokens":0,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{completion},"output_tokens_details":{{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}},"total_tokens":{}}}"#,
        prompt + completion
    )
}
