//! Engines as pods behind one Streamgate, which knows them from a list or from EndpointSlices.

use crate::client::Load;
use crate::cluster::{Service, ready};
use crate::engine::{EngineProcess, Model};
use crate::kubelet::{Death, delete};
use crate::support::kube_api::{KubeApi, ready as listed, terminating};
use crate::support::{Gate, Setup, eventually};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::sleep;

const HOST: &str = "127.0.0.1";
const SOURCE: &str = "discovery: {kubernetes: {namespace: llm, service: vllm, port: http}}";
const HEALTH: &str = "health: {interval: 100ms}";
/// From the deletion until the endpoint controller says so.
const NOTICE: Duration = Duration::from_millis(30);

/// The preStop hook of an engine.
#[derive(Clone, Copy, Debug)]
pub enum PreStop {
    None,
    Sleep(Duration),
    /// Streamgate's drain, waiting so long.
    Drain(Duration),
}

/// What the manifest of an engine says.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    pub model: Model,
    pub pre_stop: PreStop,
    pub grace: Duration,
}

/// A running engine.
pub struct Pod {
    name: String,
    manifest: Manifest,
    process: EngineProcess,
}

/// Engines, the Streamgate before them, and clients.
pub struct Pods {
    pub gate: Gate,
    pub load: Load,
    service: Service,
    /// `None`: they are in Streamgate's own list.
    api: Option<(KubeApi, TempDir)>,
    pods: Vec<Pod>,
    started: usize,
}

impl Pods {
    /// Two engines that Streamgate finds by EndpointSlices.
    pub async fn found(manifest: Manifest, seed: u64) -> Self {
        let (api, directory) = (KubeApi::start().await, TempDir::new().unwrap());
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, api.kubeconfig()).unwrap();
        let setup = Setup::new(&[]).pool(&format!("{SOURCE}\n{HEALTH}"));
        let setup = setup.env("KUBECONFIG", path.to_str().unwrap());
        let mut pods = Self::with(setup, Some((api, directory)), seed).await;
        for _ in 0..2 {
            pods.surge(manifest).await;
        }
        pods
    }

    /// Two engines at addresses that Streamgate was told.
    pub async fn told(manifest: Manifest, seed: u64) -> Self {
        let first = EngineProcess::start(manifest.model, 0).await;
        let second = EngineProcess::start(manifest.model, 0).await;
        let setup = Setup::new(&[first.addr, second.addr]).pool(HEALTH);
        let mut pods = Self::with(setup, None, seed).await;
        for process in [first, second] {
            pods.seen(process.addr, "ready").await;
            pods.pods.push(Pod { name: String::new(), manifest, process });
        }
        pods
    }

    async fn with(setup: Setup, api: Option<(KubeApi, TempDir)>, seed: u64) -> Self {
        let gate = Gate::start(setup.tenant("a", "max_in_flight: 1000")).await;
        let (service, load) = (Service::default(), Load::new(seed));
        service.add(gate.proxy);
        Self { gate, load, service, api, pods: Vec::new(), started: 0 }
    }

    /// So many streams at any time.
    pub fn streams(&mut self, count: usize, tokens: std::ops::RangeInclusive<u32>) {
        self.load.streams(&self.service, count, tokens);
    }

    /// Replace both engines, one after the other; how many streams ran where one left.
    pub async fn roll(&mut self, next: impl Fn(usize) -> Manifest) -> u64 {
        let mut left = 0;
        for which in 0..2 {
            let (death, running) = match self.api {
                Some(_) => self.replace(next(which)).await,
                None => self.restart(next(which)).await,
            };
            death.assert_orderly("the engine");
            left += running;
        }
        left
    }

    /// A Deployment's way: a new pod, and when it is ready the old one is deleted. How it ended,
    /// and the streams that ran there.
    pub async fn replace(&mut self, manifest: Manifest) -> (Death, u64) {
        self.surge(manifest).await;
        let mut old = self.pods.remove(0);
        let running = self.running(old.process.addr).await;
        let death = self.delete(&mut old).await;
        let (api, _) = self.api.as_ref().unwrap();
        api.delete(&old.name);
        (death, running)
    }

    /// A StatefulSet's way: the pod is deleted, and comes again under its address.
    async fn restart(&mut self, manifest: Manifest) -> (Death, u64) {
        let mut old = self.pods.remove(0);
        let addr = old.process.addr;
        let running = self.running(addr).await;
        let death = self.delete(&mut old).await;
        // A new pod takes longer than one probe.
        self.seen(addr, "down").await;
        let process = EngineProcess::start(manifest.model, addr.port()).await;
        self.seen(addr, "ready").await;
        self.pods.push(Pod { name: String::new(), manifest, process });
        (death, running)
    }

    async fn surge(&mut self, manifest: Manifest) {
        let process = EngineProcess::start(manifest.model, 0).await;
        self.started += 1;
        let name = format!("vllm-{}", self.started);
        ready(process.addr, "/health").await;
        let (api, _) = self.api.as_ref().unwrap();
        api.put(&name, process.addr.port(), &[listed(HOST, &name)]);
        self.seen(process.addr, "ready").await;
        self.pods.push(Pod { name, manifest, process });
    }

    async fn delete(&self, pod: &mut Pod) -> Death {
        let (name, addr) = (&pod.name, pod.process.addr);
        let notice = async {
            let Some((api, _)) = &self.api else { return };
            sleep(NOTICE).await;
            api.put(name, addr.port(), &[terminating(HOST, name)]);
        };
        let manifest = pod.manifest;
        let drain = format!("/api/v1/endpoints/{addr}/drain");
        let hook = async {
            match manifest.pre_stop {
                PreStop::None => {}
                PreStop::Sleep(time) => sleep(time).await,
                PreStop::Drain(wait) => {
                    let url = self.gate.admin_url(&format!("{drain}?wait={}ms", wait.as_millis()));
                    let answer = reqwest::Client::new().post(url).send().await.unwrap();
                    let status = answer.status();
                    assert_eq!(status, 200, "{}", answer.text().await.unwrap());
                }
            }
        };
        let (death, ()) = tokio::join!(delete(&mut pod.process, hook, manifest.grace), notice);
        death
    }

    /// Requests that run on an engine, as Streamgate has it.
    async fn running(&self, endpoint: SocketAddr) -> u64 {
        let found = self.endpoint(endpoint).await;
        found["in_flight"].as_u64().expect("a known endpoint")
    }

    /// Wait until Streamgate has an engine in this state.
    async fn seen(&self, endpoint: SocketAddr, state: &str) {
        eventually(&format!("{endpoint} is {state}"), || async {
            (self.endpoint(endpoint).await["state"] == state).then_some(())
        })
        .await;
    }

    async fn endpoint(&self, endpoint: SocketAddr) -> Value {
        let mut state = self.gate.state().await;
        let endpoints = state["pools"][0]["endpoints"].take();
        let name = endpoint.to_string();
        let mut all = endpoints.as_array().into_iter().flatten();
        all.find(|one| one["endpoint"] == name.as_str()).cloned().unwrap_or(Value::Null)
    }

    /// Addresses of the engines that serve.
    pub fn serving(&self) -> Vec<SocketAddr> {
        self.pods.iter().map(|pod| pod.process.addr).collect()
    }
}
