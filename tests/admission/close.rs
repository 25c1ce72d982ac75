//! What a drain does to admission.

use super::*;

#[tokio::test(start_paused = true)]
async fn closing_answers_everyone_who_waits_at_once() {
    let rig = Rig::new();
    let running = rig.admit(queueing(1, 4)).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(rig.queue(queueing(1, 4)).await);
    }
    let before = Instant::now();
    rig.controller.close_queue();
    for task in waiting {
        assert_eq!(reason(soon(task).await.unwrap()), Reason::Draining);
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(rig.held("a"), 1, "who runs, runs on");
    for request in [queueing(9, 4), rejecting(9)] {
        assert_eq!(reason(rig.admit(request).await), Reason::Draining);
    }
    drop(running);
    rig.assert_nothing_left("a");
}

#[tokio::test(start_paused = true)]
async fn idle_means_that_the_refused_are_answered_too() {
    let rig = Rig::new();
    let running = rig.admit(queueing(1, 4)).await.unwrap();
    let waiting = rig.queue(queueing(1, 4)).await;
    rig.controller.close_queue();
    let unanswered = soon(waiting).await.unwrap().unwrap_err();

    let holders = Arc::clone(&rig.holders);
    let idle = tokio::spawn(async move { holders.wait_idle().await });
    drop(running);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!idle.is_finished(), "the refusal is not written yet");
    assert_eq!((rig.holders.in_flight(), *rig.holders.open().borrow()), (0, 1));
    drop(unanswered);
    soon(idle).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_resolves_at_once_when_nothing_is_open() {
    let rig = Rig::new();
    soon(rig.holders.wait_idle()).await;
    drop(rig.admit(rejecting(1)).await.unwrap());
    soon(rig.holders.wait_idle()).await;
}

#[tokio::test(start_paused = true)]
async fn after_the_close_the_store_is_not_even_asked() {
    let (store, _never_answers) = Troubled::gated();
    let rig = Rig::over(store);
    rig.controller.close_queue();
    assert_eq!(reason(soon(rig.admit(rejecting(1))).await), Reason::Draining);
    soon(rig.holders.wait_idle()).await;
}

#[tokio::test]
async fn a_request_whose_answer_comes_after_the_close_is_not_admitted() {
    let (store, gate) = Troubled::gated();
    let rig = Rig::over(store);
    let asking = rig.queue(rejecting(1)).await;
    rig.controller.close_queue();
    gate.add_permits(1);
    assert_eq!(reason(soon(asking).await.unwrap()), Reason::Draining);
    rig.assert_nothing_left("a");
}
