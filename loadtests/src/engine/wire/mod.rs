//! The four generation APIs as vLLM 0.32 writes them: field order and spelling included.

mod chat;
mod completions;
mod embeddings;
pub(crate) mod errors;
mod ids;
mod messages;
mod request;
mod responses;
pub(crate) mod text;

pub(crate) use embeddings::embeddings;
pub(crate) use ids::{Identity, hex_id};
pub(crate) use request::{Generation, ParseContext, parse, read, tenant_of};

use super::faults::Faults;

/// A generation endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Completions,
    Chat,
    Responses,
    Messages,
    Embeddings,
}

impl Api {
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/completions" => Self::Completions,
            "/v1/chat/completions" => Self::Chat,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/embeddings" => Self::Embeddings,
            _ => return None,
        })
    }
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` field, where the API has it.
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
}

impl Event {
    fn data(data: String) -> Self {
        Self { name: None, data }
    }

    fn done() -> Self {
        Self::data("[DONE]".into())
    }

    fn named(name: &'static str, data: String) -> Self {
        Self { name: Some(name), data }
    }
}

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Length,
    Stop,
    Abort,
}

impl Finish {
    fn openai(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
            Self::Abort => "abort",
        }
    }
}

/// A piece of text of one choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) choice: u32,
    pub(crate) text: &'a str,
    /// Set on the choice's last piece.
    pub(crate) finish: Option<Finish>,
    /// The last piece of the last choice.
    pub(crate) last: bool,
    /// Tokens of this choice so far.
    pub(crate) tokens: u64,
}

/// Token counts of a whole request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
}

/// A whole choice, for a plain answer.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) finish: Finish,
}

/// How a stream ends when the engine fails it.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    pub(crate) events: Vec<Event>,
    /// The body ends properly; otherwise the connection is closed in its middle.
    pub(crate) proper_end: bool,
}

/// Writes one answer in one API's form.
pub(crate) trait Wire: Send {
    /// Events sent at once, before the engine has begun.
    fn early(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Events sent just before the first token.
    fn opening(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// The event of one piece of text.
    fn piece(&mut self, piece: &Piece<'_>) -> Event;

    /// Events after the last piece.
    fn closing(&mut self, usage: Usage) -> Vec<Event>;

    /// What is sent when the engine dies.
    fn failure(&mut self) -> Failure;

    /// Whether the API passes on the engine's own abort as a finish; otherwise it is a failure.
    fn shows_abort(&self) -> bool {
        false
    }

    /// A plain answer.
    fn plain(&mut self, choices: &[Choice], usage: Usage) -> String;
}

/// The wire of a request.
pub(crate) fn wire(request: &Generation, identity: Identity, faults: &Faults) -> Box<dyn Wire> {
    let options = Options {
        include_usage: request.include_usage && !faults.no_usage,
        continuous_usage: request.continuous_usage && !faults.no_usage,
        no_usage: faults.no_usage,
        choices: request.choices(),
        prompt_tokens: request.prompt_tokens(),
    };
    match request.api {
        Api::Completions | Api::Embeddings => {
            Box::new(completions::Completions { identity, options })
        }
        Api::Chat => Box::new(chat::Chat { identity, options }),
        Api::Responses => Box::new(responses::Responses::new(identity, options, request)),
        Api::Messages => Box::new(messages::Messages::new(identity, options)),
    }
}

/// What all four share.
#[derive(Debug, Clone, Copy)]
struct Options {
    include_usage: bool,
    continuous_usage: bool,
    no_usage: bool,
    choices: u32,
    prompt_tokens: u64,
}
