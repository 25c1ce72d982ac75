//! The registry of running requests: what operators list and cut, and what the drain waits for.
//!
//! A request is *open* from the moment it asks for admission until it is refused **and answered**
//! or until its permit and its [`Answering`] are dropped. [`Holders::wait_idle`] waits for open requests, so a queued
//! request that a drain refuses is answered before the process may end. Entries are found by a
//! number of ours: client-supplied request ids may repeat, and every holder is listed and cut.

use crate::core::cause::CutCause;
use crate::core::ids::{EndpointId, ModelName, RequestId, TenantId};
use crate::core::observe::HolderState;
use crate::core::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All requests of this process that are open. One per process.
#[derive(Debug)]
pub struct Holders {
    registry: Mutex<Registry>,
    /// What is not admitted yet has run out of time too.
    over: CancellationToken,
    /// Open requests; changes are announced only when the number reaches zero.
    open: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Registry {
    closed: bool,
    issued: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
}

#[derive(Debug)]
struct Entry {
    request_id: RequestId,
    tenant: TenantId,
    model: Option<ModelName>,
    place: Mutex<Place>,
    started: Instant,
    tokens: AtomicU64,
    cut: CancellationToken,
    cause: OnceLock<CutCause>,
}

/// Where a request runs.
#[derive(Debug, Default)]
struct Place {
    endpoint: Option<EndpointId>,
    /// The engine behind it, if the endpoint is a gateway and said which it chose.
    pod: Option<EndpointId>,
    /// The client has seen something of the answer from here.
    delivers: bool,
    /// The request must leave.
    evicted: CancellationToken,
}

impl Place {
    fn is(&self, endpoint: &EndpointId) -> bool {
        self.endpoint.as_ref() == Some(endpoint) || self.pod.as_ref() == Some(endpoint)
    }
}

impl Entry {
    fn cut(&self, cause: CutCause) {
        // The first cause stays; it is set before anybody can hear the token.
        let _ = self.cause.set(cause);
        self.cut.cancel();
    }
}

impl Holders {
    /// An empty registry that accepts requests.
    pub fn new() -> Arc<Self> {
        let (registry, over) = (Mutex::default(), CancellationToken::new());
        Arc::new(Self { registry, over, open: watch::Sender::new(0) })
    }

    /// Admitted requests that have not ended.
    pub fn in_flight(&self) -> u64 {
        lock(&self.registry).entries.len() as u64
    }

    /// Admitted requests of one tenant that have not ended.
    pub fn in_flight_of(&self, tenant: &TenantId) -> u64 {
        let registry = lock(&self.registry);
        registry.entries.values().filter(|entry| entry.tenant == *tenant).count() as u64
    }

    /// Every admitted request, oldest first.
    pub fn list(&self, now: Instant) -> Vec<HolderState> {
        self.entries().iter().map(|entry| entry.state(now)).collect()
    }

    /// Cut every holder with this request id; how many there were.
    pub fn cut(&self, request_id: &str, cause: CutCause) -> usize {
        self.cut_where(cause, |entry| entry.request_id.as_str() == request_id)
    }

    /// Cut every holder that runs on `endpoint`, also as a pod behind a gateway; how many there
    /// were.
    pub fn cut_endpoint(&self, endpoint: &EndpointId, cause: CutCause) -> usize {
        self.cut_where(cause, |entry| lock(&entry.place).is(endpoint))
    }

    /// `endpoint` reached its deadline. Whoever has shown its client nothing yet must leave it, and
    /// may go elsewhere; all others are cut. How many there were.
    pub fn evict_endpoint(&self, endpoint: &EndpointId) -> usize {
        let entries = self.entries();
        let evicted = entries.iter().filter(|entry| {
            let place = lock(&entry.place);
            let here = place.is(endpoint);
            if here && place.delivers {
                entry.cut(CutCause::EndpointDrain);
            } else if here {
                place.evicted.cancel();
            }
            here
        });
        evicted.count()
    }

    /// How many holders run on `endpoint`, also as a pod behind a gateway.
    pub fn on_endpoint(&self, endpoint: &EndpointId) -> u64 {
        let entries = self.entries();
        entries.iter().filter(|entry| lock(&entry.place).is(endpoint)).count() as u64
    }

    /// The pods behind gateways on which holders run, each once.
    pub fn pods(&self) -> BTreeSet<EndpointId> {
        self.entries().iter().filter_map(|entry| lock(&entry.place).pod.clone()).collect()
    }

    /// Cut every holder; how many there were.
    pub fn cut_all(&self, cause: CutCause) -> usize {
        self.cut_where(cause, |_| true)
    }

