"""Makes the files of a release in dist/, from a clean clone, and checks them. It uploads nothing.

    python packaging/release.py --set 0.2.0     writes the version to every file that has it
    python packaging/release.py --check         says what is in the way of a release
    python packaging/release.py                 that, then sdist, wheel and their checks, and SHA-256 sums

docs/releases.md says what a version promises, and lists the steps of a release.
Tests: tests/python/test_release.py
"""

import argparse
import datetime
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from common import DIST, ROOT, run, shown, version

# Every file that holds the version, with what is around it. pyproject.toml takes meson.build's.
PLACES = {
    "meson.build": "^  version: '{0}.{1}.{2}',$",
    "include/headrace.h": "^#define HR_VERSION_MAJOR {0}\n#define HR_VERSION_MINOR {1}\n"
    "#define HR_VERSION_PATCH {2}$",
    "docs/man/headrace.1": '^\\.TH HEADRACE 1 "" "headrace {0}\\.{1}\\.{2}" "User Commands"$',
}
CHECKS = ("check_wheel.py", "check_sdist.py")


def found_in(root):
    """{file: its version, or None if it has none}."""
    found = {}
    for name, pattern in PLACES.items():
        match = re.search(pattern.format(*[r"(\d+)"] * 3), (root / name).read_text(), re.M)
        found[name] = ".".join(match.groups()) if match else None
    return found


def write_version(root, text):
    """Writes the version to every file of PLACES, and today's section of the change log."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise SystemExit(f"--set: expected a version as 0.2.0, found {text}")
    parts = text.split(".")
    for name, pattern in PLACES.items():
        path = root / name
        made = pattern.strip("^$").replace("\\.", ".").format(*parts)
        changed, n = re.subn(pattern.format(*[r"\d+"] * 3), lambda m, t=made: t, path.read_text(), flags=re.M)
        if n != 1:
            raise SystemExit(f"{name}: expected the version once, found it {n} times")
        path.write_text(changed)
    log = root / "CHANGELOG.md"
    head = f"## {text} - {datetime.date.today()}"
    log.write_text(log.read_text().replace("## Unreleased\n", f"## Unreleased\n\n{head}\n", 1))


def problems(root):
    """What is in the way of a release, a sentence each."""
    places = found_in(root)
    if len(set(places.values())) != 1:
        yield "the versions differ: " + ", ".join(f"{name} has {v}" for name, v in places.items())
    own = places["meson.build"]
    log = (root / "CHANGELOG.md").read_text()
    section = re.search(rf"^## {re.escape(own)} - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", log, re.M | re.S)
    if not section or not section[1].strip():
        yield f"CHANGELOG.md: expected a section '## {own} - YEAR-MONTH-DAY' with lines"
    left = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", log, re.M | re.S)
    if section and left and left[1].strip():
        yield "CHANGELOG.md: there are lines under Unreleased; a release has them in its section"
    git = ["git", "-C", root]
    changed = run(*git, "status", "--porcelain").splitlines()
    if changed:
        yield f"{len(changed)} files are changed or unknown to git: {', '.join(c[3:] for c in changed[:5])}"
    tagged = run(*git, "tag", "--list", f"v{own}").strip()
    if tagged and run(*git, "rev-parse", f"v{own}^{{commit}}") != run(*git, "rev-parse", "HEAD"):
        yield f"v{own} is the tag of another commit: choose the next version"


def build(dist):
    """Makes and checks the files; returns their paths."""
    for old in dist.glob("headrace-*"):
        old.unlink()
    for script in ("make_sdist.py", "make_wheel.py", *CHECKS):
        words = [sys.executable, ROOT / "packaging" / script, "--dist", dist]
        if subprocess.run(words).returncode:
            raise SystemExit(f"{script} failed")
    files = sorted(p for p in dist.glob("headrace-*") if p.suffix in {".gz", ".whl"})
    wrong = [p.name for p in files if not p.name.startswith(f"headrace-{version()}")]
    if wrong or len(files) != 2:
        raise SystemExit(f"{dist}: expected an sdist and a wheel of {version()}, found {files}")
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", metavar="VERSION", help="write this version to the files that have it")
    parser.add_argument("--check", action="store_true", help="build nothing")
    parser.add_argument("--dist", type=Path, default=DIST, help="the folder of the files")
    args = parser.parse_args()
    if args.set:
        write_version(ROOT, args.set)
        print(f"{args.set}: write the lines of CHANGELOG.md, then commit")
        return
    found = list(problems(ROOT))
    if found:
        sys.exit("\n".join(found))
    print(f"{version()}: ready for a release")
    if args.check:
        return
    args.dist.mkdir(exist_ok=True)
    files = build(args.dist)
    sums = args.dist / "SHA256SUMS"
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files]
    sums.write_text("".join(lines))
    print(f"{shown(sums)}\n{''.join(lines)}", end="")
    print(f"tag the commit: git tag -s v{version()}")


if __name__ == "__main__":
    main()
