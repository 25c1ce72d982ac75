//! The drain board of a single process: nobody else is to be told.

use crate::core::endpoint_drain::{Board, Dispatch, View};
use crate::core::endpoint_drain_port::DrainBoard;
use crate::core::ids::ReplicaId;
use crate::core::quota::StoreFault;
use crate::core::sync::lock;
use futures::future::BoxFuture;
use std::sync::Mutex;
use tokio::time::Instant;

/// The name of the only replica.
const ALONE: &str = "local";

/// The board of `quota.store: memory`. It answers at once and never fails.
#[derive(Debug, Default)]
pub struct LocalBoard(Mutex<(Board, u64)>);

impl LocalBoard {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }
}

impl DrainBoard for LocalBoard {
    fn exchange(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<View, StoreFault>> {
        Box::pin(async move {
            let me = ReplicaId::from(ALONE);
            let (board, number) = &mut *lock(&self.0);
            *number += 1;
            let live = Some(vec![me.clone()]);
            let now = Instant::now().into_std();
            Ok(board.exchange((Some(&me), *number), &dispatch, live, now))
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn is_shared(&self) -> bool {
        false
    }
}
