
"use strict";

// Requests by which the page tells whether the browser has left its connection.
const TRIES = 10, PAUSE_MS = 250;
// Points of a curve.
const POINTS = 150;
const SVG = "http://www.w3.org/2000/svg";
const STORED = "speedtest-curves";

const KINDS = { slow: "Slow start", jump: "Careful Resume" };

// Why a connection did not jump, by the trigger that decided it.
const REASONS = {
  no_saved_set: "the server had no saved parameters for it. Either nobody has come from your network lately, or "
    + "another connection is using them. Download again: the next connection can use what this one measured.",
  lifetime_passed: "what the server had saved was too old.",
  claim_lapsed: "the right to use what the server had saved ran out before.",
  rtt_not_validated: "the round-trip time is too unlike the saved one.",
  jump_not_larger: "its window had already grown as far as the jump would go.",
  slow_start_exit: "slow start had found a queue before.",
  packet_loss: "a packet was lost before.",
  persistent_congestion: "the path was congested.",
  path_changed: "your address changed.",
  not_paced: "the server could not pace its packets.",
  dry_run: "it could have, and is in the control group that the operator compares with.",
};

// Outcomes in the table.
const BRIEF = {
  off: "resume off", declined: "slow start", undecided: "slow start", no_jump: "slow start",
  jumping: "jumped", validated: "jumped", unconfirmed: "jumped", retreated: "retreated",
};

const byId = (id) => document.getElementById(id);
const megabits = (bytes, ms) => bytes * 8 / 1000 / ms;
// A number and its unit stay on one line.
const quantity = (number, unit) => `${number}\u00a0${unit}`;
const seconds = (ms) => ms < 995 ? quantity(ms.toFixed(0), "ms") : quantity((ms / 1000).toFixed(ms < 9950 ? 2 : 1), "s");

function size(bytes) {
  if (bytes < 1e3) return quantity(bytes, "B");
  const [value, unit] = bytes < 1e6 ? [bytes / 1e3, "kB"] : [bytes / 1e6, "MB"];
  return quantity(Number(value.toPrecision(3)), unit);
}

// Adds an element with these attributes and this text.
function add(parent, name, attributes = {}, text = "") {
  const inSvg = name === "svg" || parent.namespaceURI === SVG;
  const element = inSvg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return parent.appendChild(element);
}

// The protocol of a transfer; the browser may not tell.
function protocol(url) {
  return performance.getEntriesByName(new URL(url, location).href).pop()?.nextHopProtocol || "unknown";
}

async function request(url, options = {}) {
  const response = await fetch(url, { cache: "no-store", ...options });
  if (response.ok) return response;
  const over = protocol(url);
  throw new Error(over === "h3" || over === "unknown"
    ? `${url} has status ${response.status}`
    : `the browser uses ${over}, and this test needs HTTP/3; reload the page to try again`);
}

