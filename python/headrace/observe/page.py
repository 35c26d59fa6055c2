"""Self-contained pages: one HTML file with its data, style and scripts, which loads nothing from elsewhere.

All pages share page.css (colours, tables, light and dark) and timeline.js (time lines on canvases). A page
adds a script of its own, which builds the page from the data. The charts are ours: a chart library has no
lanes, and Headrace builds with pip alone, without npm.

Names, errors and paths in the data come from users' code. The data lies in a block of JSON in which nothing
can end the block, and scripts show text by textContent. The page's Content-Security-Policy permits only the
scripts whose hashes it names, and no address to load from.

Tests: test_tune_page.py.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws with JavaScript.</noscript>
<main id="page"></main>
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""


def page(title: str, data: Any, scripts: Sequence[Path], connects: bool = False) -> str:
    """The text of a page.

    data: what json.dumps takes; a script finds it by Headrace.data(). scripts: the page's own JavaScript
    files, after timeline.js. connects: a server gives the page, and scripts may ask that server for more.
    """
    return _PAGE.format(
        title=html.escape(title),
        style=_style(),
        policy=policy(scripts, connects),
        data=_json(data),
        scripts="\n".join(f"<script>{text}</script>" for text in _texts(scripts)),
    )


@functools.cache
def _text(path):
    return path.read_text()


def _texts(scripts):
    return [_text(path) for path in (HERE / "timeline.js", *scripts)]


def _style():
    return _text(HERE / "page.css")


def policy(scripts: Sequence[Path], connects: bool = False) -> str:
    """The Content-Security-Policy of such a page."""
    hashes = " ".join(map(_hash, _texts(scripts)))
    to = "; connect-src 'self'" if connects else ""
    return f"default-src 'none'; script-src {hashes}; style-src {_hash(_style())}; img-src data:{to}"


@functools.cache
def _hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data):
    """JSON in which no text can end the script element or begin a comment."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
