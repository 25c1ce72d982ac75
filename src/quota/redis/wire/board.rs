//! The drain board's command and answer: the layouts of `lua/board.lua`.

use super::decode::{array, millis, number, text};
use super::scripts;
use crate::core::endpoint_drain::{Dispatch, Entry, Share, Stance, View};
use crate::core::ids::{EndpointId, ReplicaId};
use redis::{Cmd, Value};
use std::time::Duration;

/// The layout of the data that the script and we agree on.
const LAYOUT: u8 = 1;
/// Stands for no incarnation.
const NOBODY: &str = "o0";

/// Writes the commands of one board.
#[derive(Clone, Debug)]
pub(in crate::quota::redis) struct BoardEncoder {
    /// The quota domain, which knows who lives.
    pub domain: String,
    pub key: String,
    pub stall: Duration,
}

impl BoardEncoder {
    /// The exchange of this `number` by the script's name; with `whole`, by its text.
    pub fn command(
        &self,
        me: Option<&ReplicaId>,
        number: u64,
        dispatch: &Dispatch,
        whole: bool,
    ) -> Cmd {
        let script = &scripts::BOARD;
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { script.text } else { &script.name });
        cmd.arg(2).arg(&self.domain).arg(&self.key);
        cmd.arg(LAYOUT).arg(me.map_or(NOBODY, ReplicaId::as_str)).arg("").arg(ms(self.stall));
        cmd.arg(number).arg(dispatch.entries.len());
        for entry in &dispatch.entries {
            cmd.arg(entry.endpoint.as_str()).arg(entry.version).arg(entry.base).arg(&*entry.by);
            cmd.arg(entry.stance.as_str()).arg(ms(entry.age)).arg(ms(entry.wait));
        }
        cmd.arg(dispatch.shares.len());
        for share in &dispatch.shares {
            cmd.arg(share.endpoint.as_str()).arg(share.version).arg(share.in_flight);
        }
        cmd
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The answer to an exchange of `me`; `None` if it is not one.
pub(in crate::quota::redis) fn view(me: Option<ReplicaId>, value: &Value) -> Option<View> {
    let [ok, sure, live, entries, shares] = array(value)? else { return None };
    if text(ok)? != "OK" {
        return None;
    }
    let live: Option<Vec<_>> =
        array(live)?.iter().map(|who| text(who).map(ReplicaId::from)).collect();
    Some(View {
        me,
        live: if number(sure)? == 1 { Some(live?) } else { None },
        entries: array(entries)?.iter().map(entry).collect::<Option<_>>()?,
        shares: array(shares)?.iter().map(share).collect::<Option<_>>()?,
    })
}

fn entry(value: &Value) -> Option<Entry> {
    let [endpoint, version, by, stance, age, wait] = array(value)? else { return None };
    let version = number(version)?;
    Some(Entry {
        endpoint: EndpointId::from(text(endpoint)?),
        version,
        base: version,
        by: text(by)?.into(),
        stance: Stance::named(text(stance)?)?,
        age: millis(age)?,
        wait: millis(wait)?,
    })
}

fn share(value: &Value) -> Option<(ReplicaId, Share)> {
    let [who, endpoint, version, in_flight] = array(value)? else { return None };
    let share = Share {
        endpoint: EndpointId::from(text(endpoint)?),
        version: number(version)?,
        in_flight: number(in_flight)?,
    };
    Some((ReplicaId::from(text(who)?), share))
}
