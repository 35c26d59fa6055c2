"use strict";
/* Time lines on canvases. A page makes one Axis and charts on it, which zoom together:

     const axis = new Headrace.Axis(seconds);
     new Headrace.Chart(element, axis, "name", rows);

   A row is { name, kind, ... }, with times in seconds, ascending:
     kind "spans": begin, end, what: lists; colours: what -> [colour of page.css, word]; many: spans that stand for
       several things, or nothing. Where a pixel holds several spans, each colour has the height of its share.
       levels: nothing, or bins of { width, index, what, share, many }, lists for each level, wide bins first: the
       widest that fit into a pixel are drawn instead of spans; whole: begin, end and what have all spans.
     kind "share": times, values: a share from 0 to 1 until the next time
     kind "curve": times, values, unit; until: the last value holds to there, or nothing
   A page that lives calls axis.grow(seconds), and chart.show(rows) when rows have changed.
   Drag over a chart to zoom in, press twice for all; keys +, -, arrows, 0. All text is textContent or fillText. */
var Headrace = (() => {
  const HEIGHT = { spans: 22, share: 14, curve: 36 };
  const GAP = 4, TICKS = 20, CHANGE = 0.7;

  const data = () => JSON.parse(document.getElementById("data").textContent);

  /* An element with a class and children: elements, or texts. */
  function make(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    for (const child of children) made.append(child);
    return made;
  }

  /* An entry of a legend: a colour, which is a class of page.css, and its meaning. */
  function key(colour, text) { return make("span", "key", make("i", colour), text); }

  function button(text, act) {
    const made = make("button", "", text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  function seconds(s) {
    const a = Math.abs(s);
    if (a === 0) return "0 s";
    if (a < 1e-3) return (s * 1e6).toFixed(0) + " \u00b5s";
    if (a < 1) return (s * 1e3).toFixed(a < 0.01 ? 2 : a < 0.1 ? 1 : 0) + " ms";
    return s.toFixed(a < 10 ? 2 : 1) + " s";
  }

  /* Three digits, or all of a whole number. */
  function figure(x) { return x === 0 ? "0" : Math.abs(x) >= 100 ? Math.round(x).toLocaleString("en") : x.toPrecision(3); }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  }

  /* The index of the last of the ascending `list` that is <= x, or -1. */
  function last(list, x) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] <= x) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  /* A level of bins as lists of spans, each of which covers a share of its time. */
  function unfolded({ width, index, what, share, many }) {
    return { width, what, share, many, begin: index.map((i) => i * width), end: index.map((i) => (i + 1) * width) };
  }

  class Axis {
    constructor(end) {
      this.end = end > 0 ? end : 1;
      this.view = [0, this.end];
      this.charts = [];
    }
    set(begin, end) {
      const width = Math.min(this.end, Math.max(end - begin, this.end * 1e-5));
      begin = Math.min(Math.max(0, begin), this.end - width);
      this.view = [begin, begin + width];
      for (const chart of this.charts) chart.changed();
    }
    zoom(factor, at) {
      const [begin, end] = this.view;
      const middle = at === undefined ? (begin + end) / 2 : at;
      this.set(middle - (middle - begin) * factor, middle + (end - middle) * factor);
    }
    pan(share) {
      const step = (this.view[1] - this.view[0]) * share;
      this.set(this.view[0] + step, this.view[1] + step);
    }
    reset() { this.set(0, this.end); }
    /* The time goes on to `end`: a view of all shows all, one that ends at the end moves along, others stay. */
    grow(end) {
      const [from, to] = this.view, last = this.end;
      if (end <= last) return;
      this.end = end;
      if (to >= last) this.set(from > 0 ? end - (to - from) : 0, end);
    }
    point(t) { for (const chart of this.charts) chart.point(t); }
  }

  class Chart {
    constructor(host, axis, name, rows) {
      this.axis = axis;
      this.canvas = make("canvas");
      this.cursor = make("div", "cursor");
      this.range = make("div", "range");
      this.readout = make("div", "readout");
      this.place = make("div", "chart", this.canvas, this.cursor, this.range);
      this.place.tabIndex = 0;
      this.place.setAttribute("role", "img");
      this.place.setAttribute("aria-label", "Time line of " + name);
      host.append(this.place, this.readout);
      axis.charts.push(this);
      this.show(rows);
      this.listen();
      new ResizeObserver(() => this.changed()).observe(this.place);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.changed());
    }

    /* Draws these rows; the lists of a row may have grown. */
    show(rows) {
      this.rows = rows.map((row) => row.levels ? { ...row, levels: row.levels.map(unfolded) } : row);
      this.height = TICKS;
      for (const row of rows) this.height += HEIGHT[row.kind] + GAP;
      this.canvas.style.height = this.height + "px";
      this.changed();
    }

    /* --- input */

    listen() {
      let from = null;
      const x = (event) => event.clientX - this.canvas.getBoundingClientRect().left;
      this.canvas.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        from = x(event);
        this.canvas.setPointerCapture(event.pointerId);
      });
      this.canvas.addEventListener("pointermove", (event) => {
        this.axis.point(this.time(x(event)));
        this.read(this.time(x(event)));
        if (from !== null) this.select(from, x(event));
      });
      this.canvas.addEventListener("pointerup", (event) => {
        if (from === null) return;
        const [a, b] = [this.time(Math.min(from, x(event))), this.time(Math.max(from, x(event)))];
        const far = Math.abs(x(event) - from) > 4;
        from = null;
        this.range.style.display = "none";
        if (far) this.axis.set(a, b);
      });
      this.canvas.addEventListener("pointercancel", () => { from = null; this.range.style.display = "none"; });
      this.canvas.addEventListener("pointerleave", () => { this.axis.point(null); this.readout.textContent = ""; });
      this.canvas.addEventListener("dblclick", () => this.axis.reset());
      this.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return; /* the page scrolls */
        event.preventDefault();
        this.axis.zoom(event.deltaY < 0 ? CHANGE : 1 / CHANGE, this.time(x(event)));
      }, { passive: false });
      this.place.addEventListener("keydown", (event) => {
        const keys = {
          "+": () => this.axis.zoom(CHANGE), "=": () => this.axis.zoom(CHANGE), "-": () => this.axis.zoom(1 / CHANGE),
          ArrowLeft: () => this.axis.pan(-0.2), ArrowRight: () => this.axis.pan(0.2), 0: () => this.axis.reset(),
        };
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
      });
    }

    select(a, b) {
      this.range.style.display = "block";
      this.range.style.left = Math.max(this.left, Math.min(a, b)) + "px";
      this.range.style.width = Math.max(0, Math.max(a, b) - Math.max(this.left, Math.min(a, b))) + "px";
    }

    /* Moves the line at the pointer to time t; null hides it. */
    point(t) {
      const at = t === null ? -1 : this.x(t);
      const seen = t !== null && at >= this.left && at <= this.left + this.width;
      this.cursor.style.display = seen ? "block" : "none";
      this.cursor.style.transform = "translateX(" + at + "px)";
    }

    read(t) {
      const parts = [seconds(t)];
      for (const row of this.rows) {
        if (row.kind === "spans") {
          const words = row.whole === false ? this.bins(row, t) : this.span(row, t);
          if (words) parts.push(row.name + ": " + words);
          continue;
        }
        const i = last(row.times, t);
        if (i < 0) continue;
        if (row.kind === "curve") parts.push(row.name + " " + figure(row.values[i]) + " " + row.unit);
        else parts.push(row.name + " " + Math.round(100 * row.values[i]) + " %");
      }
      this.readout.textContent = parts.join(" \u00b7 ");
    }

    /* The span at t in words, or "". */
    span(row, t) {
      const i = last(row.begin, t);
      if (i < 0 || t > row.end[i]) return "";
      const n = row.many && row.many[i] > 1 ? row.many[i] + " together: " : "";
      return n + row.colours[row.what[i]][1] + " " + seconds(row.end[i] - row.begin[i]);
    }

    /* The narrowest bins at t in words, or "". */
    bins(row, t) {
      const level = row.levels[row.levels.length - 1], words = [];
      for (let i = last(level.begin, t); i >= 0 && t <= level.end[i]; i--)
        words.unshift(row.colours[level.what[i]][1] + " " + Math.round(100 * level.share[i]) + " %");
      return words.length ? words.join(", ") + " of " + seconds(level.width) : "";
    }

    /* --- drawing */

    x(t) { return this.left + (t - this.axis.view[0]) / (this.axis.view[1] - this.axis.view[0]) * this.width; }
    time(x) {
      const [begin, end] = this.axis.view;
      return begin + Math.min(1, Math.max(0, (x - this.left) / this.width)) * (end - begin);
    }

    changed() {
      if (this.waits) return;
      this.waits = true;
      requestAnimationFrame(() => { this.waits = false; this.draw(); });
    }

    draw() {
      const wide = this.place.clientWidth, ratio = window.devicePixelRatio || 1;
      if (!wide) return;
      this.left = Math.min(130, Math.round(wide * 0.25));
      this.width = wide - this.left;
      this.canvas.width = Math.round(wide * ratio);
      this.canvas.height = Math.round(this.height * ratio);
      const g = this.canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, wide, this.height);
      g.font = "11px system-ui, sans-serif";
      g.textBaseline = "middle";
      this.ticks(g);
      let top = 0;
      for (const row of this.rows) {
        const height = HEIGHT[row.kind];
        g.fillStyle = colour("soft");
        g.textAlign = "left";
        g.fillText(this.fitted(g, row.name), 0, top + Math.min(height, 14) / 2);
        g.fillStyle = colour("raised");
        g.fillRect(this.left, top, this.width, height);
        if (row.kind === "spans") this.spans(g, row, top, height);
        else this.values(g, row, top, height);
        top += height + GAP;
      }
    }

    fitted(g, name) {
      if (g.measureText(name).width <= this.left - 8) return name;
      let n = name.length;
      while (n > 1 && g.measureText(name.slice(0, n) + "\u2026").width > this.left - 8) n--;
      return name.slice(0, n) + "\u2026";
    }

    ticks(g) {
      const [begin, end] = this.axis.view;
      const about = (end - begin) / Math.max(2, this.width / 90);
      const power = Math.pow(10, Math.floor(Math.log10(about)));
      const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= about);
      const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      g.textAlign = "center";
      for (let i = Math.ceil(begin / step); i * step <= end; i++) {
        const x = this.x(i * step);
        g.fillStyle = colour("line");
        g.fillRect(x, 0, 1, this.height - TICKS);
        g.fillStyle = colour("soft");
        const half = g.measureText((i * step).toFixed(digits) + " s").width / 2;
        g.fillText((i * step).toFixed(digits) + " s", Math.min(x, this.left + this.width - half), this.height - TICKS / 2);
      }
    }

    /* What to draw of a row: the widest bins that fit into a pixel, or else its spans, or else its narrowest bins. */
    fine(row) {
      const pixel = (this.axis.view[1] - this.axis.view[0]) / Math.max(1, this.width), levels = row.levels || [];
      return levels.find((level) => level.width <= pixel) || (row.whole === false ? levels[levels.length - 1] : row);
    }

    /* Adds up how much of each pixel each colour covers, and draws the columns of a pixel as a stack. */
    spans(g, row, top, height) {
      const drawn = this.fine(row);
      const n = Math.max(1, Math.floor(this.width)), per = n / (this.axis.view[1] - this.axis.view[0]);
      const cover = row.colours.map(() => new Float32Array(n));
      const start = Math.max(0, last(drawn.end, this.axis.view[0]));
      for (let i = start; i < drawn.begin.length && drawn.begin[i] <= this.axis.view[1]; i++) {
        const a = Math.max(0, (drawn.begin[i] - this.axis.view[0]) * per);
        const b = Math.min(n, (drawn.end[i] - this.axis.view[0]) * per);
        const list = cover[drawn.what[i]], share = drawn.share ? drawn.share[i] : 1;
        for (let p = Math.floor(a); p < b; p++) list[p] += share * (Math.min(b, p + 1) - Math.max(a, p));
      }
      const foot = new Float32Array(n);
      cover.forEach((list, what) => {
        g.fillStyle = colour(row.colours[what][0]);
        for (let p = 0, q; p < n; p = q) {
          const part = Math.min(1 - foot[p], list[p]), low = foot[p];
          for (q = p; q < n && foot[q] === low && Math.min(1 - foot[q], list[q]) === part; q++) foot[q] = low + part;
          if (part > 0) g.fillRect(this.left + p, top + height * (1 - low - part), q - p, height * part);
        }
      });
    }

    values(g, row, top, height) {
      const most = row.kind === "share" ? 1 : row.values.reduce((a, b) => Math.max(a, b), 1e-9) * 1.05;
      const first = Math.max(0, last(row.times, this.axis.view[0]));
      g.save();
      g.beginPath();
      g.rect(this.left, top, this.width, height);
      g.clip();
      g.fillStyle = colour(row.kind === "share" ? "work" : "curve");
      for (let i = first; i < row.times.length && row.times[i] <= this.axis.view[1]; i++) {
        const end = i + 1 < row.times.length ? row.times[i + 1] : row.until || row.times[i];
        const a = Math.round(this.x(row.times[i])), b = Math.round(this.x(end));
        const tall = height * Math.min(1, row.values[i] / most);
        g.fillRect(a, top + height - tall, b - a, row.kind === "share" ? tall : Math.min(tall, 2));
        if (row.kind === "curve") {
          g.globalAlpha = 0.25;
          g.fillRect(a, top + height - tall, b - a, tall);
          g.globalAlpha = 1;
        }
      }
      g.restore();
      if (row.kind === "curve") {
        g.fillStyle = colour("soft");
        g.textAlign = "left";
        g.fillText(figure(most < 1e-8 ? 0 : most / 1.05) + " " + row.unit, 0, top + 26);
      }
    }
  }

  return { Axis, Chart, button, colour, data, key, make, seconds };
})();
