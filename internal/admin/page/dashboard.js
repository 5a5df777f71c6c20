
"use strict";
// Asks /status every two seconds while the page is seen, and shows it. What a
// client chose (keys) is only ever set as text, and arrives escaped.
(() => {
  const pollMillis = 2000, rateSpanMillis = 10000, historyLength = 60;
  const rateNames = [
    ["granted", "Grants"], ["released", "Releases"], ["handovers", "Hand-overs"], ["parked", "Queued"],
    ["timeout", "Timeouts"], ["busy", "Busy"], ["expiries", "Expiries"], ["not_held", "Not held"],
    ["connections_accepted", "New connections"],
  ];
  const gaugeNames = {
    connections: "Connections", waiters: "Waiters in all", waiters_per_key: "Waiters of the longest queue",
    keys: "Keys held", acquires_in_flight: "Acquires in flight", releases_in_flight: "Releases in flight",
  };
  const byId = (id) => document.getElementById(id);
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const few = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
  const number = (n) => (Math.abs(n) < 100 ? few : whole).format(n);

  const make = (tag, className, ...children) => {
    const e = document.createElement(tag);
    if (className) e.className = className;
    e.append(...children);
    return e;
  };
  const setText = (e, text) => { if (e.textContent !== text) e.textContent = text; };

  // The last samples of the totals: {at, started, totals}, oldest first.
  let samples = [];
  const history = {};

  function rateOf(name) {
    const last = samples[samples.length - 1];
    const first = samples.find((s) => last.at - s.at <= rateSpanMillis + pollMillis / 2);
    if (!first || first === last) return null;
    return ((last.totals[name] - first.totals[name]) * 1000) / (last.at - first.at);
  }

  function remember(status) {
    const sample = { at: performance.now(), started: status.started, totals: status.totals };
    const before = samples[samples.length - 1];
    if (before && before.started !== sample.started) { // another process answers
      samples = [];
      for (const name in history) delete history[name];
    } else if (before) {
      for (const [name] of rateNames) {
        const list = (history[name] = history[name] || []);
        list.push(((sample.totals[name] - before.totals[name]) * 1000) / (sample.at - before.at));
        if (list.length > historyLength) list.shift();
      }
    }
    samples.push(sample);
    while (samples.length > historyLength) samples.shift();
  }

  const rateTiles = {};
  for (const [name, label] of rateNames) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 100 20");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    svg.append(line);
    const value = make("div", "value", "–"), total = make("div", "total");
    const tile = make("li", "", make("div", "label", label), value, total, svg);
    tile.dataset.rate = name;
    byId("rates").append(tile);
    rateTiles[name] = { value, total, line };
  }

  function showRates(totals) {
    for (const [name] of rateNames) {
      const tile = rateTiles[name], rate = rateOf(name), list = history[name] || [];
      setText(tile.value, rate === null ? "–" : number(rate));
      setText(tile.total, whole.format(totals[name]) + " in all");
      const top = Math.max(1, ...list), step = 100 / (historyLength - 1);
      tile.line.setAttribute("points", list.map((v, i) =>
        `${(100 - (list.length - 1 - i) * step).toFixed(1)},${(19 - (18 * v) / top).toFixed(1)}`).join(" "));
    }
  }

  const gaugeRows = {};
  function gaugeRow(name) {
    if (gaugeRows[name]) return gaugeRows[name];
    const label = gaugeNames[name] || name;
    const numbers = make("span", "numbers"), fill = make("div", "fill"), track = make("div", "track", fill);
    track.setAttribute("role", "meter");
    track.setAttribute("aria-label", label);
    track.setAttribute("aria-valuemin", "0");
    const item = make("li", "", make("div", "row", make("span", "name", label), numbers), track);
    item.dataset.gauge = name;
    byId("limits").append(item);
    return (gaugeRows[name] = { item, numbers, fill, track });
  }

  function showGauges(gauges) {
    for (const g of gauges) {
      const row = gaugeRow(g.name), share = g.limit > 0 ? Math.min(1, g.used / g.limit) : 0;
      setText(row.numbers, `${whole.format(g.used)} of ${whole.format(g.limit)} (${number(share * 100)} %)`);
      row.item.classList.toggle("closed", !g.open);
      row.fill.style.width = `${share * 100}%`;
      row.track.setAttribute("aria-valuemax", String(g.limit));
      row.track.setAttribute("aria-valuenow", String(Math.min(g.used, g.limit)));
      row.track.setAttribute("aria-valuetext", row.numbers.textContent + (g.open ? "" : ", refusing"));
    }
  }

  function fillTable(id, rows, firstClass) {
    byId(id).replaceChildren(...rows.map((row) => {
      const line = make("tr", "");
      row.forEach((text, i) => line.append(make("td", i ? "number" : firstClass, text)));
      return line;
    }));
  }

  function showOrEmpty(id, rows, firstClass) {
    byId("no-" + id).hidden = rows.length > 0;
    byId(id + "-table").hidden = rows.length === 0;
    fillTable(id, rows, firstClass);
  }

  function duration(seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const from = Math.max(0, units.findIndex(([, size]) => seconds >= size));
    if (seconds < 1) return "0 s";
    return units.slice(from, from + 2).map(([unit, size]) => {
      const n = Math.floor(seconds / size);
      seconds -= n * size;
      return `${n} ${unit}`;
    }).join(" ");
  }

  function setState(name, text) {
    setText(byId("state"), text || name);
    byId("state").className = "state " + name;
    document.body.classList.toggle("stale", name === "unreachable");
    document.title = (name === "ready" ? "" : `${name} – `) + "Ticketing";
  }

  function showCluster(c) {
    byId("cluster").hidden = !c;
    if (!c) return;
    const role = c.serving ? "leads" : c.leader ? `follows ${c.leader}` : "knows no leader";
    setText(byId("cluster-about"), `${c.node} ${role} · term ${c.term} · agreed up to ${whole.format(c.commit)}, applied up to ${whole.format(c.applied)}`);
    fillTable("members", c.members.map((m) => [
      m.name,
      m.name === c.leader ? "leader" : m.voter ? "follower" : "learner",
      m.client,
      m.active === undefined ? "–" : m.active ? "lately" : "not lately",
      m.match === undefined ? "–" : whole.format(m.match),
    ]), "");
  }

  function show(status) {
    const leaderless = status.cluster && !status.cluster.leader;
    setState(status.ready ? "ready" : status.draining ? "draining" : "starting", !status.draining && leaderless ? "no leader" : "");
    showCluster(status.cluster);
    setText(byId("about"), `${status.version} · up ${duration(status.uptime_seconds)}`);
    remember(status);
    showRates(status.totals);
    showGauges(status.gauges);
    showOrEmpty("queues", status.queues.map((q) => [q.label, whole.format(q.waiters)]), "key");
    fillTable("loops", status.loops.map((l, i) => [String(i), ...[l.connections, l.keys, l.waiters].map(whole.format)]), "");
    showOrEmpty("refusals", Object.entries(status.totals.refusals).filter(([, n]) => n > 0)
      .sort().map(([reason, n]) => [reason.replaceAll("_", " "), whole.format(n)]), "");
  }

  let timer = 0, asking = false;
  async function poll() {
    clearTimeout(timer);
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await fetch("/status", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(answer.statusText);
      show(await answer.json());
    } catch (e) {
      setState("unreachable", "unreachable: the numbers below are old");
    } finally {
      asking = false;
      timer = setTimeout(poll, pollMillis);
    }
  }
  document.addEventListener("visibilitychange", poll);
  poll();
})();
