//! The real binary, started with a generated configuration on free ports.

use super::wire::{Answer, Request, Wire};
use super::{Api, BOUND, Call, Leave, Metrics, Proto, eventually};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use streamgate_loadtests::engine::{Engine, StatsSnapshot};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

/// What a gate is started with: a tenant `a` and any number of others, one pool `p`.
#[derive(Clone, Debug)]
pub struct Setup {
    endpoints: Vec<SocketAddr>,
    models: String,
    tenants: Vec<(String, String)>,
    pool: String,
    extra: String,
    listen: String,
    environment: Vec<(String, String)>,
    descriptors: Option<u32>,
}

impl Setup {
    /// One pool `p` of these engines for every model.
    pub fn new(endpoints: &[SocketAddr]) -> Self {
        Self {
            endpoints: endpoints.to_vec(),
            models: "*".into(),
            tenants: Vec::new(),
            pool: String::new(),
            extra: String::new(),
            listen: String::new(),
            environment: Vec::new(),
            descriptors: None,
        }
    }

    /// A tenant whose key is `key-<id>`; `keys` are further YAML lines of it, for example
    /// `max_in_flight: 2`.
    pub fn tenant(mut self, id: &str, keys: &str) -> Self {
        self.tenants.push((id.to_owned(), keys.to_owned()));
        self
    }

    /// The pool serves this model only.
    pub fn model(mut self, model: &str) -> Self {
        self.models = model.to_owned();
        self
    }

    /// Further YAML lines of the pool.
    pub fn pool(mut self, keys: &str) -> Self {
        self.pool = keys.to_owned();
        self
    }

    /// Further YAML at the top level.
    pub fn with(mut self, yaml: &str) -> Self {
        self.extra.push_str(yaml);
        self.extra.push('\n');
        self
    }

    /// Further YAML lines of `listen`.
    pub fn listen(mut self, keys: &str) -> Self {
        self.listen = keys.to_owned();
        self
    }

    /// A variable of the process's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The process may have so many file descriptors.
    pub fn descriptors(mut self, most: u32) -> Self {
        self.descriptors = Some(most);
        self
    }

    /// The configuration file.
    pub fn yaml(&self) -> String {
        let mut yaml =
            String::from("listen:\n  proxy: \"127.0.0.1:0\"\n  admin: \"127.0.0.1:0\"\n");
        indented(&mut yaml, &self.listen, 2);
        let endpoints: Vec<_> = self.endpoints.iter().map(|e| format!("\"{e}\"")).collect();
        let _ = write!(
            yaml,
            "pools:\n  - name: p\n    models: [\"{}\"]\n    endpoints: [{}]\n",
            self.models,
            endpoints.join(", ")
        );
        indented(&mut yaml, &self.pool, 4);
        yaml.push_str("tenants:\n");
        for (id, keys) in &self.tenants {
            let hash = Sha256::digest(key(id));
            let hex = hash.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            let _ = writeln!(yaml, "  - id: {id}\n    api_keys: [\"sha256:{hex}\"]");
            indented(&mut yaml, keys, 4);
        }
        yaml.push_str(&self.extra);
        yaml
    }
}

fn indented(yaml: &mut String, lines: &str, by: usize) {
    for line in lines.lines() {
        let _ = writeln!(yaml, "{:by$}{line}", "");
    }
}

/// The plain key of a tenant made by [`Setup::tenant`].
pub fn key(tenant: &str) -> String {
    format!("key-{tenant}")
}

/// A running gate; killed by drop.
pub struct Gate {
    pub proxy: SocketAddr,
    pub admin: SocketAddr,
    child: Child,
    output: Arc<Mutex<Vec<String>>>,
    directory: TempDir,
}

impl Gate {
    /// Start the binary and wait until it listens.
    pub async fn start(setup: Setup) -> Self {
        Self::launch(setup.yaml(), &setup.environment, setup.descriptors).await
    }

    /// The same with this configuration file.
    pub async fn start_with(yaml: String) -> Self {
        Self::launch(yaml, &[], None).await
    }

    async fn launch(
        yaml: String,
        environment: &[(String, String)],
        descriptors: Option<u32>,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("streamgate.yaml");
        std::fs::write(&path, yaml).unwrap();
        let mut child = command(descriptors)
            .args(["serve", "--config"])
            .arg(&path)
            .envs(environment.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().unwrap(), output.clone());
        collect(child.stderr.take().unwrap(), output.clone());
        let (proxy, admin) = listening(&mut child, &output).await;
        Self { proxy, admin, child, output, directory }
    }

