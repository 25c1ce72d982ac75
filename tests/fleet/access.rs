//! A Redis that refuses, or that is not what it should be, seen through the built binary: it starts,
//! says clearly what is wrong, never answers "full", and mends itself.

use crate::rig::{Fleet, Plan, SLACK, Status, ask, stream};
use crate::server::{RedisServer, free_port};
use crate::support::{Gate, eventually};
use std::process::Command;
use std::sync::Arc;

const GRANTS: &str = "+eval +evalsha +script|load +time +info +hget +hmget +hgetall +hset +hdel \
                      +hlen +del +publish +subscribe +wait";

fn command(server: &RedisServer, line: &str) {
    let mut words = line.split_whitespace();
    let mut cmd = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        cmd.arg(word);
    });
    cmd.query::<redis::Value>(&mut server.connect())
        .unwrap_or_else(|error| panic!("{line}: {error}"));
}

/// It serves, is ready, and says why there is no quota; nobody hears "full".
async fn suffers(gate: &Gate, fault: &str, words: &[&str]) {
    let store = gate.status_when(fault, |s| s["up"] == false && s["last_fault"] == fault).await;
    assert_eq!((&store["kind"], &store["held"]), (&"redis".into(), &0.into()), "{store}");
    let line = gate.says(words).await;
    assert!(line.contains("remedy"), "{line}");
    assert!(!gate.output().join("\n").contains("hush"), "no password in the log");
    let seen = ask(gate.proxy, &stream("a", 1)).await;
    assert_eq!(seen.kind, "503 quota_unavailable");
    let ready = reqwest::get(gate.admin_url("/readyz")).await.unwrap();
    assert_eq!(ready.status(), 200, "no other replica could do better");
    let text = shown(gate);
    assert!(text.contains(&format!("store redis down [{fault}]")), "{text}");
    let metrics = gate.metrics().await;
    assert!(metrics.sum("streamgate_quota_store_up") < 0.5);
    let label = [("fault", fault)];
    assert!(metrics.sum_where("streamgate_quota_store_faults_total", &label) >= 1.0, "{fault}");
}

/// What `streamgate status` prints.
fn shown(gate: &Gate) -> String {
    let status = Command::new(env!("CARGO_BIN_EXE_streamgate"))
        .args(["status", "--admin", &gate.admin_url("")])
        .output()
        .unwrap();
    String::from_utf8(status.stdout).unwrap()
}

async fn works(gate: &Gate) {
    eventually("it works", || async {
        (ask(gate.proxy, &stream("a", 1)).await.kind == "complete").then_some(())
    })
    .await;
    gate.calm().await;
}

