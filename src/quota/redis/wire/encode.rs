//! Commands.

use super::scripts::{self, Script};
use crate::quota::replica::{Beat, Command, Join, Params, Set};
use redis::Cmd;
use std::time::Duration;

/// The layout of the data that the scripts and we agree on.
const LAYOUT: u8 = 1;
/// A cap that limits nothing.
const UNLIMITED: i8 = -1;

/// Writes commands for one domain.
#[derive(Clone, Debug)]
pub(in crate::quota::redis) struct Encoder {
    key: String,
    stall: u64,
    lease: u64,
    floor_lease: u64,
    pressure: u64,
}

impl Encoder {
    pub fn new(key: String, params: &Params) -> Self {
        let floor = params.floors.map_or(Duration::ZERO, |floors| floors.times.lease);
        Self {
            key,
            stall: ms(params.times.stall),
            lease: ms(params.times.lease),
            floor_lease: ms(floor),
            pressure: ms(params.times.pressure),
        }
    }

    /// The key of the domain, which is also the channel of its hints.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The command by the script's name; with `whole`, by its text, which also makes the server
    /// remember the name.
    pub fn command(&self, command: &Command, whole: bool) -> Cmd {
        match command {
            Command::Join(join) => self.join(self.begin(&scripts::JOIN, whole), join),
            Command::Beat(beat) => self.beat(self.begin(&scripts::BEAT, whole), beat),
            Command::Set(set) => self.set(self.begin(&scripts::SET, whole), set),
            Command::Look => {
                let mut cmd = self.begin(&scripts::LOOK, whole);
                cmd.arg(LAYOUT).arg("o0").arg("").arg(self.stall);
                cmd
            }
        }
    }

    fn begin(&self, script: &Script, whole: bool) -> Cmd {
        let mut cmd = redis::cmd(if whole { "EVAL" } else { "EVALSHA" });
        cmd.arg(if whole { script.text } else { &script.name }).arg(1).arg(&self.key);
        cmd
    }

    fn join(&self, mut cmd: Cmd, join: &Join) -> Cmd {
        cmd.arg(LAYOUT).arg(&*join.inc).arg(&*join.known).arg(self.stall);
        cmd.arg(self.lease).arg(self.floor_lease).arg(&*join.nonce).arg(join.version);
        cmd.arg(u8::from(join.force)).arg(join.claims.len());
        for claim in &join.claims {
            cmd.arg(&*claim.leaf).arg(claim.n).arg(claim.idle);
        }
        cmd
    }

    fn beat(&self, mut cmd: Cmd, beat: &Beat) -> Cmd {
        cmd.arg(LAYOUT).arg(&*beat.inc).arg(&*beat.known).arg(self.stall);
        cmd.arg(self.lease).arg(self.floor_lease).arg(beat.settled).arg(beat.version);
        match &beat.table {
            None => {
                cmd.arg(-1);
            }
            Some(table) => {
                cmd.arg(table.len());
                for line in table {
                    cmd.arg(&*line.leaf).arg(line.n).arg(line.idle).arg(line.version);
                }
            }
        }
        cmd
    }

    fn set(&self, mut cmd: Cmd, set: &Set) -> Cmd {
        cmd.arg(LAYOUT).arg(&*set.inc).arg(&*set.known).arg(self.stall);
        cmd.arg(self.pressure).arg(set.version).arg(set.scopes.len());
        for scope in &set.scopes {
            cmd.arg(&*scope.name);
            match scope.cap {
                Some(cap) => cmd.arg(cap),
                None => cmd.arg(UNLIMITED),
            };
            cmd.arg(scope.revision).arg(scope.floor);
        }
        cmd.arg(set.entries.len());
        for entry in &set.entries {
            cmd.arg(&*entry.leaf).arg(entry.need).arg(entry.want);
        }
        // No meters.
        cmd.arg(0);
        cmd
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OnFence, WhenUnavailable};
    use crate::quota::replica::{Ask, Claim, Scoped, Tabled, Times};

    fn encoder() -> Encoder {
        let params = Params {
            times: Times::of(Duration::from_secs(3)),
            operation_timeout: Duration::from_millis(50),
            when_unavailable: WhenUnavailable::Escrow,
            on_fence: OnFence::Keep,
            floors: None,
        };
        Encoder::new("sg:{q0}".to_owned(), &params)
    }

    /// The arguments after the script's name, as one line.
    fn line(command: &Command) -> String {
        let cmd = encoder().command(command, false);
        let args = cmd.args_iter().skip(2).map(|arg| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("a plain argument"),
        });
        let args: Vec<_> =
            args.map(|arg| if arg.is_empty() { "\"\"".into() } else { arg }).collect();
        args.join(" ")
    }

    /// The examples of docs/quota-protocol.md, sections 3.3 to 3.6.
    #[test]
    fn commands_are_laid_out_as_documented() {
        let join = Join {
            inc: "oA1b2".into(),
            known: "Xk3".into(),
            nonce: "Yp9".into(),
            version: 17,
            force: false,
            claims: vec![Claim { leaf: "t:acme|p:l20".into(), n: 2, idle: 1 }],
        };
        assert_eq!(
            line(&Command::Join(join)),
            "1 sg:{q0} 1 oA1b2 Xk3 2000 3000 0 Yp9 17 0 1 t:acme|p:l20 2 1"
        );
        let table = vec![Tabled { leaf: "t:acme|p:l20".into(), n: 2, idle: 1, version: 16 }];
        let beat = Beat {
            inc: "oA1b2".into(),
            known: "Xk3".into(),
            settled: 16,
            version: 17,
            table: Some(table),
        };
        assert_eq!(
            line(&Command::Beat(beat.clone())),
            "1 sg:{q0} 1 oA1b2 Xk3 2000 3000 0 16 17 1 t:acme|p:l20 2 1 16"
        );
        assert_eq!(
            line(&Command::Beat(Beat { table: None, ..beat })),
            "1 sg:{q0} 1 oA1b2 Xk3 2000 3000 0 16 17 -1"
        );
        let scoped = |name: &str, cap| Scoped { name: name.into(), cap, revision: 1, floor: 0 };
        let set = Set {
            inc: "oA1b2".into(),
            known: "Xk3".into(),
            version: 18,
            scopes: vec![scoped("t:acme", Some(4)), scoped("p:l20", None)],
            entries: vec![Ask { leaf: "t:acme|p:l20".into(), need: 1, want: 3 }],
            raises: true,
        };
        assert_eq!(
            line(&Command::Set(set)),
            "1 sg:{q0} 1 oA1b2 Xk3 2000 1500 18 2 t:acme 4 1 0 p:l20 -1 1 0 1 t:acme|p:l20 1 3 0"
        );
        assert_eq!(line(&Command::Look), "1 sg:{q0} 1 o0 \"\" 2000");
    }
}
