"""cache(): a node whose rows come from a folder."""

import os

from headrace._core import InvalidArgument
from headrace.data.execution_options import bytes_of
from headrace.data.plan import Node


def node_of(node, path, limit, version):
    """See Dataset.cache."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument(f"cache: path: expected the name of a folder, found {path!r}")
    folder = os.fspath(path)
    if not isinstance(folder, str) or not folder:
        raise InvalidArgument(f"cache: path: expected the name of a folder, found {path!r}")
    if "://" in folder:
        raise InvalidArgument("cache: path: expected a folder on a disk of this machine, found a URL")
    if version is not None and not isinstance(version, str):
        raise InvalidArgument(f"cache: version: expected a text, found {version!r}")
    if limit is not None:
        limit = bytes_of("cache: limit", limit, 1)
    args = {"folder": os.path.abspath(os.path.expanduser(folder)), "limit": limit, "version": version}
    return Node("cache", args, [node])


__all__ = ["node_of"]
