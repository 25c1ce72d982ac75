//! A small API server that knows EndpointSlices: lists, watches with resource versions, and what
//! goes wrong with them. Self-contained: the library's own tests use it too.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Serves,
    /// 403 to everything.
    Forbids,
    /// Reads requests and never answers.
    Hangs,
    /// Reads requests and closes the connection.
    HangsUp,
    /// 410 to every watch, as a status and not in the stream.
    RefusesWatches,
    /// Ends every watch before it says anything.
    EndsWatches,
}

/// One request that arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    /// The query, decoded as far as these tests need.
    pub query: BTreeMap<String, String>,
}

impl Asked {
    pub fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }
}

#[derive(Default)]
struct State {
    mood: Mood,
    version: u64,
    /// Versions below this are gone.
    oldest: u64,
    slices: BTreeMap<String, Value>,
    log: Vec<(u64, Value)>,
    /// Watches that began before these counters grew are cut, ended, or told 410.
    cuts: u64,
    ends: u64,
    expiries: u64,
    asked: Vec<Asked>,
    /// Watches that are open now.
    watching: usize,
}

/// The server; gone when dropped.
pub struct KubeApi {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    changed: Arc<watch::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl KubeApi {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut api = Self {
            address,
            state: Arc::new(Mutex::new(State { version: 1, ..State::default() })),
            changed: Arc::new(watch::Sender::new(())),
            task: None,
        };
        api.accept(listener);
        api
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n\
             users: [{{name: u, user: {{token: secret-token}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            self.address
        )
    }

    /// Create or replace a slice of service `vllm`; when it was made known.
    pub fn put(&self, name: &str, port: u16, endpoints: &[Value]) -> Instant {
        self.put_of("vllm", name, port, endpoints)
    }

    /// The same for another service.
    pub fn put_of(&self, service: &str, name: &str, port: u16, endpoints: &[Value]) -> Instant {
        self.change(|state| {
            state.version += 1;
            let known = state.slices.contains_key(name);
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": name, "namespace": "llm",
                    "labels": {"kubernetes.io/service-name": service},
                    "resourceVersion": state.version.to_string(),
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            });
            state.slices.insert(name.to_owned(), slice.clone());
            let kind = if known { "MODIFIED" } else { "ADDED" };
            state.log.push((state.version, json!({"type": kind, "object": slice})));
        })
    }

    pub fn delete(&self, name: &str) -> Instant {
        self.change(|state| {
            let Some(mut slice) = state.slices.remove(name) else { return };
            state.version += 1;
            slice["metadata"]["resourceVersion"] = json!(state.version.to_string());
            state.log.push((state.version, json!({"type": "DELETED", "object": slice})));
        })
    }

    pub fn set(&self, mood: Mood) {
        self.change(|state| state.mood = mood);
    }

    /// Break every watch in the middle.
    pub fn cut(&self) {
        self.change(|state| state.cuts += 1);
    }

    /// End every watch as its timeout would.
    pub fn end_watches(&self) {
        self.change(|state| state.ends += 1);
    }

    /// Forget the past: open watches are told 410 in the stream, and so is whoever asks for it.
    pub fn expire(&self) {
        self.change(|state| {
            state.expiries += 1;
            state.version += 1;
            state.oldest = state.version;
        });
    }

    /// Stop listening and break every connection.
    pub async fn go_away(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
        self.cut();
    }

    /// Listen again, at the same address.
    pub async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accept(listener);
    }

    /// Address and conditions of every endpoint of service `vllm`.
    pub fn endpoints(&self) -> Vec<(String, Value)> {
        let state = self.lock();
        let own =
            |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "vllm";
        let endpoints = state.slices.values().filter(own);
        endpoints
            .flat_map(|slice| slice["endpoints"].as_array().unwrap())
            .map(|endpoint| {
                let address = endpoint["addresses"][0].as_str().unwrap().to_owned();
                (address, endpoint["conditions"].clone())
            })
            .collect()
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    pub fn lists(&self) -> usize {
        self.lock().asked.iter().filter(|asked| !asked.is_watch()).count()
    }

    pub fn watching(&self) -> usize {
        self.lock().watching
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> Instant {
        change(&mut self.lock());
        let at = Instant::now();
        self.changed.send_replace(());
        at
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn accept(&mut self, listener: TcpListener) {
        let (state, changed) = (self.state.clone(), self.changed.clone());
        self.task = Some(tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                // As the real one does: an event after another does not wait for the client's
                // acknowledgement.
                stream.set_nodelay(true).unwrap();
                let changed = changed.subscribe();
                tokio::spawn(Connection { stream, state: state.clone(), changed }.serve());
            }
        }));
    }
}

impl Drop for KubeApi {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.cut();
    }
}

const WATCH_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                          transfer-encoding: chunked\r\n\r\n";