// What the server says of this page's connection.
async function status() {
  return (await request("/speedtest/status")).json();
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Leaves the browser's connection, and opens another one. Returns its status.
async function reconnect() {
  const before = await status();
  await request("/speedtest/close", { method: "POST" });
  for (let tries = 0; tries < TRIES; tries++) {
    const now = await status();
    if (now.connection !== before.connection) return { ...now, fresh: true };
    await pause(PAUSE_MS);
  }
  return { ...before, fresh: false };
}

// The status once a jump is over.
async function settled() {
  let now = await status();
  for (let tries = 0; tries < 3 && now.outcome === "jumping"; tries++) {
    await pause(now.rtt_ms);
    now = await status();
  }
  return now;
}

function explain(now) {
  const jump = `This connection jumped from ${size(now.initial_window)} to ${size(now.jump_cwnd ?? 0)}`;
  switch (now.outcome) {
    case "off": return "Careful Resume is off for your network.";
    case "declined": return "This connection did not jump, as asked: slow start.";
    case "undecided": return "This connection did not jump: the download was too small to need it.";
    case "no_jump": return `This connection did not jump: ${REASONS[now.trigger] ?? `${now.trigger}.`}`;
    case "jumping": return `${jump}, which your browser has not acknowledged completely yet.`;
    case "unconfirmed": return `${jump}, and needed less.`;
    case "retreated": return `${jump}, lost packets, and retreated. The server has forgotten what it had saved.`;
    default: return `${jump}: the path carried ${size(now.saved_cwnd)} per round trip before. `
      + `That saved about ${now.round_trips_saved.toFixed(1)} round trips, `
      + `${seconds(now.round_trips_saved * now.min_rtt_ms)}.`;
  }
}

function showFacts(now, over) {
  const facts = {
    "Saved window": now.saved_cwnd && size(now.saved_cwnd),
    "Saved RTT": now.saved_rtt_ms && seconds(now.saved_rtt_ms),
    "Jump to": now.jump_cwnd && size(now.jump_cwnd),
    "Round trips saved": now.round_trips_saved?.toFixed(1),
    "RTT now": now.rtt_ms && seconds(now.rtt_ms),
    "Minimum RTT": now.min_rtt_ms && seconds(now.min_rtt_ms),
    "Protocol": over,
    "Connection": now.connection.slice(0, 12),
  };
  byId("facts").replaceChildren();
  for (const [name, value] of Object.entries(facts)) {
    const group = add(byId("facts"), "div");
    add(group, "dt", {}, name);
    add(group, "dd", {}, value ?? "–");
  }
  byId("facts").hidden = false;
  byId("count").hidden = now.round_trips_saved === null;
}

function keep(cells) {
  byId("history").hidden = false;
  const row = byId("past").insertRow(0);
  for (const cell of cells) row.insertCell().textContent = cell;
}

function showRate(bytes, ms) {
  const rate = quantity(megabits(bytes, ms).toFixed(1), "Mbit/s");
  byId("rate").textContent = rate;
  return rate;
}

// Receives a download. Returns its curve: milliseconds and bytes.
async function receive(url, total) {
  const start = performance.now();
  const reader = (await request(url)).body.getReader();
  const first = performance.now() - start;
  const curve = [[0, 0], [first, 0]];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    byId("progress").value = bytes / total;
    if (bytes === total || bytes - curve[curve.length - 1][1] >= total / POINTS) {
      curve.push([performance.now() - start, bytes]);
    }
  }
  return { curve, bytes, first, last: performance.now() - start };
}

async function download(total, slow) {
  byId("story").textContent = "Opening a new connection …";
  const before = await reconnect();
  byId("story").textContent = "Downloading …";
  const url = `/bytes/${total}?t=${Date.now()}${slow ? "&resume=off" : ""}`;
  const { curve, bytes, first, last } = await receive(url, total);
  const now = await settled();
  const rate = showRate(bytes, last);
  let story = explain(now);
  if (now.connection !== before.connection) {
    story = "The browser changed its connection meanwhile: nothing is known of the one that was measured.";
  } else if (!before.fresh) {
    story = "The browser kept its old connection, so this is no new visit. Close all its windows, and open this "
      + `page again. ${story}`;
  }
  byId("story").textContent = `${size(bytes)} in ${seconds(last)}, ${rate}. ${story}`;
  showFacts(now, protocol(url));
  keep([`Download ${size(bytes)}`, megabits(bytes, last).toFixed(1), seconds(first), seconds(last), BRIEF[now.outcome]]);
  if (before.fresh && now.connection === before.connection) {
    store(now.jump_cwnd === null ? "slow" : "jump", { curve, bytes, last });
    draw();
  }
}

// XMLHttpRequest, since fetch does not tell how far an upload is.
function send(url, body) {
  return new Promise((done, fail) => {
    const upload = new XMLHttpRequest();
    upload.upload.addEventListener("progress", (event) => {
      byId("progress").value = event.loaded / body.size;
    });
    upload.addEventListener("load", () => {
      if (upload.status === 200) done(Number(upload.responseText));
      else fail(new Error(`${url} has status ${upload.status}`));
    });
    upload.addEventListener("error", () => fail(new Error("the connection failed")));
    upload.open("POST", url);
    upload.send(body);
  });
}

