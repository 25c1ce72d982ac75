//! Drains that nobody ordered: the engine itself says that it shuts down.

use super::*;
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::Ending;
use std::time::Instant;

#[tokio::test]
async fn a_drain_answer_takes_the_endpoint_out_and_the_request_elsewhere() {
    let (leaving, staying) = (engine().await, engine().await);
    let gate = Gate::start(setup(&[leaving.addr(), staying.addr()])).await;
    leaving.begin_shutdown(Duration::from_secs(30));
    for _ in 0..8 {
        let answer = gate.answer(&Api::Chat.stream(2)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let known = order_when(&gate, leaving.addr(), "noticed", |order| !order.is_null()).await;
    assert_eq!(known["cause"], "answered", "{known}");
    assert_eq!(staying.stats().completed, 8);
}

#[tokio::test]
async fn what_outlives_an_engine_that_shuts_down_is_cut_before_it_falls_silent() {
    let mut leaving = Scripted::start().await;
    let setup = setup(&[leaving.addr])
        .pool("health: {interval: 100ms}\nengine_shutdown_timeout: 2s\nretries: {max_attempts: 1}");
    let gate = Gate::start(setup).await;
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    let mut served = leaving.next().await;
    served.write(STREAM_HEAD).await;
    served.chunk(chat_event("before")).await;
    assert_eq!(running.head().await.map(|(status, _)| status), Some(200));
    running.until("before").await;

    let began = Instant::now();
    let mut refused = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    let error = r#"{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError","param":null,"code":500}}"#;
    let head =
        format!("HTTP/1.1 500 Internal Server Error\r\ncontent-length: {}\r\n\r\n", error.len());
    leaving.next().await.write(head + error).await;
    assert_eq!(refused.answer().await.reason(), Some("no_endpoint"));

    // The engine says nothing more, as vLLM does once its shutdown timeout is over.
    let (text, ending) = running.rest().await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1_400), "half a second before 2 s: {took:?}");
    assert!(text.contains("event: error") && ending != Ending::Whole, "{text}");
    served.closed().await;
}

#[tokio::test]
async fn a_request_that_an_engine_still_works_on_is_left_to_it() {
    let mut leaving = Scripted::start().await;
    let other = engine().await;
    let gate = Gate::start(setup(&[leaving.addr])).await;
    drop(other);
    let mut waiting = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    let mut served = leaving.next().await;
    let call = draining(&gate, leaving.addr, "60s").await;
    // Its head is held: nothing has reached the client, and the engine finishes it.
    served.write(STREAM_HEAD).await;
    served.chunk(chat_event("late")).await;
    served.chunk(CHAT_END).await;
    served.end().await;
    let answer = waiting.answer().await;
    assert!(answer.status == 200 && answer.ending == Ending::Whole, "{}", answer.text());
    assert_eq!(call.await.unwrap().status, 200);
}
