//! One generation request, from its head to the choice between a stream and a plain answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;

use super::connection::After;
use super::{plain, reply, stream};
use crate::engine::backend::{Job, Source};
use crate::engine::count::Counted;
use crate::engine::faults::{Cut, Faults, TENANT_HEADER};
use crate::engine::metrics::{Measured, Metrics};
use crate::engine::phase::Phase;
use crate::engine::shared::Shared;
use crate::engine::stats::{InFlight, KEPT_BODY, RequestId};
use crate::engine::tokens::body_hash;
use crate::engine::wire::errors::{self, ApiError};
use crate::engine::wire::{
    Api, Finish, Generation, Identity, Wire, embeddings, parse, read, tenant_of, wire,
};
use crate::http1::{Answer, BodyError, CloseBy, Head, Io, PeerGone, read_body};

/// A request whose head is read. Everything it holds is released when it drops.
pub(super) struct Exchange<'a> {
    pub(super) io: &'a mut Io,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) head: &'a Head,
    pub(super) api: Api,
    pub(super) faults: Faults,
    pub(super) tenant: String,
    id: RequestId,
    in_flight: Option<Arc<InFlight>>,
}

/// A generation the engine has accepted.
pub(super) struct Running {
    pub(super) request: Generation,
    pub(super) wire: Box<dyn Wire>,
    pub(super) measured: Measured,
    source: Option<Source>,
    metrics: Arc<Metrics>,
    _active: Counted,
}

/// Answers a generation request.
pub(super) async fn answer(
    io: &mut Io,
    shared: &Arc<Shared>,
    head: &Head,
    id: RequestId,
    api: Api,
) -> After {
    let in_flight = Arc::new(InFlight::new(Arc::clone(&shared.recorder)));
    let (faults, mistake) = match Faults::from_headers(&head.headers) {
        Ok(Some(faults)) => (faults, None),
        Ok(None) => (shared.faults.take(&head.path, true).unwrap_or_default(), None),
        Err(mistake) => (Faults::default(), Some(mistake)),
    };
    if faults.refuse {
        return After::Close(faults.cut_by);
    }
    let mut exchange = Exchange {
        io,
        shared,
        head,
        api,
        faults,
        tenant: String::new(),
        id,
        in_flight: Some(in_flight),
    };
    let result = match mistake {
        Some(mistake) => exchange.refuse_faults(&mistake.to_string()).await,
        None => exchange.run().await,
    };
    result.unwrap_or_else(|PeerGone| {
        exchange.aborted();
        After::Close(CloseBy::Fin)
    })
}

