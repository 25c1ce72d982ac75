"use strict";
// How values look. Text only ever becomes text nodes.

const OUTCOMES = {
  complete: "good", truncated: "bad", upstream_error: "bad", client_cancelled: "idle",
  timed_out: "warn", drain_cut: "cut", rejected: "warn", failed: "bad",
};
const ENDPOINT_TONES = { ready: "good", draining: "warn", down: "bad" };
const DRAIN_TONES = { serving: "good", lame_duck: "warn", draining: "warn", drained: "cut", cut: "bad" };
const MOST_HOLDERS = 50;

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const words = (name) => name.replaceAll("_", " ");
const plural = (count, one, many) => `${count} ${count === 1 ? one : many}`;

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function perSecond(rate) {
  if (rate === null) return "–";
  return `${rate.toFixed(rate >= 10 ? 0 : rate >= 1 ? 1 : 2)}/s`;
}

function fact(name, value, tone) {
  const shown = tone ? h("span", { class: `dot ${tone}` }, value) : value;
  return h("div", {}, h("dt", {}, name), h("dd", {}, shown));
}

function processView(state, rates) {
  const sum = (key) => state.tenants.reduce((total, tenant) => total + tenant[key], 0);
  const store = state.store;
  const condition = !store.up ? ["down", "bad"] : store.fenced ? ["fenced", "bad"]
    : store.learning ? ["learning", "warn"] : ["up", "good"];
  return [
    fact("In flight", String(sum("in_flight"))),
    fact("Queued", String(sum("queued"))),
    fact("Arrivals", perSecond(rates.total())),
    fact(`Store (${store.kind})`, condition[0], condition[1]),
    ...(store.replicas > 0 ? [
      fact("Fleet", `${plural(store.replicas, "replica", "replicas")}, ${store.fleet} in flight`),
      fact("Held here", `${store.held}, ${store.spare} spare`),
    ] : []),
    ...(store.unfenced > 0 ? [fact("Unfenced", plural(store.unfenced, "request", "requests"), "bad")] : []),
    ...(store.escrow > 0 ? [fact("Escrow", plural(store.escrow, "slot", "slots"), "warn")] : []),
    fact("Drain", words(state.drain.state), DRAIN_TONES[state.drain.state]),
    ...(state.drain_board.up ? [] : [
      fact("Drain board", `down (${words(state.drain_board.last_fault || "not heard yet")})`, "bad"),
    ]),
  ];
}

function slotBar(tenant) {
  const share = (value) => `${Math.min(100, (100 * value) / Math.max(1, tenant.limit))}%`;
  const fleet = h("span", { class: "fleet" });
  const here = h("span", { class: "here" });
  fleet.style.width = share(tenant.fleet_in_flight);
  here.style.width = share(tenant.in_flight);
  const full = tenant.fleet_in_flight >= tenant.limit;
  const label = `${tenant.in_flight} in flight here, ${tenant.fleet_in_flight} in the fleet, limit ${tenant.limit}`;
  return h("div", { class: full ? "bar full" : "bar", role: "img", "aria-label": label }, fleet, here);
}

function tenantView(tenant, rates) {
  const ended = Object.entries(tenant.outcomes).filter(([, count]) => count > 0);
  const chips = ended.map(([outcome, count]) => h("li", { class: `dot ${OUTCOMES[outcome] || "idle"}` },
    `${words(outcome)} ${perSecond(rates.of(tenant.tenant, outcome))} `,
    h("span", { class: "quiet" }, `(${count.toLocaleString("en")})`)));
  const fleet = tenant.fleet_in_flight === tenant.in_flight ? "" : ` · ${tenant.fleet_in_flight} in the fleet`;
  return h("article", { class: "card" },
    h("div", { class: "head" },
      h("h3", {}, tenant.tenant),
      tenant.mode === "shadow" ? h("span", { class: "pill warn" }, "shadow")
        : h("span", { class: "quiet" }, `${perSecond(rates.of(tenant.tenant, "arrivals"))} arrive`)),
    slotBar(tenant),
    h("div", { class: "head" },
      h("span", {}, h("strong", {}, `${tenant.in_flight} / ${tenant.limit}`), ` in flight${fleet}`),
      h("span", { class: tenant.queued > 0 ? "dot warn" : "quiet" }, `${tenant.queued} queued`)),
    chips.length ? h("ul", { class: "chips", "aria-label": `Outcomes of ${tenant.tenant}` }, ...chips)
      : h("p", { class: "quiet" }, "Nothing has ended yet"));
}

function poolView(pool) {
  const cell = (endpoint) => h("tr", {},
    h("td", { class: "name" }, endpoint.endpoint),
    h("td", {}, h("span", { class: `dot ${ENDPOINT_TONES[endpoint.state] || "idle"}` }, words(endpoint.state))),
    h("td", { class: "number" }, String(endpoint.in_flight)));
  const demand = pool.max_in_flight > 0 ? `${pool.demand} / ${pool.max_in_flight}` : String(pool.demand);
  const head = h("tr", {}, h("th", { scope: "col" }, "Endpoint"), h("th", { scope: "col" }, "State"),
    h("th", { scope: "col", class: "number" }, "In flight"));
  return h("article", { class: "card" },
    h("div", { class: "head" }, h("h3", {}, pool.pool), h("span", { class: "quiet" }, `${pool.kind} · demand ${demand}`)),
    h("p", { class: "quiet" }, pool.models.join(", ")),
    pool.endpoints.length
      ? h("table", {}, h("caption", { class: "hidden" }, `Endpoints of ${pool.pool}`), h("thead", {}, head),
        h("tbody", {}, ...pool.endpoints.map(cell)))
      : h("p", { class: "dot bad" }, "no endpoint"));
}

// Roles are spelled out because a narrow screen shows each row as a block of its own.
function holderView(holder) {
  const cell = (text, attributes) => h("td", { role: "cell", ...attributes }, text);
  return h("tr", { role: "row" },
    cell(holder.request_id, { class: "name" }),
    cell(holder.tenant),
    cell(holder.model || "–"),
    cell(holder.endpoint || "choosing"),
    cell(duration(holder.age_seconds), { class: "number", "data-label": "age" }),
    cell(holder.tokens.toLocaleString("en"), { class: "number", "data-label": "tokens" }));
}

function holdersNote(count) {
  if (count === 0) return "No request holds a slot.";
  const shown = count > MOST_HOLDERS ? `; the oldest ${MOST_HOLDERS} are shown` : ", oldest first";
  return `${plural(count, "request holds", "requests hold")} a slot${shown}.`;
}
