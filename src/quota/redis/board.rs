//! The drain board that all replicas share: a second key in the hash slot of the quota domain, over
//! a connection of its own, so that neither waits for the other.
//!
//! Nothing of the quota protocol depends on it, and nobody's slot is lost with it: a board that
//! forgot everything is told again by those who know (`core::endpoint_drain`).

use super::journal::Journal;
use super::link::{self, Connected, Fault, Heard, Hints, Link, Target};
use super::store::RedisStore;
use super::wire::{self, BoardEncoder, Encoder};
use crate::config::{self, RedisForm};
use crate::core::endpoint_drain::{Dispatch, View};
use crate::core::endpoint_drain_port::DrainBoard;
use crate::core::quota::{StoreFault, StoreMeter, StoreOp};
use crate::quota::replica::{Params, Times};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// So many exchanges in a row without an answer end a connection.
const SILENT: u32 = 3;

/// The board of `quota.store: redis`. Needs no rights beyond those of the store.
pub struct RedisBoard {
    store: Arc<RedisStore>,
    target: Arc<Target>,
    encoder: BoardEncoder,
    /// Names the channel of a connection.
    channel: Arc<Encoder>,
    timeout: Duration,
    /// Between two looks at where the sentinels lead.
    watch: Duration,
    meter: Arc<dyn StoreMeter>,
    journal: Journal,
    bell: Arc<Notify>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    link: Option<Link>,
    /// Ends with the connection, or when it leads to the wrong server.
    hearing: Option<AbortOnDropHandle<()>>,
    watch: Option<AbortOnDropHandle<()>>,
    /// Counts exchanges.
    number: u64,
    silent: u32,
    /// The last exchange failed.
    away: bool,
}

impl RedisBoard {
    /// The board beside this store. Nothing is sent before the first exchange.
    pub fn new(
        settings: &config::Quota,
        store: Arc<RedisStore>,
        meter: Arc<dyn StoreMeter>,
    ) -> Self {
        let target = Arc::new(Target::new(settings.redis.clone()));
        let domain = format!("{}:{{q0}}", settings.redis.key_prefix);
        let key = format!("{domain}:drain");
        let times = Times::of(settings.replica_lease);
        let params = Params {
            times,
            operation_timeout: settings.operation_timeout,
            when_unavailable: settings.when_unavailable,
            on_fence: settings.on_fence,
            floors: None,
        };
        Self {
            store,
            journal: Journal::new(target.to_string(), key.clone()),
            target,
            channel: Arc::new(Encoder::new(key.clone(), &params)),
            encoder: BoardEncoder { domain, key, stall: times.stall },
            timeout: settings.operation_timeout,
            watch: times.beat,
            meter,
            bell: Arc::new(Notify::new()),
            line: Mutex::default(),
        }
    }

    async fn ask(&self, line: &mut Line, dispatch: &Dispatch) -> Result<View, Fault> {
        let standing = line.hearing.as_ref().is_some_and(|hearing| !hearing.is_finished());
        let link = match &line.link {
            Some(link) if standing => link.clone(),
            _ => self.connect(line).await?,
        };
        line.number += 1;
        let me = self.store.incarnation();
        let command = |whole| self.encoder.command(me.as_ref(), line.number, dispatch, whole);
        let value = link.run(command(false), command(true), self.timeout).await?;
        wire::view(me, &value)
            .ok_or_else(|| Fault::new(StoreFault::Protocol, "an answer of an unknown form"))
    }

    async fn connect(&self, line: &mut Line) -> Result<Link, Fault> {
        let (target, channel) = (Arc::clone(&self.target), Arc::clone(&self.channel));
        let connected = link::connect(target, channel, None, self.watch).await?;
        let Connected { link, hints, deaf, watch } = connected;
        if let Some(fault) = deaf {
            self.journal.deaf(&fault, "drains are heard of up to two seconds later");
        }
        let cluster = *self.target.form() == RedisForm::Cluster;
        let hearing = tokio::spawn(hear(hints, cluster, Arc::clone(&self.bell)));
        (line.hearing, line.watch) = (Some(AbortOnDropHandle::new(hearing)), watch);
        line.silent = 0;
        Ok(line.link.insert(link).clone())
    }

    fn failed(&self, line: &mut Line, fault: &Fault) {
        line.silent = if fault.fault == StoreFault::Timeout { line.silent + 1 } else { 0 };
        if fault.ends_connection() || line.silent >= SILENT {
            (line.link, line.hearing, line.watch, line.silent) = (None, None, None, 0);
        }
        line.away = true;
        self.journal.board(fault);
    }
}

impl DrainBoard for RedisBoard {
    fn exchange(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<View, StoreFault>> {
        Box::pin(async move {
            let mut line = self.line.lock().await;
            let begun = Instant::now();
            let answer = self.ask(&mut line, &dispatch).await;
            let fault = answer.as_ref().err().map(|fault| fault.fault);
            self.meter.operation(StoreOp::Drain, begun.elapsed(), fault);
            match answer {
                Ok(view) => {
                    line.silent = 0;
                    if std::mem::take(&mut line.away) {
                        self.journal.forget();
                    }
                    Ok(view)
                }
                Err(fault) => {
                    self.failed(&mut line, &fault);
                    Err(fault.fault)
                }
            }
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.bell.notified())
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Ring for whatever is published, until the connection is gone or leads elsewhere. A cluster's
/// client mends its connections itself.
async fn hear(mut hints: Hints, cluster: bool, bell: Arc<Notify>) {
    while let Some(heard) = hints.recv().await {
        let ends = match heard {
            Heard::Hint(_) => false,
            Heard::Gone => !cluster,
            Heard::Moved => true,
        };
        // Also at the end: the next exchange makes another connection.
        bell.notify_one();
        if ends {
            return;
        }
    }
}
