//! Replicas over one Redis: the order on one, the streams on another.

use super::*;
use crate::redis_server::RedisServer;
use crate::support::Leave;
use std::time::Instant;

const LEASE: Duration = Duration::from_secs(2);

/// Replicas that share a Redis and engines.
pub(super) struct Fleet {
    pub redis: RedisServer,
    pub gates: Vec<Gate>,
    leaving: Engine,
    staying: Engine,
}

impl Fleet {
    pub async fn start(replicas: usize) -> Self {
        let (leaving, staying) = (engine().await, engine().await);
        let mut fleet =
            Self { redis: RedisServer::start(&[]), gates: Vec::new(), leaving, staying };
        for _ in 0..replicas {
            fleet.join().await;
        }
        for gate in &fleet.gates {
            eventually("nothing to learn any more", || async {
                let store = gate.state().await["store"].clone();
                (store["up"] == true && store["learning"] == false).then_some(())
            })
            .await;
        }
        fleet
    }

    pub async fn join(&mut self) {
        self.join_by(&self.redis.url()).await;
    }

    /// One more replica, which knows the Redis by this URL.
    pub async fn join_by(&mut self, url: &str) {
        let store = format!(
            "quota: {{store: redis, redis: {{url: \"{url}\"}}, replica_lease: {}ms, operation_timeout: 400ms}}",
            LEASE.as_millis()
        );
        let engines = [self.leaving.addr(), self.staying.addr()];
        self.gates.push(Gate::start(setup(&engines).with(&store)).await);
    }

    /// A stream of this replica on the engine that will leave.
    pub async fn stream(&self, replica: usize) -> Call {
        let gate = &self.gates[replica];
        let before = self.leaving.stats().in_flight;
        eventually("a stream on the leaving engine", || async {
            let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(LONG)).await;
            // A store that is late on a busy machine is asked again.
            (call.head().await?.0 == 200).then_some(())?;
            call.until("content").await;
            (self.leaving.stats().in_flight > before).then_some(call)
        })
        .await
    }

    pub fn endpoint(&self) -> SocketAddr {
        self.leaving.addr()
    }
}

#[tokio::test]
async fn the_order_on_one_waits_for_the_streams_of_the_others() {
    let fleet = Fleet::start(3).await;
    let running = fleet.stream(1).await;
    let waiting = draining(&fleet.gates[0], fleet.endpoint(), "60s").await;
    for gate in &fleet.gates {
        state_is(gate, fleet.endpoint(), "draining").await;
        served_by(gate, &fleet.staying).await;
    }
    let known = order_when(&fleet.gates[0], fleet.endpoint(), "all confirmed", |order| {
        let replicas = order["replicas"].as_array().cloned().unwrap_or_default();
        replicas.len() == 3 && replicas.iter().all(|replica| replica["confirmed"] == true)
    })
    .await;
    assert_eq!((&known["in_flight"], &known["fleet_known"]), (&1.into(), &true.into()), "{known}");
    assert!(!waiting.is_finished(), "a stream runs elsewhere");
    running.leave(Leave::Close).await;
    let reply = waiting.await.unwrap();
    assert_eq!((reply.status, &reply.body["confirmed"]), (200, &3.into()), "{reply:?}");

    // The same order again, on another replica: drained already.
    let again = drain(&fleet.gates[2], fleet.endpoint(), "20s").await;
    assert_eq!(again.status, 200, "{again:?}");
    // Back in service everywhere, by a call to any.
    let reply = restore(&fleet.gates[1], fleet.endpoint()).await;
    assert_eq!((&reply.body["restored"], &reply.body["posted"]), (&true.into(), &true.into()));
    for gate in &fleet.gates {
        state_is(gate, fleet.endpoint(), "ready").await;
    }
}

#[tokio::test]
async fn the_deadline_names_what_runs_elsewhere() {
    let fleet = Fleet::start(2).await;
    let _running = fleet.stream(1).await;
    let began = Instant::now();
    let reply = drain(&fleet.gates[0], fleet.endpoint(), "2s").await;
    assert_eq!((reply.status, &reply.body["in_flight"]), (504, &1.into()), "{reply:?}");
    assert!(began.elapsed() >= Duration::from_secs(2));
    let replicas = reply.body["replicas"].as_array().unwrap();
    let other = replicas.iter().find(|replica| replica["here"] == false).unwrap();
    assert_eq!(other["in_flight"], 1, "{reply:?}");
}

