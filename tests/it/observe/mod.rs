//! What an operator sees of a running gate: metrics, state, holders, records, the command line.

mod cli;
mod live;
mod mix;

use crate::support::request::{Request, chat};
use crate::support::{Api, Call, Gate, Proto, eventually};
use serde_json::Value;

/// `GET` of the admin port.
async fn admin(gate: &Gate, path: &str) -> Value {
    reqwest::get(gate.admin_url(path)).await.unwrap().json().await.unwrap()
}

/// A chat stream of `tenant` that the engine lets stand after its first token.
fn standing(tenant: &str, id: &str) -> Request {
    let request = Request::post(Api::Chat.path(), tenant, chat(50, true));
    request.id(id).fault("stall-after=3")
}

/// Start a standing stream and wait for its first token.
async fn stand(gate: &Gate, tenant: &str, id: &str) -> Call {
    let mut call = Call::start(Proto::H1, gate.proxy, &standing(tenant, id)).await;
    assert_eq!(call.head().await.map(|(status, _)| status), Some(200), "{id}");
    call.until(Api::Chat.content_mark()).await;
    call
}

/// Wait until `tenant` has so many queued.
async fn queued(gate: &Gate, tenant: &str, count: f64) {
    eventually("the request waits in its queue", || async {
        let metrics = gate.metrics().await;
        let labels = [("tenant", tenant)];
        (metrics.sum_where("streamgate_queued", &labels) == count).then_some(())
    })
    .await;
}
