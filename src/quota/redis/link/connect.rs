//! Making a connection.

use super::call::{Confirm, Link, Wire};
use super::fault::Fault;
use super::hints::{self, Hear, Hints};
use super::target::Target;
use crate::config::RedisForm;
use crate::core::quota::StoreFault;
use crate::quota::redis::wire::Encoder;
use redis::{AsyncConnectionConfig, RedisResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time for a connection: TCP, TLS, the greeting, and for sentinels and clusters the way to the
/// server that counts. No request waits for it.
const CONNECT: Duration = Duration::from_secs(2);

/// A connection and what is heard on it.
pub(in crate::quota::redis) struct Connected {
    pub link: Link,
    pub hints: Hints,
    /// Why hints cannot be heard: costs latency, nothing else.
    pub deaf: Option<Fault>,
}

/// Connect, and subscribe to the domain's hints.
///
/// Cancel-safe: dropping the future drops the connection.
pub(in crate::quota::redis) async fn connect(
    target: Arc<Target>,
    encoder: Arc<Encoder>,
    confirm: Option<Confirm>,
) -> Result<Connected, Fault> {
    let (hear, hints) = hints::channel();
    let late = || Fault::new(StoreFault::Timeout, format!("no connection in {CONNECT:?}"));
    let mut wire = timeout(CONNECT, wire(&target, hear)).await.map_err(|_| late())??;
    let subscribed = timeout(CONNECT, wire.subscribe(encoder.key())).await;
    let deaf = subscribed.map_err(|_| late()).and_then(|done| Ok(done?)).err();
    Ok(Connected { link: Link { wire, encoder, confirm }, hints, deaf })
}

async fn wire(target: &Target, hear: Hear) -> RedisResult<Wire> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(None);
    match target.form() {
        RedisForm::Single => {
            let config = config.set_push_sender(hear);
            let client = target.server()?;
            Ok(Wire::Server(client.get_multiplexed_async_connection_with_config(&config).await?))
        }
        RedisForm::Sentinel { master, .. } => {
            let config = config.set_push_sender(hear);
            let mut client = target.sentinels(master)?.build()?;
            Ok(Wire::Server(client.get_async_connection_with_config(&config).await?))
        }
        RedisForm::Cluster => {
            let client = target.cluster(CONNECT, hear)?;
            Ok(Wire::Cluster(client.get_async_connection().await?))
        }
    }
}
