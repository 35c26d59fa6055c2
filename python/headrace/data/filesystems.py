"""filesystem= of readers and writers: objects of pyarrow.fs and fsspec.

Those of local files and of stores that the engine reaches become paths or URLs, and options of the engine,
which then reads and writes itself. All others, classes of the user's own, and those with settings that the
engine does not have, are served: headrace.data.served.

Tests: tests/python/test_filesystems.py
"""

import os
from urllib.parse import quote

from headrace import lazy_module
from headrace._core import HeadraceError, InvalidArgument, TypeMismatchError
from headrace.data.paths import NESTED, flat_options, is_url, storage_texts

served = lazy_module("headrace.data.served")

# Settings that change neither what is read nor how a store is reached.
_NO_MATTER = {
    "access", "allow_bucket_creation", "allow_bucket_deletion", "allow_delayed_open", "asynchronous",
    "background_writes", "batch_size", "cache_regions", "check_connection",
    "check_directory_existence_before_creation", "consistency",
    "credential_token_expiration", "default_bucket_location", "default_block_size", "default_cache_type",
    "default_fill_cache", "default_metadata", "dircache_maxsize", "fixed_upload_size", "listings_expiry_time",
    "load_frequency", "loop", "max_concurrency", "max_paths", "retry_time_limit", "skip_instance_cache",
    "use_listings_cache", "version_aware",
}  # fmt: skip


# Packages whose filesystems do what their settings say: a class of another one may read in its own way.
_KNOWN = ("adlfs", "fsspec", "gcsfs", "pyarrow", "s3fs")


def is_of_pyarrow(where, filesystem):
    """Whether the filesystem is one of pyarrow; else it is one of fsspec. TypeMismatchError: neither."""
    of_pyarrow = hasattr(filesystem, "open_input_file")
    if not (of_pyarrow or hasattr(filesystem, "protocol")):
        raise TypeMismatchError(
            f"{where}: filesystem: expected one of pyarrow.fs or fsspec, found {type(filesystem).__name__}"
        )
    return of_pyarrow


def place(where, filesystem, path):
    """(path or URL, storage options) of `path` in a filesystem; no filesystem: the path itself. None: the
    engine does not reach the filesystem, or does not have its settings.

    Raises TypeMismatchError for other objects.
    """
    if filesystem is None:
        return path, {}
    kind = type(filesystem).__name__
    of_pyarrow = is_of_pyarrow(where, filesystem)
    if type(filesystem).__module__.partition(".")[0] not in _KNOWN:
        return None
    if kind == "LocalFileSystem":
        return path, {}
    if kind == "SubTreeFileSystem":
        return place(where, filesystem.base_fs, _below(filesystem.base_path, path))
    if kind == "DirFileSystem":
        return place(where, filesystem.fs, _below(filesystem.path, path))
    if kind == "PyFileSystem" and hasattr(filesystem.handler, "fs"):
        return place(where, filesystem.handler.fs, path)
    if of_pyarrow:
        found = _ARROW.get(filesystem.type_name)
        settings = found and _of_arrow(filesystem)
    else:
        protocol = filesystem.protocol
        name = protocol if isinstance(protocol, str) else protocol[0]
        settings, found = dict(filesystem.storage_options), _FSSPEC.get(name)
    if found is None:
        return None
    scheme, convert = found
    settings = {k: v for k, v in settings.items() if k not in _NO_MATTER and (_is_set(v) or k == "use_ssl")}
    options = convert(settings)
    if settings:
        return None
    return _url(scheme, path), {name: value for name, value in options.items() if _is_set(value)}


def places(where, filesystem, paths, storage_options):
    """(paths or URLs, the engine's texts of storage options, a Served or None) of paths in a filesystem; the
    options of the caller come before those of the filesystem.
    """
    given = storage_texts(where, storage_options)
    found = [place(where, filesystem, path) for path in paths]
    if None in found:
        by = served_by(filesystem)
        return [by.url(path) for path in paths], given, by
    options = found[0][1] if found else {}
    if options:
        given = storage_texts(where, {**options, **(storage_options or {})})
    return [path for path, _ in found], given, None


def served_by(filesystem):
    """The filesystem as one that threads of this process serve; a Served one as it is."""
    if isinstance(filesystem, served.Served):
        return filesystem
    if type(filesystem).__name__ == "PyFileSystem" and hasattr(filesystem.handler, "fs"):
        filesystem = filesystem.handler.fs
    return served.Served(filesystem)


def _below(base, path):
    return base.rstrip("/") + "/" + path.lstrip("/")


def _url(scheme, path):
    if is_url(path):
        return path
    if "://" in path or scheme == "https":
        raise InvalidArgument(f"{path}: expected a path or a URL of the filesystem")
    return f"{scheme}://{path.lstrip('/')}"


def _is_set(value):
    """False for what pyarrow and fsspec have where nothing was given."""
    if isinstance(value, dict):
        return any(map(_is_set, value.values()))
    return value is not None and value is not False and value != "" and value != -1


def _of_arrow(filesystem):
    """The arguments that the filesystem was made with, as it pickles them."""
    _, (arguments,) = filesystem.__reduce__()[:2]
    return dict(arguments)


