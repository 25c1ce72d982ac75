use super::*;
use crate::core::api::Api;
use crate::core::facts::{Limits, read};

fn edited(api: Api, body: &str) -> (String, bool) {
    let body = Bytes::from(body.to_owned());
    let facts = read(api, &body, &Limits::default()).unwrap();
    let upstream = upstream_body(&facts, body);
    let joined = upstream.parts.concat();
    assert_eq!(joined.len(), upstream.len());
    (String::from_utf8(joined).unwrap(), upstream.usage_injected)
}

#[test]
fn a_stream_is_made_to_report_its_usage() {
    let cases = [
        (
            r#"{"model":"m","stream":true}"#,
            r#"{"stream_options":{"include_usage":true},"model":"m","stream":true}"#,
        ),
        (
            " { \"stream\" :true , \"model\":\"m\" }\n",
            " {\"stream_options\":{\"include_usage\":true}, \"stream\" :true , \"model\":\"m\" }\n",
        ),
        (
            r#"{"model":"m","stream_options": null ,"stream":true}"#,
            r#"{"model":"m","stream_options": {"include_usage":true} ,"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream_options":{},"stream":true}"#,
            r#"{"model":"m","stream_options":{"include_usage":true},"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream_options":{ },"stream":true}"#,
            r#"{"model":"m","stream_options":{"include_usage":true },"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream_options":{"include_usage": false },"stream":true}"#,
            r#"{"model":"m","stream_options":{"include_usage": true },"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream_options":{"include_usage":null},"stream":true}"#,
            r#"{"model":"m","stream_options":{"include_usage":true},"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream\u005foptions":{"include\u005fusage":false},"stream":true}"#,
            r#"{"model":"m","stream\u005foptions":{"include\u005fusage":true},"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream_options":{"continuous_usage_stats":true},"stream":true}"#,
            r#"{"model":"m","stream_options":{"include_usage":true,"continuous_usage_stats":true},"stream":true}"#,
        ),
        (
            r#"{"model":"m","stream_options":{"include_obfuscation":[1]},"stream":true}"#,
            r#"{"model":"m","stream_options":{"include_usage":true,"include_obfuscation":[1]},"stream":true}"#,
        ),
    ];
    for api in [Api::Completions, Api::Chat] {
        for (body, wanted) in cases {
            assert_eq!(edited(api, body), (wanted.to_owned(), true));
        }
    }
}

#[test]
fn switched_off_continuous_usage_stays_off() {
    let body = r#"{"stream":true,"model":"m","stream_options":{"continuous_usage_stats":true,"include_usage":false}}"#;
    let wanted = r#"{"stream":true,"model":"m","stream_options":{"continuous_usage_stats":false,"include_usage":true}}"#;
    assert_eq!(edited(Api::Chat, body).0, wanted);
    let body = r#"{"stream":true,"model":"m","stream_options":{"include_usage":null,"continuous_usage_stats":true}}"#;
    let wanted = r#"{"stream":true,"model":"m","stream_options":{"include_usage":true,"continuous_usage_stats":false}}"#;
    assert_eq!(edited(Api::Chat, body).0, wanted);
}

#[test]
fn nothing_else_is_touched() {
    let asked = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;
    let stream = r#"{"model":"m","stream":true}"#;
    let cases = [
        (Api::Chat, asked),
        (Api::Completions, asked),
        (Api::Chat, r#"{"model":"m","stream":false}"#),
        (Api::Chat, r#"{"model":"m"}"#),
        (Api::Responses, stream),
        (Api::Messages, stream),
        (Api::Plain, stream),
    ];
    for (api, body) in cases {
        assert_eq!(edited(api, body), (body.to_owned(), false), "{api:?}");
    }
}

#[test]
fn a_large_body_is_not_copied() {
    let prompt = "x".repeat(16 << 20);
    let body = Bytes::from(format!(r#"{{"model":"m","stream":true,"prompt":"{prompt}"}}"#));
    let facts = read(Api::Completions, &body, &Limits::default()).unwrap();
    let upstream = upstream_body(&facts, body.clone());
    let range = body.as_ptr_range();
    let large: Vec<&Bytes> = upstream.parts.iter().filter(|part| part.len() > 100).collect();
    assert_eq!(large.len(), 1);
    assert!(range.contains(&large[0].as_ptr()), "the same memory");
}

#[test]
fn the_facts_of_another_body_change_nothing() {
    let limits = Limits::default();
    let facts = read(Api::Chat, br#"{"model":"m","stream":true}"#, &limits).unwrap();
    let other = Bytes::from_static(b"{}");
    let upstream = upstream_body(&facts, other.clone());
    assert_eq!(upstream, UpstreamBody { parts: vec![other], usage_injected: false });
}