impl Exchange<'_> {
    async fn run(&mut self) -> Result<After, PeerGone> {
        if let Some(tenant) = self.head.header(TENANT_HEADER) {
            self.assign(tenant.to_owned());
        }
        let body = match read_body(self.io, self.head, self.shared.config.body_limit).await {
            Ok(body) => body,
            Err(BodyError::Closed) => return Err(PeerGone),
            Err(BodyError::Invalid) => return self.finish(errors::not_http()).await,
            Err(BodyError::TooLarge) => {
                let mut answer = ApiError::of_status(413).answer(Some(self.api));
                answer.close_after = true;
                return self.finish(answer).await;
            }
        };
        self.note_body(&body);
        let body = read(&body);
        if self.head.header(TENANT_HEADER).is_none() {
            let tenant = body.as_ref().ok().and_then(tenant_of).unwrap_or_default();
            self.assign(tenant.to_owned());
        }
        if let Some(answer) = self.fault_answer() {
            return self.finish(answer).await;
        }
        if self.faults.cut == Some(Cut::BeforeHead) {
            self.in_flight = None;
            return Ok(After::Close(self.faults.cut_by));
        }
        match self.accept(body) {
            Err(answer) => self.finish(answer).await,
            Ok(running) if running.request.stream => stream::answer(self, running).await,
            Ok(running) => plain::answer(self, running).await,
        }
    }

    fn assign(&mut self, tenant: String) {
        if let Some(in_flight) = &self.in_flight {
            in_flight.assign(&tenant);
        }
        self.shared.recorder.update_request(self.id, |r| r.tenant = Some(tenant.clone()));
        self.tenant = tenant;
    }

    fn note_body(&mut self, body: &Bytes) {
        let hash = format!("{:016x}", body_hash(body));
        let kept = (body.len() <= KEPT_BODY).then(|| Bytes::copy_from_slice(body));
        self.shared.recorder.update_request(self.id, |r| {
            r.body_len = Some(body.len());
            r.body_hash = Some(hash);
            r.body = kept;
        });
    }

    fn fault_answer(&self) -> Option<Answer> {
        if self.faults.drain_500 {
            return Some(errors::draining());
        }
        self.faults.status.map(|status| {
            let mut answer = ApiError::of_status(status).answer(Some(self.api));
            answer.fields.retry_after.clone_from(&self.faults.retry_after);
            answer
        })
    }

    async fn refuse_faults(&mut self, mistake: &str) -> Result<After, PeerGone> {
        let error = ApiError::field("x-sim", mistake.to_owned());
        let mut answer = error.answer(Some(self.api));
        answer.close_after = true;
        self.finish(answer).await
    }

    /// Hands the request to the backend, or says why not.
    fn accept(&self, body: Result<Value, ApiError>) -> Result<Running, Answer> {
        let shared = self.shared;
        let config = &shared.config;
        let error = |e: ApiError| e.answer(Some(self.api));
        let request =
            body.and_then(|body| parse(self.api, body, shared.parse_context())).map_err(error)?;
        // Counted before the phase is read: a drain that misses this request in its count has
        // not begun when the phase is read.
        let active = shared.active.up();
        match shared.phase() {
            Phase::Serving => {}
            Phase::EngineDead => return Err(error(ApiError::engine_dead())),
            _ => return Err(errors::draining()),
        }
        let arrived = shared.clock.now();
        let source = self.start(&request).ok_or_else(|| {
            shared.metrics.queue_rejection();
            error(ApiError::queue_full())
        })?;
        let request_id = self.head.header("x-request-id");
        let identity = Identity::new(self.api, &config.model, request_id);
        let measured = Measured {
            prompt_tokens: request.prompt_tokens(),
            max_tokens: request.max_tokens,
            n: request.n,
            choices: request.choices(),
            arrived,
            ..Measured::default()
        };
        let wire = wire(&request, identity, &self.faults);
        let metrics = Arc::clone(&shared.metrics);
        Ok(Running { request, wire, measured, source: Some(source), metrics, _active: active })
    }

    /// `None` if the queue is full.
    fn start(&self, request: &Generation) -> Option<Source> {
        let job = Job {
            prompts: request.prompts.clone(),
            n: request.n,
            output_tokens: self.faults.stop_after.unwrap_or(u32::MAX).min(request.max_tokens),
            interval: self.faults.interval,
            in_flight: Arc::clone(self.in_flight.as_ref()?),
        };
        self.shared.backend.start(job).ok()
    }

    /// How a choice that was generated to its end ended.
    pub(super) fn natural_finish(&self, request: &Generation) -> Finish {
        match self.faults.stop_after {
            Some(n) if n <= request.max_tokens => Finish::Stop,
            _ => Finish::Length,
        }
    }

    /// Counts tokens.
    pub(super) fn tokens(&self, tokens: u64) {
        if let (Some(in_flight), true) = (&self.in_flight, tokens > 0) {
            in_flight.tokens(tokens);
        }
    }

    /// Ends the request's count: its generation is over.
    pub(super) fn release(&mut self, running: &mut Running, finish: Finish) {
        running.end(finish);
        if self.in_flight.take().is_some() && finish != Finish::Abort {
            self.shared.recorder.completed(&self.tenant);
        }
    }

    /// The client is gone.
    fn aborted(&mut self) {
        if let Some(in_flight) = self.in_flight.take() {
            in_flight.abort(Instant::now());
        }
    }

    /// The head of the answer is about to be written.
    pub(super) fn note_status(&self, status: u16) {
        self.shared.recorder.status(self.id, status, true);
        self.shared.metrics.http(&self.head.path, &self.head.method, status);
    }

    /// Answers without a generation, or after it.
    pub(super) async fn finish(&mut self, answer: Answer) -> Result<After, PeerGone> {
        self.in_flight = None;
        self.note_status(answer.status);
        reply::send(self.io, self.shared, self.head, &self.faults, answer).await
    }

    /// The plain answer of `/v1/embeddings`.
    pub(super) fn embeddings(&self, request: &Generation) -> String {
        let identity = Identity::new(self.api, &self.shared.config.model, None);
        embeddings(&identity, request.prompts.len(), request.prompt_tokens())
    }
}

impl Running {
    /// The tokens; `None` once released.
    pub(super) fn source(&mut self) -> Option<&mut Source> {
        self.source.as_mut()
    }

    fn end(&mut self, finish: Finish) {
        if self.source.take().is_some() {
            self.metrics.generation(&self.measured, finish);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Finish::Abort);
    }
}
