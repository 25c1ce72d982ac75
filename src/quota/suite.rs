//! What every quota store must do, written against the port alone.
//!
//! A store's own tests say `behaves_as_a_quota_store!(fresh)`, where `fresh` makes an empty store
//! (for a shared store: under a key prefix of its own). Giving back may take a store a moment, so
//! the suite waits for values, within [`BOUND`].

use crate::core::quota::{Acquired, FullScope, QuotaStore, SlotGuard, SlotPath};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How long the suite waits for something that must happen.
pub const BOUND: Duration = Duration::from_secs(5);

/// Run the whole suite on the store that `$fresh()` makes.
macro_rules! behaves_as_a_quota_store {
    ($fresh:path) => {
        $crate::quota::suite::behaves_as_a_quota_store!($fresh:
            grants_up_to_the_cap_and_not_one_more,
            a_dropped_slot_can_be_granted_again,
            a_refusal_charges_no_level,
            pools_of_one_tenant_share_its_cap,
            a_lowered_cap_takes_nothing_and_stops_growth,
            a_raised_cap_admits_at_once,
            room_hears_a_release_of_the_tenant_before_the_first_poll,
            room_hears_a_release_of_another_tenant_in_the_pool,
            who_waits_is_served_when_a_slot_comes_free,
            who_waits_is_told_when_another_level_has_no_room,
            a_dropped_wait_leaves_nothing_held,
            a_burst_never_exceeds_the_cap,
            a_dropped_acquire_leaves_nothing_held,
            a_panicking_holder_gives_its_slot_back,
        );
    };
    ($fresh:path: $($case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::quota::suite::$case($fresh()).await;
            }
        )+
    };
}
pub(crate) use behaves_as_a_quota_store;

/// A path, for tests.
pub fn path(tenant: &str, tenant_cap: u32, pool: &str, pool_cap: Option<u32>) -> SlotPath {
    SlotPath {
        tenant: tenant.into(),
        tenant_cap,
        pool: pool.into(),
        pool_cap,
        tenant_revision: 1,
        pool_revision: 1,
    }
}

/// The same path from a newer configuration.
pub fn reloaded(path: SlotPath) -> SlotPath {
    let (tenant_revision, pool_revision) = (path.tenant_revision + 1, path.pool_revision + 1);
    SlotPath { tenant_revision, pool_revision, ..path }
}

/// Ask once and expect a slot.
pub async fn granted(store: &dyn QuotaStore, path: &SlotPath) -> Box<dyn SlotGuard> {
    match store.acquire(path).await {
        Ok(Acquired::Granted(slot)) => slot,
        other => panic!("expected a slot on {path:?}, got {other:?}"),
    }
}

async fn full(store: &dyn QuotaStore, path: &SlotPath) -> FullScope {
    match store.acquire(path).await {
        Ok(Acquired::Full(scope)) => scope,
        other => panic!("expected no room on {path:?}, got {other:?}"),
    }
}

