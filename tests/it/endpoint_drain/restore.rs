//! `DELETE …/drain` at a replica that has not heard of the drain.

use super::fleet::Fleet;
use super::*;

#[tokio::test]
async fn a_drain_that_only_the_redis_knows_of_is_restored_by_any_replica() {
    let mut fleet = Fleet::start(1).await;
    // Without hints it reads the board every two seconds.
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg(&["deaf", "on", ">secret", "~*", "resetchannels", "+@all"]);
    acl.exec(&mut fleet.redis.connect()).unwrap();
    let url = fleet.redis.url().replace("redis://", "redis://deaf:secret@");
    fleet.join_by(&url).await;
    let _running = fleet.stream(0).await;
    for _ in 0..5 {
        let waiting = draining(&fleet.gates[0], fleet.endpoint(), "60s").await;
        order_when(&fleet.gates[0], fleet.endpoint(), "it is on the board", |order| {
            order["posted"] == true
        })
        .await;
        let reply = restored(&fleet.gates[1], &fleet, 200).await;
        assert_eq!((&reply["restored"], &reply["posted"]), (&true.into(), &true.into()));
        assert_eq!(waiting.await.unwrap().status, 409, "it is heard where it was ordered");
    }
    let again = restored(&fleet.gates[1], &fleet, 200).await;
    assert_eq!((&again["restored"], &again["posted"]), (&false.into(), &true.into()));
}

#[tokio::test]
async fn a_replica_that_starts_without_the_redis_claims_nothing_and_tells_it_later() {
    let mut fleet = Fleet::start(1).await;
    assert_eq!(drain(&fleet.gates[0], fleet.endpoint(), "30s").await.status, 200);
    fleet.redis.freeze();
    fleet.join().await;
    assert_eq!(endpoint_state(&fleet.gates[1], fleet.endpoint()).await, "ready", "not heard of");
    let reply = restored(&fleet.gates[1], &fleet, 504).await;
    assert_eq!((&reply["restored"], &reply["posted"]), (&false.into(), &false.into()));
    board_when(&fleet.gates[1], |board| board["up"] == false && board["last_fault"].is_string())
        .await;
    assert_eq!(endpoint_state(&fleet.gates[0], fleet.endpoint()).await, "draining", "as it was");
    fleet.redis.thaw();
    for gate in &fleet.gates {
        order_when(gate, fleet.endpoint(), "the order is over", Value::is_null).await;
        state_is(gate, fleet.endpoint(), "ready").await;
        board_when(gate, |board| board["up"] == true).await;
    }
}

async fn board_when(gate: &Gate, holds: impl Fn(&Value) -> bool) {
    eventually("the state of the board", || async {
        holds(&gate.state().await["drain_board"]).then_some(())
    })
    .await;
}

/// The answer of this replica to a restoration.
async fn restored(gate: &Gate, fleet: &Fleet, status: u16) -> Value {
    let reply = restore(gate, fleet.endpoint()).await;
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.body["endpoint"], fleet.endpoint().to_string());
    reply.body
}
