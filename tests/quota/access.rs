//! A Redis that refuses, or that is not what it should be. Nothing here keeps the process from
//! starting, and everything ends when its cause ends.

use crate::support::fake::FakeRedis;
use crate::support::server::RedisServer;
use crate::support::{LEASE, MS, Replica, path, settings, until};
use streamgate::config::{Quota, Redis, RedisUrl, Secret};
use streamgate::core::quota::{Acquired, QuotaStore, SlotPath, StoreFault};

/// What docs/quota.md tells operators to grant.
const GRANTS: &str = "+eval +evalsha +script|load +time +info +hget +hmget +hgetall +hset +hdel \
                      +hlen +del +publish +subscribe +wait";

fn as_user(server: &RedisServer, user: &str, password: &str) -> Quota {
    settings(&server.url().replace("redis://", &format!("redis://{user}:{password}@")))
}

fn command(connection: &mut redis::Connection, line: &str) {
    let mut words = line.split_whitespace();
    let mut cmd = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        cmd.arg(word);
    });
    cmd.query::<redis::Value>(connection).unwrap_or_else(|error| panic!("{line}: {error}"));
}

async fn faulty(replica: &Replica, fault: StoreFault) {
    until(&format!("{fault:?}"), || replica.store.status().last_fault == Some(fault)).await;
    // Known to be away, a request is answered at once and never with "full".
    until("it is known to be away", || !replica.store.status().up).await;
    let _ = replica.unknown(&path("somebody", 1)).await;
}

