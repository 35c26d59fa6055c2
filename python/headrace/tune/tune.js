"use strict";
/* The page of headrace.tune: the recommendation, the table, and a chart for each configuration on one time axis. */
(() => {
  const { Axis, Chart, button, data, key, make } = Headrace;
  const report = data();
  const page = document.getElementById("page");

  function head() {
    const machine = report.machine;
    const step = report.step_s === null ? "the program's own step" : "a step of " + Headrace.seconds(report.step_s);
    const gpus = machine.gpus ? ", " + machine.gpus + " GPUs" : "";
    page.append(
      make("h1", "", "Loader: " + report.name),
      make("div", "soft small", report.time + " \u00b7 " + step + " \u00b7 " + machine.cores + " cores" + gpus +
        " (" + machine.processor + ") \u00b7 Headrace " + report.headrace +
        (report.complete ? "" : " \u00b7 stopped before the end")));
    paragraphs("verdict", report.recommendation);
    paragraphs("verdict warning", report.warnings);
  }

  function paragraphs(className, texts) {
    if (texts.length) page.append(make("div", className, ...texts.map((text) => make("p", "", text))));
  }

  function table() {
    const header = make("tr", "", ...report.columns.map((name) => make("th", "", name)));
    const rows = report.rows.map((row) => {
      const failed = row.error !== "";
      const cells = row.cells.map((text) => make("td", "", text));
      const made = make("tr", row.cells[0] === report.best ? "best" : failed ? "bad" : "");
      if (failed && row.cells[1] === "-") {
        const reason = make("td", "text", row.error);
        reason.colSpan = cells.length - 1;
        made.append(cells[0], reason);
      } else made.append(...cells);
      return made;
    });
    page.append(make("h2", "", "Configurations"),
      make("div", "scroll", make("table", "", make("thead", "", header), make("tbody", "", ...rows))));
  }

  function lines() {
    if (!report.lines.length) return;
    const axis = new Axis(Math.max(...report.lines.map((line) => line.end)));
    page.append(make("h2", "", "Time lines"),
      make("div", "soft small", "All begin with the call of make_loader. Drag to zoom, press twice for all."),
      make("div", "bar sticky", key("step", "step"), key("wait", "wait for a batch"), key("start", "wait at an epoch's start"),
        key("work", "CPU of a process"), key("curve", "memory"),
        button("+", () => axis.zoom(0.5)), button("\u2212", () => axis.zoom(2)), button("all", () => axis.reset())));
    for (const line of report.lines) {
      const place = make("section", "", make("h3", "", line.name));
      page.append(place);
      new Chart(place, axis, line.name, line.rows);
    }
  }

  function foot() {
    if (report.notes.length)
      page.append(make("h2", "", "Notes"), make("ul", "small", ...report.notes.map((text) => make("li", "", text))));
  }

  head();
  table();
  lines();
  foot();
})();
