//! Where the sentinels lead, and when they lead elsewhere.
//!
//! A primary that was replaced in a failover by command serves for another ten seconds before the
//! sentinels demote it, and closes no connection. Who stays with it for longer than a lease is
//! granted what the new primary grants too. So the sentinels are asked again all the time: a replica
//! that follows within a lease asserts what it holds while the new primary still learns.

use super::hints::{Hear, Heard};
use super::target::Target;
use crate::config::RedisHost;
use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// What one sentinel knows of one primary.
type Facts = HashMap<String, String>;

/// Where a primary is, and since which failover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Primary {
    pub at: RedisHost,
    pub epoch: u64,
}

/// The sentinels of one primary, each with its connection.
pub(super) struct Sentinels {
    name: String,
    clients: Vec<Client>,
    open: Vec<Option<MultiplexedConnection>>,
    /// Longest wait for one of them.
    patience: Duration,
}

impl Sentinels {
    /// Those of the configuration; nothing is connected yet.
    pub fn new(target: &Target, name: &str, patience: Duration) -> RedisResult<Self> {
        let clients = target.sentinels()?;
        let open = clients.iter().map(|_| None).collect();
        Ok(Self { name: name.to_owned(), clients, open, patience })
    }

    /// The primary of the newest failover that any sentinel knows of: after a failover they learn
    /// of it one after another.
    pub async fn primary(&mut self) -> RedisResult<Primary> {
        let (name, patience) = (&self.name, self.patience);
        let asked = self.clients.iter().zip(&mut self.open).map(async |(client, open)| {
            let answer = timeout(patience, ask(client, open, name)).await;
            if !matches!(answer, Ok(Ok(_))) {
                *open = None;
            }
            let late = || RedisError::from((ErrorKind::Io, "a sentinel did not answer in time"));
            answer.unwrap_or_else(|_| Err(late()))
        });
        let answers = join_all(asked).await;
        let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel"));
        let mut newest: Option<Primary> = None;
        for answer in answers {
            match answer {
                Ok(found) if newest.as_ref().is_none_or(|n| n.epoch < found.epoch) => {
                    newest = Some(found);
                }
                Ok(_) => {}
                Err(error) => failure = error,
            }
        }
        newest.ok_or(failure)
    }

    /// Says so, once, when the primary is no longer `known`. Looks again after every `period`.
    pub fn watch(mut self, known: Primary, period: Duration, hear: Hear) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                sleep(period).await;
                // Sentinels that are away, or behind, tell nothing new.
                if let Ok(found) = self.primary().await
                    && found.at != known.at
                    && found.epoch >= known.epoch
                {
                    hear.tell(Heard::Moved).await;
                    return;
                }
            }
        }))
    }
}

async fn ask(
    client: &Client,
    open: &mut Option<MultiplexedConnection>,
    name: &str,
) -> RedisResult<Primary> {
    let connection = if let Some(connection) = open {
        connection
    } else {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        open.insert(client.get_multiplexed_async_connection_with_config(&config).await?)
    };
    let masters: Vec<Facts> = redis::cmd("SENTINEL").arg("MASTERS").query_async(connection).await?;
    let unknown = || (ErrorKind::MasterNameNotFoundBySentinel, "the sentinel knows no such master");
    let facts = masters.iter().find(|facts| facts.get("name").is_some_and(|n| n == name));
    Ok(primary(facts.ok_or_else(unknown)?).ok_or_else(unknown)?)
}

fn primary(facts: &Facts) -> Option<Primary> {
    let port = facts.get("port")?.parse().ok()?;
    let epoch = facts.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    Some(Primary { at: RedisHost { host: facts.get("ip")?.clone(), port }, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sentinel_says_is_understood() {
        let facts = |pairs: &[(&str, &str)]| -> Facts {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let full = [("name", "main"), ("ip", "10.0.0.7"), ("port", "6379"), ("config-epoch", "4")];
        let at = RedisHost { host: "10.0.0.7".to_owned(), port: 6379 };
        assert_eq!(primary(&facts(&full)), Some(Primary { at: at.clone(), epoch: 4 }));
        assert_eq!(primary(&facts(&full[..3])), Some(Primary { at, epoch: 0 }));
        assert_eq!(primary(&facts(&full[..2])), None);
        assert_eq!(primary(&facts(&[("ip", "10.0.0.7"), ("port", "70000")])), None);
    }
}
