use super::*;
use crate::core::facts::PromptSize;

fn facts(api: Api, body: &str) -> RequestFacts {
    read(api, body.as_bytes(), &Limits::default()).unwrap()
}

fn refused(api: Api, body: impl AsRef<[u8]>) -> BadRequest {
    read(api, body.as_ref(), &Limits::default()).unwrap_err()
}

/// The refusal of a chat request with these members besides a model.
fn refused_member(member: &str) -> BadRequest {
    refused(Api::Chat, format!("{{\"model\":\"m\",{member}}}"))
}

#[test]
fn a_completion_tells_everything() {
    let body = r#"{"model":"tiny","prompt":"hello world!","stream":true,"n":2,"best_of":4,
        "max_tokens":100,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
    let facts = facts(Api::Completions, body);
    assert_eq!(facts.model.as_ref().map(ModelNameText::text), Some("tiny"));
    assert!(facts.stream && facts.include_usage && facts.continuous_usage && !facts.opaque);
    assert_eq!((facts.n, facts.best_of, facts.max_output_tokens), (2, Some(4), Some(100)));
    assert_eq!(facts.prompt, PromptSize { bytes: 12, tokens: 3, prompts: 1, media: 0 });
    assert_eq!((facts.sequences(), facts.max_total_output_tokens()), (4, Some(400)));
    assert_eq!(facts.edit(), None);
}

trait ModelNameText {
    fn text(&self) -> &str;
}

impl ModelNameText for crate::core::ids::ModelName {
    fn text(&self) -> &str {
        self.as_str()
    }
}

#[test]
fn defaults_are_those_of_the_api() {
    for (api, tokens) in [
        (Api::Completions, Some(16)),
        (Api::Chat, None),
        (Api::Responses, None),
        (Api::Messages, None),
    ] {
        let facts = facts(api, r#"{"model":"m"}"#);
        assert_eq!(facts.max_output_tokens, tokens, "{api:?}");
        assert_eq!((facts.n, facts.best_of, facts.stream), (1, None, false));
        assert_eq!(facts.prompt.prompts, 1);
    }
}

#[test]
fn null_is_absent_but_for_the_default_of_max_tokens() {
    let body = r#"{"model":"m","n":null,"best_of":null,"stream":null,"max_tokens":null,
        "stream_options":null,"prompt":null}"#;
    let facts = facts(Api::Completions, body);
    assert_eq!((facts.n, facts.best_of, facts.stream), (1, None, false));
    // vLLM: null lifts the default of 16.
    assert_eq!(facts.max_output_tokens, None);
}

#[test]
fn each_api_has_its_own_bound_on_output() {
    let body = r#"{"model":"m","max_tokens":1,"max_completion_tokens":2,"max_output_tokens":3}"#;
    let bound = |api| facts(api, body).max_output_tokens;
    assert_eq!(bound(Api::Completions), Some(1));
    assert_eq!(bound(Api::Chat), Some(2), "the newer key wins, as in vLLM");
    assert_eq!(bound(Api::Responses), Some(3));
    assert_eq!(bound(Api::Messages), Some(1));
    let newer_null = r#"{"model":"m","max_tokens":1,"max_completion_tokens":null}"#;
    assert_eq!(facts(Api::Chat, newer_null).max_output_tokens, Some(1));
}

#[test]
fn keys_of_another_api_are_not_interpreted() {
    let body = r#"{"model":"m","n":"x","n":3,"stream_options":7,"best_of":-1,"prompt":[1,2]}"#;
    let facts = facts(Api::Responses, body);
    assert_eq!((facts.n, facts.prompt.tokens), (1, 0));
}

