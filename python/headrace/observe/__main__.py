"""python -m headrace.observe TRACE [OUT.html]: the page of a trace."""

import argparse
import sys

from headrace._core import HeadraceError
from headrace.observe import report
from headrace.settings import line_of


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m headrace.observe", description="Writes the report of a run as one page of HTML."
    )
    parser.add_argument("trace", help="a file of HEADRACE_TRACE or DataContext.trace_path")
    parser.add_argument(
        "out", nargs="?", help="the page; default: the name of the trace with the suffix .html"
    )
    words = parser.parse_args()
    try:
        print(report(words.trace, words.out))
    except (HeadraceError, OSError) as e:
        print(f"headrace: {line_of(e)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
