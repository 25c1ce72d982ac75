//! Locking that survives a panic elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lock `mutex` even if a thread panicked while it held the lock.
///
/// Use it only for state that every critical section leaves consistent at each step (counters,
/// maps of owned entries): one request's panic must not stop the admission of all others.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poisoned_lock_still_opens() {
        let mutex = Mutex::new(7);
        let panicked = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _guard = lock(&mutex);
                    panic!("a holder fails");
                })
                .join()
                .is_err()
        });
        assert!(panicked && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 7);
    }
}
