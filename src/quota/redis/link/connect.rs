//! Making a connection.

use super::call::{Confirm, Link, Wire};
use super::fault::Fault;
use super::hints::{self, Hear, Hints};
use super::sentinel::Sentinels;
use super::target::Target;
use crate::config::RedisForm;
use crate::core::quota::StoreFault;
use crate::quota::redis::wire::Encoder;
use redis::{AsyncConnectionConfig, RedisResult};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// Time for a connection: TCP, TLS, the greeting, and for sentinels and clusters the way to the
/// server that counts. No request waits for it.
const CONNECT: Duration = Duration::from_secs(2);

/// A connection and what is heard on it.
pub(in crate::quota::redis) struct Connected {
    pub link: Link,
    pub hints: Hints,
    /// Why hints cannot be heard: costs latency, nothing else.
    pub deaf: Option<Fault>,
    /// Hears when the sentinels lead elsewhere.
    pub watch: Option<AbortOnDropHandle<()>>,
}

/// Connect, and subscribe to the domain's hints. Sentinels are asked again after every `watch`.
///
/// Cancel-safe: dropping the future drops the connection.
pub(in crate::quota::redis) async fn connect(
    target: Arc<Target>,
    encoder: Arc<Encoder>,
    confirm: Option<Confirm>,
    watch: Duration,
) -> Result<Connected, Fault> {
    let (hear, hints) = hints::channel();
    let late = || Fault::new(StoreFault::Timeout, format!("no connection in {CONNECT:?}"));
    let made = timeout(CONNECT, wire(&target, hear, watch)).await;
    let (mut wire, watch) = made.map_err(|_| late())??;
    let subscribed = timeout(CONNECT, wire.subscribe(encoder.key())).await;
    let deaf = subscribed.map_err(|_| late()).and_then(|done| Ok(done?)).err();
    Ok(Connected { link: Link { wire, encoder, confirm }, hints, deaf, watch })
}

type Watched = (Wire, Option<AbortOnDropHandle<()>>);

async fn wire(target: &Target, hear: Hear, watch: Duration) -> RedisResult<Watched> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(None);
    match target.form() {
        RedisForm::Single => {
            let config = config.set_push_sender(hear);
            let client = target.server()?;
            let server = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok((Wire::Server(server), None))
        }
        RedisForm::Sentinel { master, .. } => {
            let config = config.set_push_sender(hear.clone());
            let mut sentinels = Sentinels::new(target, master, watch)?;
            let primary = sentinels.primary().await?;
            let client = target.at(&primary.at)?;
            let server = client.get_multiplexed_async_connection_with_config(&config).await?;
            Ok((Wire::Server(server), Some(sentinels.watch(primary, watch, hear))))
        }
        RedisForm::Cluster => {
            let client = target.cluster(CONNECT, hear)?;
            Ok((Wire::Cluster(client.get_async_connection().await?), None))
        }
    }
}