async function upload(total) {
  byId("story").textContent = "Uploading …";
  byId("facts").hidden = byId("count").hidden = true;
  const url = `/upload?t=${Date.now()}`;
  const part = new Uint8Array(100_000);
  const body = new Blob(Array(total / part.length).fill(part));
  const start = performance.now();
  const bytes = await send(url, body);
  const last = performance.now() - start;
  const rate = showRate(bytes, last);
  byId("story").textContent = `${size(bytes)} sent in ${seconds(last)}, ${rate}. Your browser decides how uploads start.`;
  keep([`Upload ${size(bytes)}`, megabits(bytes, last).toFixed(1), "–", seconds(last), "–"]);
}

// The last curve of each kind, kept for this tab.
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}

const curves = stored();

function store(kind, curve) {
  curves[kind] = curve;
  try {
    sessionStorage.setItem(STORED, JSON.stringify(curves));
  } catch {
    // Private windows may refuse: the curves last as long as the page.
  }
}

// About four round steps up to the maximum.
function ticks(max) {
  const rough = max / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((digit) => digit * power >= rough) * power;
  return Array.from({ length: Math.floor(max / step) + 1 }, (_, index) => index * step);
}

// Draws the curves as large as the page is wide, so that text stays legible.
function draw() {
  const kinds = Object.keys(KINDS).filter((kind) => curves[kind]);
  byId("comparison").hidden = kinds.length === 0;
  const width = byId("chart").clientWidth;
  if (kinds.length === 0 || width === 0) return;
  const height = Math.max(200, Math.min(320, width * 0.6));
  const left = 52, right = 12, top = 12, bottom = 28;
  const most = Math.max(...kinds.map((kind) => curves[kind].bytes));
  const longest = Math.max(...kinds.map((kind) => curves[kind].last)) / 1000;
  const x = (s) => left + (width - left - right) * s / longest;
  const y = (bytes) => height - bottom - (height - top - bottom) * bytes / most;

  byId("chart").replaceChildren();
  const label = kinds.map((kind) => {
    const { bytes, last } = curves[kind];
    return `${KINDS[kind]}: ${size(bytes)} in ${seconds(last)}`;
  });
  const svg = add(byId("chart"), "svg", {
    viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label.join(". "),
  });
  for (const bytes of ticks(most)) {
    add(svg, "line", { class: "grid", x1: left, x2: width - right, y1: y(bytes), y2: y(bytes) });
    add(svg, "text", { class: "tick", x: left - 6, y: y(bytes) + 4, "text-anchor": "end" }, size(bytes));
  }
  for (const s of ticks(longest)) {
    const at = { class: "tick", x: x(s), y: height - 8, "text-anchor": "middle" };
    add(svg, "text", at, quantity(Number(s.toPrecision(3)), "s"));
  }
  byId("legend").replaceChildren();
  for (const [index, kind] of kinds.entries()) {
    const points = curves[kind].curve.map(([ms, bytes]) => `${x(ms / 1000).toFixed(1)},${y(bytes).toFixed(1)}`);
    add(svg, "polyline", { class: `curve ${kind}`, points: points.join(" ") });
    const item = add(byId("legend"), "li");
    const swatch = add(item, "svg", { viewBox: "0 0 32 12", "aria-hidden": "true" });
    add(swatch, "line", { class: `curve ${kind}`, x1: 0, x2: 32, y1: 6, y2: 6 });
    item.append(label[index]);
  }
  byId("missing").textContent = kinds.length === 2 ? "" : kinds[0] === "slow"
    ? "Download again to see a connection that resumes beside it."
    : "Download with slow start to see the difference.";
}

function run(work) {
  return async () => {
    const controls = byId("controls").querySelectorAll("button, select");
    for (const control of controls) control.disabled = true;
    byId("rate").textContent = "…";
    byId("progress").value = 0;
    try {
      await work(Number(byId("size").value));
    } catch (error) {
      byId("rate").textContent = "–";
      byId("story").textContent = `Failed: ${error.message}.`;
    }
    for (const control of controls) control.disabled = false;
  };
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("download").addEventListener("click", run((total) => download(total, false)));
byId("slow").addEventListener("click", run((total) => download(total, true)));
byId("upload").addEventListener("click", run(upload));
new ResizeObserver(draw).observe(document.querySelector("main"));
draw();