#[tokio::test]
async fn a_replica_that_dies_counts_until_its_lease_is_over() {
    let mut fleet = Fleet::start(2).await;
    let running = fleet.stream(1).await;
    let waiting = draining(&fleet.gates[0], fleet.endpoint(), "60s").await;
    order_when(&fleet.gates[0], fleet.endpoint(), "it is counted", |order| order["in_flight"] == 1)
        .await;
    fleet.gates[1].signal("KILL");
    fleet.gates[1].exit_code().await;
    drop(running);
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.body["replicas"].as_array().map(Vec::len), Some(1), "{reply:?}");
}

#[tokio::test]
async fn a_replica_that_starts_during_a_drain_knows_of_it() {
    let mut fleet = Fleet::start(1).await;
    let running = fleet.stream(0).await;
    let waiting = draining(&fleet.gates[0], fleet.endpoint(), "60s").await;
    fleet.join().await;
    served_by(&fleet.gates[1], &fleet.staying).await;
    running.leave(Leave::Close).await;
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn nothing_is_called_drained_while_the_redis_is_frozen() {
    let mut fleet = Fleet::start(2).await;
    let running = fleet.stream(1).await;
    fleet.redis.freeze();
    let late = drain(&fleet.gates[0], fleet.endpoint(), "1500ms").await;
    assert_eq!(late.status, 504, "{late:?}");
    assert_eq!((&late.body["fleet_known"], &late.body["posted"]), (&false.into(), &false.into()));
    assert_eq!(endpoint_state(&fleet.gates[0], fleet.endpoint()).await, "draining", "at once here");
    fleet.redis.thaw();
    state_is(&fleet.gates[1], fleet.endpoint(), "draining").await;
    let waiting = draining(&fleet.gates[0], fleet.endpoint(), "60s").await;
    order_when(&fleet.gates[0], fleet.endpoint(), "it is counted", |order| order["in_flight"] == 1)
        .await;
    assert!(!waiting.is_finished());
    running.leave(Leave::Close).await;
    let reply = waiting.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn an_order_outlives_the_memory_of_the_redis() {
    let fleet = Fleet::start(2).await;
    let running = fleet.stream(1).await;
    let waiting = draining(&fleet.gates[0], fleet.endpoint(), "60s").await;
    state_is(&fleet.gates[1], fleet.endpoint(), "draining").await;
    let mut connection = fleet.redis.connect();
    redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    eventually("the order is there again", || {
        let word: Option<String> = redis::cmd("HGET")
            .arg("sg:{q0}:drain")
            .arg(format!("W|{}", fleet.endpoint()))
            .query(&mut connection)
            .unwrap();
        std::future::ready(word.filter(|word| word.contains(" ordered ")).map(|_| ()))
    })
    .await;
    assert!(!waiting.is_finished(), "nobody forgot the stream");
    running.leave(Leave::Close).await;
    assert_eq!(waiting.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_drain_answer_to_one_is_heard_by_all() {
    let fleet = Fleet::start(2).await;
    fleet.leaving.begin_shutdown(Duration::from_secs(30));
    eventually("one replica meets it", || async {
        let answer = fleet.gates[0].answer(&Api::Chat.stream(2)).await;
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        (endpoint_state(&fleet.gates[0], fleet.endpoint()).await == "draining").then_some(())
    })
    .await;
    state_is(&fleet.gates[1], fleet.endpoint(), "draining").await;
    let known = order(&fleet.gates[1], fleet.endpoint()).await;
    assert_eq!(known["cause"], "answered", "{known}");
}

#[tokio::test]
async fn a_new_process_is_back_in_service_everywhere() {
    let mut fleet = Fleet::start(2).await;
    assert_eq!(drain(&fleet.gates[0], fleet.endpoint(), "30s").await.status, 200);
    fleet.leaving.set_listening(false);
    for gate in &fleet.gates {
        state_is(gate, fleet.endpoint(), "down").await;
    }
    fleet.leaving.restart().await.unwrap();
    for gate in &fleet.gates {
        state_is(gate, fleet.endpoint(), "ready").await;
        order_when(gate, fleet.endpoint(), "the order is over", Value::is_null).await;
    }
}
