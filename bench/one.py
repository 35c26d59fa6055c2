"""One measured process: `python bench/one.py WORKLOAD WHO DATA MODE` ends with a line "RESULT {...}".

MODE   time    seconds from the call that starts the run to the last batch; imports, and the start of Ray's
               processes, come before it. Every batch is touched, nothing is added up.
       first   first_batch: seconds from the start of the interpreter (BENCH_BORN_NS, monotonic clock) to the
               first batch in hand: here everything counts
       check   sums of all columns, which show that all engines gave the same rows

A workload that is a whole script (WHOLE: the notebook) says by itself what came; its seconds are those of the
process.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path


def consume(batches, mode, workload):
    import batches as common

    sums = getattr(workload, "sums", common.sums)
    result = {"rows": 0, "sums": {}, "first_ns": None}
    for batch in batches:
        result["rows"] += common.touch(batch)
        result["first_ns"] = result["first_ns"] or time.monotonic_ns()
        if mode == "first":
            break
        if mode == "check":
            common.add_sums(result["sums"], sums(batch))
    return result


def main():
    name, who, data, mode = sys.argv[1:5]
    born = int(os.environ.get("BENCH_BORN_NS", time.monotonic_ns()))
    sys.path[0] = str(Path(__file__).resolve().parent)
    workload = importlib.import_module(f"workloads.{name}")
    start = getattr(workload, who)(data)
    begin = born if workload.WHOLE else time.monotonic_ns()
    result = start() if workload.WHOLE else consume(start(), mode, workload)
    result["seconds"] = (time.monotonic_ns() - begin) / 1e9
    first = result.pop("first_ns")
    result["first_batch"] = (first - born) / 1e9 if first else None
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
