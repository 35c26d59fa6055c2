"""storage_options of table formats: the names that readers of files take, in the words of other packages.

object_store, by which deltalake and pylance read, has most of the names; pyiceberg has properties.
A name that this module does not know goes on to deltalake and pylance as it is; for pyiceberg it is an error.
No error has a value: it can be a secret.

Tests: tests/python/test_table_stores.py
"""

from __future__ import annotations

from typing import Any

from headrace._core import TypeMismatchError, UnsupportedError
from headrace.data.paths import NESTED, flat_options


def _split(table):
    """By name: the property of a table of 'property: names'."""
    return {name: word for word, names in table.items() for name in names.split()}


# By the kind of store: names of Headrace and of fsspec -> those of object_store, which also has them with the
# prefixes aws_, google_ and azure_.
_S3 = _split(
    {
        "aws_access_key_id": "key username access_key access_key_id",
        "aws_secret_access_key": "secret password secret_key secret_access_key",
        "aws_session_token": "token session_token aws_token",
        "aws_region": "region region_name",
        "aws_endpoint": "endpoint endpoint_url aws_endpoint_url aws_endpoint_url_s3",
        "aws_skip_signature": "anon skip_signature",
        "aws_virtual_hosted_style_request": "virtual_hosted_style_request",
        "aws_request_payer": "requester_pays request_payer",
    }
)
_GS = _split(
    {
        "google_bearer_token": "token google_token",
        "google_base_url": "endpoint endpoint_url google_endpoint_url base_url",
        "google_skip_signature": "anon",
    }
)
_AZ = _split(
    {
        "azure_storage_account_name": "account_name",
        "azure_storage_account_key": "account_key",
        "azure_storage_sas_token": "sas_token",
        "azure_storage_token": "token",
        "azure_storage_endpoint": "endpoint endpoint_url account_host",
        "azure_skip_signature": "anon",
    }
)
_SCHEMES = {"s3": _S3, "s3a": _S3, "gs": _GS, "gcs": _GS}
_SCHEMES |= dict.fromkeys(("az", "azure", "abfs", "abfss", "wasb", "wasbs"), _AZ)

# Of the engine alone: they do not change what is read.
_OF_ENGINE = {"cache_dir", "cache_size", "max_connections", "hedges", "max_retries"}
_TIMES = {"timeout", "connect_timeout", "pool_idle_timeout"}  # object_store wants their unit


def _checked(where, given):
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise TypeMismatchError(
            f"{where}: storage_options: expected a dict with names, found {type(given).__name__}"
        )
    if any(isinstance(value, dict) or name.lower() in NESTED for name, value in given.items()):
        given = flat_options(where, given)
    return {name: value for name, value in given.items() if value is not None}


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_object_store(where: str, url: str, given: Any) -> dict[str, str] | None:
    """The options for a package that reads `url` by object_store; None: there are none."""
    names = _SCHEMES.get(url.partition("://")[0].lower(), {})
    out = {}
    for name, value in _checked(where, given).items():
        lower = name.lower()
        if lower in _OF_ENGINE:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        text = f"{value}s" if lower in _TIMES and is_number else _text(value)
        out[names.get(lower, name)] = text
        if names.get(lower, lower).endswith(("endpoint", "base_url")) and text.startswith("http://"):
            out.setdefault("allow_http", "true")
    return out or None


# Properties of pyiceberg: names of Headrace, object_store and fsspec. A name that several stores have counts
# for each of them.
_ICEBERG = (
    _split(
        {
            "s3.access-key-id": "aws_access_key_id access_key_id access_key key username",
            "s3.secret-access-key": "aws_secret_access_key secret_access_key secret_key secret password",
            "s3.session-token": "aws_session_token aws_token session_token token",
            "s3.region": "aws_region region region_name aws_default_region default_region",
            "s3.endpoint": "aws_endpoint_url aws_endpoint_url_s3 aws_endpoint endpoint_url endpoint",
            "s3.profile-name": "aws_profile profile",
            "s3.role-arn": "aws_role_arn role_arn",
            "s3.role-session-name": "aws_role_session_name role_session_name",
            "s3.anonymous": "aws_skip_signature skip_signature anon",
            "s3.force-virtual-addressing": "aws_virtual_hosted_style_request virtual_hosted_style_request",
            "s3.server-side-encryption": "aws_server_side_encryption server_side_encryption",
            "s3.sse-kms-key-id": "aws_sse_kms_key_id sse_kms_key_id",
            "s3.proxy-uri": "proxy_url aws_proxy_url",
            "s3.connect-timeout": "connect_timeout aws_connect_timeout",
            "s3.request-timeout": "timeout aws_timeout",
        }
    ),
    _split(
        {
            "gcs.oauth2.token": "google_token google_bearer_token bearer_token token",
            "gcs.project-id": "google_project_id google_project project project_id",
            "gcs.service.host": "google_endpoint_url google_base_url base_url endpoint_url endpoint",
            "gcs.requester-pays": "google_request_payer requester_pays",
        }
    ),
    _split(
        {
            "adls.account-name": "azure_storage_account_name azure_account_name account_name",
            "adls.account-key": "azure_storage_account_key azure_storage_access_key account_key",
            "adls.sas-token": "azure_storage_sas_token azure_storage_sas_key sas_token sas_key",
            "adls.token": "azure_storage_token bearer_token token",
            "adls.tenant-id": "azure_storage_tenant_id azure_tenant_id tenant_id",
            "adls.client-id": "azure_storage_client_id azure_client_id client_id",
            "adls.client-secret": "azure_storage_client_secret azure_client_secret client_secret",
            "adls.connection-string": "azure_storage_connection_string connection_string",
            "adls.account-host": "account_host",
            "adls.anon": "azure_skip_signature skip_signature anon",
        }
    ),
    _split({"hdfs.user": "hdfs_user user"}),
)


def of_iceberg(where: str, given: Any) -> dict[str, str]:
    """The properties of a catalog of pyiceberg. A name with a dot is a property as it stands.

    UnsupportedError: pyiceberg has no counterpart of a name.
    """
    out = {}
    for name, value in _checked(where, given).items():
        lower = name.lower()
        words = [table[lower] for table in _ICEBERG if lower in table]
        if "." in name:
            words = [name]
        elif not words and not _has_no_effect(lower, value):
            raise UnsupportedError(f"{where}: storage_options: pyiceberg has no counterpart of '{name}'")
        out |= dict.fromkeys(words, _text(value))
    return out


def _has_no_effect(name, value):
    return name in _OF_ENGINE or (name == "allow_http" and _text(value) == "true")


_BACK = {word: name for table in _ICEBERG for name, word in reversed(table.items())}


def of_properties(given: dict[str, Any]) -> dict[str, str]:
    """The engine's options of a table's properties: a catalog can lend credentials for each table."""
    return {_BACK[word]: _text(value) for word, value in given.items() if word in _BACK and value is not None}
