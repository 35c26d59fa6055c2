"""Writes docs/loaders.svg from the table in docs/dataloader.md (bench/data_loader.py measures that table).

`make docs` runs it; tests/python/test_docs.py compares.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PLOT = DOCS / "loaders.svg"
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


def main():
    made = svg(rows_of_table())
    if "--check" in sys.argv:
        sys.exit(PLOT.read_text() != made)
    PLOT.write_text(made)


if __name__ == "__main__":
    main()
