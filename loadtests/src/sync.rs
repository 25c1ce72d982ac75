//! Locks that survive a panicking holder: the data they guard are counters and queues whose
//! invariants hold after every single statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also after a holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
