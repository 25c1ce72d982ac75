//! The drain board over a real Redis, and that the script means what the pure board means.

use crate::support::server::RedisServer;
use crate::support::{BOUND, LEASE, MS, Replica, settings};
use std::sync::Arc;
use std::time::Duration;
use streamgate::config::Quota;
use streamgate::core::endpoint_drain::{Board, Dispatch, Entry, Share, Stance, View};
use streamgate::core::endpoint_drain_port::DrainBoard;
use streamgate::core::ids::EndpointId;
use streamgate::core::quota::{StoreFault, StoreMeter};
use streamgate::quota::redis::RedisBoard;
use tokio::time::{sleep, timeout};

fn endpoint() -> EndpointId {
    EndpointId::from("[fd00::7]:8000")
}

fn board(settings: &Quota, replica: &Replica) -> RedisBoard {
    let meter = Arc::clone(&replica.meter) as Arc<dyn StoreMeter>;
    RedisBoard::new(settings, Arc::clone(&replica.store), meter)
}

fn word(version: u64, base: u64, by: &str, stance: Stance) -> Entry {
    let (age, wait) = (Duration::from_secs(3), Duration::from_secs(80));
    Entry { endpoint: endpoint(), version, base, by: by.into(), stance, age, wait }
}

fn saying(entry: Entry) -> Dispatch {
    Dispatch { entries: vec![entry], shares: Vec::new() }
}

fn having(version: u64, in_flight: u64) -> Dispatch {
    let share = Share { endpoint: endpoint(), version, in_flight };
    Dispatch { entries: Vec::new(), shares: vec![share] }
}

/// An exchange that a busy machine may make late.
async fn exchange(board: &RedisBoard, dispatch: Dispatch) -> View {
    for _ in 0..20 {
        if let Ok(view) = board.exchange(dispatch.clone()).await {
            return view;
        }
        sleep(5 * MS).await;
    }
    panic!("no answer to any of twenty exchanges");
}

