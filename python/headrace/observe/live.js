"use strict";
/* The live page: asks the dashboard each second for what is new of a run, and draws it. */
(() => {
  const { Axis, Chart, button, data, key, make, seconds } = Headrace;
  const page = document.getElementById("page");
  const token = new URLSearchParams(location.search).get("token");
  const EVERY_MS = 1000, MOST_SPANS = 20000, MOST_KEYS = 8, NEAR_S = 30;
  const RANKS = 50000, LANES = 100000; /* numbers of tracks: src/exec/trace.c */
  const OF_RANKS = [["step", "step"], ["wait", "wait"], ["start", "report()"]];
  const CURVES = { rate: "rows/s", waits: "waits", memory: "memory", spilled: "spilled", ready: "ready batches" };

  let wanted = 0; /* the number of the run that is shown; 0: the newest */
  let shown = null;

  /* ------------------------------------------------------------------------------------------ what is there always */

  const title = make("h1", "", "Headrace, live");
  const process = make("div", "soft small");
  const state = make("div", "verdict state", make("p", "", "The page asks for the runs."));
  state.setAttribute("role", "status");
  const list = make("div", "bar runs");
  const place = make("section");
  page.append(title, process, state, list, place);

  function say(...lines) {
    const old = [...state.children].map((p) => p.textContent);
    if (lines.length !== old.length || lines.some((line, i) => line !== old[i]))
      state.replaceChildren(...lines.map((line) => make("p", "", line)));
  }

  function showList(runs) {
    const all = [{ number: 0, title: "the newest run" }, ...runs.slice().reverse()];
    const names = all.map((run) => run.number
      ? "run " + run.number + (run.works ? ", goes on: " : ", has ended: ") + cut(run.title) : run.title);
    const old = [...list.children].map((b) => b.textContent);
    if (names.length !== old.length || names.some((name, i) => name !== old[i]))
      list.replaceChildren(...names.map((name, i) => button(name, () => { wanted = all[i].number; ask(); })));
    [...list.children].forEach((b, i) => b.setAttribute("aria-pressed", String(all[i].number === wanted)));
    list.style.display = runs.length ? "" : "none";
  }

  const cut = (text) => text.length > 60 ? text.slice(0, 59) + "\u2026" : text;

  /* ----------------------------------------------------------------------------------------------------- one run */

  class Run {
    constructor(run) {
      this.number = run.number;
      this.begin = run.begin;
      this.sample = this.span = 0;
      this.lost = 0;
      this.operations = [...run.operators];
      this.tracks = new Map();
      this.curves = new Map();
      this.last = null; /* the last sample */
      this.axis = new Axis(1);
      this.charts = new Map();
      this.name = make("h2");
      this.keys = make("div", "bar sticky");
      this.verdict = make("div", "verdict");
      this.warning = make("div", "soft small");
      this.lines = make("div");
      this.text = make("pre");
      place.replaceChildren(this.name, this.verdict,
        make("div", "soft small", "Drag to zoom, press twice for all; keys +, \u2212, arrows, 0."),
        this.keys, this.lines, this.warning, make("h2", "", "Statistics"), this.text);
      this.showKeys();
    }

    colours() { return this.operations.map((name, i) => ["op" + Math.min(i, MOST_KEYS - 1), name]); }

    showKeys() {
      const all = this.colours(), ranked = [...this.tracks.keys()].some((t) => t >= RANKS && t < LANES);
      const state = all.length + (ranked ? " ranked" : "");
      if (this.keyed === state) return;
      this.keyed = state;
      this.keys.replaceChildren(key("wait", ranked ? "a rank, or the consumer, waits" : "the consumer waits"),
        ...(ranked ? [key("step", "a rank's step"), key("start", "report()")] : []),
        ...all.slice(0, MOST_KEYS).map(([colour, name], i) => key(colour,
          i === MOST_KEYS - 1 && all.length > MOST_KEYS ? name + " and " + (all.length - MOST_KEYS) + " more" : name)),
        button("+", () => this.axis.zoom(0.5)), button("\u2212", () => this.axis.zoom(2)),
        button("the last " + NEAR_S + " s", () => this.axis.set(this.axis.end - NEAR_S, this.axis.end)),
        button("all", () => this.axis.reset()));
    }

    row(track, name) {
      let row = this.tracks.get(track);
      if (row) return row;
      row = { kind: "spans", begin: [], end: [], what: [], many: [] };
      if (track === 0) [row.name, row.chart, row.colours] = ["consumer", "Consumer", [["wait", "waits"]]];
      else if (track < RANKS) [row.name, row.chart] = ["thread " + (track - 1), "Threads"];
      else if (track < LANES) [row.name, row.chart, row.colours] = ["rank " + (track - RANKS), "Ranks", OF_RANKS];
      else [row.name, row.chart] = [name + ", waiting " + (track - LANES + 1), "Waiting"];
      row.order = track;
      this.tracks.set(track, row);
      return row;
    }

    operation(name) {
      const i = this.operations.indexOf(name);
      return i >= 0 ? i : this.operations.push(name) - 1;
    }

    /* Spans come in the order of their ends, and stay in that of their beginnings. */
    addSpan([track, begin, took, name, many]) {
      if (track < 0) { this.lost += many; return; }
      const row = this.row(track, name);
      const from = Math.max(0, begin / 1e6 - this.begin), to = Math.max(from, (begin + took) / 1e6 - this.begin);
      const what = track === 0 ? 0 : track >= RANKS && track < LANES
        ? OF_RANKS.findIndex(([, word]) => word.replace("()", "") === name) : this.operation(name);
      if (what < 0) return;
      let at = row.begin.length;
      while (at > 0 && row.begin[at - 1] > from) at--;
      row.begin.splice(at, 0, from);
      row.end.splice(at, 0, to);
      row.what.splice(at, 0, what);
      row.many.splice(at, 0, many);
      if (row.begin.length > MOST_SPANS)
        for (const part of [row.begin, row.end, row.what, row.many]) part.splice(0, MOST_SPANS / 4);
    }

    addPoint(chart, name, unit, t, value, until) {
      const id = chart + "\n" + name;
      let row = this.curves.get(id);
      if (!row) {
        row = { kind: "curve", name, unit, chart, times: [], values: [], order: this.curves.size };
        this.curves.set(id, row);
      }
      row.times.push(t);
      row.values.push(value);
      row.until = until;
    }

    addSample(sample, run) {
      const [, now, rows, memory, spilled, ready, waited, queues, accounts] = sample;
      const t = Math.max(0, now - this.begin);
      if (this.last) {
        const dt = Math.max(now - this.last.now, 1e-3);
        const at = Math.max(0, this.last.now - this.begin);
        this.addPoint("Throughput", CURVES.rate, "rows/s", at, Math.max(0, rows - this.last.rows) / dt, t);
        this.addPoint("Throughput", CURVES.waits, "%", at, Math.min(100, 100 * Math.max(0, waited - this.last.waited) / dt), t);
      }
      this.addPoint("Queues", CURVES.ready, "tables", t, ready);
      queues.forEach((n, i) => { if (i) this.addPoint("Queues", "before " + (run.stages[i] || "stage " + i), "tables", t, n); });
      this.addPoint("Memory", CURVES.memory, "MB", t, memory / 1e6);
      if (spilled) this.addPoint("Memory", CURVES.spilled, "MB", t, spilled / 1e6);
      accounts.forEach((n, i) => {
        const name = run.operators[i + 1] || "operation " + i;
        if (n || this.curves.has("Memory\n" + name)) this.addPoint("Memory", name, "MB", t, n / 1e6);
      });
      this.last = { now, rows, waited };
    }

    /* The charts that have rows, in this order. */
    draw(run) {
      const hints = {
        Ranks: "What each rank does: red, it waits for its next batch; yellow, it is in report().",
        Consumer: "Red: it waits for the next table. Elsewhere it works: the trainer's steps.",
        Threads: "What each thread of the engine works on; grey: nothing.",
        Waiting: "Work that waits for a function's result, or for the network, side by side.",
        Throughput: "Rows that the consumers took, and the share of time that they waited.",
        Queues: "Tables that wait.",
        Memory: run.limit ? "The limit is " + (run.limit / 1e6).toFixed(0) + " MB." : "",
      };
      const rows = [...[...this.tracks.values()].sort((a, b) => a.order - b.order), ...this.curves.values()];
      const colours = this.colours();
      for (const row of this.tracks.values()) if (row.chart === "Threads" || row.chart === "Waiting") row.colours = colours;
      for (const [name, hint] of Object.entries(hints)) {
        const mine = rows.filter((row) => row.chart === name);
        if (!mine.length) continue;
        const chart = this.charts.get(name);
        if (chart) { chart.show(mine); continue; }
        const host = make("section", "", make("h3", "", name), make("div", "soft small", hint));
        const order = Object.keys(hints), after = [...this.charts.keys()].find((other) =>
          order.indexOf(other) > order.indexOf(name));
        this.lines.insertBefore(host, after ? this.charts.get(after).host : null);
        const made = new Chart(host, this.axis, name, mine);
        made.host = host;
        this.charts.set(name, made);
      }
    }

    add(run, now) {
      run.spans.forEach((span) => this.addSpan(span));
      run.samples.forEach((sample) => this.addSample(sample, run));
      this.sample = run.sample;
      this.span = run.span;
      this.name.textContent = "Run " + run.number + (run.works ? " goes on: " : ": ") + run.title;
      const lines = run.verdict.map((text) => make("p", "", text));
      this.verdict.replaceChildren(...lines);
      this.verdict.style.display = lines.length ? "" : "none";
      this.warning.textContent = this.lost ? this.lost + " spans came too fast and are not drawn." : "";
      this.text.textContent = run.text;
      this.showKeys();
      this.draw(run);
      const ends = [...this.tracks.values()].map((row) => row.end[row.end.length - 1] || 0);
      this.axis.grow(Math.max(run.works ? now - this.begin : 0, this.last ? this.last.now - this.begin : 0, ...ends));
    }
  }

  /* ------------------------------------------------------------------------------------------------------- asking */

  function take(news) {
    process.textContent = news.process + " \u00b7 Headrace " + data().headrace;
    showList(news.runs);
    if (!news.run) {
      shown = null;
      place.replaceChildren();
      say("No run is going on.", "This page shows the next one when it begins.");
      return;
    }
    if (!shown || shown.number !== news.run.number) shown = new Run(news.run);
    shown.add(news.run, news.now);
    const works = news.run.works, some = news.runs.some((run) => run.works);
    say((works ? "Run " + news.run.number + " goes on" : some ? "Run " + news.run.number + " has ended; another one goes on"
      : "No run is going on. Run " + news.run.number + " has ended") + ": " + news.run.rows.toLocaleString("en") +
      " rows in " + seconds(news.run.seconds) + ".");
  }

  let asking = false, timer = 0;

  async function ask() {
    if (asking || document.hidden) return;
    asking = true;
    clearTimeout(timer);
    const words = new URLSearchParams({ token, run: wanted });
    if (shown) for (const [name, value] of [["of", shown.number], ["sample", shown.sample], ["span", shown.span]])
      words.set(name, value);
    try {
      const answer = await fetch("news?" + words, { cache: "no-store" });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      take(await answer.json());
    } catch (error) {
      say("The dashboard does not answer: the process has ended, or has closed it. What the page has stays.",
        error.message);
    }
    asking = false;
    timer = setTimeout(ask, EVERY_MS);
  }

  document.addEventListener("visibilitychange", ask);
  ask();
})();
