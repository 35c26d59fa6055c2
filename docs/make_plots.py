"""Plots and tables of measurements.

- docs/loaders.svg, from the table in docs/dataloader.md (bench/data_loader.py measures that table);
- docs/bench.svg and the table of docs/performance.md between its two marks, from docs/bench.json, which
  `make bench ARGS="--json docs/bench.json"` writes.

`make docs` runs it; tests/python/test_docs.py compares.
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PLOT = DOCS / "loaders.svg"
FIGURES = DOCS / "bench.json"
BENCH_PLOT = DOCS / "bench.svg"
BENCH_PAGE = DOCS / "performance.md"
MARKS = "<!-- the table of bench.json -->\n", "<!-- its end -->\n"
OURS = "headrace"
COLUMNS = (
    "Headrace, threads",
    "Polars",
    "DuckDB",
    "pyarrow.dataset",
    "Daft",
    "torch DataLoader",
    "webdataset",
    "tf.data",
    "tfrecord",
    "Ray Data",
)
STYLE = """<style>text{font:13px sans-serif;fill:#333}.bar{fill:#9aa5ad}.ours{fill:#00796b}.box{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#ddd}.box{fill:#1f2129}.bar{fill:#6b7680}.ours{fill:#4db6ac}}
</style>"""


def rows_of_table():
    """(dataset, loader, batches per second) of each row; an empty first cell repeats the dataset."""
    dataset, rows = "", []
    for line in (DOCS / "dataloader.md").read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[\d,]+", cells[4]):
            dataset = cells[0] or dataset
            rows.append((dataset, cells[1].replace("`", ""), int(cells[4].replace(",", ""))))
    return rows


def svg(rows):
    parts, y, dataset = [], 10, ""
    for name, loader, value in rows:
        if name != dataset:
            dataset, most = name, max(v for n, _, v in rows if n == name)
            y += 26
            parts.append(f'<text x="10" y="{y - 8}" font-weight="bold">{name}</text>')
        width = 380 * value / most
        kind = "ours" if loader == "Headrace" else "bar"
        parts.append(f'<text x="200" y="{y + 12}" text-anchor="end">{loader}</text>')
        parts.append(f'<rect class="{kind}" x="210" y="{y}" width="{width:.1f}" height="15"/>')
        parts.append(f'<text x="{216 + width:.1f}" y="{y + 12}">{value:,}</text>')
        y += 20
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {y + 10}">'
    return "\n".join([head, STYLE, f'<rect class="box" width="660" height="{y + 10}"/>', *parts, "</svg>\n"])


def medians(figures):
    """{who: seconds}, without those that failed; of several numbers of workers the best one."""
    found = {}
    for who, figure in figures.items():
        if isinstance(figure, dict):
            who = re.sub(r", \d workers?$", "", who).replace("headrace,", "Headrace,")
            found[who] = min(found.get(who, math.inf), statistics.median(figure["seconds"]))
    return found


def workloads():
    """(title, {who: seconds}) of each workload that ours ended."""
    for workload in json.loads(FIGURES.read_text())["workloads"].values():
        seconds = medians(workload["figures"])
        if OURS in seconds:
            yield workload["title"], seconds


def bench_table():
    measured, all_of_them = json.loads(FIGURES.read_text()), list(workloads())
    columns = [who for who in COLUMNS if any(who in seconds for _, seconds in all_of_them)]
    lines = [f"| | Headrace, s | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for title, seconds in all_of_them:
        ratios = [f"{seconds[who] / seconds[OURS]:.1f}" if who in seconds else "" for who in columns]
        lines.append(f"| {title} | {seconds[OURS]:.3f} | {' | '.join(ratios)} |")
    limits = "\n".join([*measured["limits"], f"peers: {measured['peers']}"])
    return "\n".join([*lines, "", "```text", limits, "```", ""])


def bench_page():
    before, rest = BENCH_PAGE.read_text().split(MARKS[0])
    return before + MARKS[0] + bench_table() + MARKS[1] + rest.split(MARKS[1])[1]


def bench_svg():
    """Seconds of the best peer and of Ray Data as multiples of ours, on a logarithmic scale from 1 on."""
    ours, width, parts, y = 400, 90, [], 40  # ours: where 1 is; width: of a factor of e

    def bar(who, ratio):
        nonlocal y
        length = width * math.log(ratio)
        kind = "bar" if who != "Ray Data" else "ray"
        begin, end = sorted([ours, ours + length])
        parts.append(f'<rect class="{kind}" x="{begin:.1f}" y="{y}" width="{end - begin:.1f}" height="13"/>')
        parts.append(f'<text x="{end + 6:.1f}" y="{y + 11}">{who} {ratio:.1f}</text>')
        y += 16

    for title, seconds in workloads():
        peers = {who: s / seconds[OURS] for who, s in seconds.items() if who in COLUMNS[1:-1]}
        parts.append(f'<text x="290" y="{y + 12}" text-anchor="end">{title}</text>')
        if peers:
            bar(*min(peers.items(), key=lambda item: item[1]))
        if "Ray Data" in seconds:
            bar("Ray Data", seconds["Ray Data"] / seconds[OURS])
        y += 8
    style = STYLE.replace("</style>", ".ray{fill:#c9744f}</style>")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {y + 6}">'
    words = "seconds as multiples of Headrace's: the best peer, and Ray Data"
    title = f'<text x="300" y="20" font-weight="bold">{words}</text>'
    line = f'<rect class="ours" x="{ours - 1}" y="30" width="2" height="{y - 30}"/>'
    return "\n".join(
        [head, style, f'<rect class="box" width="860" height="{y + 6}"/>', title, *parts, line, "</svg>\n"]
    )


def main():
    made = {PLOT: svg(rows_of_table()), BENCH_PLOT: bench_svg(), BENCH_PAGE: bench_page()}
    if "--check" in sys.argv:
        sys.exit(any(path.read_text() != text for path, text in made.items()))
    for path, text in made.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
