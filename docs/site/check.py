"""Fails if a page of the built site loads something from another host, or shows a block's fence as text."""

import re
import sys
from pathlib import Path

LOADS = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)"
)
IN_STYLES = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]+)")


def main(site):
    found = [f"{p}: {u}" for p in site.rglob("*.html") for u in LOADS.findall(p.read_text())]
    found += [f"{p}: {u}" for p in site.rglob("*.css") for u in IN_STYLES.findall(p.read_text())]
    raw = [p for p in site.rglob("*.html") if "<p>```" in p.read_text()]
    if raw:
        sys.exit("blocks are no blocks (write ```python { .NAME }):\n" + "\n".join(map(str, raw)))
    if not (site / "index.html").exists():
        found.append(f"{site}: no index.html")
    if found:
        sys.exit("pages load from elsewhere:\n" + "\n".join(sorted(set(found))))


main(Path(sys.argv[1]))
