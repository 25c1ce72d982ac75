//! One connection: request after request.

use std::sync::Arc;

use super::{reply, routes};
use crate::engine::shared::Shared;
use crate::engine::wire::errors;
use crate::http1::{CloseBy, HeadError, Io, read_head};

/// Largest request head.
const HEAD_LIMIT: usize = 64 * 1024;

/// What follows an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The next request.
    Next,
    Close(CloseBy),
}

/// Serves requests until the connection is to be closed.
pub(super) async fn serve(io: &mut Io, shared: &Arc<Shared>) -> CloseBy {
    let connection = shared.connection_id();
    let mut first = true;
    loop {
        // As uvicorn: no bound before the first request, and none within a head.
        if !first && io.buffer().is_empty() {
            match tokio::time::timeout(shared.config.keep_alive, io.fill()).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return CloseBy::Fin,
            }
        }
        first = false;
        match read_head(io, HEAD_LIMIT).await {
            Ok(head) => {
                if let After::Close(by) = routes::answer(io, shared, &head, connection).await {
                    return by;
                }
            }
            Err(HeadError::Closed) => return CloseBy::Fin,
            Err(HeadError::Invalid) => {
                return reply::raw(io, &errors::not_http()).await;
            }
        }
    }
}
