use super::*;
use crate::quota::suite;

fn fresh() -> Arc<dyn QuotaStore> {
    Arc::new(MemoryStore::new())
}

suite::behaves_as_a_quota_store!(fresh);

#[tokio::test]
async fn a_panic_inside_the_lock_does_not_stop_the_store() {
    let store = MemoryStore::new();
    let path = suite::path("a", 2, "p", None);
    let held = suite::granted(&store, &path).await;
    let shared = Arc::clone(&store.shared);
    let poisoned = std::thread::spawn(move || {
        let _guard = shared.lock().unwrap();
        panic!("poison");
    })
    .join();
    assert!(poisoned.is_err() && store.shared.is_poisoned());

    let second = suite::granted(&store, &path).await;
    drop((held, second));
    assert_eq!(store.usage(&"a".into()), SlotUsage { here: 0, fleet: 0 });
}

#[tokio::test]
async fn status_says_memory_and_up() {
    let status = fresh().status();
    assert_eq!((status.kind, status.up, status.fenced), ("memory", true, false));
}