    /// Resolves when nothing is open. Cancel-safe; may be awaited by many.
    pub async fn wait_idle(&self) {
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Open requests. The receiver is woken when the number reaches zero, not at each change;
    /// reading it gives the present number.
    pub fn open(&self) -> watch::Receiver<u64> {
        self.open.subscribe()
    }

    /// Whoever is open without having been admitted must end now, with an answer.
    pub(super) fn end_the_unadmitted(&self) {
        self.over.cancel();
    }

    /// From now on nothing is opened or registered.
    pub(super) fn close(&self) {
        lock(&self.registry).closed = true;
    }

    /// A request asks for admission. `None`: closed.
    pub(super) fn begin(self: &Arc<Self>) -> Option<OpenGuard> {
        let registry = lock(&self.registry);
        (!registry.closed).then(|| OpenGuard::new(Arc::clone(self)))
    }

    /// An open request becomes a holder.
    ///
    /// # Errors
    /// The registry was closed meanwhile; the request is still open until it is answered.
    pub(super) fn register(
        self: &Arc<Self>,
        open: OpenGuard,
        request: (RequestId, TenantId, Option<ModelName>),
        now: Instant,
    ) -> Result<Holder, OpenGuard> {
        let mut registry = lock(&self.registry);
        if registry.closed {
            drop(registry);
            return Err(open);
        }
        let (request_id, tenant, model) = request;
        let entry = Arc::new(Entry {
            request_id,
            tenant,
            model,
            place: Mutex::default(),
            started: now,
            tokens: AtomicU64::new(0),
            cut: CancellationToken::new(),
            cause: OnceLock::new(),
        });
        registry.issued += 1;
        let number = registry.issued;
        registry.entries.insert(number, Arc::clone(&entry));
        Ok(Holder { number, entry, open: Arc::new(open) })
    }

    fn cut_where(&self, cause: CutCause, chosen: impl Fn(&Entry) -> bool) -> usize {
        let entries = self.entries();
        entries.iter().filter(|entry| chosen(entry)).map(|entry| entry.cut(cause)).count()
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        lock(&self.registry).entries.values().map(Arc::clone).collect()
    }
}

impl Entry {
    fn state(&self, now: Instant) -> HolderState {
        HolderState {
            request_id: self.request_id.clone(),
            tenant: self.tenant.clone(),
            model: self.model.clone(),
            endpoint: lock(&self.place).endpoint.clone(),
            age_seconds: now.saturating_duration_since(self.started).as_secs_f64(),
            tokens: self.tokens.load(Ordering::Relaxed),
        }
    }
}

/// One open request: up in `new`, down in `Drop`.
#[derive(Debug)]
pub struct OpenGuard {
    holders: Arc<Holders>,
}

impl OpenGuard {
    fn new(holders: Arc<Holders>) -> Self {
        holders.open.send_if_modified(|open| {
            *open += 1;
            false
        });
        Self { holders }
    }

    /// Resolves when this request, if it is not admitted yet, must end now because the process
    /// does. Cancel-safe.
    pub async fn over(&self) {
        self.holders.over.cancelled().await;
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.holders.open.send_if_modified(|open| {
            *open = open.saturating_sub(1);
            *open == 0
        });
    }
}

/// One running request in the registry; unregisters on `Drop`.
#[derive(Debug)]
pub struct Holder {
    number: u64,
    entry: Arc<Entry>,
    open: Arc<OpenGuard>,
}

/// Keeps a request open after its permit: its client has not been told everything yet.
#[derive(Debug)]
pub struct Answering {
    _open: Arc<OpenGuard>,
}

impl Holder {
    /// The request's tenant.
    pub fn tenant(&self) -> &TenantId {
        &self.entry.tenant
    }

    /// The request's id, as the client may have chosen it.
    pub fn request_id(&self) -> &RequestId {
        &self.entry.request_id
    }

    /// Keep it until the client has its last bytes: a slot is free when the engine's work has
    /// ended, which is before that, and a drain must not end the process in between.
    pub fn answering(&self) -> Answering {
        Answering { _open: Arc::clone(&self.open) }
    }

    /// An endpoint was chosen (again).
    pub fn set_endpoint(&self, endpoint: EndpointId) {
        *lock(&self.entry.place) = Place { endpoint: Some(endpoint), ..Place::default() };
    }

    /// Resolves when the request must leave the endpoint it has now, of which the client has seen
    /// nothing yet.
    pub fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        lock(&self.entry.place).evicted.clone().cancelled_owned()
    }

    /// From now on the client sees the answer, so the request can leave its endpoint no more, only
    /// be cut.
    pub fn deliver(&self) {
        let mut place = lock(&self.entry.place);
        place.delivers = true;
        if place.evicted.is_cancelled() {
            self.entry.cut(CutCause::EndpointDrain);
        }
    }

    /// The request must leave its endpoint and cannot go elsewhere.
    pub fn cut_with_endpoint(&self) {
        self.entry.cut(CutCause::EndpointDrain);
    }

    /// The chosen endpoint is a gateway, and this is the engine that it chose.
    pub fn set_pod(&self, pod: EndpointId) {
        lock(&self.entry.place).pod = Some(pod);
    }

    /// `count` more output tokens were delivered.
    pub fn add_tokens(&self, count: u64) {
        self.entry.tokens.fetch_add(count, Ordering::Relaxed);
    }

    /// Resolves when somebody cuts this request; at once if that already happened. Cancel-safe.
    /// Borrow it once outside a loop rather than calling it for each chunk.
    pub async fn cut(&self) -> CutCause {
        self.entry.cut.cancelled().await;
        self.cut_cause().unwrap_or(CutCause::Operator)
    }

    /// Why this request was cut, if it was.
    pub fn cut_cause(&self) -> Option<CutCause> {
        self.entry.cause.get().copied()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The entry goes before `open`, so an idle registry is an empty one.
        lock(&self.open.holders.registry).entries.remove(&self.number);
    }
}
