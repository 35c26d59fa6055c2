"""Builds the libraries of the wheel that this Debian's own would not do for: build/libraries.

- libcurl: Debian's brings 26 libraries (LDAP, Kerberos, GnuTLS). This one speaks HTTP and HTTPS by OpenSSL
  and nothing else.
- expat: Debian's needs glibc 2.36, for arc4random. This one asks the kernel; it becomes a part of the module.

The sources are Debian's, with its security patches; apt checks their signature. packaging/make_wheel.py calls
build(); a release begins without build/libraries, so that it has the newest.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, run

PREFIX = ROOT / "build" / "libraries"
SPOKEN_BY_OTHERS = (
    "ldap ldaps ftp file rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt manual ntlm tls-srp "
    "unix-sockets cookies alt-svc hsts netrc doh ares"
).split()
UNUSED = "libpsl libidn2 libssh2 librtmp nghttp2 brotli zstd zlib libgsasl gssapi ca-bundle ca-path".split()
CURL = ["--with-openssl", "--disable-static"]
CURL += [f"--disable-{word}" for word in SPOKEN_BY_OTHERS] + [f"--without-{word}" for word in UNUSED]
# What expat's configure finds, without arc4random.
EXPAT_CONFIG = """
#define BYTEORDER 1234
#define HAVE_GETRANDOM 1
#define XML_CONTEXT_BYTES 1024
#define XML_DTD 1
#define XML_GE 1
#define XML_NS 1
"""
EXPAT_PC = f"""Name: expat
Description: expat, as make_libraries.py builds it
Version: VERSION
Libs: -L{PREFIX}/lib -lexpat
Cflags: -I{PREFIX}/include
"""


def debian_places():
    """The lines of a sources.list for the sources of the packages that this system installs."""
    wanted = ["--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Identifier: Packages", "Origin: Debian"]
    return "".join(f"deb-src {line}\n" for line in run("apt-get", "indextargets", *wanted).splitlines())


def apt_of_sources(folder):
    """The programs apt-get and apt-cache, with lists of sources below `folder` in place of the system's."""
    places, lists = folder / "sources.list", folder / "lists"
    places.write_text(debian_places())
    (lists / "partial").mkdir(parents=True)
    folder.chmod(0o755)  # apt reads it as a user of its own
    own = [f"Dir::Etc::sourcelist={places}", "Dir::Etc::sourceparts=/dev/null", f"Dir::State::lists={lists}"]
    options = [f"-o{option}" for option in own]
    run("apt-get", *options, "-qq", "update")
    return ["apt-get", *options, "-qq"], ["apt-cache", *options]


def get_source(name, folder, apt_get, apt_cache):
    """Unpacks the newest sources that can be had, patched; -> (their folder, their version)."""
    described = run(*apt_cache, "showsrc", "--only-source", name)
    found = dict.fromkeys(re.findall(r"^Version: (.*)$", described, re.M))
    newest_first = sorted(found, key=functools.cmp_to_key(compare_versions), reverse=True)
    for version in newest_first:
        got = subprocess.run([*apt_get, "source", f"{name}={version}"], cwd=folder, capture_output=True)
        if got.returncode == 0:
            return next(p for p in folder.glob(f"{name}-*") if p.is_dir()), version
        print(f"{name} {version}: its sources cannot be had")
    sys.exit(f"{name}: no sources; tried {', '.join(newest_first) or 'none'}")


def compare_versions(a, b):
    return -1 if subprocess.run(["dpkg", "--compare-versions", a, "lt", b]).returncode == 0 else 1


def make_curl(tree, jobs):
    run("./configure", f"--prefix={PREFIX}", "--disable-dependency-tracking", *CURL, cwd=tree)
    for part, target in (("lib", "install"), ("include", "install"), ("", "install-pkgconfigDATA")):
        run("make", "-C", tree / part, f"-j{jobs}", target)


def make_expat(tree):
    """Compiles its three files: Debian's sources have no configure, and do not compile with their CMake."""
    sources = tree / "expat" / "lib"
    (sources / "expat_config.h").write_text(EXPAT_CONFIG)
    files = ["xmlparse", "xmlrole", "xmltok"]
    run(
        "cc",
        "-O2",
        "-fPIC",
        "-fvisibility=hidden",
        "-I.",
        "-c",
        *(f"{name}.c" for name in files),
        cwd=sources,
    )
    for folder in ("lib/pkgconfig", "include"):
        (PREFIX / folder).mkdir(parents=True, exist_ok=True)
    archive = PREFIX / "lib" / "libexpat.a"
    archive.unlink(missing_ok=True)
    run("ar", "rcs", archive, *(f"{name}.o" for name in files), cwd=sources)
    for header in ("expat.h", "expat_external.h"):
        shutil.copy(sources / header, PREFIX / "include")
    version = tree.name.rpartition("-")[2]
    (PREFIX / "lib" / "pkgconfig" / "expat.pc").write_text(EXPAT_PC.replace("VERSION", version))


def build():
    """Builds them unless they stand; -> their folder, with lib/pkgconfig and a list of versions in it."""
    missing = [name for name in ("apt-get", "dpkg-source", "make") if not shutil.which(name)]
    if missing:
        sys.exit(f"libraries of the wheel: no {', '.join(missing)}; apt-get install dpkg-dev make")
    built = PREFIX / "versions"
    if built.exists():
        return PREFIX
    with tempfile.TemporaryDirectory() as folder:
        programs = apt_of_sources(Path(folder))
        curl, curl_version = get_source("curl", Path(folder), *programs)
        expat, expat_version = get_source("expat", Path(folder), *programs)
        make_curl(curl, len(os.sched_getaffinity(0)))
        make_expat(expat)
    built.write_text(f"curl {curl_version}\nexpat {expat_version}\n")
    return PREFIX
