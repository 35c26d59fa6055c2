"""Tables of rows for people: text for terminals, HTML for notebooks.

A cell is one line: an array is its shape and type, bytes are their number, long text is cut. A table that is
wider than the terminal leaves out columns in the middle.
"""

import base64
import html
import io
import re
import shutil
import sys
import unicodedata

import numpy as np

CELL = 32  # characters of a cell's text
ROWS = 10  # of repr()
WIDTH = 100  # where there is no terminal
THUMBNAIL = 96  # pixels
GAP = "…"
_TENSOR = "extension<arrow.fixed_shape_tensor[value_type="
_RAGGED = r"extension<arrow\.variable_shape_tensor\[value_type=(.+?), ndim=(\d+)"


class Column:
    def __init__(self, name, kind, values):
        self.name, self.kind, self.values = name, kind, values
        self.right = bool(values) and all(
            v is None or (isinstance(v, (int, float, np.number)) and not isinstance(v, bool)) for v in values
        )

    def texts(self):
        return [_cut(self.name), _cut(self.kind), *(cell(v) for v in self.values)]


def short_type(kind):
    """A type as one reads it: tensors are uint8[28, 28], and uint8[?, ?] if their shapes differ."""
    if kind.startswith(_TENSOR):
        value, _, shape = kind.removeprefix(_TENSOR).partition(", shape=[")
        return f"{value}[{shape.partition(']')[0].replace(',', ', ')}]"
    if m := re.match(_RAGGED, kind):
        return f"{m[1]}[{', '.join('?' * int(m[2]))}]"
    return kind


def cell(value):
    """One line that stands for a value."""
    if isinstance(value, np.ndarray) and (value.ndim > 1 or value.size > 4):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 8:
        return f"{len(value):,} bytes"
    if isinstance(value, (float, np.floating)):
        text = f"{value:.6g}"
        return text + ".0" if text.lstrip("-").isdigit() else text
    if isinstance(value, str):
        value = value.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return _cut(str(value))


def _places(text):
    """Its width on a terminal: characters of East Asia take two places, combining ones none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _cut(text):
    if _places(text) <= CELL:
        return text
    text = text[: CELL - 1]
    while _places(text) >= CELL:
        text = text[:-1]
    return text + GAP


def _padded(text, size, right):
    spaces = " " * (size - _places(text))
    return spaces + text if right else text + spaces


def columns_of(schema, rows):
    """The Columns of rows (dicts); schema: the dataset's, or None."""
    if schema is not None:
        kinds = dict(zip(schema.names, map(short_type, schema.types), strict=True))
    else:
        kinds = {name: "" for row in rows for name in row}
    return [Column(name, kind, [row.get(name) for row in rows]) for name, kind in kinds.items()]


def width_of_terminal():
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout and sys.stdout.isatty() else WIDTH


def _fitting(columns, width):
    """The texts of as many columns from both ends as fit; None stands for those left out."""
    texts = [c.texts() for c in columns]
    sizes = [max(map(_places, t)) + 3 for t in texts]
    if sum(sizes) + 1 <= width:
        return list(zip(columns, texts, strict=True))
    left, right, used = 0, 0, 1 + len(GAP) + 3
    while left + right < len(texts):
        at = left if left <= right else len(texts) - 1 - right
        if used + sizes[at] > width and left:
            break
        used += sizes[at]
        left, right = (left + 1, right) if left <= right else (left, right + 1)
    both = list(zip(columns, texts, strict=True))
    gap = [(None, [GAP] * len(texts[0]))]
    return both[:left] + gap + both[len(both) - right :]


def folded(title, steps):
    """The title of a dataset, with a line for each step if it is wider than the terminal."""
    width = width_of_terminal()
    before, _, after = title.partition(" -> ".join(steps))
    if _places(title) <= width or len(steps) == 1:
        return title
    lines = ["  " + ("-> " if i else "") + step for i, step in enumerate(steps)]
    return "\n".join([before, *(s if len(s) <= width else s[: width - 1] + GAP for s in lines), after])


def table(schema, rows, width=None, plain=False):
    """The rows as lines of text in a frame. plain: with characters of ASCII."""
    shown = _fitting(columns_of(schema, rows), width or width_of_terminal())
    if not shown:
        return ""
    sizes = [max(map(_places, texts)) for _, texts in shown]

    def line(i):
        cells = (
            _padded(texts[i], size, column is not None and column.right)
            for (column, texts), size in zip(shown, sizes, strict=True)
        )
        return "│ " + " │ ".join(cells) + " │"

    def rule(left, middle, right, dash):
        return left + middle.join(dash * (size + 2) for size in sizes) + right

    lines = [rule("╭", "┬", "╮", "─"), line(0), line(1)]
    if rows:
        lines += [rule("╞", "╪", "╡", "═"), *(line(i + 2) for i in range(len(rows)))]
    lines.append(rule("╰", "┴", "╯", "─"))
    text = "\n".join(lines)
    return text.translate(_ASCII) if plain else text


_ASCII = str.maketrans("╭┬╮╞╪╡╰┴╯│─═…", "+++++++++|-=~")


def printed(schema, rows):
    """The table for print(), in what the encoding of standard output has."""
    text = table(schema, rows)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return table(schema, rows, plain=True).encode("ascii", "backslashreplace").decode()
    return text


# ------------------------------------------------------------------------------------------------- notebooks


def as_html(title, schema, rows):
    """The same as a table of HTML, with thumbnails of images."""
    columns = columns_of(schema, rows)
    head = "".join(f"<th>{html.escape(c.name)}<br><small>{html.escape(c.kind)}</small></th>" for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_html_cell(c.values[i])}</td>" for c in columns) + "</tr>"
        for i in range(len(rows))
    )
    return (
        f"<div><small>{html.escape(title)}</small>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _html_cell(value):
    picture = _thumbnail(value) if isinstance(value, np.ndarray) else None
    return picture or html.escape(cell(value))


def _thumbnail(value):
    """An <img> of an array of bytes that is an image by its shape; None for others, and without Pillow."""
    is_image = value.dtype == np.uint8 and (
        value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))
    )
    if not is_image or min(value.shape[:2]) < 8:
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    pixels = value[:, :, 0] if value.ndim == 3 and value.shape[2] == 1 else value
    image = Image.fromarray(pixels)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    out = io.BytesIO()
    image.save(out, "PNG")
    data = base64.b64encode(out.getvalue()).decode()
    shape = ", ".join(map(str, value.shape))
    return f'<img src="data:image/png;base64,{data}" title="uint8[{shape}]">'