fn said(view: &View) -> Option<(u64, String, Stance)> {
    let entry = view.entries.iter().find(|entry| entry.endpoint == endpoint())?;
    Some((entry.version, entry.by.to_string(), entry.stance))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_and_shares_reach_everybody_and_only_newer_ones_count() {
    let server = RedisServer::start(&[]);
    let settings = settings(&server.url());
    let fleet: [_; 2] = Replica::fleet(&settings).await;
    let [a, b] = [board(&settings, &fleet[0]), board(&settings, &fleet[1])];
    let empty = exchange(&a, Dispatch::default()).await;
    assert_eq!((empty.entries.len(), empty.live), (0, None), "nobody looks who lives for nothing");

    let view = exchange(&a, saying(word(1, 0, "a-1", Stance::Ordered))).await;
    assert_eq!(said(&view), Some((1, "a-1".into(), Stance::Ordered)));
    assert!(view.entries[0].age >= Duration::from_secs(3), "{view:?}");
    assert_eq!(view.entries[0].wait, Duration::from_secs(80));
    let live = view.live.expect("known");
    assert!(live.len() == 2 && live.contains(&view.me.expect("leased")), "{live:?}");

    let view = exchange(&b, having(1, 3)).await;
    let theirs = view.me.clone().expect("leased");
    let view = exchange(&a, having(1, 0)).await;
    let share =
        view.shares.iter().find(|(who, _)| *who == theirs).map(|(_, share)| share.in_flight);
    assert_eq!((share, view.shares.len()), (Some(3), 2), "{view:?}");

    // Twice, late, and over what was not heard.
    for entry in [
        word(1, 0, "a-1", Stance::Ordered),
        word(1, 0, "b-1", Stance::Restored),
        word(7, 0, "b-2", Stance::Restored),
    ] {
        let view = exchange(&b, saying(entry)).await;
        assert_eq!(said(&view), Some((1, "a-1".into(), Stance::Ordered)));
    }
    let view = exchange(&b, saying(word(2, 1, "b-3", Stance::Restored))).await;
    assert_eq!(said(&view), Some((2, "b-3".into(), Stance::Restored)));
    assert_eq!(view.shares, [], "shares of an order that is over are gone");
    let view = exchange(&a, saying(word(1, 0, "a-1", Stance::Ordered))).await;
    assert_eq!(said(&view), Some((2, "b-3".into(), Stance::Restored)), "the late order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_are_forgotten_with_their_lease() {
    let server = RedisServer::start(&[]);
    let settings = settings(&server.url());
    let [a, b]: [_; 2] = Replica::fleet(&settings).await;
    let here = board(&settings, &a);
    exchange(&here, saying(word(1, 0, "a-1", Stance::Ordered))).await;
    exchange(&board(&settings, &b), having(1, 1)).await;
    let view = exchange(&here, having(1, 0)).await;
    assert_eq!((view.live.map(|live| live.len()), view.shares.len()), (Some(2), 2));
    drop(b);
    let begun = tokio::time::Instant::now();
    loop {
        let view = exchange(&here, having(1, 0)).await;
        if view.live.is_some_and(|live| live.len() == 1) {
            assert_eq!(view.shares.len(), 1);
            break;
        }
        assert!(begun.elapsed() < LEASE + Duration::from_secs(5), "the lease is over");
        sleep(20 * MS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_loss_nobody_claims_to_know_who_lives() {
    let server = RedisServer::start(&[]);
    let settings = settings(&server.url());
    let [a]: [_; 1] = Replica::fleet(&settings).await;
    let here = board(&settings, &a);
    exchange(&here, saying(word(1, 0, "a-1", Stance::Ordered))).await;
    redis::cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
    let view = exchange(&here, saying(word(1, 1, "a-1", Stance::Ordered))).await;
    assert_eq!(view.live, None, "{view:?}");
    assert_eq!(said(&view), Some((1, "a-1".into(), Stance::Ordered)), "said again");
    let begun = tokio::time::Instant::now();
    let live = loop {
        match exchange(&here, Dispatch::default()).await.live {
            Some(live) => break live,
            None => assert!(begun.elapsed() < BOUND, "it joins and has learnt"),
        }
        sleep(20 * MS).await;
    };
    assert_eq!(live.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_heard_and_a_frozen_server_costs_a_timeout() {
    let mut server = RedisServer::start(&[]);
    let settings = settings(&server.url());
    let fleet: [_; 2] = Replica::fleet(&settings).await;
    let [a, b] = [board(&settings, &fleet[0]), board(&settings, &fleet[1])];
    exchange(&b, Dispatch::default()).await;
    exchange(&a, saying(word(1, 0, "a-1", Stance::Ordered))).await;
    timeout(Duration::from_secs(20), b.changed()).await.expect("a hint");
    server.freeze();
    let begun = tokio::time::Instant::now();
    assert_eq!(a.exchange(Dispatch::default()).await, Err(StoreFault::Timeout));
    assert!(begun.elapsed() < settings.operation_timeout * 4, "{:?}", begun.elapsed());
    server.thaw();
    assert!(said(&exchange(&a, Dispatch::default()).await).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_data_is_left_alone() {
    let server = RedisServer::start(&[]);
    let settings = settings(&server.url());
    let [a]: [_; 1] = Replica::fleet(&settings).await;
    let mut connection = server.connect();
    for (make, fault) in [
        ("SET sg:{q0}:drain text", StoreFault::ForeignData),
        ("HSET sg:{q0}:drain field text", StoreFault::ForeignData),
        ("HSET sg:{q0}:drain sg 2", StoreFault::OtherLayout),
    ] {
        redis::cmd("DEL").arg("sg:{q0}:drain").exec(&mut connection).unwrap();
        let mut words = make.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.exec(&mut connection).unwrap();
        let here = board(&settings, &a);
        let mut answer = here.exchange(saying(word(1, 0, "a-1", Stance::Ordered))).await;
        while answer == Err(StoreFault::Timeout) {
            answer = here.exchange(saying(word(1, 0, "a-1", Stance::Ordered))).await;
        }
        assert_eq!(answer, Err(fault), "{make}");
    }
}

/// Random words and shares: the script and the pure board agree on everything but ages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_means_what_the_pure_board_means() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    let server = RedisServer::start(&[]);
    let settings = settings(&server.url());
    let fleet: [_; 2] = Replica::fleet(&settings).await;
    let boards = [board(&settings, &fleet[0]), board(&settings, &fleet[1])];
    let mut random = StdRng::seed_from_u64(7);
    let (mut pure, mut numbers) = (Board::default(), [0, 0]);
    let endpoints = ["a:1", "b:2", "[::1]:3"].map(EndpointId::from);
    for round in 0..300 {
        let at = random.random_range(0..2);
        let mut dispatch = Dispatch::default();
        for endpoint in &endpoints {
            if random.random_bool(0.4) {
                let (version, base) = (random.random_range(1..12), random.random_range(0..12));
                let stance = Stance::ALL[random.random_range(0..4)];
                let by = format!("r{at}-{round}");
                dispatch
                    .entries
                    .push(Entry { endpoint: endpoint.clone(), ..word(version, base, &by, stance) });
            }
            let (version, in_flight) = (random.random_range(1..12), random.random_range(0..3));
            dispatch.shares.push(Share { endpoint: endpoint.clone(), version, in_flight });
        }
        let view = exchange(&boards[at], dispatch.clone()).await;
        numbers[at] += 1;
        let me = view.me.as_ref();
        let now = std::time::Instant::now();
        let expected = pure.exchange((me, numbers[at]), &dispatch, view.live.clone(), now);
        assert_eq!(plain(&view), plain(&expected), "round {round}: {dispatch:?}");
    }
}

/// Without ages, in one order.
fn plain(view: &View) -> String {
    let mut entries: Vec<_> = view
        .entries
        .iter()
        .map(|e| format!("{} {} {} {:?} {:?}", e.endpoint, e.version, e.by, e.stance, e.wait))
        .collect();
    let mut shares: Vec<_> = view
        .shares
        .iter()
        .map(|(who, s)| format!("{who} {} {} {}", s.endpoint, s.version, s.in_flight))
        .collect();
    entries.sort();
    shares.sort();
    format!("{entries:?} {shares:?}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_suffice() {
    let server = RedisServer::start(&[]);
    let grants = "+eval +evalsha +script|load +time +info +hget +hmget +hgetall +hset +hdel \
                  +hlen +del +publish +subscribe +wait";
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER");
    format!("gate on >secret ~sg:* &sg:* -@all {grants}").split_whitespace().for_each(|word| {
        acl.arg(word);
    });
    acl.exec(&mut server.connect()).unwrap();
    let settings = settings(&server.url().replace("redis://", "redis://gate:secret@"));
    let [a]: [_; 1] = Replica::fleet(&settings).await;
    let here = board(&settings, &a);
    exchange(&here, saying(word(1, 0, "a-1", Stance::Ordered))).await;
    let view = exchange(&here, having(1, 0)).await;
    assert_eq!((view.live.map(|live| live.len()), view.shares.len()), (Some(1), 1));
    timeout(Duration::from_secs(20), here.changed()).await.expect("its own change is a change");
}
