//! Who asks: keys, what is no key, and that a key goes no further than the gate.

use crate::support::call::ask;
use crate::support::gate::key;
use crate::support::request::Request;
use crate::support::wire::Answer;
use crate::support::{Api, Gate, Proto, Setup};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap()
}

/// Nothing the engine was asked, probes aside.
fn asked(engine: &Engine) -> usize {
    engine.requests().iter().filter(|request| request.path != "/health").count()
}

fn two_tenants(engine: &Engine) -> Setup {
    Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4").tenant("b", "max_in_flight: 4")
}

#[tokio::test]
async fn either_header_names_the_tenant() {
    let engine = engine().await;
    let gate = Gate::start(two_tenants(&engine)).await;
    let headers: [&[(&str, String)]; 5] = [
        &[("authorization", format!("Bearer {}", key("b")))],
        &[("Authorization", format!("bearer   {}", key("b")))],
        &[("x-api-key", key("b"))],
        &[("X-API-KEY", key("b")), ("authorization", format!("Bearer {}", key("b")))],
        &[("authorization", format!("BEARER {}", key("b")))],
    ];
    for proto in Proto::ALL {
        for headers in headers {
            let request = Api::Chat.plain(1).without_key();
            let request = headers.iter().fold(request, |r, (name, value)| r.header(name, value));
            assert_eq!(ask(proto, gate.proxy, &request).await.status, 200, "{headers:?}");
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.sum_where("streamgate_arrivals_total", &[("tenant", "b")]), 10.0);
    assert_eq!(metrics.sum("streamgate_arrivals_total"), 10.0);
}

/// Credentials that name nobody, or leave a doubt who it is.
fn doubtful() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let bearer = |text: &str| vec![("authorization", text.to_owned())];
    let plain = |text: &str| vec![("x-api-key", text.to_owned())];
    let good = format!("Bearer {}", key("a"));
    vec![
        ("nothing", vec![]),
        ("an unknown key", bearer("Bearer sk-canary-unknown")),
        ("an unknown plain key", plain("sk-canary-unknown")),
        ("an empty header", bearer("")),
        ("an empty plain key", plain("")),
        ("no key", bearer("Bearer")),
        ("another scheme", bearer("Basic c2stY2FuYXJ5")),
        ("a key without a scheme", bearer(&key("a"))),
        ("two words", bearer(&format!("{good} sk-canary-more"))),
        ("a huge key", bearer(&format!("Bearer {}", "k".repeat(40_000)))),
        ("a huge plain key", plain(&"k".repeat(513))),
        ("bytes above ASCII", plain("schlüssel")),
        ("the same twice", vec![("authorization", good.clone()), ("authorization", good.clone())]),
        ("the same plain twice", vec![("x-api-key", key("a")), ("x-api-key", key("a"))]),
        ("two tenants", vec![("authorization", good.clone()), ("x-api-key", key("b"))]),
        ("a good and an empty one", vec![("authorization", good), ("x-api-key", String::new())]),
        ("a name that is folded", vec![("x_api_key", key("a"))]),
        (
            "the hash of a key",
            bearer(
                "Bearer sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            ),
        ),
    ]
}

fn assert_unauthenticated(answer: &Answer, anthropic: bool, what: &str) {
    assert_eq!((answer.status, answer.reason()), (401, Some("unauthenticated")), "{what}");
    let header = |name: &str| answer.headers.get(name).map(String::as_str);
    assert_eq!(header("www-authenticate"), Some("Bearer"), "{what}");
    assert_eq!(header("x-should-retry"), Some("false"), "{what}");
    assert_eq!(header("retry-after"), None, "{what}");
    let body = answer.json();
    if anthropic {
        assert_eq!(
            (&body["type"], &body["error"]["type"]),
            (&"error".into(), &"authentication_error".into())
        );
    } else {
        assert_eq!(body["error"]["code"], "unauthenticated", "{what}");
    }
    let message = body["error"]["message"].as_str().unwrap();
    assert!(!message.is_empty() && !message.contains("canary"), "{what}: {message}");
}

#[tokio::test]
async fn a_doubtful_credential_is_refused_in_the_shape_of_the_api() {
    let engine = engine().await;
    let gate = Gate::start(two_tenants(&engine)).await;
    let paths = [
        ("/v1/chat/completions", false),
        ("/v1/responses", false),
        ("/v1/messages", true),
        ("/v1/messages/count_tokens", true),
        ("/v1/embeddings", false),
    ];
    let mut count = 0.0;
    for (what, headers) in doubtful() {
        for (path, anthropic) in paths {
            let request = Request::post(path, "a", r#"{"model":"sim"}"#).without_key();
            let request = headers.iter().fold(request, |r, (name, value)| r.header(name, value));
            assert_unauthenticated(&gate.answer(&request).await, anthropic, what);
            count += 1.0;
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(asked(&engine), 0, "nobody may reach the engine");
    let unknown = [("tenant", "unknown")];
    assert_eq!(metrics.sum_where("streamgate_arrivals_total", &unknown), count);
    let refused = [("tenant", "unknown"), ("reason", "unauthenticated")];
    assert_eq!(metrics.sum_where("streamgate_rejections_total", &refused), count);
    assert_eq!(metrics.outcome("rejected"), count);
}

#[tokio::test]
async fn without_a_key_one_is_the_anonymous_tenant_if_there_is_one() {
    let engine = engine().await;
    let setup = two_tenants(&engine).tenant("guest", "max_in_flight: 1").with("anonymous: guest");
    let gate = Gate::start(setup).await;
    let bare = Api::Chat.plain(1).without_key();
    assert_eq!(gate.answer(&bare).await.status, 200);
    for wrong in ["Bearer sk-wrong", "Bearer", ""] {
        let request = bare.clone().header("authorization", wrong);
        assert_unauthenticated(&gate.answer(&request).await, false, wrong);
    }
    let metrics = gate.settled().await;
    let guest = [("tenant", "guest"), ("outcome", "complete")];
    assert_eq!(metrics.sum_where("streamgate_requests_total", &guest), 1.0);
    assert_eq!(asked(&engine), 1);
}

#[tokio::test]
async fn a_key_goes_no_further_and_the_pools_own_does() {
    let engine = engine().await;
    let bare = Gate::start(two_tenants(&engine)).await;
    let setup = two_tenants(&engine).pool("api_key_env: POOL_KEY").env("POOL_KEY", "engine-secret");
    let with_key = Gate::start(setup).await;
    let plain = Api::Messages.plain(1).without_key().header("x-api-key", &key("a"));
    let both = Api::Chat.plain(1).header("x-api-key", &key("a")).header("api-key", "sk-other");
    for (gate, credential) in [(&bare, None), (&with_key, Some("Bearer engine-secret"))] {
        for proto in Proto::ALL {
            for request in [&plain, &both, &Request::get("/v1/models", "a")] {
                engine.reset_stats();
                assert_eq!(ask(proto, gate.proxy, request).await.status, 200);
                let requests = engine.requests();
                let seen = requests.iter().find(|seen| seen.path != "/health").unwrap();
                assert_eq!(seen.header("authorization"), credential);
                for (name, value) in &seen.headers {
                    let name = name.to_ascii_lowercase();
                    assert!(!["x-api-key", "api-key"].contains(&name.as_str()), "{name}");
                    assert!(!value.contains("key-a") && !value.contains("sk-other"), "{name}");
                }
            }
        }
    }
}

/// An engine may have a default model, or read a form that is not understood here.
#[tokio::test]
async fn a_restricted_tenant_must_name_its_model() {
    let engine = engine().await;
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4\nmodels: [\"sim\"]");
    let gate = Gate::start(setup).await;
    for body in ["", "{}", r#"{"model":null}"#, r#"[{"model":"secret"}]"#, "model=secret"] {
        let request = Request::post("/v1/embeddings", "a", body);
        let answer = ask(Proto::H1, gate.proxy, &request).await;
        assert_eq!((answer.status, answer.reason()), (403, Some("forbidden_model")), "{body}");
    }
    assert_eq!(asked(&engine), 0);
    let named = Request::post("/v1/embeddings", "a", r#"{"model":"sim","input":"x"}"#);
    assert_eq!(ask(Proto::H1, gate.proxy, &named).await.status, 200);
    let list = Request::get("/v1/models", "a");
    assert_eq!(ask(Proto::H1, gate.proxy, &list).await.status, 200);
}