async fn works(replica: &Replica) {
    let path = path("a", 1);
    let (slot, _) = replica.slot_soon(&path).await;
    let _ = replica.full(&path).await;
    drop(slot);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_documented_rights_can_do_everything() {
    let server = RedisServer::start(&[]);
    let mut admin = server.connect();
    command(&mut admin, &format!("ACL SETUSER gate on >secret ~sg* &sg* -@all {GRANTS}"));
    let fleet: [_; 2] = Replica::fleet(&as_user(&server, "gate", "secret")).await;
    let path = path("a", 2);
    let (one, _two) = (fleet[0].slot(&path).await, fleet[1].slot(&path).await);
    let _ = fleet[1].full(&path).await;
    // Hints are heard: the wait ends long before the next poll.
    let room = fleet[1].store.room(&path.tenant, &path.pool);
    drop(one);
    room.await;
    let (_slot, _) = fleet[1].slot_soon(&path).await;
    assert_eq!(fleet[0].store.status().last_fault, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_said_and_can_be_mended() {
    let server = RedisServer::start(&[]);
    command(&mut server.connect(), &format!("ACL SETUSER gate on >old ~sg* &sg* -@all {GRANTS}"));
    let replica = Replica::start(&as_user(&server, "gate", "new"));
    faulty(&replica, StoreFault::Authentication).await;
    command(&mut server.connect(), "ACL SETUSER gate >new");
    works(&replica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_password_is_said() {
    let server = RedisServer::start(&["--requirepass", "secret"]);
    let replica = Replica::start(&settings(&server.url()));
    faulty(&replica, StoreFault::Authentication).await;
    let mut redis = settings(&server.url()).redis;
    redis.url = RedisUrl { password: Some(Secret::from("secret")), ..redis.url };
    let known = Quota { redis, ..settings(&server.url()) };
    works(&Replica::ready(&known).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_rights_are_said_one_by_one() {
    for missing in ["evalsha", "time", "hset", "info"] {
        let server = RedisServer::start(&[]);
        let mut admin = server.connect();
        let grants = GRANTS.replace(&format!("+{missing} "), "");
        command(&mut admin, &format!("ACL SETUSER gate on >secret ~sg* &sg* -@all {grants}"));
        let replica = Replica::start(&as_user(&server, "gate", "secret"));
        faulty(&replica, StoreFault::Permission).await;
        command(&mut admin, &format!("ACL SETUSER gate +{missing}"));
        works(&replica).await;
    }
}

/// Without hints, waiting for others is slower and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_not_subscribe_waits_a_little_longer() {
    let server = RedisServer::start(&[]);
    let grants = GRANTS.replace("+publish +subscribe", "");
    let rights = format!("ACL SETUSER gate on >secret ~sg* -@all {grants}");
    command(&mut server.connect(), &rights);
    let fleet: [_; 2] = Replica::fleet(&as_user(&server, "gate", "secret")).await;
    let path = path("a", 40);
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(fleet[0].slot(&path).await);
    }
    held.truncate(20);
    let mut mine = Vec::new();
    for _ in 0..20 {
        let (slot, took) = fleet[1].slot_soon(&path).await;
        assert!(took < 2 * LEASE, "{took:?}");
        mine.push(slot);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_others_is_not_touched() {
    let server = RedisServer::start(&[]);
    let mut admin = server.connect();
    for foreign in ["SET sg:{q0} theirs", "HSET sg:{q0} field theirs", "SADD sg:{q0} theirs"] {
        command(&mut admin, foreign);
        let before: Vec<u8> = redis::cmd("DUMP").arg("sg:{q0}").query(&mut admin).unwrap();
        let replica = Replica::start(&settings(&server.url()));
        faulty(&replica, StoreFault::ForeignData).await;
        let after: Vec<u8> = redis::cmd("DUMP").arg("sg:{q0}").query(&mut admin).unwrap();
        assert_eq!(before, after, "{foreign}");
        command(&mut admin, "DEL sg:{q0}");
        works(&replica).await;
        drop(replica);
        command(&mut admin, "DEL sg:{q0}");
    }
    command(&mut admin, "HSET sg:{q0} sg 99");
    faulty(&Replica::start(&settings(&server.url())), StoreFault::OtherLayout).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_prefixes_are_two_worlds() {
    let server = RedisServer::start(&[]);
    let other = settings(&server.url());
    let other =
        Quota { redis: Redis { key_prefix: "other".to_owned(), ..other.redis.clone() }, ..other };
    let ours = Replica::ready(&settings(&server.url())).await;
    let theirs = Replica::ready(&other).await;
    let path = path("a", 1);
    let (_one, _) = ours.slot_soon(&path).await;
    let (_two, _) = theirs.slot_soon(&path).await;
}

/// Two fleets that were given one prefix by mistake share their caps: of two configurations with the same
/// revision the smaller cap counts, whoever spoke last, and with different revisions the newer one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_configurations_under_one_prefix_never_add_up() {
    let server = RedisServer::start(&[]);
    let [ours, theirs] = Replica::fleet(&settings(&server.url())).await;
    let (wide, narrow) = (path("a", 4), path("a", 2));
    let mut held = vec![ours.slot(&wide).await, theirs.slot(&narrow).await];
    let _ = ours.full(&wide).await;
    let _ = theirs.full(&narrow).await;
    let newer = SlotPath { tenant_revision: 2, ..path("a", 3) };
    held.push(ours.slot(&newer).await);
    for path in [&newer, &wide, &narrow] {
        let _ = ours.full(path).await;
        let _ = theirs.full(path).await;
    }
    held.truncate(2);
    // Somebody who knows an older configuration is served by the newer one.
    held.push(theirs.slot_soon(&narrow).await.0);
    let _ = ours.full(&newer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_server_is_left_and_found_again() {
    let server = RedisServer::start(&[]);
    let [replica] = Replica::fleet(&settings(&server.url())).await;
    let path = path("a", 2);
    let _held = replica.slot(&path).await;
    command(&mut server.connect(), "REPLICAOF 127.0.0.1 1");
    faulty(&replica, StoreFault::ReadOnly).await;
    command(&mut server.connect(), "REPLICAOF NO ONE");
    let (_slot, took) = replica.slot_soon(&path).await;
    // Promoted, the server has another identity: what was held is asserted again first.
    assert!(took > LEASE / 2, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_or_time_says_so() {
    let server = RedisServer::start(&["--lua-time-limit", "50"]);
    let [replica] = Replica::fleet(&settings(&server.url())).await;
    command(&mut server.connect(), "CONFIG SET maxmemory 1");
    faulty(&replica, StoreFault::OutOfMemory).await;
    command(&mut server.connect(), "CONFIG SET maxmemory 0");
    works(&replica).await;

    let mut busy = server.connect();
    busy.set_read_timeout(Some(20 * MS)).unwrap();
    let endless = redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut busy);
    assert!(endless.is_err(), "it does not end");
    faulty(&replica, StoreFault::Busy).await;
    command(&mut server.connect(), "SCRIPT KILL");
    works(&replica).await;
}

/// Answers that a real server gives rarely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_error_of_a_server_has_a_name() {
    let server = FakeRedis::start("-LOADING Redis is loading the dataset in memory").await;
    let replica = Replica::start(&settings(&server.url()));
    faulty(&replica, StoreFault::Busy).await;
    for (line, fault) in [
        ("-MASTERDOWN Link with MASTER is down", StoreFault::Busy),
        ("-MISCONF Redis is configured to save RDB snapshots", StoreFault::Busy),
        ("-NOREPLICAS Not enough good replicas to write.", StoreFault::Busy),
        ("-CLUSTERDOWN The cluster is down", StoreFault::Cluster),
        ("-MOVED 1 127.0.0.1:1", StoreFault::Cluster),
        ("-OOM command not allowed when used memory > 'maxmemory'.", StoreFault::OutOfMemory),
        ("-NOAUTH Authentication required.", StoreFault::Authentication),
        ("-NOPERM this user has no permissions", StoreFault::Permission),
        ("-ERR unknown command 'evalsha'", StoreFault::Unsupported),
        ("-SGIDENT INFO replication shows no master_replid", StoreFault::Unsupported),
        ("-SGLAYOUT the key holds another layout", StoreFault::OtherLayout),
        ("-WRONGTYPE Operation against a key", StoreFault::ForeignData),
        ("-SGARG join: malformed arguments", StoreFault::Protocol),
        ("-ERR something else", StoreFault::Protocol),
        ("+PONG", StoreFault::Protocol),
        ("*1\r\n$4\r\nWHAT", StoreFault::Protocol),
    ] {
        server.answer(line);
        until(&format!("{line} is {fault:?}"), || replica.store.status().last_fault == Some(fault))
            .await;
    }
    let asked = replica.ask(&path("a", 1)).await;
    assert!(!matches!(asked, Ok(Acquired::Full(_))), "never full: {asked:?}");
}
