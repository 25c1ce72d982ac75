//! Answers that are not streamed: one JSON body.

use super::error::EngineError;
use super::reading::Reading;
use super::usage::Usage;
use super::verdict::Verdict;
use super::{chat, completions, messages, responses};
use crate::core::api::Api;

/// What a plain answer's body says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlainAnswer {
    pub usage: Usage,
    /// The body is an error, whatever the status said.
    pub error: Option<EngineError>,
    /// The engine gave the request up.
    pub aborted: bool,
}

impl PlainAnswer {
    /// The verdict on a body that was received whole with a success status.
    pub fn verdict(&self) -> Verdict {
        if self.error.is_some() {
            Verdict::UpstreamError
        } else if self.aborted {
            Verdict::Truncated
        } else {
            Verdict::Complete
        }
    }
}

/// Read a whole body of `api`. A body that is not the JSON of that API says nothing, which is no
/// error: the answer may be audio, text or a list of models. Usage of embeddings and the like,
/// which are [`Api::Plain`], is read in OpenAI's shape and nothing else of them. `body` is bounded
/// by the caller.
pub fn plain_answer(api: Api, body: &[u8]) -> PlainAnswer {
    let reading = match api {
        Api::Completions => completions::read(body),
        Api::Chat => chat::read(body),
        Api::Responses => responses::read_plain(body),
        Api::Messages => messages::read_plain(body),
        Api::Plain => Reading { error: None, abort: false, ..completions::read(body) },
    };
    PlainAnswer {
        usage: reading.usage.map(|(usage, _)| usage).unwrap_or_default(),
        error: reading.error.map(|error| EngineError { before_content: true, ..error }),
        aborted: reading.abort,
    }
}

/// The usage that a plain answer's body reports; see [`plain_answer`].
pub fn plain_usage(api: Api, body: &[u8]) -> Usage {
    plain_answer(api, body).usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_report_their_prompt() {
        let body = br#"{"object":"list","data":[{"embedding":[0.1,-2e-3]}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        let usage = plain_usage(Api::Plain, body);
        assert_eq!(usage, Usage { prompt: Some(7), completion: None, cached: None });
    }

    #[test]
    fn cached_tokens_are_read_in_each_dialect() {
        for (api, body) in [
            (
                Api::Chat,
                r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}"#,
            ),
            (
                Api::Responses,
                r#"{"status":"completed","usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":8}}}"#,
            ),
            (
                Api::Messages,
                r#"{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":8}}"#,
            ),
        ] {
            let usage = Usage { prompt: Some(9), completion: Some(2), cached: Some(8) };
            let answer = PlainAnswer { usage, ..PlainAnswer::default() };
            assert_eq!(plain_answer(api, body.as_bytes()), answer, "{api}");
        }
    }

    #[test]
    fn a_plain_answer_that_the_engine_gave_up_is_truncated() {
        for (api, body) in [
            (Api::Completions, r#"{"choices":[{"index":0,"text":"a","finish_reason":"abort"}]}"#),
            (Api::Chat, r#"{"choices":[{"finish_reason":"stop"},{"finish_reason":"abort"}]}"#),
            (Api::Responses, r#"{"status":"cancelled"}"#),
            (Api::Responses, r#"{"status":"incomplete","incomplete_details":null}"#),
            (Api::Messages, r#"{"type":"message","content":[],"stop_reason":null}"#),
        ] {
            let verdict = plain_answer(api, body.as_bytes()).verdict();
            assert_eq!(verdict, Verdict::Truncated, "{api} {body}");
        }
    }

    #[test]
    fn an_error_body_is_an_error_whatever_the_status() {
        for (api, body) in [
            (Api::Chat, r#"{"error":{"message":"m","code":500}}"#),
            (Api::Completions, r#"{"object":"error","message":"m","code":400}"#),
            (
                Api::Responses,
                r#"{"status":"failed","error":{"code":"server_error","message":"m"}}"#,
            ),
            (Api::Messages, r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#),
        ] {
            let answer = plain_answer(api, body.as_bytes());
            assert_eq!(answer.verdict(), Verdict::UpstreamError, "{api}");
            assert_eq!(answer.error.unwrap().message.as_deref(), Some("m"), "{api}");
        }
    }

    #[test]
    fn what_is_not_json_says_nothing() {
        for api in Api::ALL {
            for body in [&b""[..], b"RIFF\x00\xff", b"[1,2]", b"{\"usage\":", b"null", b"{}"] {
                let answer = plain_answer(api, body);
                assert_eq!(answer, PlainAnswer::default(), "{api} {body:?}");
            }
        }
    }

    #[test]
    fn a_message_that_the_engine_gave_up_is_truncated_however_it_says_so() {
        for reason in ["null", "\"abort\"", "\"cancelled\""] {
            let body = format!(r#"{{"type":"message","content":[],"stop_reason":{reason}}}"#);
            let answer = plain_answer(Api::Messages, body.as_bytes());
            assert_eq!((answer.aborted, answer.verdict()), (true, Verdict::Truncated), "{reason}");
        }
        let body = br#"{"type":"message","content":[],"stop_reason":"end_turn"}"#;
        assert_eq!(plain_answer(Api::Messages, body).verdict(), Verdict::Complete);
    }
}