/// Ask until a slot is granted, at most for [`BOUND`].
async fn granted_soon(store: &dyn QuotaStore, path: &SlotPath) -> Box<dyn SlotGuard> {
    let until = Instant::now() + BOUND;
    loop {
        match store.acquire(path).await {
            Ok(Acquired::Granted(slot)) => return slot,
            other => assert!(Instant::now() < until, "no slot within {BOUND:?}: {other:?}"),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

async fn nothing_held_soon(store: &dyn QuotaStore, tenant: &str) {
    let until = Instant::now() + BOUND;
    loop {
        let usage = store.usage(&tenant.into());
        if usage.here == 0 && usage.fleet == 0 {
            return;
        }
        assert!(Instant::now() < until, "still held: {usage:?}");
        sleep(Duration::from_millis(1)).await;
    }
}

pub async fn grants_up_to_the_cap_and_not_one_more(store: Arc<dyn QuotaStore>) {
    let path = path("a", 3, "p", None);
    let mut held = Vec::new();
    for count in 1..=3 {
        held.push(granted(&*store, &path).await);
        assert_eq!(store.usage(&"a".into()).here, count);
    }
    assert_eq!(full(&*store, &path).await, FullScope::Tenant);
    drop(held);
    nothing_held_soon(&*store, "a").await;
}

pub async fn a_dropped_slot_can_be_granted_again(store: Arc<dyn QuotaStore>) {
    let path = path("a", 1, "p", Some(1));
    for _ in 0..3 {
        let slot = granted_soon(&*store, &path).await;
        assert_eq!(full(&*store, &path).await, FullScope::Tenant);
        drop(slot);
    }
    nothing_held_soon(&*store, "a").await;
}

pub async fn a_refusal_charges_no_level(store: Arc<dyn QuotaStore>) {
    let in_pool = granted(&*store, &path("a", 1, "p", Some(1))).await;
    assert_eq!(full(&*store, &path("b", 1, "p", Some(1))).await, FullScope::Pool);
    // `b` was charged nothing at the pool's refusal: its one slot is there for another pool.
    let elsewhere = granted(&*store, &path("b", 1, "q", Some(1))).await;
    // `a` was refused at its own level: pool `r` was charged nothing.
    assert_eq!(full(&*store, &path("a", 1, "r", Some(1))).await, FullScope::Tenant);
    let in_r = granted(&*store, &path("c", 1, "r", Some(1))).await;
    drop((in_pool, elsewhere, in_r));
    for tenant in ["a", "b", "c"] {
        nothing_held_soon(&*store, tenant).await;
    }
}

pub async fn pools_of_one_tenant_share_its_cap(store: Arc<dyn QuotaStore>) {
    let _p = granted(&*store, &path("a", 2, "p", None)).await;
    let _q = granted(&*store, &path("a", 2, "q", None)).await;
    assert_eq!(full(&*store, &path("a", 2, "p", None)).await, FullScope::Tenant);
}

pub async fn a_lowered_cap_takes_nothing_and_stops_growth(store: Arc<dyn QuotaStore>) {
    let high = path("a", 3, "p", None);
    let low = reloaded(path("a", 1, "p", None));
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(granted(&*store, &high).await);
    }
    while !held.is_empty() {
        assert_eq!(full(&*store, &low).await, FullScope::Tenant);
        assert_eq!(store.usage(&"a".into()).here, held.len() as u64);
        held.pop();
    }
    let _one = granted_soon(&*store, &low).await;
}

pub async fn a_raised_cap_admits_at_once(store: Arc<dyn QuotaStore>) {
    let _one = granted(&*store, &path("a", 1, "p", None)).await;
    assert_eq!(full(&*store, &path("a", 1, "p", None)).await, FullScope::Tenant);
    let _two = granted(&*store, &reloaded(path("a", 2, "p", None))).await;
}

pub async fn room_hears_a_release_of_the_tenant_before_the_first_poll(store: Arc<dyn QuotaStore>) {
    let (here, other) = (path("a", 1, "p", None), path("a", 1, "q", None));
    let slot = granted(&*store, &here).await;
    let room = store.room(&other.tenant, &other.pool);
    assert_eq!(full(&*store, &other).await, FullScope::Tenant);
    drop(slot);
    timeout(BOUND, room).await.expect("the release was lost");
    let _slot = granted_soon(&*store, &other).await;
}

pub async fn room_hears_a_release_of_another_tenant_in_the_pool(store: Arc<dyn QuotaStore>) {
    let slot = granted(&*store, &path("a", 1, "p", Some(1))).await;
    let waiting = path("b", 1, "p", Some(1));
    let room = store.room(&waiting.tenant, &waiting.pool);
    assert_eq!(full(&*store, &waiting).await, FullScope::Pool);
    drop(slot);
    timeout(BOUND, room).await.expect("the release was lost");
    let _slot = granted_soon(&*store, &waiting).await;
}

async fn told(store: &dyn QuotaStore, path: &SlotPath, before: Option<FullScope>) -> FullScope {
    match timeout(BOUND, store.wait(path, before)).await.expect("no answer") {
        Ok(Acquired::Full(scope)) => scope,
        other => panic!("expected no room on {path:?}, got {other:?}"),
    }
}

pub async fn who_waits_is_served_when_a_slot_comes_free(store: Arc<dyn QuotaStore>) {
    let path = path("a", 1, "p", None);
    for _ in 0..3 {
        let slot = match store.wait(&path, None).await {
            Ok(Acquired::Granted(slot)) => slot,
            other => panic!("expected a slot, got {other:?}"),
        };
        let scope = told(&*store, &path, None).await;
        assert_eq!(scope, FullScope::Tenant);
        let mut waits = Box::pin(store.wait(&path, Some(scope)));
        assert!(futures::poll!(waits.as_mut()).is_pending(), "it knows that already");
        drop(slot);
        let answer = timeout(BOUND, waits).await.expect("the slot was lost");
        assert!(matches!(answer, Ok(Acquired::Granted(_))), "{answer:?}");
        drop(answer);
        nothing_held_soon(&*store, "a").await;
    }
}

pub async fn who_waits_is_told_when_another_level_has_no_room(store: Arc<dyn QuotaStore>) {
    let of_tenant = granted(&*store, &path("a", 1, "p", None)).await;
    let in_pool = granted(&*store, &path("b", 1, "q", Some(1))).await;
    let path = path("a", 1, "q", Some(1));
    assert_eq!(told(&*store, &path, None).await, FullScope::Tenant);
    drop(of_tenant);
    let scope = told(&*store, &path, Some(FullScope::Tenant)).await;
    assert_eq!(scope, FullScope::Pool);
    drop(in_pool);
    let answer = timeout(BOUND, store.wait(&path, Some(scope))).await.expect("the slot was lost");
    assert!(matches!(answer, Ok(Acquired::Granted(_))), "{answer:?}");
}

pub async fn a_dropped_wait_leaves_nothing_held(store: Arc<dyn QuotaStore>) {
    let path = path("a", 1, "p", None);
    let slot = granted(&*store, &path).await;
    let mut waits = Box::pin(store.wait(&path, Some(FullScope::Tenant)));
    drop(futures::poll!(waits.as_mut()));
    drop(slot);
    drop(waits);
    nothing_held_soon(&*store, "a").await;
    let _slot = granted_soon(&*store, &path).await;
}

pub async fn a_burst_never_exceeds_the_cap(store: Arc<dyn QuotaStore>) {
    const CAP: u32 = 3;
    let running = Arc::new(AtomicU64::new(0));
    let served = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..32 {
        let (store, running, served) = (store.clone(), running.clone(), served.clone());
        // Two tenants whose caps together exceed the pool's.
        let path = path(if number % 2 == 0 { "a" } else { "b" }, 2, "p", Some(CAP));
        tasks.spawn(async move {
            loop {
                let room = store.room(&path.tenant, &path.pool);
                if let Ok(Acquired::Granted(slot)) = store.acquire(&path).await {
                    let now_running = running.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now_running <= u64::from(CAP), "{now_running} at once");
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    served.fetch_add(1, Ordering::SeqCst);
                    drop(slot);
                    return;
                }
                timeout(BOUND, room).await.expect("a wake-up was lost");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("a task failed");
    }
    assert_eq!(served.load(Ordering::SeqCst), 32);
    nothing_held_soon(&*store, "a").await;
    nothing_held_soon(&*store, "b").await;
}

pub async fn a_dropped_acquire_leaves_nothing_held(store: Arc<dyn QuotaStore>) {
    let path = path("a", 1, "p", None);
    drop(store.acquire(&path));
    let mut polled_once = Box::pin(store.acquire(&path));
    // Whatever one poll did, a granted slot is dropped with the future or with its output.
    drop(futures::poll!(polled_once.as_mut()));
    drop(polled_once);
    nothing_held_soon(&*store, "a").await;
    let _slot = granted_soon(&*store, &path).await;
}

pub async fn a_panicking_holder_gives_its_slot_back(store: Arc<dyn QuotaStore>) {
    let path = path("a", 1, "p", Some(1));
    let slot = granted(&*store, &path).await;
    let ended = tokio::spawn(async move {
        let _held = slot;
        panic!("the request fails");
    })
    .await;
    assert!(ended.is_err_and(|error| error.is_panic()));
    let _slot = granted_soon(&*store, &path).await;
}
