//! The live page in a real browser; opt-in, because it needs node and Chromium:
//! `tests/page/run.sh`.

use crate::fake::{self, Fake};
use crate::server::Server;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use streamgate::core::endpoint_drain_port::BoardStatus;
use streamgate::core::ids::{ModelName, RequestId, TenantId};
use streamgate::core::observe::DrainPhase;
use streamgate::core::outcome::Outcome;
use streamgate::core::policy::ModelSet;
use streamgate::core::quota::StoreFault;
use streamgate::core::reason::Reason;
use streamgate::telemetry::{Arrival, Labels, Telemetry};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

/// The drain board's key holds something else.
const FOREIGN: BoardStatus = BoardStatus { up: false, last_fault: Some(StoreFault::ForeignData) };

/// A whole run takes some twenty seconds.
const LIMIT: Duration = Duration::from_secs(120);

fn arrive(telemetry: &Arc<Telemetry>, tenant: &str) -> Arrival {
    telemetry.arrive(&TenantId::from(tenant), RequestId::from("r"))
}

/// Something to look at: three running, some queued, many holders, names that look like markup.
fn furnish(telemetry: &Arc<Telemetry>, seen: &Fake) -> Vec<Arrival> {
    telemetry.reload(&Labels {
        tenants: ["interactive", "batch"].map(|id| (TenantId::from(id), ModelSet::Any)).to_vec(),
        models: vec![ModelName::from("big")],
    });
    seen.with(|values| {
        values.tenants = vec![("interactive", 4), ("batch", 2)];
        values.holders =
            (0..59).map(|n| fake::holder(&format!("req-{n:04}"), "interactive")).collect();
        let mut odd = fake::holder("<img src=x onerror=alert(1)>", "batch");
        odd.age_seconds = 100.0;
        values.holders.push(odd);
    });
    let mut open: Vec<_> = (0..5).map(|_| arrive(telemetry, "interactive")).collect();
    open.iter_mut().take(3).for_each(Arrival::admitted);
    open
}

/// Requests that come and end for as long as the task lives.
async fn traffic(telemetry: Arc<Telemetry>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    for step in 0_usize.. {
        ticks.tick().await;
        let mut arrival = arrive(&telemetry, ["interactive", "batch"][step % 2]);
        let outcome = if step.is_multiple_of(3) { Outcome::Rejected } else { Outcome::Complete };
        if outcome == Outcome::Complete {
            arrival.admitted();
        }
        let mut event = arrival.event(outcome);
        event.reason = (outcome == Outcome::Rejected).then_some(Reason::TenantInFlight);
        arrival.finish(event);
    }
}

#[tokio::test]
#[ignore = "needs node and Chromium: tests/page/run.sh"]
async fn the_page_works_in_a_browser() {
    let mut server = Server::start().await;
    let open = furnish(&server.telemetry, &server.seen);
    let moving = tokio::spawn(traffic(Arc::clone(&server.telemetry)));
    let mut node = Command::new("node");
    node.arg("tests/page/check.mjs").arg(server.url("")).kill_on_drop(true);
    let mut node = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node runs");
    let mut asks = BufReader::new(node.stdout.take().expect("piped")).lines();
    let mut answers = node.stdin.take().expect("piped");
    let mut passed = false;
    let checking = async {
        while let Some(ask) = asks.next_line().await.expect("readable") {
            match ask.as_str() {
                "drain" => server.seen.with(|values| values.drain = DrainPhase::Draining),
                "board" => server.seen.with(|values| values.board = FOREIGN),
                "stop" => server.pause().await,
                "start" => server.resume().await,
                "passed" => passed = true,
                other => eprintln!("{other}"),
            }
            answers.write_all(b"done\n").await.ok();
        }
        node.wait().await.expect("node ends")
    };
    let status = tokio::time::timeout(LIMIT, checking).await.expect("in time");
    assert!(status.success() && passed, "see above for what the browser found");
    moving.abort();
    drop(open);
}
