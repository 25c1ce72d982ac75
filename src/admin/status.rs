//! `streamgate status`: the state of a replica as aligned text or as JSON, once or every second.

mod table;

use super::client::{AdminClient, ClientError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;
use table::{Cell, Table, Tone};

/// What is read of `GET /api/v1/state`. Unknown keys are ignored, so that a client also reads a
/// newer replica.
#[derive(Clone, Debug, Deserialize)]
pub struct StateView {
    pub version: String,
    pub uptime_seconds: f64,
    pub tenants: Vec<Tenant>,
    pub pools: Vec<Pool>,
    pub store: Store,
    pub drain: Drain,
    #[serde(default)]
    pub drain_board: Option<DrainBoard>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Tenant {
    pub tenant: String,
    pub limit: u64,
    pub mode: String,
    pub in_flight: u64,
    pub fleet_in_flight: u64,
    pub queued: u64,
    pub arrivals: u64,
    pub outcomes: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Pool {
    pub pool: String,
    pub kind: String,
    pub demand: u64,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Endpoint {
    pub endpoint: String,
    pub state: String,
    pub in_flight: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Store {
    pub kind: String,
    pub up: bool,
    #[serde(default)]
    pub fenced: bool,
    #[serde(default)]
    pub learning: bool,
    #[serde(default)]
    pub escrow: u64,
    #[serde(default)]
    pub unfenced: u64,
    #[serde(default)]
    pub held: u64,
    #[serde(default)]
    pub spare: u64,
    #[serde(default)]
    pub fleet: u64,
    #[serde(default)]
    pub replicas: u64,
    #[serde(default)]
    pub last_fault: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Drain {
    pub state: String,
    pub in_flight: u64,
    pub queued: u64,
}

/// Where replicas agree which engines drain.
#[derive(Clone, Debug, Deserialize)]
pub struct DrainBoard {
    pub up: bool,
    #[serde(default)]
    pub last_fault: Option<String>,
}

/// One entry of `GET /api/v1/holders`, or of what a drain left.
#[derive(Clone, Debug, Deserialize)]
pub struct Holder {
    pub request_id: String,
    pub tenant: String,
    pub endpoint: Option<String>,
    pub age_seconds: f64,
    pub tokens: u64,
}

/// How `streamgate status` was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusOptions {
    /// Again every second, until stopped.
    pub watch: bool,
    /// The answer as JSON, one line each time.
    pub json: bool,
    /// The output is a terminal: colours, and a redrawn screen.
    pub terminal: bool,
}

const PERIOD: Duration = Duration::from_secs(1);
/// Cursor home, clear to the end of the screen.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Write the status to `out`; with `watch` until `stop` resolves. While watching, a replica that
/// does not answer is reported in place and asked again.
pub async fn run(
    client: &AdminClient,
    options: StatusOptions,
    out: &mut impl Write,
    stop: impl Future<Output = ()>,
) -> Result<(), ClientError> {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        let text = tokio::select! {
            () = &mut stop => return Ok(()),
            text = async { ticks.tick().await; text(client, options).await } => text,
        };
        let text = match text {
            Err(error) if options.watch => format!("{error}\n"),
            text => text?,
        };
        if options.watch && options.terminal {
            write!(out, "{REDRAW}{text}")?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()?;
        if !options.watch {
            return Ok(());
        }
    }
}

async fn text(client: &AdminClient, options: StatusOptions) -> Result<String, ClientError> {
    if options.json {
        return Ok(format!("{}\n", client.state_json().await?));
    }
    Ok(render(&client.state().await?, options.terminal))
}

/// The state as aligned text, coloured if asked for.
pub fn render(state: &StateView, colour: bool) -> String {
    let mut text = headline(state, colour);
    text.push('\n');
    text += &tenants(&state.tenants).render(colour);
    text.push('\n');
    text += &endpoints(&state.pools).render(colour);
    text
}

fn headline(state: &StateView, colour: bool) -> String {
    let store = &state.store;
    let condition = match store {
        Store { up: false, .. } => Cell::toned("down", Tone::Bad),
        Store { fenced: true, .. } => Cell::toned("fenced", Tone::Bad),
        Store { learning: true, .. } => Cell::toned("learning", Tone::Warn),
        _ => Cell::toned("up", Tone::Good),
    };
    let notes = notes(store);
    let fault = fault(store.up, store.last_fault.as_deref());
    let board = drain_board(state.drain_board.as_ref(), colour);
    let calm = state.drain.state == "serving";
    let drain = Cell::toned(&state.drain.state, if calm { Tone::Good } else { Tone::Warn });
    let left = if calm {
        String::new()
    } else {
        format!(" ({} in flight, {} queued)", state.drain.in_flight, state.drain.queued)
    };
    format!(
        "streamgate {}  up {}  store {} {}{fault}{notes}  drain {}{left}{board}\n",
        table::printable(&state.version),
        humantime::format_duration(Duration::from_secs(whole(state.uptime_seconds))),
        table::printable(&store.kind),
        condition.shown(colour),
        drain.shown(colour),
    )
}

/// Why something shared does not answer.
fn fault(up: bool, last: Option<&str>) -> String {
    last.filter(|_| !up).map(|last| format!(" [{}]", table::printable(last))).unwrap_or_default()
}

/// Why drains of engines are not agreed; nothing if they are.
fn drain_board(board: Option<&DrainBoard>, colour: bool) -> String {
    let Some(board) = board.filter(|board| !board.up) else { return String::new() };
    let down = Cell::toned("down", Tone::Bad).shown(colour);
    format!("  drain board {down}{}", fault(board.up, board.last_fault.as_deref()))
}

/// What the store's condition does not say: the fleet, if there is one, and what is out of order.
fn notes(store: &Store) -> String {
    let mut notes = Vec::new();
    if store.replicas > 0 {
        let plural = if store.replicas == 1 { "" } else { "s" };
        notes.push(format!("{} replica{plural}", store.replicas));
        notes.push(format!("{} in flight", store.fleet));
        notes.push(format!("{} held here, {} of them spare", store.held, store.spare));
    }
    for (count, what) in [(store.escrow, "in escrow"), (store.unfenced, "unfenced")] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) }
}

/// Outcomes that no request had are left out, except the two that are always looked for.
fn tenants(tenants: &[Tenant]) -> Table {
    let mut outcomes: Vec<&str> = vec!["complete", "rejected"];
    for (outcome, count) in tenants.iter().flat_map(|tenant| &tenant.outcomes) {
        if *count > 0 && !outcomes.contains(&outcome.as_str()) {
            outcomes.push(outcome);
        }
    }
    let fixed = ["tenant", "in flight", "fleet", "limit", "queued", "arrivals"];
    let mut table =
        Table::new(fixed.iter().copied().chain(outcomes.iter().copied()).chain(["mode"]));
    for tenant in tenants {
        let full = tenant.fleet_in_flight >= tenant.limit;
        let busy = |count| Cell::number(count).with(if full { Tone::Warn } else { Tone::Plain });
        let waiting = if tenant.queued > 0 { Tone::Warn } else { Tone::Plain };
        let mut row = vec![
            Cell::text(&tenant.tenant),
            busy(tenant.in_flight),
            busy(tenant.fleet_in_flight),
            Cell::number(tenant.limit),
            Cell::number(tenant.queued).with(waiting),
            Cell::number(tenant.arrivals),
        ];
        for outcome in &outcomes {
            let count = tenant.outcomes.get(*outcome).copied().unwrap_or_default();
            let failed = *outcome == "failed" && count > 0;
            row.push(Cell::number(count).with(if failed { Tone::Bad } else { Tone::Plain }));
        }
        row.push(Cell::text(&tenant.mode));
        table.row(row);
    }
    table
}

fn endpoints(pools: &[Pool]) -> Table {
    let mut table = Table::new(["pool", "kind", "demand", "endpoint", "state", "in flight"]);
    for pool in pools {
        let head = || [Cell::text(&pool.pool), Cell::text(&pool.kind), Cell::number(pool.demand)];
        if pool.endpoints.is_empty() {
            let none = Cell::toned("none", Tone::Bad);
            table.row(head().into_iter().chain([none, Cell::text("-"), Cell::number(0)]));
        }
        for endpoint in &pool.endpoints {
            let tone = match endpoint.state.as_str() {
                "ready" => Tone::Good,
                "draining" => Tone::Warn,
                _ => Tone::Bad,
            };
            table.row(head().into_iter().chain([
                Cell::text(&endpoint.endpoint),
                Cell::toned(&endpoint.state, tone),
                Cell::number(endpoint.in_flight),
            ]));
        }
    }
    table
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an uptime; saturates at the ends"
)]
const fn whole(seconds: f64) -> u64 {
    seconds as u64
}

#[cfg(test)]
mod tests;
