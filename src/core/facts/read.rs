//! Reads the facts of a request from its body.

use super::bad::BadRequest;
use super::edit::BodyEdit;
use super::fields::{Field, Seen, boolean, duplicate, integer, model};
use super::options::StreamOptions;
use super::prompt::{Measure, Prompts};
use super::scan::{Kind, Scanner, Why};
use super::walk::{Ignore, Walker};
use super::{Limits, MAX_SEQUENCES, PromptSize, RequestFacts, plain};
use crate::core::api::Api;

/// What a completion generates when `max_tokens` is absent (OpenAI and vLLM).
const COMPLETION_DEFAULT_TOKENS: u64 = 16;

/// The facts of a request of `api` with this body.
///
/// Time is linear in the body; memory is constant but for the model's name and one frame for
/// each level of nesting. Never fails for [`Api::Plain`].
///
/// # Errors
/// [`BadRequest`] if the body is not one JSON object in UTF-8, or an interpreted key is repeated,
/// of the wrong type, out of range, or (`model`) missing.
pub fn read(api: Api, body: &[u8], limits: &Limits) -> Result<RequestFacts, BadRequest> {
    if api == Api::Plain {
        return Ok(plain::read(body, limits));
    }
    Reader::new(api, text(body)?, limits).read()
}

impl RequestFacts {
    /// Facts of a body that says nothing.
    pub(super) fn empty(api: Api, body_len: usize) -> Self {
        Self {
            api,
            model: None,
            opaque: false,
            stream: false,
            n: 1,
            best_of: None,
            max_output_tokens: None,
            prompt: PromptSize { prompts: 1, ..PromptSize::default() },
            include_usage: false,
            continuous_usage: false,
            edit: None,
            body_len,
        }
    }
}

/// The body as text, if it can be one JSON text at all.
fn text(body: &[u8]) -> Result<&str, BadRequest> {
    if body.trim_ascii().is_empty() {
        return Err(BadRequest::body("The request body is empty; send a JSON object."));
    }
    if body.starts_with(b"\xEF\xBB\xBF") {
        return Err(BadRequest::body(
            "The request body starts with a byte order mark; send UTF-8 without it.",
        ));
    }
    std::str::from_utf8(body).map_err(|error| {
        BadRequest::body(format_args!(
            "The request body is not UTF-8 text (byte {}); encode the JSON as UTF-8 and send it \
             uncompressed.",
            error.valid_up_to()
        ))
    })
}

struct Reader<'a> {
    api: Api,
    limits: &'a Limits,
    scan: Scanner<'a>,
    walker: Walker<'a>,
    seen: Seen,
    measure: Measure,
    options: StreamOptions,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    facts: RequestFacts,
}

impl<'a> Reader<'a> {
    fn new(api: Api, text: &'a str, limits: &'a Limits) -> Self {
        Self {
            api,
            limits,
            scan: Scanner::new(text),
            walker: Walker::new(limits.depth),
            seen: Seen::default(),
            measure: Measure::default(),
            options: StreamOptions::Absent,
            max_tokens: None,
            max_completion_tokens: None,
            facts: RequestFacts::empty(api, text.len()),
        }
    }

    fn read(mut self) -> Result<RequestFacts, BadRequest> {
        if self.scan.kind()? != Kind::Object {
            return Err(BadRequest::body(
                "The request body must be a JSON object, such as {\"model\": …}; it is another \
                 JSON value.",
            ));
        }
        self.scan.eat(b'{');
        let start = self.scan.pos();
        let mut more = !self.scan.eat(b'}');
        while more {
            self.member()?;
            more = self.scan.eat(b',');
            if !more && !self.scan.eat(b'}') {
                self.scan.fail(Why::Expected("',' or '}'"))?;
            }
        }
        self.scan.end()?;
        self.finish(start)
    }

    fn member(&mut self) -> Result<(), BadRequest> {
        let key = self.scan.key()?;
        let Some(field) = Field::find(self.api, key) else {
            return Ok(self.walker.walk(&mut self.scan, 1, &mut Ignore)?);
        };
        if !self.seen.first(field) {
            return Err(duplicate(field.name()));
        }
        let (scan, name) = (&mut self.scan, field.name());
        match field {
            Field::Model => self.facts.model = model(scan, self.limits.model)?,
            Field::Stream => self.facts.stream = boolean(scan, name)?.unwrap_or(false),
            Field::StreamOptions => self.options = StreamOptions::read(scan, &mut self.walker)?,
            Field::N => self.facts.n = sequences(scan, name)?.unwrap_or(1),
            Field::BestOf => self.facts.best_of = sequences(scan, name)?,
            Field::MaxTokens | Field::MaxOutputTokens => self.max_tokens = integer(scan, name)?,
            Field::MaxCompletionTokens => self.max_completion_tokens = integer(scan, name)?,
            Field::Prompt => self.walker.walk(scan, 1, &mut Prompts(&mut self.measure))?,
            Field::Messages | Field::Input | Field::Instructions | Field::System => {
                self.walker.walk(scan, 1, &mut self.measure)?;
            }
            Field::Tools => {
                scan.skip_space();
                let start = scan.pos();
                self.walker.walk(scan, 1, &mut Ignore)?;
                self.measure.raw(scan.since(start));
            }
        }
        Ok(())
    }

    fn finish(mut self, start: usize) -> Result<RequestFacts, BadRequest> {
        if self.facts.model.is_none() {
            return Err(BadRequest::key(
                "model",
                "`model` is missing; name the model to use. GET /v1/models lists the names.",
            ));
        }
        if self.api == Api::Completions && !self.seen.has(Field::MaxTokens) {
            self.max_tokens = Some(COMPLETION_DEFAULT_TOKENS);
        }
        let facts = &mut self.facts;
        facts.max_output_tokens = self.max_completion_tokens.or(self.max_tokens);
        facts.prompt = self.measure.size();
        facts.include_usage = self.options.include_usage();
        facts.continuous_usage = self.options.continuous();
        if facts.stream && matches!(self.api, Api::Completions | Api::Chat) {
            facts.edit = BodyEdit::include_usage(&self.options, start);
        }
        Ok(self.facts)
    }
}

/// Reads `n` or `best_of`.
fn sequences(scan: &mut Scanner<'_>, param: &'static str) -> Result<Option<u64>, BadRequest> {
    let value = integer(scan, param)?;
    if value.is_some_and(|n| !(1..=MAX_SEQUENCES).contains(&n)) {
        return Err(BadRequest::key(
            param,
            format_args!("`{param}` must be from 1 to {MAX_SEQUENCES}."),
        ));
    }
    Ok(value)
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
