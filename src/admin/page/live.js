// Polling. One poll at a time; a poll that fails or takes too long is a lost connection.

const PERIOD = 1000;
const PATIENCE = 3000;
const WINDOW = 10000;

const element = (id) => document.getElementById(id);

// Rates over the last ten seconds, from counters. A counter that went back is a restart.
const rates = {
  samples: [],
  add(now, state) {
    const counts = new Map();
    for (const tenant of state.tenants) {
      counts.set(`${tenant.tenant}\narrivals`, tenant.arrivals);
      for (const [outcome, count] of Object.entries(tenant.outcomes)) {
        counts.set(`${tenant.tenant}\n${outcome}`, count);
      }
    }
    const last = this.samples[this.samples.length - 1];
    if (last && (state.uptime_seconds < last.uptime)) this.samples = [];
    this.samples.push({ now, counts, uptime: state.uptime_seconds });
    while (this.samples.length > 2 && now - this.samples[1].now >= WINDOW) this.samples.shift();
  },
  of(tenant, what) {
    const first = this.samples[0];
    const last = this.samples[this.samples.length - 1];
    const key = `${tenant}\n${what}`;
    if (!first || last.now - first.now < PERIOD / 2 || !first.counts.has(key)) return null;
    return (last.counts.get(key) - first.counts.get(key)) / ((last.now - first.now) / 1000);
  },
  total() {
    const last = this.samples[this.samples.length - 1];
    const known = [...last.counts.keys()].filter((key) => key.endsWith("\narrivals"))
      .map((key) => this.of(key.split("\n")[0], "arrivals")).filter((rate) => rate !== null);
    return known.length ? known.reduce((sum, rate) => sum + rate, 0) : null;
  },
};

async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function show(state, holders) {
  element("about").textContent = `${state.version} · up ${duration(state.uptime_seconds)}`;
  element("process").replaceChildren(...processView(state, rates));
  element("tenant-cards").replaceChildren(...state.tenants.map((tenant) => tenantView(tenant, rates)));
  element("pool-cards").replaceChildren(...state.pools.map(poolView));
  holders.sort((a, b) => b.age_seconds - a.age_seconds);
  element("holders").replaceChildren(...holders.slice(0, MOST_HOLDERS).map(holderView));
  setText("holders-note", holdersNote(holders.length));
  const drain = state.drain;
  element("draining").hidden = drain.state === "serving";
  if (drain.state !== "serving") {
    setText("draining", `This replica is leaving: ${words(drain.state)}. `
      + `${drain.in_flight} in flight, ${drain.queued} queued.`);
  }
}

// A live region speaks when its text changes; the same text again stays silent.
function setText(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text;
}

let lastAnswer = null;
let paused = false;

function connection(tone, text) {
  element("link").className = `pill ${tone}`;
  setText("link", text);
}

function lost() {
  element("main").classList.add("stale");
  element("lost").hidden = false;
  const since = lastAnswer === null ? "" : ` The values below are from ${lastAnswer.toLocaleTimeString()}.`;
  setText("lost", `Connection lost.${since} Trying again every second.`);
  connection("bad", "connection lost");
  document.title = "Connection lost – Streamgate";
}

function found() {
  lastAnswer = new Date();
  element("main").classList.remove("stale");
  element("lost").hidden = true;
  connection("good", "live");
  document.title = "Streamgate";
}

async function poll() {
  const began = performance.now();
  if (!paused) {
    try {
      const [state, holders] = await Promise.all([get("/api/v1/state"), get("/api/v1/holders")]);
      rates.add(performance.now(), state);
      if (!paused) {
        show(state, holders);
        found();
      }
    } catch (error) {
      if (!paused) lost();
    }
  }
  setTimeout(poll, Math.max(100, PERIOD - (performance.now() - began)));
}

element("pause").addEventListener("click", () => {
  paused = !paused;
  element("pause").setAttribute("aria-pressed", String(paused));
  if (paused) connection("warn", "paused");
});
poll();
