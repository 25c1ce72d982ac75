//! The memory of request bodies: counted from their first byte until the engine has answered, when
//! nobody can need them again.

use crate::core::body_book::{BodyBook, NoRoom};
use crate::core::ids::TenantId;
use crate::core::sync::lock;
use std::sync::{Arc, Mutex};

/// Everything that is held. One per process.
#[derive(Debug, Default)]
pub struct Bodies(Mutex<BodyBook>);

/// One body's bytes: grows as they come, given back by drop.
#[derive(Debug)]
pub struct HeldBody {
    bodies: Arc<Bodies>,
    tenant: TenantId,
    limit: usize,
    bytes: usize,
}

impl Bodies {
    /// A body of which nothing has come. `limit`: bytes of all bodies.
    pub fn open(self: &Arc<Self>, tenant: TenantId, limit: usize) -> HeldBody {
        HeldBody { bodies: Arc::clone(self), tenant, limit, bytes: 0 }
    }
}

impl HeldBody {
    /// Whether `more` bytes would fit now. Nothing is charged: an announcement costs nothing.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn would_fit(&self, more: usize) -> Result<(), NoRoom> {
        lock(&self.bodies.0).check(&self.tenant, self.bytes, more, self.limit)
    }

    /// `more` bytes came.
    ///
    /// # Errors
    /// [`NoRoom`]: they must not be kept.
    pub fn grow(&mut self, more: usize) -> Result<(), NoRoom> {
        lock(&self.bodies.0).take(&self.tenant, self.bytes, more, self.limit)?;
        self.bytes += more;
        Ok(())
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        if self.bytes > 0 {
            lock(&self.bodies.0).give_back(&self.tenant, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_counted_until_the_drop() {
        let bodies = Arc::new(Bodies::default());
        let mut first = bodies.open("a".into(), 100);
        assert_eq!((first.would_fit(50), first.grow(20), first.grow(20)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(lock(&bodies.0).total(), 40);
        let mut second = bodies.open("a".into(), 100);
        assert_eq!((second.grow(11), second.would_fit(10)), (Err(NoRoom::Tenant), Ok(())));
        assert_eq!(bodies.open("b".into(), 100).would_fit(31), Err(NoRoom::Everybody));
        drop((first, second));
        assert_eq!(lock(&bodies.0).total(), 0);
    }
}
