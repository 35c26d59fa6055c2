"""Options of s3fs and gcsfs that are dicts: client_kwargs, config_kwargs, s3_additional_kwargs, a token.

Each name in them becomes an option of Headrace, has no effect here, or is refused with a reason. No error has
a value: it can be a secret.

Tests: tests/python/test_store_options.py
"""

import json

from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError

# The options that names in the dicts mean; None: they change neither what is read nor how.
_CLIENT = {
    "aws_access_key_id": "aws_access_key_id",
    "aws_secret_access_key": "aws_secret_access_key",
    "aws_session_token": "aws_session_token",
    "endpoint_url": "endpoint_url",
    "region_name": "region",
    "use_ssl": "use_ssl",
    "verify": "verify",
    "service_name": None,
    "api_version": None,
}
_CONFIG = {
    "region_name": "region",
    "connect_timeout": "connect_timeout",
    "read_timeout": "timeout",
    "max_pool_connections": "max_connections",
    "user_agent": "user_agent",
    "parameter_validation": None,
    "inject_host_prefix": None,
    "tcp_keepalive": None,
    "request_min_compression_size_bytes": None,
    "disable_request_compression": None,
}
_WRITTEN = {
    "ServerSideEncryption": "aws_server_side_encryption",
    "SSEKMSKeyId": "aws_sse_kms_key_id",
    "BucketKeyEnabled": "aws_sse_bucket_key_enabled",
}


def flat(where, given):
    """The options with the dicts among them taken apart; options that stand outside come first."""
    out, nested = {}, {}
    for name, value in given.items():
        if name.lower() in _DICTS:
            if value is not None:
                nested |= _DICTS[name.lower()](f"{where}: storage_options: {name}", _dict(where, name, value))
        elif isinstance(value, dict) and name.lower() in ("token", "google_token"):
            out["google_service_account_key"] = json.dumps(value)
        else:
            out[name] = value
    known = {name.lower() for name in out}
    return {**{name: value for name, value in nested.items() if name not in known}, **out}


def _dict(where, name, value):
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        found = type(value).__name__
        raise TypeMismatchError(
            f"{where}: storage_options: {name}: expected a dict with names, found {found}"
        )
    return value


def _named(where, given, names, more=None):
    out = {}
    for name, value in given.items():
        if name in names:
            out |= {names[name]: value} if names[name] and value is not None else {}
        elif more is None or not more(out, name, value):
            raise UnsupportedError(f"{where}: headrace has no counterpart of '{name}'")
    return out


def _client(where, given):
    return _named(where, given, _CLIENT)


def _config(where, given):
    def more(out, name, value):
        if name == "signature_version" and value in ("s3v4", "v4", None):
            return True
        if name == "proxies":
            return _proxies(where, out, value)
        if name == "retries":
            return _retries(out, value)
        return name == "s3" and _addressing(out, value)

    return _named(where, given, _CONFIG, more)


def _proxies(where, out, value):
    if not isinstance(value or {}, dict):
        return False
    found = {v for v in (value or {}).values() if v}
    if len(found) > 1:
        raise InvalidArgument(f"{where}: proxies: expected one proxy for all schemes, found {len(found)}")
    out |= {"proxy_url": next(iter(found))} if found else {}
    return True


def _retries(out, value):
    if not isinstance(value or {}, dict):
        return False
    for name, n in (value or {}).items():
        if name in ("max_attempts", "total_max_attempts") and isinstance(
            n, int
        ):  # the second one counts the first attempt
            out["max_retries"] = n - (name == "total_max_attempts")
        elif name != "mode":
            return False
    return True


def _addressing(out, value):
    if not isinstance(value or {}, dict):
        return False
    for name, v in (value or {}).items():
        if name == "addressing_style" and v in ("path", "virtual", "auto", None):
            out |= {"aws_virtual_hosted_style_request": v == "virtual"} if v in ("path", "virtual") else {}
        elif name == "payload_signing_enabled" and isinstance(v, bool):
            out["aws_unsigned_payload"] = not v
        else:
            return False
    return True


def _written(where, given):
    def more(out, name, value):
        if name == "RequestPayer" and value == "requester":
            out["aws_request_payer"] = True
        return name == "RequestPayer" and value == "requester"

    return _named(where, given, _WRITTEN, more)


_DICTS = {"client_kwargs": _client, "config_kwargs": _config, "s3_additional_kwargs": _written}
