// Without this script the pages are complete and do not refresh. With it they refresh every two
// seconds, forms open in place, and the charts are drawn.
"use strict";
(() => {
  const EVERY = 2000;  // milliseconds between two looks
  const root = document.documentElement;
  const find = (what, where = document) => where.querySelector(what);
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // Theme: system, light or dark.
  const NAMES = { system: ["◐", "System"], light: ["○", "Light"], dark: ["●", "Dark"] };
  const theme = find("#theme");
  const showTheme = () => {
    const now = root.dataset.theme || "system";
    theme.firstElementChild.textContent = NAMES[now][0];
    find(".theme-name", theme).textContent = NAMES[now][1];
    theme.setAttribute("aria-label", `Colours: ${NAMES[now][1].toLowerCase()}; press for the next`);
  };
  theme.hidden = false;
  showTheme();
  theme.addEventListener("click", () => {
    const next = { system: "light", light: "dark", dark: "system" }[root.dataset.theme || "system"];
    if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
    try { localStorage.setItem("theme", next); } catch { /* then it lasts until the page is closed */ }
    showTheme();
    draw(true);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));

  // Refresh every two seconds while the page is visible.
  const fresh = find("#fresh"), offline = find("#offline"), poll = find("[hx-trigger^='tick']");
  let last = new Date(), missed = 0;
  const answered = (fine) => {
    missed = fine ? 0 : missed + 1;
    if (fine) last = new Date();
    fresh.dataset.state = missed ? "off" : "on";
    find(".fresh-text", fresh).textContent = missed ? "no answer" : "live";
    offline.hidden = missed < 2;
    find("#offline-since").textContent = last.toLocaleTimeString([], { hour12: false });
  };
  const tick = () => {
    if (document.visibilityState !== "visible") return;
    htmx.trigger(document.body, "tick");
    fetchCurves();
  };
  if (poll) {
    fresh.hidden = false;
    setInterval(tick, EVERY);
    document.addEventListener("visibilitychange", tick);
  }
  const polled = (event) => /\/now$/.test(event.detail.requestConfig?.path || "");
  document.body.addEventListener("htmx:afterRequest", (event) => { if (polled(event)) answered(event.detail.successful); });
  document.body.addEventListener("htmx:sendError", (event) => { if (polled(event)) answered(false); });

  // Unchanged parts are not swapped, so selections and screen readers are not disturbed.
  const written = new Map();
  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    const id = event.detail.target.id, text = event.detail.fragment.firstElementChild?.outerHTML ?? event.detail.fragment.textContent;
    if (written.get(id) === text) event.detail.shouldSwap = false;
    written.set(id, text);
    const open = event.detail.target.contains(document.activeElement) ? document.activeElement.id : "";
    if (open) setTimeout(() => { if (document.activeElement === document.body) document.getElementById(open)?.focus(); });
  });
  // Screen readers announce changes of state only, not every number.
  let announced = find("#poll")?.dataset.announce;
  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.id !== "poll") return;
    const now = find("#poll")?.dataset.announce;
    if (now && now !== announced) find("#said").textContent = announced = now;
  });

  // The filter of the list is part of the URL.
  const filter = find("#filter");
  for (const kind of ["input", "change"]) filter?.addEventListener(kind, () => {
    const asked = [...new FormData(filter)].filter(([, value]) => value);
    history.replaceState(null, "", asked.length ? `/?${new URLSearchParams(asked)}` : "/");
  });

  // Forms in a dialog.
  const dialog = find("#dialog");
  let opener = "";
  document.body.addEventListener("click", (event) => {
    const from = event.target.closest("[hx-target='#dialog-body']");
    if (from && !dialog.contains(from)) opener = from.id;
    if (event.target.closest("[data-close]") && dialog.open) { event.preventDefault(); dialog.close(); }
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id !== "dialog-body") return;
    if (!dialog.open) dialog.showModal();
    (find("[aria-invalid]", dialog) || find("input:not([type=hidden]), select, textarea, button", dialog))?.focus();
  });
  dialog.addEventListener("close", () => {
    find("#dialog-body").replaceChildren();
    document.getElementById(opener)?.focus();
  });
  document.body.addEventListener("htmx:beforeRequest", (event) => all("button", event.target).forEach((one) => { one.disabled = true; }));
  document.body.addEventListener("htmx:afterRequest", (event) => all("button", event.target).forEach((one) => { one.disabled = false; }));
  document.addEventListener("keydown", (event) => {  // links that act as buttons react to the space bar
    if (event.key === " " && event.target.matches?.("a[role=button]")) { event.preventDefault(); event.target.click(); }
  });
  if (location.search.includes("done=")) history.replaceState(null, "", location.pathname);

  // Charts.
  const figures = all("figure[data-chart]");
  const source = find("[data-curves]")?.dataset.curves;
  let curves = null, asking = false;
  const plots = new Map();

  async function fetchCurves() {
    if (!source || asking) return;
    asking = true;
    try {
      const have = curves ? `?generation=${curves.generation}&have=${curves.t.length}` : "";
      const answer = await fetch(source + have, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      merge(await answer.json());
      draw(false);
    } catch { /* the other request reports it */ } finally { asking = false; }
  }

  function merge(more) {
    const same = curves && more.generation === curves.generation && more.start > 0 && shape(more) === shape(curves);
    if (!same) { if (more.start === 0) curves = more; else curves = null; return; }
    const join = (old, added) => old.slice(0, more.start).concat(added);
    curves.t = join(curves.t, more.t);
    curves.ahead = more.ahead;
    curves.pulled = more.pulled;
    for (const [name, chart] of Object.entries(curves.charts)) {
      chart.series.forEach((one, i) => { one.values = join(one.values, more.charts[name].series[i].values); });
    }
  }
  const shape = (from) => Object.entries(from.charts).map(([name, chart]) => name + chart.series.map((one) => one.label)).join();

  const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
  const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, notation: "compact" });
  const percents = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 2 });
  function told(value, format) {
    if (value == null) return "–";
    if (format === "share") return percents.format(value).replace("%", " %");
    const text = Math.abs(value) >= 1e6 ? short.format(value) : plain.format(value);
    const unit = format === "money" ? curves.unit : "";
    return !unit ? text : /^\p{L}+$/u.test(unit) ? `${text} ${unit}` : unit + text;
  }

  const soft = (name, part) => `color-mix(in srgb, ${colour(name)} ${part}%, transparent)`;
  const mixed = (name, part) => `color-mix(in srgb, ${colour(name)} ${part}%, ${colour("--card")})`;
  const tint = (one) => one.colour === "limit" ? "--limit" : one.colour === "good" ? "--good" : one.colour === "rest" ? "--crest" : `--c${one.colour}`;

  // Stacked areas are drawn from the top one down, each from nothing to the sum so far.
  function columns(chart) {
    if (chart.series[0].look !== "area") return [curves.t, ...chart.series.map((one) => one.values)];
    const sums = [];
    chart.series.forEach((one, i) => {
      sums.push(one.values.map((value, at) => value == null ? null : value + (i ? sums[i - 1][at] ?? 0 : 0)));
    });
    return [curves.t, ...sums.reverse()];
  }

  const DATES = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [0.001, ":{ss}.{fff}", "\n{D} {MMM} {HH}:{mm}", null, "\n{D} {MMM} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
  ];

  // The range of the vertical axis; of a rate without the wide band of the first pulls.
  function extent(name, chart) {
    if (name === "shares") return [0, 1];
    let low = Infinity, high = -Infinity;
    const count = curves.t.length, rate = name.startsWith("limit-");
    for (const one of chart.series) {
      const band = one.look === "low" || one.look === "high";
      const from = band ? Math.floor(count * 0.5) : one.look === "limit" ? 0 : Math.floor(count * (rate || name === "reward" ? 0.08 : 0));
      for (let i = from; i < count; i++) {
        const value = one.values[i];
        if (value != null) { low = Math.min(low, value); high = Math.max(high, value); }
      }
    }
    if (name === "spend" || name.startsWith("queue-")) low = 0;
    if (!(high > low)) { high = low + (Math.abs(low) || 1); low = Math.min(0, low); }
    const room = (high - low) * 0.08;
    return [low === 0 ? 0 : Math.max(low - room, low >= 0 ? 0 : -Infinity), high + room];
  }

  function times(name) {
    const first = curves.t[0], end = curves.t[curves.t.length - 1];
    let to = Math.max(end, first + 10);
    if (name === "spend" && curves.ahead) to = Math.min(Math.max(curves.ahead[1][0], to), to + 0.6 * (to - first));
    return [first, to];
  }

  function ahead(u) {  // the projected spending
    if (!curves.ahead) return;
    const [[x0, y0], [x1, y1]] = curves.ahead, c = u.ctx;
    c.save();
    c.beginPath();
    c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    c.clip();
    c.strokeStyle = colour("--c1");
    c.globalAlpha = 0.7;
    c.lineWidth = 1.5 * devicePixelRatio;
    c.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
    c.beginPath();
    c.moveTo(u.valToPos(x0, "x", true), u.valToPos(y0, "y", true));
    c.lineTo(u.valToPos(x1, "x", true), u.valToPos(y1, "y", true));
    c.stroke();
    c.restore();
  }

  // Limits extend to the right edge of the chart, as far as the projection.
  function limits(u, chart) {
    const c = u.ctx, right = u.bbox.left + u.bbox.width, count = curves.t.length;
    for (const one of chart.series.filter((some) => some.look === "limit")) {
      const value = one.values[count - 1];
      if (value == null) continue;
      const y = Math.round(u.valToPos(value, "y", true)), x = count > 1 ? u.valToPos(curves.t[count - 1], "x", true) : u.bbox.left;
      c.save();
      c.strokeStyle = colour(tint(one));
      c.lineWidth = 1.5 * devicePixelRatio;
      c.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(right, y);
      c.stroke();
      c.restore();
    }
  }

  // The place in an area with the most room for its name.
  function place(u, low, high, half) {
    let best = null;
    for (let step = 1; step < 20; step++) {
      const x = u.bbox.left + u.bbox.width * step / 20;
      if (x - half < u.bbox.left || x + half > u.bbox.left + u.bbox.width) continue;
      const [from, to] = [x - half, x + half].map((at) => u.valToIdx(u.posToVal(at / devicePixelRatio - u.bbox.left / devicePixelRatio, "x")));
      let top = 1, bottom = 0;
      for (let i = from; i <= to; i++) {
        if (high[i] == null) { top = 0; break; }
        top = Math.min(top, high[i]);
        bottom = Math.max(bottom, low[i]);
      }
      const y = [top, bottom].map((at) => u.valToPos(at, "y", true)), room = y[1] - y[0];
      if (!best || room > best.room) best = { x, y: (y[0] + y[1]) / 2, room };
    }
    return best;
  }

  function names(u, chart) {  // of the areas, in them
    const c = u.ctx, size = 12 * devicePixelRatio;
    let low = curves.t.map(() => 0);
    c.save();
    c.font = `600 ${size}px system-ui, sans-serif`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    c.lineJoin = "round";
    for (const one of chart.series) {
      const high = one.values.map((value, at) => value == null ? null : value + (low[at] ?? 0));
      const label = one.label.length > 24 ? `${one.label.slice(0, 23)}…` : one.label;
      const at = place(u, low, high, c.measureText(label).width / 2 + 4 * devicePixelRatio);
      if (at && at.room >= 1.2 * size) {
        c.strokeStyle = colour("--card");
        c.lineWidth = 4 * devicePixelRatio;
        c.strokeText(label, at.x, at.y);
        c.fillStyle = colour("--ink");
        c.fillText(label, at.x, at.y);
      }
      low = high;
    }
    c.restore();
  }

  function series(chart) {
    const area = chart.series[0].look === "area";
    const listed = area ? [...chart.series].reverse() : chart.series;
    return listed.map((one) => {
      const stroke = colour(tint(one)), points = { show: false }, paths = uPlot.paths.stepped({ align: 1 });
      if (one.look === "low" || one.look === "high") return { stroke: "transparent", points };
      if (area) return { stroke: colour("--card"), fill: mixed(tint(one), 82), width: 1, points };
      if (one.look === "limit") return { stroke, width: 1.5, dash: [6, 4], points, paths };
      if (one.look === "thin") return { stroke: mixed(tint(one), 55), width: 1, points, paths };
      return { stroke, width: 2, points: { show: curves.t.length < 3 } };
    });
  }

  function key(figure, chart) {
    const list = document.createElement("ul");
    list.className = "key";
    const shown = chart.series.filter((one) => one.look !== "low");
    for (const one of shown) {
      const item = document.createElement("li"), mark = document.createElement("i"), value = document.createElement("b");
      const band = one.look === "high";
      mark.className = one.look === "area" ? "area" : band ? "band" : one.look === "limit" ? "limit" : "";
      if (one.look === "area") mark.style.background = mixed(tint(one), 82);
      else if (band) mark.style.background = soft("--c1", 22);
      else mark.style.borderColor = one.look === "thin" ? mixed(tint(one), 55) : colour(tint(one));
      item.append(mark, band ? "95 % band" : one.label, " ", value);
      list.append(item);
    }
    figure.append(list);
    const values = all("b", list);
    return (at) => shown.forEach((one, i) => {
      const value = (from) => told(from.values[at], chart.format);
      values[i].textContent = one.look === "high" ? `${value(chart.series[chart.series.indexOf(one) - 1])} to ${value(one)}` : value(one);
    });
  }

  function waiting(figure, text) {
    const line = document.createElement("p");
    line.className = "waiting";
    line.textContent = text;
    figure.replaceChildren(line);
  }

  function plot(figure, name, chart) {
    if (figure.dataset.needs === "pulls" && !curves.pulled) {
      waiting(figure, "No reports yet.");
      return { made: { destroy() {}, setData() {}, cursor: {} }, show() {}, labels: "nothing" };
    }
    figure.replaceChildren();
    const low = figure.classList.contains("low");
    const lowAt = chart.series.findIndex((one) => one.look === "low");
    let show = () => {};
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const made = new uPlot({
      width: figure.clientWidth,
      height: low ? 110 : Math.max(figure.clientHeight - 28, 200),
      padding: [8, 30, 0, 0],  // room for half of the last time
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false }, sync: { key: "time", setSeries: false, scales: ["x", null] } },
      scales: { x: { time: true, range: () => times(name) }, y: { range: () => extent(name, chart) } },
      axes: [
        { ...axis, values: DATES, size: 34, gap: 4, space: 70 },
        { ...axis, size: 56, gap: 4, space: 26, values: (u, ticks) => ticks.map((one) => told(one, chart.format)) },
      ],
      series: [{}, ...series(chart)],
      bands: lowAt < 0 ? [] : [{ series: [lowAt + 2, lowAt + 1], fill: soft("--c1", 22) }],
      hooks: {
        setCursor: [(u) => show(u.cursor.idx ?? curves.t.length - 1)],
        draw: name === "shares" ? [(u) => names(u, chart)] : [(u) => limits(u, chart), ...(name === "spend" ? [ahead] : [])],
      },
    }, columns(chart), figure);
    show = key(figure, chart);
    show(curves.t.length - 1);
    return { made, show, labels: chart.series.map((one) => one.label).join() };
  }

  function draw(anew) {
    if (!curves) return;
    for (const figure of figures) {
      const name = figure.dataset.chart, chart = curves.charts[name];
      if (!chart || !figure.clientWidth) continue;
      const old = plots.get(name);
      if (!old || anew || old.labels !== chart.series.map((one) => one.label).join() || old.of !== curves) {
        old?.made.destroy();
        plots.set(name, { ...plot(figure, name, chart), of: curves });
      } else {
        old.made.setData(columns(chart), true);
        old.show(old.made.cursor.idx ?? curves.t.length - 1);
      }
    }
  }
  if (figures.length) {
    figures.forEach((figure) => waiting(figure, "…"));
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(true); } });
    all("details").forEach((one) => one.addEventListener("toggle", () => draw(false)));
    fetchCurves();
  }
})();
