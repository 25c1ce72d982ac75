//! A simulated engine as a process of its own, which takes SIGTERM as vLLM does.

use crate::support::bounded;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;
use streamgate_loadtests::engine::{EngineConfig, process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;

/// Tells [`engine_of_a_pod`] what engine to be.
const VARIABLE: &str = "STREAMGATE_ROLLOUT_ENGINE";
const LISTENING: &str = "engine listening on ";

/// What an engine is started with.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Between two tokens.
    pub token_interval: Duration,
    /// How many times faster than real time it exits.
    pub scale: u32,
    /// vLLM's `--shutdown-timeout`, in real time.
    pub shutdown_timeout: Duration,
}

/// A running engine; killed by drop.
pub struct EngineProcess {
    pub addr: SocketAddr,
    child: Child,
}

impl EngineProcess {
    /// Start one on this port, 0 for a free one, and wait until it listens.
    pub async fn start(model: Model, port: u16) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "engine::engine_of_a_pod", "--nocapture"])
            .env(VARIABLE, model.words(port))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the engine listens");
                if let Some((_, addr)) = line.split_once(LISTENING) {
                    return addr.parse().unwrap();
                }
            }
        };
        let addr = bounded("the engine listens", addr).await;
        // Its last words must find a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { addr, child }
    }

    /// Send a signal by its name. One that has ended hears nothing.
    pub fn signal(&self, name: &str) {
        let Some(pid) = self.child.id() else { return };
        let mut kill = std::process::Command::new("kill");
        let sent = kill.arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Wait for its end; the exit code, unless a signal ended it.
    pub async fn ended(&mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }
}

impl Model {
    fn words(&self, port: u16) -> String {
        let micros = [self.token_interval, self.shutdown_timeout].map(|time| time.as_micros());
        format!("{} {} {} {port}", micros[0], micros[1], self.scale)
    }

    fn read(words: &str) -> (Self, u16) {
        let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
        let [interval, timeout, scale, port] = numbers[..] else { panic!("{words}") };
        let model = Self {
            token_interval: Duration::from_micros(interval),
            shutdown_timeout: Duration::from_micros(timeout),
            scale: u32::try_from(scale).unwrap(),
        };
        (model, u16::try_from(port).unwrap())
    }
}

/// The engine, in a process that [`EngineProcess::start`] has begun.
#[test]
#[ignore = "a process that other tests start"]
fn engine_of_a_pod() {
    let Ok(words) = std::env::var(VARIABLE) else { return };
    let (model, port) = Model::read(&words);
    let config = EngineConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], port)),
        time_scale: f64::from(model.scale),
        ..EngineConfig::instant(model.token_interval * model.scale)
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let timeout = model.shutdown_timeout * model.scale;
    let serving = process::serve(config, timeout, |addr| println!("{LISTENING}{addr}"));
    runtime.block_on(serving).unwrap();
}
