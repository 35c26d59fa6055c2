"""Converts a user's paths, suffixes, filesystems and options into what the engine takes."""

import os

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError


def path_list(paths):
    """One path or several, as a list of str."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = [paths]
    elif not hasattr(paths, "__iter__"):
        found = type(paths).__name__
        raise TypeMismatchError(f"paths: expected a str, a Path or a list of them, found {found}")
    out = list(paths)
    for i, path in enumerate(out):
        path = path_text(path) if isinstance(path, os.PathLike) else path
        if not isinstance(path, str):
            raise TypeMismatchError(f"paths: expected a str or a Path, found {type(path).__name__}")
        out[i] = path
    if not out:
        raise InvalidArgument("paths: expected at least one path")
    return out


def path_text(path):
    """A path as os.fspath has it. A Path of a URL, which has lost a slash, is an error: it would be a local
    folder "s3:".
    """
    text = os.fspath(path)
    if text is not path and isinstance(text, str) and lacks_slash(text):
        raise InvalidArgument(f"{text}: a Path has one slash where the URL has two: give the URL as a str")
    return text


def lacks_slash(text):
    """Whether a URL was tidied as paths are: "s3:/bucket/key"."""
    return "://" not in text and is_url(text.replace(":/", "://", 1))


def is_served(path):
    """Whether it is the engine's URL of a file in a filesystem that this process serves."""
    return path.startswith("filesystem:///")


def shown(path):
    """A path for people: a URL without its password and its query, which can hold secrets."""
    scheme, found, rest = path.partition("://")
    if not found:
        return path
    if is_served(path):
        return rest.removeprefix("/")
    if scheme.lower() not in STORE_SCHEMES or "sig=" in rest:
        rest = rest.partition("?")[0]
    host, slash, below = rest.partition("/")
    return scheme + found + host.rpartition("@")[2] + slash + below


def extension_list(given):
    """File extensions as suffixes with a dot; None stays."""
    if given is None:
        return None
    given = [given] if isinstance(given, str) else list(given) if hasattr(given, "__iter__") else [given]
    for e in given:
        if not isinstance(e, str):
            raise TypeMismatchError(f"file_extensions: expected a list of str, found {type(e).__name__}")
    return [e if e.startswith(".") else f".{e}" for e in given]


def _absolute(path):
    return os.path.abspath(path.removeprefix("file://"))


class SkippedPaths:
    """A partition_filter that leaves out given files, then applies the user's filter."""

    argument = "skip_paths"  # name of the argument, for error texts

    def __init__(self, paths, then=None):
        if then is not None and not callable(then):
            raise TypeMismatchError("partition_filter: expected a function of a list of paths")
        self.paths = {_absolute(p) for p in paths}
        self.then = then

    def __call__(self, paths):
        kept = [p for p in paths if _absolute(p) not in self.paths]
        return self.then(kept) if self.then is not None else kept


STORE_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "wasb", "wasbs", "filesystem")
STORE_SCHEMES += ("hdfs", "webhdfs", "swebhdfs")
READ_SCHEMES = ("http", "https")  # to which nothing is written


def is_store(path):
    """Whether the engine writes to this URL."""
    scheme, colon, _ = path.partition("://")
    return bool(colon) and scheme.lower() in STORE_SCHEMES


def is_url(path):
    """Whether the engine reads it over the network."""
    scheme, colon, _ = path.partition("://")
    return is_store(path) or (bool(colon) and scheme.lower() in READ_SCHEMES)


def setting(name, value):
    """One option of a format as text for the engine's option tables."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    return f"{name}={value}"


def storage_texts(where, given):
    """The options of URLs as texts 'name=value'; a value None leaves the default.

    Names of any case, and fsspec's dicts of further options, are those of docs/stores.
    """
    if given is None:
        return None
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise TypeMismatchError(
            f"{where}: storage_options: expected a dict with names, found {_found(given)}"
        )
    if any(isinstance(value, dict) or name.lower() in NESTED for name, value in given.items()):
        given = flat_options(where, given)
    return [_option(where, name, value) for name, value in given.items() if value is not None]


def _found(given):
    """What a dict has instead of names, or what is no dict."""
    others = {type(name).__name__ for name in given} - {"str"} if isinstance(given, dict) else ()
    return f"keys of {min(others)}" if others else type(given).__name__


NESTED = ("client_kwargs", "config_kwargs", "s3_additional_kwargs")  # of s3fs: dicts of options


def flat_options(where, given):
    """The options without dicts, which lazy code takes apart: few users have any."""
    return lazy_module("headrace.data.nested_options").flat(where, given)


def _option(where, name, value):
    """One option; a Served filesystem, which Headrace adds itself, by its number."""
    if name == "filesystem" and hasattr(value, "option"):
        return value.option
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (str, bool, int, float)):
        raise TypeMismatchError(
            f"{where}: storage_options: {name}: expected a text, a number or a bool, "
            f"found {type(value).__name__}"
        )
    return setting(name, value)


def with_cache(where, texts, cache):
    """The texts of storage options with a reader's argument cache; see docs/stores.md.

    cache: None: what the options and HEADRACE_CACHE_DIR say; a folder; True: one of the user's home; False:
    none.
    """
    if cache is None:
        return texts
    if cache is True:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
        cache = os.path.join(home, "headrace")
    elif cache is False:
        return [*(texts or []), "cache_dir="]
    if not isinstance(cache, (str, os.PathLike)) or not os.fspath(cache):
        raise TypeMismatchError(f"{where}: cache: expected a folder, True or False, found {cache!r}")
    if "://" in os.fspath(cache):
        raise InvalidArgument(f"{where}: cache: expected a folder on a disk of this machine, found a URL")
    return [*(texts or []), f"cache_dir={os.path.abspath(os.path.expanduser(os.fspath(cache)))}"]


def check_stream_args(where, given, decompressed=True):
    """Checks pyarrow's arguments for opening a file. They have no effect: the engine detects the compression
    and sizes its buffers itself.
    """
    what = f"{where}: arrow_open_stream_args"
    if not given:
        return
    if not isinstance(given, dict):
        raise TypeMismatchError(f"{what}: expected a dict, found {type(given).__name__}")
    for name in given:
        if name not in ("compression", "buffer_size", "seekable"):
            raise InvalidArgument(f"{what}: expected compression or buffer_size, found '{name}'")
    if not decompressed and given.get("compression") not in (None, "detect"):
        raise UnsupportedError(f"{what}: this reader does not decompress files")
