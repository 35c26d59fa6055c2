"use strict";
/* The page of a run: the verdict, the time line of consumer, threads and waiting tickets, curves, and the statistics. */
(() => {
  const { Axis, Chart, button, data, key, make, seconds } = Headrace;
  const run = data();
  const page = document.getElementById("page");
  const MOST_KEYS = 8;
  const OF_RANKS = [["step", "step"], ["wait", "wait"], ["start", "report()"]];

  const colourOf = (i) => "op" + Math.min(i, MOST_KEYS - 1);

  function head() {
    const waited = run.rows.filter((row) => row.wait).reduce((sum, row) => sum + row.sum, 0);
    page.append(
      make("h1", "", "Run: " + run.name),
      make("div", "soft small", seconds(run.end) + " \u00b7 the consumer waited " + seconds(waited) + " of it (" +
        Math.round(100 * waited / (run.end || 1)) + " %) \u00b7 Headrace " + run.headrace));
    if (run.verdict.length) page.append(make("div", "verdict", ...run.verdict.map((text) => make("p", "", text))));
    if (run.lost)
      page.append(make("div", "verdict warning", make("p", "", run.lost + " older spans are not in the trace.")));
  }

  function chart(axis, title, hint, rows) {
    if (!rows.length) return;
    const place = make("section", "", make("h3", "", title), make("div", "soft small", hint));
    page.append(place);
    new Chart(place, axis, title, rows);
  }

  function lines() {
    const axis = new Axis(run.end);
    const ranked = run.rows.some((row) => row.rank);
    const shown = run.operations.map((name, i) => [colourOf(i), name]);
    const rows = run.rows.map((row) => ({
      ...row, kind: "spans", colours: row.wait ? [["wait", "waits"]] : row.rank ? OF_RANKS : shown,
    }));
    page.append(make("h2", "", "Time line"),
      make("div", "soft small", "Drag to zoom, press twice for all; keys +, \u2212, arrows, 0."),
      make("div", "bar sticky", key("wait", ranked ? "a rank, or the consumer, waits" : "the consumer waits"),
        ...(ranked ? [key("step", "a rank's step"), key("start", "report()")] : []),
        ...shown.slice(0, MOST_KEYS).map(([colour, name], i) =>
          key(colour, i === MOST_KEYS - 1 && shown.length > MOST_KEYS ? name + " and " + (shown.length - MOST_KEYS) + " more" : name)),
        button("+", () => axis.zoom(0.5)), button("\u2212", () => axis.zoom(2)), button("all", () => axis.reset())));
    chart(axis, "Ranks", "What each rank of the split does: red, it waits for its next batch; yellow, it is in report().",
      rows.filter((row) => row.rank));
    chart(axis, "Consumer", "Red: it waits for the next table. Elsewhere it works: the trainer's steps.",
      rows.filter((row) => row.wait));
    chart(axis, "Threads", "What each thread of the engine works on; grey: nothing.",
      rows.filter((row) => !row.wait && !row.waits && !row.rank));
    chart(axis, "Waiting", "Work that waits for a function's result, or for the network, side by side.",
      rows.filter((row) => row.waits));
    chart(axis, "Memory", run.limit ? "The limit is " + (run.limit / 1e6).toFixed(0) + " MB." : "",
      run.curves.map((curve) => ({ ...curve, kind: "curve" })));
  }

  function statistics() {
    if (run.stats) page.append(make("h2", "", "Statistics"), make("pre", "", run.stats));
  }

  head();
  if (run.rows.length) lines();
  else page.append(make("p", "", "The trace has no spans: the run ended before any work began."));
  statistics();
})();