fn plan(url: &str) -> Plan {
    Plan::new(2).replicas(1).url(url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_where_nobody_listens() {
    let redis = Arc::new(RedisServer::start(&[]));
    let url = format!("redis://127.0.0.1:{}/0", free_port());
    let begun = std::time::Instant::now();
    let fleet = Fleet::unready(redis.clone(), plan(&url)).await;
    let took = begun.elapsed();
    assert!(took < std::time::Duration::from_secs(3) + SLACK, "it starts without: {took:?}");
    suffers(&fleet.gates[0], "unreachable", &["unreachable", "127.0.0.1:", "WARN"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password() {
    let redis = Arc::new(RedisServer::start(&[]));
    command(&redis, &format!("ACL SETUSER gate on >old ~sg* &sg* -@all {GRANTS}"));
    let url = redis.url().replace("redis://", "redis://gate:hush@");
    let fleet = Fleet::unready(redis.clone(), plan(&url)).await;
    suffers(&fleet.gates[0], "authentication", &["authentication", "ERROR"]).await;
    command(&redis, "ACL SETUSER gate >hush");
    works(&fleet.gates[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_scripting_rights() {
    let redis = Arc::new(RedisServer::start(&[]));
    let fewer = GRANTS.replace("+eval +evalsha +script|load ", "");
    command(&redis, &format!("ACL SETUSER gate on >hush ~sg* &sg* -@all {fewer}"));
    let url = redis.url().replace("redis://", "redis://gate:hush@");
    let fleet = Fleet::unready(redis.clone(), plan(&url)).await;
    suffers(&fleet.gates[0], "permission", &["permission", "evalsha", "ERROR"]).await;
    command(&redis, "ACL SETUSER gate +eval +evalsha +script|load");
    works(&fleet.gates[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_somebody_else_under_our_key() {
    let redis = Arc::new(RedisServer::start(&[]));
    command(&redis, "HSET sg:{q0} theirs 1");
    let fleet = Fleet::unready(redis.clone(), plan(&redis.url())).await;
    suffers(&fleet.gates[0], "foreign_data", &["foreign_data", "sg:{q0}", "ERROR"]).await;
    let theirs: Vec<String> =
        redis::cmd("HGETALL").arg("sg:{q0}").query(&mut redis.connect()).unwrap();
    assert_eq!(theirs, ["theirs", "1"], "untouched");
    command(&redis, "DEL sg:{q0}");
    works(&fleet.gates[0]).await;

    // Written over our own data while a slot is held: never a wrong count, and healed when it goes.
    let held = fleet.hold(0).await;
    command(&redis, "SET sg:{q0} theirs");
    suffers_while_held(&fleet.gates[0]).await;
    command(&redis, "DEL sg:{q0}");
    fleet.gates[0].calm().await;
    let second = fleet.hold(0).await;
    assert_eq!(ask(fleet.gates[0].proxy, &stream("a", 1)).await.kind, "429 tenant_in_flight");
    drop((held, second));
    fleet.runs(0).await;
    fleet.assert_most(2);
}

async fn suffers_while_held(gate: &Gate) {
    gate.status_when("foreign data", |s| s["up"] == false && s["last_fault"] == "foreign_data")
        .await;
    gate.status_when("its lease ran out", |s| s["fenced"] == true && s["unfenced"] == 1).await;
    assert_eq!(ask(gate.proxy, &stream("a", 1)).await.kind, "503 quota_unavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_somebody_else_under_the_key_of_the_drains() {
    let redis = Arc::new(RedisServer::start(&[]));
    let fleet = Fleet::over(redis.clone(), plan(&redis.url())).await;
    let gate = &fleet.gates[0];
    command(&redis, "SET sg:{q0}:drain theirs");
    let board = board_when(gate, false).await;
    assert_eq!(board["last_fault"], "foreign_data", "{board}");
    let line = gate.says(&["foreign_data", "sg:{q0}:drain", "ERROR"]).await;
    assert!(line.contains("remedy"), "{line}");
    let text = shown(gate);
    assert!(text.contains("store redis up"), "{text}");
    assert!(text.contains("drain board down [foreign_data]"), "{text}");
    let label = [("fault", "foreign_data")];
    assert!(gate.metrics().await.sum_where("streamgate_quota_store_faults_total", &label) >= 1.0);

    // A drain is not agreed, and nothing is said of one that was not heard of.
    let engine = gate.state().await["pools"][0]["endpoints"][0]["endpoint"].clone();
    let url = gate.admin_url(&format!("/api/v1/endpoints/{}/drain", engine.as_str().unwrap()));
    let reply = reqwest::Client::new().delete(url).send().await.unwrap();
    assert_eq!(reply.status(), 504);
    let reply: serde_json::Value = reply.json().await.unwrap();
    assert_eq!((&reply["restored"], &reply["posted"]), (&false.into(), &false.into()));

    works(gate).await;
    let theirs: String =
        redis::cmd("GET").arg("sg:{q0}:drain").query(&mut redis.connect()).unwrap();
    assert_eq!(theirs, "theirs", "untouched");
    command(&redis, "DEL sg:{q0}:drain");
    board_when(gate, true).await;
    assert!(!shown(gate).contains("drain board"));
}

async fn board_when(gate: &Gate, up: bool) -> serde_json::Value {
    eventually(&format!("the drain board is up: {up}"), || async {
        let board = gate.state().await["drain_board"].take();
        (board["up"] == up).then_some(board)
    })
    .await
}

/// What can be seen without a server is an error of the configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("streamgate.yaml");
    let setup = |url: &str| plan("").setup("127.0.0.1:1".parse().unwrap(), url).yaml();
    for url in ["http://127.0.0.1:6379", "redis://gate:hush@127.0.0.1:70000/0"] {
        std::fs::write(&path, setup(url)).unwrap();
        for words in [["check", "--config"], ["serve", "--config"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_streamgate"))
                .args(words)
                .arg(&path)
                .output()
                .unwrap();
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{text}");
            let told = ["quota.redis.url", "not a Redis URL", "fix: write redis://"];
            assert!(told.iter().all(|words| text.contains(words)), "{text}");
            assert!(!text.contains("hush"), "{text}");
        }
    }
    std::fs::write(&path, setup("redis://127.0.0.1:6379/0")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_streamgate"))
        .args(["check", "--config"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
