//! A simulated engine on a thread of its own, so that a busy test does not slow it.

use std::ops::Deref;
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::runtime::{Builder, Runtime};

pub struct OwnEngine {
    engine: Option<Engine>,
    runtime: Option<Runtime>,
}

impl OwnEngine {
    pub async fn start(config: EngineConfig) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let engine = runtime.spawn(Engine::start(config)).await.unwrap().unwrap();
        Self { engine: Some(engine), runtime: Some(runtime) }
    }
}

impl Deref for OwnEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.engine.as_ref().expect("taken only by drop")
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        self.engine.take();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