struct Connection {
    stream: TcpStream,
    state: Arc<Mutex<State>>,
    changed: watch::Receiver<()>,
}

impl Connection {
    async fn serve(mut self) {
        let cuts = self.lock().cuts;
        while let Some(asked) = self.request().await {
            let mood = {
                let mut state = self.lock();
                if state.cuts != cuts {
                    return;
                }
                state.asked.push(asked.clone());
                state.mood
            };
            let goes_on = match mood {
                Mood::Hangs => {
                    let _ = self.changed.wait_for(|()| false).await;
                    false
                }
                Mood::HangsUp => false,
                Mood::Forbids => self.status(403, "endpointslices is forbidden").await,
                Mood::RefusesWatches if asked.is_watch() => {
                    self.status(410, "too old resource version").await
                }
                Mood::EndsWatches if asked.is_watch() => {
                    self.write(&format!("{WATCH_HEAD}0\r\n\r\n")).await
                }
                _ if asked.is_watch() => self.watch(&asked).await,
                _ => self.list(&asked).await,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// The next request's line, its headers passed over.
    async fn request(&mut self) -> Option<Asked> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).ok()?;
        let target = head.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decoded = |text: &str| text.replace("%2F", "/").replace("%3D", "=");
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query = pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect();
        Some(Asked { path: path.to_owned(), query })
    }

    async fn status(&mut self, code: u16, message: &str) -> bool {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Failure", "code": code,
        });
        self.answer(code, &status).await
    }

    async fn list(&mut self, asked: &Asked) -> bool {
        let list = {
            let state = self.lock();
            let items: Vec<_> =
                state.slices.values().filter(|slice| selected(slice, asked)).cloned().collect();
            json!({
                "kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
                "metadata": {"resourceVersion": state.version.to_string()}, "items": items,
            })
        };
        self.answer(200, &list).await
    }

    async fn answer(&mut self, code: u16, body: &Value) -> bool {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.write(&(head + &body)).await
    }

    /// Stream what happens from the version on; `false` once the connection is over.
    async fn watch(&mut self, asked: &Asked) -> bool {
        let begun = {
            let mut state = self.lock();
            state.watching += 1;
            (state.cuts, state.ends, state.expiries)
        };
        let goes_on = self.write(WATCH_HEAD).await && self.stream_events(asked, begun).await;
        self.lock().watching -= 1;
        goes_on
    }

    async fn stream_events(&mut self, asked: &Asked, begun: (u64, u64, u64)) -> bool {
        let mut seen: u64 = asked.query["resourceVersion"].parse().unwrap();
        loop {
            let (cut, ended, gone, events) = {
                let state = self.lock();
                let gone = state.expiries != begun.2 || seen < state.oldest;
                let new = state.log.iter().filter(|(version, _)| *version > seen);
                let new: Vec<_> = new.cloned().collect();
                (state.cuts != begun.0, state.ends != begun.1, gone, new)
            };
            if cut {
                return false;
            }
            if gone {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "too old resource version", "reason": "Expired", "code": 410});
                let told = self.chunk(&json!({"type": "ERROR", "object": status})).await;
                return told && self.write("0\r\n\r\n").await;
            }
            for (version, event) in events {
                seen = version;
                if selected(&event["object"], asked) && !self.chunk(&event).await {
                    return false;
                }
            }
            if ended {
                return self.write("0\r\n\r\n").await;
            }
            let mut gone = [0];
            tokio::select! {
                changed = self.changed.changed() => if changed.is_err() { return false },
                // The client sends nothing during a watch: it has left.
                _ = self.stream.peek(&mut gone) => return false,
            }
        }
    }

    async fn chunk(&mut self, event: &Value) -> bool {
        let line = format!("{event}\n");
        self.write(&format!("{:x}\r\n{line}\r\n", line.len())).await
    }

    async fn write(&mut self, text: &str) -> bool {
        self.stream.write_all(text.as_bytes()).await.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn selected(slice: &Value, asked: &Asked) -> bool {
    let Some(selector) = asked.query.get("labelSelector") else { return true };
    let Some((label, value)) = selector.split_once('=') else { return false };
    slice["metadata"]["labels"][label] == *value
}

/// An endpoint that is ready.
pub fn ready(ip: &str, pod: &str) -> Value {
    conditioned(ip, pod, json!({"ready": true, "serving": true, "terminating": false}))
}

/// One whose pod is about to end.
pub fn terminating(ip: &str, pod: &str) -> Value {
    conditioned(ip, pod, json!({"ready": false, "serving": true, "terminating": true}))
}

pub fn conditioned(ip: &str, pod: &str, conditions: Value) -> Value {
    json!({
        "addresses": [ip], "conditions": conditions,
        "targetRef": {"kind": "Pod", "name": pod, "namespace": "llm", "uid": pod},
    })
}
