//! Error answers.

use super::ids::json_string;
use super::{Api, Event, Failure};
use crate::http1::{Answer, HeadFields, reason_phrase};

const DEAD: &str = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

/// The error event of the OpenAI streams; its JSON has spaces, unlike all other.
const OPENAI_DEAD: &str = r#"{"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "param": null, "code": 500}}"#;

/// What `/v1/messages` makes of the same event: it fails to convert it.
pub(super) const MESSAGES_DEAD: &str = r#"{"type":"error","error":{"type":"internal_error","message":"2 validation errors for ChatCompletionStreamResponse\nmodel\n  Field required [type=missing, input_value={'error': {'message': 'En...am': None, 'code': 500}}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.14/v/missing\nchoices\n  Field required [type=missing, input_value={'error': {'message': 'En...am': None, 'code': 500}}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2.14/v/missing"}}"#;

pub(super) fn openai_failure() -> Failure {
    Failure { events: vec![Event::data(OPENAI_DEAD.into()), Event::done()], proper_end: true }
}

/// An error as an API tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
}

impl ApiError {
    /// A field with a value that is not allowed.
    pub(crate) fn field(param: &str, message: String) -> Self {
        let kind = "BadRequestError";
        Self { status: 400, kind, message, param: Some(param.into()) }
    }

    /// The body does not have the form of a request.
    pub(crate) fn validation(kind: &str, loc: &str, msg: &str, rest: &str) -> Self {
        let message = format!(
            "1 validation error:\n  {{'type': '{kind}', 'loc': '{loc}', 'msg': '{msg}', {rest}}}"
        );
        Self { status: 400, kind: "Bad Request", message, param: Some(loc.into()) }
    }

    pub(crate) fn unknown_model(asked: &str, served: &str) -> Self {
        Self {
            status: 404,
            kind: "NotFoundError",
            message: format!("The model `{asked}` does not exist. Valid aliases: {served}."),
            param: Some("model".into()),
        }
    }

    pub(crate) fn queue_full() -> Self {
        Self {
            status: 503,
            kind: "Service Unavailable",
            message: "The engine is currently busy and cannot accept new requests. Please try \
                      again later or on a different instance."
                .into(),
            param: None,
        }
    }

    pub(crate) fn engine_dead() -> Self {
        Self::internal(DEAD)
    }

    /// Any other status, for faults.
    pub(crate) fn of_status(status: u16) -> Self {
        let message = format!("{} (simulated)", reason_phrase(status));
        Self { status, kind: reason_phrase(status), message, param: None }
    }

    fn internal(message: &str) -> Self {
        Self { status: 500, kind: "InternalServerError", message: message.into(), param: None }
    }

    /// The answer in the API's form.
    pub(crate) fn answer(&self, api: Option<Api>) -> Answer {
        let (kind, message) = (json_string(self.kind), json_string(&self.message));
        let body = if api == Some(Api::Messages) {
            format!(r#"{{"type":"error","error":{{"type":{kind},"message":{message}}}}}"#)
        } else {
            let param = self.param.as_deref().map_or_else(|| "null".into(), json_string);
            format!(
                r#"{{"error":{{"message":{message},"type":{kind},"param":{param},"code":{}}}}}"#,
                self.status
            )
        };
        Answer::json(self.status, body)
    }
}

/// The answer to every generation request of an engine that shuts down. It is made outside the
/// layer that adds `vary`, and the connection is closed after it without notice.
pub(crate) fn draining() -> Answer {
    let error = ApiError::internal("cannot schedule new futures after shutdown");
    let mut answer = error.answer(None);
    answer.fields.vary = false;
    answer.close_after = true;
    answer
}

/// What the server says to bytes that are not HTTP.
pub(crate) fn not_http() -> Answer {
    let mut answer =
        Answer::with_type(400, "text/plain; charset=utf-8", "Invalid HTTP request received.");
    answer.fields = HeadFields { vary: false, close: true, ..answer.fields };
    answer
}
