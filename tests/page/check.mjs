// Looks at the live page with a real browser. Started by tests/operator/page.rs, which changes
// the world on request: a line on stdout asks, a line on stdin says it is done.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const url = process.argv[2];
const shots = process.env.PAGE_SHOTS;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(what) {
  console.log(what);
  const { value } = await answers.next();
  assert.equal(value, "done");
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
const page = await context.newPage();
const problems = [];
page.on("console", (message) => {
  const lostOnPurpose = /ERR_CONNECTION|Failed to fetch/.test(message.text());
  if (message.type() === "error" && !lostOnPurpose) problems.push(message.text());
});
page.on("pageerror", (error) => problems.push(String(error)));
page.on("request", (request) => {
  const own = request.url().startsWith(url) || request.url().startsWith("data:");
  if (!own) problems.push(`foreign request: ${request.url()}`);
});

const shot = (name) => (shots ? page.screenshot({ path: `${shots}/${name}.png`, fullPage: true }) : null);
const shown = (selector, text) => page.locator(selector, { hasText: text }).first().waitFor({ timeout: 10_000 });

async function values() {
  await page.goto(url);
  await shown("#link", "live");
  await shown("#tenant-cards article", "interactive");
  await shown("#tenant-cards .chips", /complete \d+(\.\d+)?\/s/);
  const bar = page.locator("article", { hasText: "interactive" }).locator(".bar");
  assert.equal(await bar.getAttribute("aria-label"), "3 in flight here, 4 in the fleet, limit 4");
  assert.match(await bar.getAttribute("class"), /full/);
  const widths = await bar.locator("span").evaluateAll((spans) => spans.map((span) => span.style.width));
  assert.deepEqual(widths, ["100%", "75%"]);
  await shown("#pool-cards td", "127.0.0.1:8002");
  await shown("#pool-cards .warn", "draining");
  await shown("#process", "memory");
  assert.equal(await page.locator("#holders tr").count(), 50);
  await shown("#holders-note", "60 requests hold a slot; the oldest 50 are shown.");
}

// Names are text, whatever they look like.
async function hostileNames() {
  await shown("#holders td", "<img src=x onerror=alert(1)>");
  assert.equal(await page.locator("main img, main script").count(), 0);
}

async function moves() {
  const rate = page.locator("#process div", { hasText: "Arrivals" }).locator("dd");
  await page.waitForFunction((dd) => /^\d/.test(dd.textContent), await rate.elementHandle());
  const total = () => page.locator("article", { hasText: "batch" }).locator(".chips").textContent();
  const before = await total();
  await page.waitForFunction(
    (text) => ![...document.querySelectorAll(".chips")].some((chips) => chips.textContent === text), before);
}

async function keyboard() {
  await page.locator("body").press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "pause");
  await page.keyboard.press("Space");
  await shown("#link", "paused");
  assert.equal(await page.locator("#pause").getAttribute("aria-pressed"), "true");
  const still = await page.locator("main").innerHTML();
  await page.waitForResponse(() => true, { timeout: 2_500 }).catch(() => null);
  assert.equal(await page.locator("main").innerHTML(), still, "paused values stay");
  await page.keyboard.press("Space");
  await shown("#link", "live");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("role")), "region");
}

// WCAG AA: text 4.5 to 1, marks 3 to 1, on both grounds.
async function contrast(scheme) {
  const ratios = await page.evaluate(() => {
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
      const hex = style.getPropertyValue(name).trim().slice(1);
      const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    return [
      ...["--card", "--ground"].flatMap((ground) => ["--text", "--quiet"].map((ink) => [ink, ground, ratio(ink, ground), 4.5])),
      ...["--warn-ground", "--bad-ground"].map((ground) => ["--text", ground, ratio("--text", ground), 4.5]),
      ...["--good", "--warn", "--bad", "--cut", "--idle", "--here"].map((ink) => [ink, "--card", ratio(ink, "--card"), 3]),
    ];
  });
  for (const [ink, ground, ratio, least] of ratios) {
    assert.ok(ratio >= least, `${scheme}: ${ink} on ${ground} is ${ratio.toFixed(2)}`);
  }
}

async function sizesAndSchemes() {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    await contrast(scheme);
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      const needed = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(needed <= width, `${needed} px are needed at ${width}`);
      await shot(`${scheme}-${width}`);
    }
  }
}

async function drains() {
  assert.equal(await page.locator("#draining").isVisible(), false);
  await ask("drain");
  await shown("#draining", "This replica is leaving: draining. ");
  await shot("draining-390");
}

async function board() {
  assert.equal(await page.locator("#process div", { hasText: "Drain board" }).count(), 0);
  await ask("board");
  await shown("#process .bad", "down (foreign data)");
}

async function lostAndFound() {
  await ask("stop");
  await shown("#lost", "Connection lost. The values below are from ");
  await shown("#link", "connection lost");
  assert.equal(await page.locator("main.stale").count(), 1);
  assert.match(await page.title(), /Connection lost/);
  await shot("lost-390");
  await ask("start");
  await shown("#link", "live");
  assert.equal(await page.locator("#lost").isVisible(), false);
  assert.equal(await page.locator("main.stale").count(), 0);
}

await values();
await hostileNames();
await moves();
await keyboard();
await sizesAndSchemes();
await drains();
await board();
await lostAndFound();
assert.deepEqual(problems, []);
await browser.close();
console.log("passed");
process.exit(0);
