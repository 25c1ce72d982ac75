//! Captured answers that are no streams.

use crate::fixture::Answer;
use streamgate::core::api::Api;
use streamgate::core::stream::{Usage, Verdict, plain_answer, plain_usage};

#[test]
fn plain_answers_report_their_usage() {
    for (file, api, prompt, completion, cached) in [
        ("chat_nonstream.raw", Api::Chat, 24, 4, None),
        ("chat_nonstream_n2.raw", Api::Chat, 24, 8, None),
        ("completions_nonstream.raw", Api::Completions, 5, 4, None),
        ("responses_nonstream.raw", Api::Responses, 24, 4, Some(0)),
        ("messages_nonstream.raw", Api::Messages, 24, 4, None),
    ] {
        let body = Answer::load(file).body();
        let usage = Usage { prompt: Some(prompt), completion: Some(completion), cached };
        assert_eq!(plain_usage(api, &body), usage, "{file}");
        assert_eq!(plain_answer(api, &body).verdict(), Verdict::Complete, "{file}");
        for cut in 0..body.len() {
            assert_eq!(plain_usage(api, &body[..cut]), Usage::default(), "{file} cut at {cut}");
        }
    }
}

#[test]
fn error_answers_name_status_and_type() {
    for (file, api, kind) in [
        ("err_500_post_during_drain.raw", Api::Chat, "InternalServerError"),
        ("err_503_max_num_queued_reqs.raw", Api::Completions, "Service Unavailable"),
        ("err_unknown_model.raw", Api::Chat, "NotFoundError"),
        ("err_unknown_model.raw", Api::Responses, "NotFoundError"),
        ("err_overlong_chat.raw", Api::Chat, "BadRequestError"),
        ("error_500_chat_nonstream_engine_dead.raw", Api::Chat, "InternalServerError"),
    ] {
        let answer = Answer::load(file);
        let read = plain_answer(api, &answer.body());
        assert_eq!(read.verdict(), Verdict::UpstreamError, "{file}");
        let error = read.error.unwrap();
        assert_eq!(error.status, Some(answer.status), "{file}");
        assert_eq!(error.kind.as_deref(), Some(kind), "{file}");
        assert!(error.message.is_some() && error.before_content, "{file}");
        assert_eq!(read.usage, Usage::default(), "{file}");
    }
    let body = Answer::load("err_unknown_model_messages.raw").body();
    let error = plain_answer(Api::Messages, &body).error.unwrap();
    assert_eq!(error.kind.as_deref(), Some("NotFoundError"));
}
