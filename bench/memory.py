"""What a scan takes at most under a memory limit: the summed PSS of all its processes, sampled every 20 ms.

    python bench/memory.py [--rows N] [--limit 256MiB] [--most 400] [--data FOLDER]

Every column of the table is read in batches of 1,024 rows as NumPy, by one process with Python and NumPy.
Exit status 1 if the peak is above `--most` megabytes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import make_data
import pss

HERE = Path(__file__).resolve().parent
SCAN = """
import json, sys
import headrace.data
path, reader, options, batch_size = sys.argv[1:]
dataset = getattr(headrace.data, reader)(path, **json.loads(options))
rows = 0
for batch in dataset.iter_batches(batch_size=int(batch_size), batch_format="numpy"):
    rows += len(next(iter(batch.values())))
print(rows)
"""


def scan(path, limit, reader="read_parquet", options=None, batch_size=1024, timeout_s=300):
    """(rows, peak bytes, seconds) of a scan of all columns in a process of its own."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", SCAN, str(path), reader, json.dumps(options or {}), str(batch_size)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HEADRACE_MEMORY_LIMIT": limit},
    )
    try:
        peak = pss.watch(process, timeout_s)
        output = process.communicate()[0]
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise RuntimeError(f"the scan ended with {process.returncode}")
    return int(output), peak, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=make_data.SIZES["table"], help="(%(default)s)")
    parser.add_argument("--limit", default="256MiB", help="HEADRACE_MEMORY_LIMIT of the scan (%(default)s)")
    parser.add_argument("--most", type=float, default=400, help="megabytes that are allowed (%(default)s)")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="(%(default)s)")
    args = parser.parse_args()
    folder = make_data.ensure(args.data, "table", args.rows)
    rows, peak, seconds = scan(folder, args.limit)
    print(f"{rows:,} rows in {seconds:.2f} s, limit {args.limit}: peak {peak / 1e6:.0f} MB of {args.most:g}")
    if rows != args.rows:
        sys.exit(f"{rows} rows came, {args.rows} are there")
    return peak / 1e6 >= args.most


if __name__ == "__main__":
    sys.exit(main())
