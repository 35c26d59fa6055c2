"""How random is an order? Four figures for window sizes of local shuffles, and for the global one.

    python bench/shuffle_quality.py [--rows N] [--svg FILE]

prints a table in Markdown; docs/shuffling.md shows that of a million rows. All figures are of the numbers of
rows as they come, and are 1 for a perfect shuffle, up to chance:

    entropy     of the differences between neighbours (modulo the number of rows), as a share of what a random
                permutation has; the harmonic mean of that for rows and for the 256 blocks that rows are of
    distance    mean distance that a row moved, as a share of a third of all rows, which chance would give
    classes     rows sorted by 10 classes: the chi-square of a batch's counts of classes should be 9; 9 by the
                mean of all batches
    both ends   share of the batches with rows of both the first and the last tenth, by what chance gives
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

BATCH = 256
CLASSES = 10
BLOCKS = 256


def entropy(numbers, n):
    """Of the differences between neighbours, in nats."""
    counts = np.bincount(np.diff(numbers) % n, minlength=n)
    shares = counts[counts > 0] / (len(numbers) - 1)
    return float(-(shares * np.log(shares)).sum())


def entropy_share(order):
    """See above. What a random permutation has is that of one."""
    n = len(order)
    block = max(1, n // BLOCKS)
    chance = np.random.default_rng(0).permutation(n)
    rows = entropy(order, n) / entropy(chance, n)
    n_blocks = n // block + 1
    blocks = entropy(order // block, n_blocks) / entropy(chance // block, n_blocks)
    return 2 / (1 / max(rows, 1e-9) + 1 / max(blocks, 1e-9))


def distance(order):
    n = len(order)
    return float(np.abs(order - np.arange(n)).mean() / (n / 3))


def batches_of(order):
    n = len(order) // BATCH
    return order[: n * BATCH].reshape(n, BATCH)


def classes(order):
    labels = batches_of(order * CLASSES // len(order))
    counts = np.stack([(labels == c).sum(axis=1) for c in range(CLASSES)], axis=1)
    expected = BATCH / CLASSES
    squares = ((counts - expected) ** 2 / expected).sum(axis=1)
    return (CLASSES - 1) / max(float(squares.mean()), 1e-9)


def both_ends(order):
    tenths = batches_of(order * 10 // len(order))
    both = (tenths == 0).any(axis=1) & (tenths == 9).any(axis=1)
    chance = 1 - 2 * 0.9**BATCH + 0.8**BATCH
    return float(both.mean() / chance)


FIGURES = {"entropy": entropy_share, "distance": distance, "classes": classes, "both ends": both_ends}


def figures(order):
    """All of them, by name."""
    order = np.asarray(order, np.int64)
    return {name: figure(order) for name, figure in FIGURES.items()}


# -------------------------------------------------------------------------------------------------- measuring


def make_files(folder, rows, files=16, row_groups=16):
    """Parquet files with the numbers of rows in order, 256 row groups in all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for k in range(files):
        begin, end = rows * k // files, rows * (k + 1) // files
        part = pa.table({"id": np.arange(begin, end)})
        pq.write_table(
            part, Path(folder) / f"{k:03}.parquet", row_group_size=max(1, (end - begin) // row_groups)
        )


def order_of(dataset, window=None):
    ask = {} if window is None else {"local_shuffle_buffer_size": window, "local_shuffle_seed": 1}
    return np.concatenate([b["id"] for b in dataset.iter_batches(batch_size=None, **ask)])


def measure(folder, rows, windows):
    """(what, window or None, its figures), for one order after the other."""
    import headrace.data

    ds = headrace.data.read_parquet(str(folder))
    in_place = ds.limit(rows)  # what counts rows keeps blocks where they are
    yield "as they lie", None, figures(order_of(ds))
    yield "blocks only", None, figures(order_of(ds.randomize_block_order(seed=1)))
    for window in windows:
        yield "windows alone", window, figures(order_of(in_place, window))
    for window in windows:
        yield "blocks and windows", window, figures(order_of(ds, window))
    yield "global", None, figures(order_of(ds.random_shuffle(seed=1)))


def table(results):
    lines = ["| order | window | " + " | ".join(FIGURES) + " |", "|---|---" + "|---" * len(FIGURES) + "|"]
    for what, window, found in results:
        size = f"{window:,}" if window else ""
        lines.append(f"| {what} | {size} | " + " | ".join(f"{found[name]:.3f}" for name in FIGURES) + " |")
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------- drawing

COLOURS = {"entropy": "#1b6ca8", "distance": "#c0392b", "classes": "#2e8b57", "both ends": "#8e5ea2"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 50, 20, 130, 45


def svg(results, windows):
    """The figures by window size: solid with blocks in random order, dashed without."""
    across = WIDTH - LEFT - RIGHT
    down = HEIGHT - TOP - BOTTOM
    low, high = np.log10(windows[0]), np.log10(windows[-1])

    def place(window, value):
        x = LEFT + across * (np.log10(window) - low) / (high - low)
        return f"{x:.1f},{TOP + down * (1 - min(value, 1.1) / 1.1):.1f}"

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for value in (0, 0.25, 0.5, 0.75, 1):
        x, y = place(windows[0], value).split(",")
        out.append(f'<path d="M{x} {y}h{across}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for window in windows:
        x = place(window, 0).split(",")[0]
        out.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{window:,}</text>')
    out.append(f'<text x="{LEFT + across / 2}" y="{HEIGHT - 8}" text-anchor="middle">rows of a window</text>')
    for k, name in enumerate(FIGURES):
        for kind, dash in (("blocks and windows", ""), ("windows alone", ' stroke-dasharray="5 4"')):
            points = " ".join(place(w, found[name]) for what, w, found in results if what == kind)
            out.append(
                f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"{dash}/>'
            )
        y = TOP + 20 + 20 * k
        out.append(f'<text x="{WIDTH - RIGHT + 14}" y="{y}" fill="{COLOURS[name]}">{name}</text>')
    y = TOP + 40 + 20 * len(FIGURES)
    out.append(f'<text x="{WIDTH - RIGHT + 14}" y="{y}">dashed: blocks</text>')
    out.append(f'<text x="{WIDTH - RIGHT + 14}" y="{y + 16}">as they lie</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--svg", help="write the plot there")
    arguments = parser.parse_args()
    windows = [w for w in (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if w <= arguments.rows]
    with tempfile.TemporaryDirectory() as folder:
        make_files(folder, arguments.rows)
        results = list(measure(folder, arguments.rows, windows))
    print(table(results))
    if arguments.svg:
        Path(arguments.svg).write_text(svg(results, windows))


if __name__ == "__main__":
    main()
