"""Makes the source distribution: dist/headrace-VERSION.tar.gz.

    make sdist

It holds the last commit, without what no build reads (packaging/trim_sdist.py).
packaging/check_sdist.py builds a wheel and the command from it, and tries them.
"""

import argparse
import sys
from pathlib import Path

from common import DIST, ROOT, one, run, shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder it is written to")
    args = parser.parse_args()
    args.dist.mkdir(exist_ok=True)
    for old in args.dist.glob("headrace-*.tar.gz"):
        old.unlink()
    changed = run("git", "-C", ROOT, "status", "--porcelain").splitlines()
    if changed:
        print(f"{len(changed)} changed files are not in it: it holds the last commit", file=sys.stderr)
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", args.dist, ROOT)
    sdist = one(args.dist, "headrace-*.tar.gz")
    print(f"{shown(sdist)}\n{sdist.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
