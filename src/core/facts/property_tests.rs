//! Facts of arbitrary bodies, and edits compared with what serde makes of them.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const APIS: [Api; 5] = [Api::Completions, Api::Chat, Api::Responses, Api::Messages, Api::Plain];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..20).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// `stream_options` as clients send it.
fn options() -> impl Strategy<Value = Option<Value>> {
    let switch =
        || prop::option::of(prop_oneof![Just(json!(null)), any::<bool>().prop_map(|b| json!(b))]);
    let object =
        (switch(), switch(), prop::option::of(any_json())).prop_map(|(usage, stats, other)| {
            let mut object = Map::new();
            for (key, value) in
                [("zeta", other), ("include_usage", usage), ("continuous_usage_stats", stats)]
            {
                value.and_then(|value| object.insert(key.to_owned(), value));
            }
            Some(Value::Object(object))
        });
    prop_oneof![Just(None), Just(Some(Value::Null)), object]
}

/// A body of a generation request, with further members of any kind.
fn request() -> impl Strategy<Value = Map<String, Value>> {
    let further = prop::collection::vec((prop_oneof!["[a-z_]{0,8}", ".{0,5}"], any_json()), 0..4);
    (options(), any::<bool>(), any_json(), further).prop_map(
        |(options, stream, prompt, further)| {
            let mut body: Map<String, Value> = further
                .into_iter()
                .filter(|(key, _)| !["n", "best_of", "max_tokens", "model"].contains(&key.as_str()))
                .collect();
            body.insert("model".into(), json!("m"));
            body.insert("stream".into(), json!(stream));
            body.insert("prompt".into(), prompt.clone());
            body.insert("messages".into(), prompt);
            if let Some(options) = options {
                body.insert("stream_options".into(), options);
            }
            body
        },
    )
}

/// Writes JSON with white space between all tokens and every letter of every key escaped.
fn write_oddly(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            out.push_str(" {\t");
            for (i, (key, value)) in members.iter().enumerate() {
                out.push_str(if i > 0 { " ,\n" } else { "" });
                let escaped = key.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
                out.push_str(&format!("\"{}\" :", escaped.collect::<String>()));
                write_oddly(value, out);
            }
            out.push_str("\r} ");
        }
        Value::Array(items) => {
            out.push_str(" [ ");
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { " , " } else { "" });
                write_oddly(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// What the edit must make of the object written as `body`, by value.
fn expected(body: &[u8]) -> Value {
    let mut body: Map<String, Value> = serde_json::from_slice(body).unwrap();
    let options = body.entry("stream_options").or_insert(Value::Null);
    if options.is_null() {
        *options = json!({});
    }
    let declined = matches!(options.get("include_usage"), Some(Value::Null | Value::Bool(false)));
    if declined && options.get("continuous_usage_stats") == Some(&json!(true)) {
        options["continuous_usage_stats"] = json!(false);
    }
    options["include_usage"] = json!(true);
    Value::Object(body)
}

fn check_edit(api: Api, value: &Map<String, Value>, written: String) -> Result<(), TestCaseError> {
    let body = Bytes::from(written);
    let facts = read(api, &body, &Limits::default()).map_err(|e| TestCaseError::fail(e.message))?;
    let upstream = upstream_body(&facts, body.clone());
    let sent = upstream.parts.concat();
    let asked =
        value.get("stream_options").and_then(|o| o.get("include_usage")) == Some(&json!(true));
    let edited = facts.stream && !asked && matches!(api, Api::Completions | Api::Chat);
    prop_assert_eq!(facts.include_usage, asked && !matches!(api, Api::Responses | Api::Messages));
    prop_assert_eq!(upstream.usage_injected, edited);
    if edited {
        prop_assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), expected(&body));
        let again = read(api, &sent, &Limits::default()).unwrap();
        prop_assert!(again.include_usage && again.edit().is_none());
        prop_assert_eq!((again.model, again.prompt, again.n), (facts.model, facts.prompt, facts.n));
    } else {
        prop_assert_eq!(sent, body);
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_edited_body_means_the_same_but_for_usage(body in request(), api in 0usize..4) {
        let value = Value::Object(body.clone());
        check_edit(APIS[api], &body, value.to_string())?;
        let mut oddly = String::new();
        write_oddly(&value, &mut oddly);
        check_edit(APIS[api], &body, oddly)?;
    }

    #[test]
    fn no_json_makes_it_panic(value in any_json()) {
        let text = value.to_string();
        for api in APIS {
            let facts = read(api, text.as_bytes(), &Limits::default());
            prop_assert!(api != Api::Plain || facts.is_ok());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for api in APIS {
            let facts = read(api, &bytes, &Limits::default());
            prop_assert!(api != Api::Plain || facts.is_ok());
        }
    }

    #[test]
    fn no_damage_makes_it_panic(body in request(), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = Value::Object(body).to_string().into_bytes();
        let at = cut.index(bytes.len());
        for api in APIS {
            let truncated = read(api, &bytes[..at], &Limits::default());
            prop_assert!(truncated.is_err() || api == Api::Plain);
        }
        bytes[at] = byte;
        for api in APIS {
            if let Ok(facts) = read(api, &bytes, &Limits::default()) {
                let body = Bytes::from(bytes.clone());
                let upstream = upstream_body(&facts, body);
                prop_assert!(upstream.len() >= bytes.len() - 1);
            }
        }
    }

    #[test]
    fn refusals_are_short(bytes in ".{0,300}") {
        for text in [bytes.clone(), format!("{{\"model\":\"m\",\"n\":{}}}", Value::from(bytes))] {
            if let Err(refused) = read(Api::Chat, text.as_bytes(), &Limits::default()) {
                prop_assert!(refused.message.len() < 220, "{}", refused.message);
                prop_assert!(!refused.message.chars().any(char::is_control));
            }
        }
    }
}