def _s3_of_arrow(s):
    endpoint, scheme = s.pop("endpoint_override", None), s.pop("scheme", "https")
    return {
        "aws_access_key_id": s.pop("access_key", None),
        "aws_secret_access_key": s.pop("secret_key", None),
        "aws_session_token": s.pop("session_token", None),
        "aws_region": s.pop("region", None),
        "aws_skip_signature": s.pop("anonymous", None),
        "aws_endpoint_url": _with_scheme(endpoint, scheme),
        "aws_virtual_hosted_style_request": s.pop("force_virtual_addressing", None),
        "aws_role_arn": s.pop("role_arn", None),
        "aws_role_session_name": s.pop("session_name", None),
        "aws_external_id": s.pop("external_id", None),
        "connect_timeout": s.pop("connect_timeout", None),
        "timeout": s.pop("request_timeout", None),
        "proxy_url": _proxy_of_arrow(s.pop("proxy_options", None) or {}),
    }


def _proxy_of_arrow(p):
    if not isinstance(p, dict) or not p.get("host"):
        return p if isinstance(p, str) else None
    user = f"{quote(p.get('username') or '', '')}:{quote(p.get('password') or '', '')}@"
    return f"{p.get('scheme') or 'http'}://{user if user != ':@' else ''}{p['host']}:{p['port']}"


def _gs_of_arrow(s):
    endpoint, scheme = s.pop("endpoint_override", None), s.pop("scheme", "https")
    return {
        "google_token": s.pop("access_token", None),
        "google_skip_signature": s.pop("anonymous", None),
        "google_endpoint_url": _with_scheme(endpoint, scheme),
        "google_project_id": s.pop("project_id", None),
    }


def _az_of_arrow(s):
    account, authority = s.pop("account_name", ""), s.pop("blob_storage_authority", ".blob.core.windows.net")
    scheme = s.pop("blob_storage_scheme", "https")
    for name in ("dfs_storage_authority", "dfs_storage_scheme"):
        s.pop(name, None)
    endpoint = f"{account}{authority}" if authority.startswith(".") else f"{authority}/{account}"
    usual = (authority, scheme) == (".blob.core.windows.net", "https")
    return {
        "azure_storage_account_name": account,
        "azure_storage_account_key": s.pop("account_key", None),
        "azure_storage_sas_token": s.pop("sas_token", None),
        "azure_storage_tenant_id": s.pop("tenant_id", None),
        "azure_storage_client_id": s.pop("client_id", None),
        "azure_storage_client_secret": s.pop("client_secret", None),
        "azure_storage_endpoint": None if usual else f"{scheme}://{endpoint}",
    }


def _s3_of_fsspec(s):
    """What stays in `s` the engine does not have: the filesystem is served."""
    nested = {name: s[name] for name in NESTED if s.get(name)}
    try:
        options = flat_options("filesystem", nested)
    except HeadraceError:
        return {}
    if options.get("verify") not in (None, True):
        return {}
    for name in nested:
        del s[name]
    use_ssl = s.pop("use_ssl", None)
    names = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
    names |= {"username": "aws_access_key_id", "password": "aws_secret_access_key"}
    names |= {"anon": "aws_skip_signature", "endpoint_url": "endpoint_url", "profile": "aws_profile"}
    names |= {"requester_pays": "aws_request_payer"}
    given = {to: s.pop(name) for name, to in names.items() if name in s}
    return {"use_ssl": None if use_ssl is not False else "false"} | options | given


def _gs_of_fsspec(s):
    token = s.pop("token", None)
    options = {"google_endpoint_url": s.pop("endpoint_url", None), "project": s.pop("project", None)}
    options |= {"requester_pays": s.pop("requester_pays", None)}
    options |= {"timeout": s.pop("requests_timeout", None) or s.pop("timeout", None)}
    if token == "anon":
        return options | {"google_skip_signature": True}
    if isinstance(token, str) and token not in ("google_default", "cloud", "cache", "browser"):
        return options | {"google_service_account" if os.path.exists(token) else "google_token": token}
    if isinstance(token, dict):
        import json

        return options | {"google_service_account_key": json.dumps(token)}
    return options


def _az_of_fsspec(s):
    names = ("account_name", "account_key", "sas_token", "connection_string")
    options = {f"azure_storage_{name}": s.pop(name, None) for name in names}
    names = ("tenant_id", "client_id", "client_secret")
    options |= {f"azure_storage_{name}": s.pop(name, None) for name in names}
    options |= {"timeout": s.pop("read_timeout", None) or s.pop("socket_timeout", None)}
    options |= {"connect_timeout": s.pop("connection_timeout", None)}
    return options | {"azure_skip_signature": s.pop("anon", None)}


def _with_scheme(endpoint, scheme):
    return endpoint if not endpoint or "://" in endpoint else f"{scheme}://{endpoint}"


_ARROW = {"s3": ("s3", _s3_of_arrow), "gcs": ("gs", _gs_of_arrow), "abfs": ("az", _az_of_arrow)}
_FSSPEC = {
    "s3": ("s3", _s3_of_fsspec),
    "gs": ("gs", _gs_of_fsspec),
    "gcs": ("gs", _gs_of_fsspec),
    "abfs": ("az", _az_of_fsspec),
    "az": ("az", _az_of_fsspec),
    "http": ("https", lambda s: {}),
    "https": ("https", lambda s: {}),
}
