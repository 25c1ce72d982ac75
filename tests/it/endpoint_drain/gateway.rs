//! A pool of kind `gateway`: it chooses the pod, and says which in its answer.

use super::*;
use crate::support::scripted::{CHAT_END, Scripted, Taken, chat_event};

const POD: &str = "10.244.1.17:8000";

async fn gate(gateway: &Scripted, pool: &str) -> Gate {
    let setup = setup(&[gateway.addr]).pool(&format!("kind: gateway\n{pool}"));
    Gate::start(setup).await
}

/// A stream that the gateway says runs on `pod`.
async fn stream_on(gate: &Gate, gateway: &mut Scripted, pod: &str) -> (Call, Taken) {
    let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    let mut served = gateway.next().await;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
         target-pod: vllm-0\r\ntarget-pod-ip: {pod}\r\n\r\n"
    );
    served.write(head).await;
    served.chunk(chat_event("first")).await;
    let (status, headers) = call.head().await.unwrap();
    assert_eq!(status, 200);
    assert!(!headers.contains_key("target-pod-ip"), "it tells of the inside");
    call.until("first").await;
    (call, served)
}

async fn order_pod(gate: &Gate, pod: &str, wait: &str) -> JoinHandle<Reply> {
    let url = gate.admin_url(&format!("{}?wait={wait}", path(pod)));
    let waiting = tokio::spawn(call(reqwest::Method::POST, url));
    order_when(gate, pod, "the order is known", |order| !order.is_null()).await;
    waiting
}

#[tokio::test]
async fn the_call_waits_for_the_streams_of_that_pod_alone() {
    let mut gateway = Scripted::start().await;
    let gate = gate(&gateway, "").await;
    let (mut here, mut served) = stream_on(&gate, &mut gateway, POD).await;
    let (_there, _other) = stream_on(&gate, &mut gateway, "10.244.1.99:8000").await;
    let waiting = order_pod(&gate, POD, "60s").await;
    assert_eq!(order(&gate, POD).await["in_flight"], 1);
    assert!(!waiting.is_finished());
    served.chunk(CHAT_END).await;
    served.end().await;
    assert!(here.rest().await.0.ends_with("data: [DONE]\n\n"));
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(endpoint_state(&gate, gateway.addr).await, "ready", "the gateway serves on");
}

#[tokio::test]
async fn what_outlives_the_pod_is_cut() {
    let mut gateway = Scripted::start().await;
    let gate = gate(&gateway, "engine_shutdown_timeout: 1s").await;
    let (mut here, mut served) = stream_on(&gate, &mut gateway, POD).await;
    let (mut there, mut other) = stream_on(&gate, &mut gateway, "10.244.1.99:8000").await;
    let waiting = order_pod(&gate, POD, "200ms").await;
    assert_eq!(waiting.await.unwrap().status, 504);
    assert!(here.rest().await.0.contains("event: error"));
    served.closed().await;
    other.chunk(CHAT_END).await;
    other.end().await;
    assert!(there.rest().await.0.ends_with("data: [DONE]\n\n"));
}
