//! What a replica and what the Redis say.

use crate::support::{Gate, eventually};
use serde_json::Value;

/// A replica as its operator sees it.
pub trait Status {
    /// `store` of `GET /api/v1/state`.
    async fn status(&self) -> Value;

    /// Wait until `holds` for `store` of the state.
    async fn status_when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value;

    /// It has its lease, and there is nothing to learn.
    async fn calm(&self) {
        self.status_when("a lease, and nothing to learn", |store| {
            store["up"] == true && store["learning"] == false && store["fenced"] == false
        })
        .await;
    }

    /// A line of its log with all these words.
    async fn says(&self, words: &[&str]) -> String;
}

impl Status for Gate {
    async fn status(&self) -> Value {
        self.state().await["store"].take()
    }

    async fn status_when(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || async {
            let store = self.status().await;
            holds(&store).then_some(store)
        })
        .await
    }

    async fn says(&self, words: &[&str]) -> String {
        eventually(&format!("a log line with {words:?}"), || async {
            let lines = self.output();
            lines.into_iter().find(|line| words.iter().all(|word| line.contains(word)))
        })
        .await
    }
}

/// The numbers in the server's hash.
pub struct Ledger {
    port: u16,
    key: &'static str,
}

impl Ledger {
    pub fn of(port: u16) -> Self {
        Self { port, key: "sg:{q0}" }
    }

    fn connection(&self) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))?.get_connection()
    }

    /// Of a scope: held, and of that unused.
    pub fn held(&self, scope: &str) -> redis::RedisResult<(i64, i64)> {
        let mut connection = self.connection()?;
        let field = format!("S|{scope}");
        let text: Option<String> =
            redis::cmd("HGET").arg(self.key).arg(field).query(&mut connection)?;
        let text = text.unwrap_or_default();
        let head = text.split(';').next().unwrap_or_default();
        let numbers: Vec<i64> = head.split(' ').filter_map(|n| n.parse().ok()).collect();
        Ok(match numbers[..] {
            [_, _, _, _, total, idle, ..] => (total, idle),
            _ => (0, 0),
        })
    }

    /// Scripts that were run, as the server counts them.
    pub fn scripts(&self) -> redis::RedisResult<u64> {
        let mut connection = self.connection()?;
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut connection)?;
        let calls = |command: &str| {
            let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
            let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next());
            calls.and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0)
        };
        Ok(calls("evalsha") + calls("eval"))
    }
}
