//! One command and its answer.

use super::fault::Fault;
use crate::core::quota::StoreFault;
use crate::quota::redis::wire::{self, Encoder};
use crate::quota::replica::{Answer, Command};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Copies that must confirm a write (`strict_failover: wait`).
#[derive(Clone, Copy, Debug)]
pub(in crate::quota::redis) struct Confirm {
    pub copies: u32,
    /// How long the server waits for them; shorter than the operation timeout.
    pub within: Duration,
}

/// What the bytes go over. Clones share it.
#[derive(Clone)]
pub(super) enum Wire {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A connection that stands. Clones share it; the last one closes it.
#[derive(Clone)]
pub(in crate::quota::redis) struct Link {
    pub(super) wire: Wire,
    pub(super) encoder: Arc<Encoder>,
    pub(super) confirm: Option<Confirm>,
}

impl Link {
    /// Send `command` and wait at most `within` for its answer.
    ///
    /// Dropping the future gives the answer up; the command may be executed all the same.
    pub async fn call(mut self, command: &Command, within: Duration) -> Result<Answer, Fault> {
        match timeout(within, self.ask(command)).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::new(StoreFault::Timeout, format!("no answer in {within:?}"))),
        }
    }

    /// Run a script by `named`, or by `whole` if the server does not know it, and wait at most
    /// `within` for its answer. For what is no command of the protocol: nothing confirms it.
    pub async fn run(mut self, named: Cmd, whole: Cmd, within: Duration) -> Result<Value, Fault> {
        let run = async {
            match self.wire.send(&named).await {
                Err(error) if is_no_script(&error) => self.wire.send(&whole).await,
                other => other,
            }
        };
        match timeout(within, run).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Fault::new(StoreFault::Timeout, format!("no answer in {within:?}"))),
        }
    }

    async fn ask(&mut self, command: &Command) -> Result<Answer, Fault> {
        let confirm = self.confirm.filter(|_| command.raises());
        let value = match self.send(self.encoder.command(command, false), confirm).await {
            // Nothing was executed, so the same version may go again.
            Err(Refused::Unanswered(error)) if is_no_script(&error) => {
                self.send(self.encoder.command(command, true), confirm).await
            }
            other => other,
        };
        let value = value.map_err(|refused| match refused {
            Refused::Unanswered(error) => Fault::from(error),
            Refused::Unconfirmed(copies) => Fault::new(
                StoreFault::NotReplicated,
                format!("{copies} copies confirmed the write"),
            ),
        })?;
        wire::answer(command, &value)
            .ok_or_else(|| Fault::new(StoreFault::Protocol, "an answer of an unknown form"))
    }

    async fn send(&mut self, cmd: Cmd, confirm: Option<Confirm>) -> Result<Value, Refused> {
        let Some(confirm) = confirm else {
            return Ok(self.wire.send(&cmd).await?);
        };
        let millis = u64::try_from(confirm.within.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut pipeline = redis::pipe();
        pipeline.add_command(cmd);
        pipeline.cmd("WAIT").arg(confirm.copies).arg(millis);
        let mut values = self.wire.send_both(&pipeline, self.encoder.key()).await?.into_iter();
        let answer = values.next().ok_or_else(no_answer)?;
        match (answer, values.next()) {
            (Value::ServerError(error), _) | (_, Some(Value::ServerError(error))) => {
                Err(Refused::Unanswered(error.into()))
            }
            (answer, Some(Value::Int(copies))) if copies >= i64::from(confirm.copies) => Ok(answer),
            (_, Some(Value::Int(copies))) => Err(Refused::Unconfirmed(copies)),
            _ => Err(Refused::Unanswered(no_answer())),
        }
    }
}

/// Why a command has no answer that counts.
enum Refused {
    Unanswered(RedisError),
    /// So many copies confirmed it.
    Unconfirmed(i64),
}

impl From<RedisError> for Refused {
    fn from(error: RedisError) -> Self {
        Self::Unanswered(error)
    }
}

fn no_answer() -> RedisError {
    (ErrorKind::UnexpectedReturnType, "an answer is missing").into()
}

fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

impl Wire {
    async fn send(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(server) => cmd.query_async(server).await,
            Self::Cluster(cluster) => cmd.query_async(cluster).await,
        }
    }

    /// Two commands over the same connection. The second has no key of its own.
    async fn send_both(&mut self, pipeline: &Pipeline, key: &str) -> RedisResult<Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(pipeline, 0, 2).await,
            Self::Cluster(cluster) => {
                let route = Route::with_key(key, SlotAddr::Master);
                let node = SingleNodeRoutingInfo::SpecificNode(route);
                cluster.route_pipeline(pipeline.clone(), 0, 2, node).await
            }
        }
    }

    pub(super) async fn subscribe(&mut self, channel: &str) -> RedisResult<()> {
        match self {
            Self::Server(server) => server.subscribe(channel).await,
            Self::Cluster(cluster) => cluster.subscribe(channel).await,
        }
    }
}