#[test]
fn whole_numbers_may_be_written_as_floats() {
    let tokens = |number: &str| {
        let body = format!(r#"{{"model":"m","max_tokens":{number}}}"#);
        read(Api::Chat, body.as_bytes(), &Limits::default()).map(|facts| facts.max_output_tokens)
    };
    for (number, value) in
        [("3.0", 3), ("1e2", 100), ("-0", 0), ("-0.0", 0), ("9007199254740991", (1 << 53) - 1)]
    {
        assert_eq!(tokens(number), Ok(Some(value)), "{number}");
    }
    for number in ["3.5", "-1", "9007199254740992", "1e400", "99999999999999999999999", "1e-1"] {
        let refused = tokens(number).unwrap_err();
        assert_eq!(refused.param, Some("max_tokens"), "{number}");
        assert!(refused.message.contains(number), "{}", refused.message);
    }
}

#[test]
fn wrong_types_are_named_with_their_key() {
    let cases = [
        (
            r#""stream":"true""#,
            "stream",
            "`stream` must be true or false, without quotes, not the string \"true\".",
        ),
        (
            r#""stream":1"#,
            "stream",
            "`stream` must be true or false, without quotes, not the number 1.",
        ),
        (r#""n":"3""#, "n", "`n` must be a whole number, without quotes, not the string \"3\"."),
        (r#""n":true"#, "n", "`n` must be a whole number, without quotes, not true."),
        (r#""n":[1]"#, "n", "`n` must be a whole number, without quotes, not an array."),
        (r#""n":0"#, "n", "`n` must be from 1 to 16384."),
        (r#""n":16385"#, "n", "`n` must be from 1 to 16384."),
        (
            r#""stream_options":[]"#,
            "stream_options",
            "`stream_options` must be an object or null, not an array.",
        ),
        (
            r#""stream_options":{"include_usage":"true"}"#,
            "stream_options.include_usage",
            "`stream_options.include_usage` must be true or false, without quotes, not the string \"true\".",
        ),
        (
            r#""stream_options":{"continuous_usage_stats":0}"#,
            "stream_options.continuous_usage_stats",
            "`stream_options.continuous_usage_stats` must be true or false, without quotes, not the number 0.",
        ),
    ];
    for (member, param, message) in cases {
        let refused = refused_member(member);
        assert_eq!((refused.param, refused.message.as_str()), (Some(param), message), "{member}");
    }
}

#[test]
fn a_repeated_key_is_refused_however_it_is_written() {
    let cases = [
        (r#""model":"m""#, "model"),
        (r#""mod\u0065l":"other""#, "model"),
        (r#""stream":true,"stream":false"#, "stream"),
        (r#""n":1,"\u006e":1"#, "n"),
        (r#""max_tokens":1,"max_tokens":null"#, "max_tokens"),
        (r#""messages":[],"messages":[]"#, "messages"),
        (r#""tools":[],"tools":[]"#, "tools"),
        (r#""stream_options":null,"stream_options":{}"#, "stream_options"),
        (
            r#""stream_options":{"include_usage":true,"include_us\u0061ge":false}"#,
            "stream_options.include_usage",
        ),
    ];
    for (member, param) in cases {
        let refused = refused_member(member);
        assert_eq!(refused.param, Some(param), "{member}");
        assert!(refused.message.contains("more than once"), "{}", refused.message);
    }
    let elsewhere = r#"{"model":"m","metadata":{"model":"x","model":"y"},"x":1,"x":2}"#;
    assert!(read(Api::Chat, elsewhere.as_bytes(), &Limits::default()).is_ok());
}

#[test]
fn the_model_must_be_named() {
    let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(513));
    for body in [
        "{}",
        r#"{"model":null}"#,
        r#"{"model":""}"#,
        r#"{"model":7}"#,
        r#"{"model":"a\nb"}"#,
        &long,
    ] {
        assert_eq!(refused(Api::Messages, body).param, Some("model"), "{body}");
    }
    let model = facts(Api::Chat, r#"{"model":"org\/m\u00e9"}"#).model;
    assert_eq!(model.as_ref().map(ModelNameText::text), Some("org/mé"));
}

#[test]
fn what_is_not_one_json_object_is_refused_with_a_remedy() {
    let cases: [(&[u8], &str); 11] = [
        (b"", "is empty; send a JSON object"),
        (b" \r\n\t ", "is empty; send a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"\"model\"", "must be a JSON object"),
        (b"{\"model\":\"m\"", "ends at byte 12 in the middle of a value"),
        (b"{\"model\":\"m\"} x", "more data after the end of the object at byte 14"),
        (b"{\"model\":\"m\",\"x\":NaN}", "NaN and Infinity are not JSON (byte 17)"),
        (b"\xEF\xBB\xBF{\"model\":\"m\"}", "byte order mark"),
        (b"{\0\"\0m\0", "expected a key in double quotes at byte 1"),
        (b"{\"model\":\"m\xff\"}", "not UTF-8 text (byte 11)"),
        (b"\x1f\x8b\x08\x00", "send it uncompressed"),
    ];
    for (body, told) in cases {
        for api in [Api::Completions, Api::Chat, Api::Responses, Api::Messages] {
            let refused = refused(api, body);
            assert!(refused.message.contains(told), "{}", refused.message);
            assert_eq!(refused.param, None);
        }
    }
}

#[test]
fn depth_counts_from_the_body_itself() {
    let body =
        |depth: usize| format!(r#"{{"model":"m","x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let limits = Limits { depth: 10, ..Limits::default() };
    assert!(read(Api::Chat, body(9).as_bytes(), &limits).is_ok());
    let refused = read(Api::Chat, body(10).as_bytes(), &limits).unwrap_err();
    assert!(refused.message.contains("nested deeper than 10 levels"), "{}", refused.message);
    let in_options = r#"{"model":"m","stream_options":{"x":[[1]]}}"#;
    let limits = |depth| Limits { depth, ..Limits::default() };
    assert!(read(Api::Chat, in_options.as_bytes(), &limits(4)).is_ok());
    assert!(read(Api::Chat, in_options.as_bytes(), &limits(3)).is_err());
}

#[test]
fn client_data_is_echoed_short_and_clean() {
    let hostile = format!(r#""stream":"\u001b[31m{}""#, "<script>".repeat(1000));
    let refused = refused_member(&hostile);
    let quoted = refused.message.split('"').nth(1).unwrap();
    assert!(quoted.len() <= 64 && refused.message.len() < 200, "{}", refused.message);
    let number = format!(r#""n":{}"#, "9".repeat(100_000));
    assert!(refused_member(&number).message.len() < 200);
}

#[test]
fn lists_of_prompts_multiply_the_work() {
    let size = |prompt: &str| {
        facts(Api::Completions, &format!(r#"{{"model":"m","n":3,"prompt":{prompt}}}"#))
    };
    let cases = [
        (r#""abcdefgh""#, 1, 2),
        (r#"["abcd","efgh"]"#, 2, 2),
        ("[1,2,3,4,5]", 1, 5),
        ("[[1,2],[3,4,5],[6]]", 3, 6),
        ("[]", 1, 0),
    ];
    for (prompt, prompts, tokens) in cases {
        let facts = size(prompt);
        assert_eq!((facts.prompt.prompts, facts.prompt.tokens), (prompts, tokens), "{prompt}");
        assert_eq!(facts.sequences(), 3 * prompts);
    }
}

#[test]
fn text_is_counted_and_media_are_not_read_as_text() {
    let image = "A".repeat(3_000_000);
    let body = format!(
        r#"{{"model":"m","messages":[
            {{"role":"system","content":"abcdefgh"}},
            {{"role":"user","content":[{{"type":"text","text":"語語"}},
              {{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}]}}"#
    );
    let prompt = facts(Api::Chat, &body).prompt;
    // "system" "abcdefgh" "user" "text" "image_url" and two characters of three bytes.
    assert_eq!(prompt, PromptSize { bytes: 31 + 6, tokens: 8 + 2 + 1024, prompts: 1, media: 1 });
}

#[test]
fn every_api_counts_what_its_model_reads() {
    let body = r#"{"model":"m","tools":[{"a":1}],"messages":"12345678","input":"1234","prompt":"12",
        "instructions":"1","system":"123"}"#;
    let bytes = |api| facts(api, body).prompt.bytes;
    assert_eq!(bytes(Api::Completions), 2);
    assert_eq!(bytes(Api::Chat), 9 + 8);
    assert_eq!(bytes(Api::Responses), 9 + 4 + 1);
    assert_eq!(bytes(Api::Messages), 9 + 8 + 3);
}

#[test]
fn plain_bodies_are_never_refused() {
    let plain = |body: &[u8]| {
        let facts = read(Api::Plain, body, &Limits::default()).unwrap();
        (facts.model.map(|model| model.to_string()), facts.opaque)
    };
    let named = |name: &str| (Some(name.to_owned()), false);
    assert_eq!(plain(br#"{"input":["a",{"model":"x"}],"model":"embed"}"#), named("embed"));
    assert_eq!(plain(br#"{"m\u006fdel":"embed","stream":"yes","n":-1}"#), named("embed"));
    for silent in ["", "  ", "{}", "[1]", "\"model\"", r#"{"model":7}"#, r#"{"model":null}"#] {
        assert_eq!(plain(silent.as_bytes()), (None, false), "{silent}");
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    let opaque: [&[u8]; 7] = [
        b"--boundary\r\nmodel",
        b"\xff\xfe",
        br#"{"model":"a","model":"b"}"#,
        br#"{"model":"a","x":NaN}"#,
        br#"{"model":"a"} trailing"#,
        br#"{"model":""}"#,
        deep.as_bytes(),
    ];
    for body in opaque {
        assert_eq!(
            plain(body),
            (None, true),
            "{}",
            String::from_utf8_lossy(&body[..body.len().min(30)])
        );
    }
}