    /// A URL of the proxy port.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.proxy)
    }

    /// A URL of the admin port.
    pub fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// `GET /api/v1/state`.
    pub async fn state(&self) -> Value {
        let answer = reqwest::get(self.admin_url("/api/v1/state")).await.unwrap();
        answer.json().await.unwrap()
    }

    /// `GET /metrics`, parsed.
    pub async fn metrics(&self) -> Metrics {
        let answer = reqwest::get(self.admin_url("/metrics")).await.unwrap();
        Metrics::parse(&answer.text().await.unwrap())
    }

    /// Wait until the metrics satisfy `holds`.
    pub async fn metrics_when(&self, what: &str, holds: impl Fn(&Metrics) -> bool) -> Metrics {
        eventually(what, || async {
            let metrics = self.metrics().await;
            holds(&metrics).then_some(metrics)
        })
        .await
    }

    /// Nothing in flight, nothing queued, and the books agree.
    pub async fn settled(&self) -> Metrics {
        self.metrics_when("everything at rest", |metrics| {
            metrics.sum("streamgate_in_flight") == 0.0
                && metrics.sum("streamgate_queued") == 0.0
                && metrics.sum("streamgate_arrivals_total")
                    == metrics.sum("streamgate_requests_total")
        })
        .await
    }

    /// One request over HTTP/1, to the end of its answer.
    pub async fn answer(&self, request: &Request) -> Answer {
        Wire::connect(self.proxy).await.call(request).await
    }

    /// `cap` requests of tenant `a` run beside each other, one more is refused, all complete.
    pub async fn all_slots_free(&self, cap: impl TryInto<usize>, engine: &Engine) {
        let cap = cap.try_into().ok().expect("a small number");
        self.settled().await;
        // Neither silent nor fast, so that no deadline in force ends it.
        let request = Api::Chat.stream(100_000).fault("interval=20ms");
        let mut running = Vec::new();
        for _ in 0..cap {
            running.push(Call::start(Proto::H1, self.proxy, &request).await);
        }
        let all = |stats: &StatsSnapshot| stats.in_flight == cap;
        engine.wait_stats(all, BOUND).await.expect("every slot can be used");
        for call in running {
            call.leave(Leave::Close).await;
        }
        self.settled().await;
    }

    /// Lines the process has written so far.
    pub fn output(&self) -> Vec<String> {
        self.output.lock().unwrap().clone()
    }

    /// Lines written since the last call of this.
    pub fn take_output(&self) -> Vec<String> {
        std::mem::take(&mut *self.output.lock().unwrap())
    }

    /// The log line of the ended request with this id.
    pub async fn line_of(&self, id: &str) -> Value {
        let line = || self.request_lines().into_iter().find(|line| line["request_id"] == id);
        eventually("a request's log line", || std::future::ready(line())).await
    }

    /// Log lines of ended requests.
    pub fn request_lines(&self) -> Vec<Value> {
        let lines = self.output();
        let parsed = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        parsed.filter(|line| line["target"] == "streamgate::request").collect()
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.child.id().and_then(|id| i32::try_from(id).ok()).expect("running")
    }

    /// Send a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.pid().to_string())
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// Wait for the process to end; its exit code.
    pub async fn exit_code(&mut self) -> Option<i32> {
        let status = tokio::time::timeout(BOUND, self.child.wait()).await;
        status.expect("the process ends").unwrap().code()
    }

    /// Wait for the process to end, however long; its exit code, unless a signal ended it.
    pub async fn ended(&mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }

    /// Put this configuration in force, or have it refused, by SIGHUP.
    pub async fn reload(&self, setup: &Setup) {
        let seen = self.output().len();
        std::fs::write(self.directory.path().join("streamgate.yaml"), setup.yaml()).unwrap();
        self.signal("HUP");
        eventually("the reload is done", || {
            let done = self.output()[seen..].iter().any(|line| line.contains("new configuration"));
            std::future::ready(done.then_some(()))
        })
        .await;
    }

    /// Where the configuration file stands.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }
}

/// The binary, with at most so many file descriptors.
fn command(descriptors: Option<u32>) -> Command {
    let binary = env!("CARGO_BIN_EXE_streamgate");
    let Some(most) = descriptors else { return Command::new(binary) };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\""), binary]);
    shell
}

fn collect(from: impl AsyncRead + Unpin + Send + 'static, to: Arc<Mutex<Vec<String>>>) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            to.lock().unwrap().push(line);
        }
    });
}

/// Both addresses, from the line the process logs once it serves.
async fn listening(child: &mut Child, output: &Mutex<Vec<String>>) -> (SocketAddr, SocketAddr) {
    eventually("the gate listens", || {
        if let Ok(Some(status)) = child.try_wait() {
            panic!("the gate ended with {status}:\n{}", output.lock().unwrap().join("\n"));
        }
        let found = output.lock().unwrap().iter().find_map(|line| addresses(line));
        std::future::ready(found)
    })
    .await
}

/// Both addresses of a line in either format.
fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    if let Ok(line) = serde_json::from_str::<Value>(line) {
        let address = |key: &str| line[key].as_str()?.parse().ok();
        return Some((address("proxy")?, address("admin")?));
    }
    let address = |key: &str| {
        let mut words = line.split(' ');
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
    Some((address("proxy")?, address("admin")?))
}
