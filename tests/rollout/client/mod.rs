//! Clients as people have them: connections are kept, and left when the server says so. What was
//! sent is never sent again, so every fault shows.

mod ask;
mod h1;
mod h2;
mod load;
mod tally;

pub use ask::Ask;
pub use load::Load;
pub use tally::{Fate, Tally};

use crate::cluster::Service;
use h1::Kept;
use h2::Shared;
use std::sync::Arc;

/// A client with connections through a service.
pub enum Client {
    /// One connection at a time.
    H1(Kept),
    /// Requests share a connection with those of other clients.
    H2(Arc<Shared>),
}

impl Client {
    pub fn h1(service: &Service) -> Self {
        Self::H1(Kept::new(service.clone()))
    }

    /// So many clients with one connection.
    pub fn h2(service: &Service, clients: usize) -> Vec<Self> {
        let shared = Arc::new(Shared::new(service.clone()));
        (0..clients).map(|_| Self::H2(Arc::clone(&shared))).collect()
    }

    /// One request to its end.
    pub async fn ask(&mut self, ask: &Ask) -> Fate {
        match self {
            Self::H1(kept) => kept.ask(ask).await,
            Self::H2(shared) => shared.ask(ask).await,
        }
    }
}
