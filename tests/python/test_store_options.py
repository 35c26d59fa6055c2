"""storage_options under the names of object_store, Polars and fsspec: taken with their meaning, or refused
with a reason; test_store_options.c has values.
"""

import http.server
import json
import os
import threading
import urllib.request
from pathlib import Path

import pytest
from object_server import Server
from test_credentials import ROLE, azure, cloud, count, count_azure, count_google, google  # noqa: F401

import headrace.data as hd
from headrace.data.paths import storage_texts
from headrace.exceptions import HeadraceError, InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.train import Checkpoint, RunConfig

# The names that the parsers of object_store take (AmazonS3ConfigKey, AzureConfigKey, GoogleConfigKey,
# ClientConfigKey), and the arguments of the filesystems of fsspec.
CLIENT = """allow_http allow_invalid_certificates disable_system_certificates connect_timeout
    default_content_type http1_only http2_only http2_keep_alive_interval
    http2_keep_alive_timeout http2_keep_alive_while_idle http2_max_frame_size pool_idle_timeout
    pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses
    read_timeout timeout user_agent""".split()
S3 = """aws_access_key_id access_key_id aws_secret_access_key secret_access_key aws_default_region
    default_region aws_region region aws_bucket aws_bucket_name bucket_name bucket
    aws_endpoint_url aws_endpoint endpoint_url endpoint aws_endpoint_url_s3 aws_session_token
    aws_token session_token token aws_virtual_hosted_style_request virtual_hosted_style_request
    aws_s3_express s3_express aws_imdsv1_fallback imdsv1_fallback aws_metadata_endpoint
    metadata_endpoint aws_unsigned_payload unsigned_payload aws_checksum_algorithm
    checksum_algorithm aws_container_credentials_relative_uri container_credentials_relative_uri
    aws_container_credentials_full_uri container_credentials_full_uri
    aws_container_authorization_token_file container_authorization_token_file
    aws_web_identity_token_file web_identity_token_file aws_role_arn role_arn
    aws_role_session_name role_session_name aws_endpoint_url_sts endpoint_url_sts
    aws_skip_signature skip_signature aws_copy_if_not_exists copy_if_not_exists
    aws_conditional_put conditional_put aws_disable_tagging disable_tagging
    aws_disable_bulk_delete disable_bulk_delete aws_request_payer request_payer
    aws_server_side_encryption server_side_encryption aws_sse_kms_key_id sse_kms_key_id
    aws_sse_bucket_key_enabled sse_bucket_key_enabled aws_sse_customer_key_base64
    sse_customer_key_base64""".split()
AZURE = """azure_storage_account_key azure_storage_access_key azure_storage_master_key master_key
    account_key access_key azure_storage_account_name account_name azure_storage_client_id
    azure_client_id client_id azure_storage_client_secret azure_client_secret client_secret
    azure_storage_tenant_id azure_storage_authority_id azure_tenant_id azure_authority_id
    tenant_id authority_id azure_storage_authority_host azure_authority_host authority_host
    azure_storage_sas_key azure_storage_sas_token sas_key sas_token azure_storage_token
    bearer_token token azure_storage_use_emulator use_emulator azure_storage_endpoint
    azure_endpoint endpoint azure_msi_endpoint azure_identity_endpoint identity_endpoint
    msi_endpoint azure_object_id object_id azure_msi_resource_id msi_resource_id
    azure_federated_token_file federated_token_file azure_use_fabric_endpoint
    use_fabric_endpoint azure_use_azure_cli use_azure_cli azure_skip_signature skip_signature
    azure_container_name container_name azure_disable_tagging disable_tagging
    azure_fabric_token_service_url fabric_token_service_url azure_fabric_workload_host
    fabric_workload_host azure_fabric_session_token fabric_session_token
    azure_fabric_cluster_identifier fabric_cluster_identifier azure_credential_type
    credential_type azure_storage_encryption_key encryption_key""".split()
GOOGLE = """google_service_account service_account google_service_account_path service_account_path
    google_service_account_key service_account_key google_bucket google_bucket_name bucket
    bucket_name google_base_url base_url google_application_credentials application_credentials
    google_bearer_token bearer_token google_skip_signature skip_signature""".split()
S3FS = """anon endpoint_url key secret token use_ssl requester_pays default_block_size default_fill_cache
    default_cache_type version_aware session username password cache_regions asynchronous loop
    max_concurrency fixed_upload_size local_expiry_check profile skip_instance_cache
    use_listings_cache listings_expiry_time max_paths""".split()
GCSFS = """project access token block_size consistency cache_timeout secure_serialize check_connection
    requests_timeout requester_pays asynchronous session_kwargs loop timeout endpoint_url
    default_location version_aware""".split()
ADLFS = """account_name account_key connection_string credential sas_token request_session socket_timeout
    blocksize client_id client_secret tenant_id anon location_mode loop asynchronous
    default_fill_cache default_cache_type version_aware assume_container_exists max_concurrency
    timeout connection_timeout read_timeout account_host""".split()
WEBHDFS = """host port kerberos token user password proxy_to kerb_kwargs data_proxy use_https session_cert
    session_verify""".split()
POLARS = "max_retries retry_timeout_ms retry_init_backoff_ms retry_max_backoff_ms file_cache_ttl".split()
NAMES = {
    *CLIENT, *(prefix + name for prefix in ("aws_", "azure_", "google_") for name in CLIENT),
    *S3, *AZURE, *GOOGLE, *S3FS, *GCSFS, *ADLFS, *WEBHDFS, *POLARS,
}  # fmt: skip

# What is refused, in whatever value.
REFUSED = """default_content_type proxy_ca_certificate aws_bucket aws_bucket_name bucket_name bucket
    google_bucket google_bucket_name aws_checksum_algorithm checksum_algorithm
    azure_container_name container_name azure_fabric_token_service_url fabric_token_service_url
    azure_fabric_workload_host fabric_workload_host azure_fabric_session_token
    fabric_session_token azure_fabric_cluster_identifier fabric_cluster_identifier session
    session_kwargs request_session credential host port use_https data_proxy proxy_to
    session_cert session_verify""".split()
REFUSED += [
    p + n for p in ("aws_", "azure_", "google_") for n in ("default_content_type", "proxy_ca_certificate")
]
# What is refused if it asks for something else than what is done anyhow: (that, something else)
CHOICES = {
    "allow_invalid_certificates": ("false", "true"),
    "disable_system_certificates": ("false", "true"),
    "http2_only": ("false", "true"),
    "imdsv1_fallback": ("false", "true"),
    "conditional_put": ("etag", "disabled"),
    "use_azure_cli": ("false", "true"),
    "credential_type": ("auto", "sas_token"),
    "location_mode": ("primary", "secondary"),
    "local_expiry_check": ("false", "true"),
    "kerberos": ("false", "true"),
    "kerb_kwargs": ("false", "true"),
}


def bare(name):
    return name.removeprefix("aws_").removeprefix("azure_").removeprefix("google_")


def of_an_option(name, value):
    """The error of an option; "": it is taken."""
    options = {"max_retries": 0, "connect_timeout": 5, name: value}
    with pytest.raises(HeadraceError) as e:
        hd.read_text("http://127.0.0.1:1/x", storage_options=options).take(1)
    return "" if "no connection" in str(e.value) else str(e.value)


def test_each_name_of_the_others_is_taken_or_has_a_reason():
    for given in sorted(NAMES):
        for name in (given, given.upper()):
            refused = of_an_option(
                name, "5" if "timeout" in name.lower() or "retries" in name.lower() else "1"
            )
            if given in REFUSED or bare(given) in CHOICES:
                assert refused.startswith(f"storage_options: {name}: "), (name, refused)
                assert "there is no option" not in refused
            else:
                assert not refused, (name, refused)
            if bare(given) in CHOICES:
                as_done, other = CHOICES[bare(given)]
                assert not of_an_option(name, as_done), name
                assert of_an_option(name, other), name


def test_names_of_the_environment(cloud):  # noqa: F811
    s3, _, _ = cloud
    options = {"AWS_ACCESS_KEY_ID": s3.key, "AWS_SECRET_ACCESS_KEY": s3.secret, "AWS_REGION": "us-east-1"}
    options |= {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": None}
    assert count(storage_options=options) == 25
    with pytest.raises(InvalidArgument, match=r"allow_http is false, and the address is one of http"):
        count(storage_options=options | {"AWS_ALLOW_HTTP": "false"})
    other = options | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_S3": s3.url}
    assert count(storage_options=other) == 25


def test_dicts_of_s3fs(cloud):  # noqa: F811
    s3, _, _ = cloud
    options = {
        "client_kwargs": {"endpoint_url": s3.url, "region_name": "us-east-1", "verify": True},
        "config_kwargs": {
            "s3": {"addressing_style": "path"},
            "retries": {"max_attempts": 3, "mode": "standard"},
            "read_timeout": 20,
            "signature_version": "s3v4",
            "max_pool_connections": 4,
        },
        "key": s3.key,
        "secret": s3.secret,
        "use_listings_cache": False,
    }
    assert count(storage_options=options) == 25
    texts = storage_texts("it", options)
    assert {"max_retries=3", "max_connections=4", "timeout=20", "region=us-east-1"} <= set(texts)
    keys = {"aws_access_key_id": s3.key, "aws_secret_access_key": s3.secret, "endpoint_url": s3.url}
    assert count(storage_options={"client_kwargs": keys}) == 25
    assert (
        count(storage_options={"client_kwargs": keys | {"endpoint_url": "x"}, "ENDPOINT_URL": s3.url}) == 25
    )
    for wrong, text in (
        ({"client_kwargs": {"verify": False}}, "verify: certificates are always checked"),
        ({"client_kwargs": {"verify": "/HUSH.pem"}}, "SSL_CERT_FILE"),
        ({"client_kwargs": {"headers": "HUSH"}}, "client_kwargs: headrace has no counterpart of 'headers'"),
        ({"config_kwargs": {"s3": {"use_accelerate_endpoint": "HUSH"}}}, "no counterpart of 's3'"),
        ({"config_kwargs": {"signature_version": "HUSH"}}, "no counterpart of 'signature_version'"),
        ({"s3_additional_kwargs": {"ACL": "HUSH"}}, "no counterpart of 'ACL'"),
    ):
        with pytest.raises(UnsupportedError, match=text) as e:
            count(storage_options=wrong)
        assert "HUSH" not in str(e.value)
    for wrong in ({"client_kwargs": ["HUSH"]}, {"key": ["HUSH"]}, {"session": object()}):
        with pytest.raises(TypeMismatchError, match=r"storage_options: \w+: expected a ") as e:
            count(storage_options=wrong)
        assert "HUSH" not in str(e.value)


def headers_of(server):
    """The headers of each request, as they come."""
    seen, wrong = [], server._wrong

    def look(handler, of=None):
        seen.append((handler.command, handler.path, dict(handler.headers)))
        return wrong(handler, of)

    server._wrong = look
    return seen


def test_what_is_written_is_encrypted_and_who_asks_pays(cloud):  # noqa: F811
    s3, _, _ = cloud
    seen = headers_of(s3)
    options = {"key": s3.key, "secret": s3.secret, "requester_pays": True, "user_agent": "me/1"}
    kms = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:key"}
    hd.range(10).write_csv("s3://many/kms/", storage_options=options | {"s3_additional_kwargs": kms})
    assert hd.read_csv("s3://many/kms/", storage_options=options).count() == 10
    assert all(h["x-amz-request-payer"] == "requester" and h["User-Agent"] == "me/1" for _, _, h in seen)
    begun = [h for m, p, h in seen if m == "POST" and p.endswith("?uploads=")]
    assert begun
    assert all(h["x-amz-server-side-encryption-aws-kms-key-id"] == "arn:key" for h in begun)
    parts = [h for m, p, h in seen if "partNumber=" in p]
    assert parts
    assert not any("x-amz-server-side-encryption" in h for h in parts)
    seen.clear()
    key = {"aws_sse_customer_key_base64": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
    hd.range(10).write_csv("s3://many/own/", storage_options=options | key)
    assert hd.read_csv("s3://many/own/", storage_options=options | key).count() == 10
    name = "x-amz-server-side-encryption-customer-key"
    assert all(name in h for m, p, h in seen if "partNumber=" in p or (m == "GET" and "?" not in p))
    assert not any(name in h for _, p, h in seen if "list-type=" in p)


def test_a_role_of_the_options(cloud, tmp_path):  # noqa: F811
    s3, services, _ = cloud
    options = {"key": s3.key, "secret": s3.secret, "role_arn": ROLE, "endpoint_url_sts": services.url}
    assert count(storage_options=options | {"role_session_name": "one"}) == 25
    assert len(s3.issued) == 1
    assert services.requests[0][1].startswith("/?Action=AssumeRole&RoleArn=")
    assert "RoleSessionName=one" in services.requests[0][1]
    services.requests.clear()
    (tmp_path / "token").write_text("web+token/=\n")
    options = {"aws_role_arn": ROLE, "aws_web_identity_token_file": tmp_path / "token"}
    assert count(storage_options=options) == 25
    assert services.requests == [("POST", "/")]
    with pytest.raises(InvalidArgument, match="aws_web_identity_token_file without aws_role_arn"):
        count(storage_options={"web_identity_token_file": tmp_path / "token"})


def test_places_of_credentials_in_options(cloud, monkeypatch, tmp_path):  # noqa: F811
    s3, services, _ = cloud
    monkeypatch.delenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
    assert count(storage_options={"aws_metadata_endpoint": services.url + "/"}) == 25
    (tmp_path / "token").write_text("pod token\n")
    services.requests.clear()
    options = {"aws_container_credentials_full_uri": f"{services.url}/container"}
    options["aws_container_authorization_token_file"] = tmp_path / "token"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert count(storage_options=options) == 25
    assert [path for _, path in services.requests] == ["/container"]


def test_azure_chooses_an_identity(azure):  # noqa: F811
    server, services, _ = azure
    assert count_azure(server, azure_object_id="o 1") == 25
    assert "&object_id=o%201" in services.requests[-1][1]
    assert count_azure(server, msi_resource_id="/subscriptions/1") == 25
    assert "&msi_res_id=%2Fsubscriptions%2F1" in services.requests[-1][1]
    assert count_azure(server, AZURE_STORAGE_MASTER_KEY=server.key) == 25


def test_tokens_of_gcsfs(google, tmp_path):  # noqa: F811
    server, services, _ = google
    services.takes = lambda form: form["refresh_token"] == ["r"]
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    user["token_uri"] = f"{services.url}/google/token"
    (tmp_path / "user.json").write_text(json.dumps(user))
    seen = headers_of(server)
    assert count_google(server, token=user) == 25
    assert count_google(server, token=json.dumps(user)) == 25
    assert count_google(server, token=tmp_path / "user.json") == 25
    assert count_google(server, token="cloud", requester_pays=True, project="payer-1") == 25
    assert seen[-1][2]["x-goog-user-project"] == "payer-1"
    assert count_google(server, token=server.bearer, requester_pays="payer-2") == 25
    assert seen[-1][2]["x-goog-user-project"] == "payer-2"
    assert count_google(server, token=server.bearer, project="p") == 25
    assert "x-goog-user-project" not in seen[-1][2]
    with pytest.raises(UnsupportedError, match="no login of gcsfs"):
        count_google(server, token="browser")
    with pytest.raises(InvalidArgument, match="requester_pays needs the option project"):
        count_google(server, requester_pays=True)


@pytest.fixture
def proxy():
    """A proxy of plain HTTP: takes requests for http://NAME/..., and asks the server `to` for them."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            found.requests.append(self.path)
            path = self.path.split("/", 3)[3]
            with urllib.request.urlopen(f"{found.to}/{path}") as answer:
                body = answer.read()
                self.send_response(200)
                self.send_header("ETag", answer.headers["ETag"])
                self.send_header("Content-Length", answer.headers["Content-Length"])
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self):
            self.do_GET()

        def log_message(self, *args):
            pass

    found = Server(("127.0.0.1", 0), Handler)
    found.requests, found.to = [], None
    found.url = f"http://127.0.0.1:{found.server_port}"
    threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def test_a_proxy_of_the_options(cloud, proxy):  # noqa: F811
    s3, _, _ = cloud
    s3.public = frozenset({"many"})
    proxy.to = s3.url
    options = {"proxy_url": proxy.url}
    ds = hd.read_text("http://data.invalid/many/x/001.txt", storage_options=options)
    assert ds.take_all() == [{"text": "1"}]
    assert set(proxy.requests) == {"http://data.invalid/many/x/001.txt"}
    options |= {"proxy_excludes": "other.org,data.invalid", "max_retries": 0}
    with pytest.raises(HeadraceError, match=r"the name of the host data\.invalid is not known"):
        hd.read_text("http://data.invalid/many/x/001.txt", storage_options=options).take_all()


@pytest.mark.parametrize(
    "options, error",
    [
        ({"key": "HUSH\n", "secret": "x"}, "the access key id has a line break at its end"),
        ({"key": "x", "secret": "HUSH\r\n"}, "the secret has a line break at its end"),
        ({"key": "x", "secret": "x", "aws_session_token": "HUSH\nX-Other: 1"}, "the token has a line break$"),
        ({"key": "x", "secret": "HU\x01SH"}, "the secret has a control character"),
    ],
)
def test_credentials_are_one_line(options, error, cloud):  # noqa: F811
    """A token with a newline was two lines of the request, which the server refused without a reason."""
    with pytest.raises(InvalidArgument, match=error) as e:
        count(storage_options=options)
    assert "HUSH" not in str(e.value)


def test_a_session_token_has_its_keys_beside_it(cloud, monkeypatch):  # noqa: F811
    """It was ignored without them, and the keys of the environment served. `token` has other meanings."""
    s3, _, _ = cloud
    at = {"endpoint": s3.url}
    keys = {"key": s3.key, "secret": s3.secret}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret)
    for name in ("aws_session_token", "AWS_TOKEN", "session_token"):
        with pytest.raises(InvalidArgument, match="a session token without its aws_access_key_id") as e:
            count(storage_options=at | {name: "HUSH"})
        assert "HUSH" not in str(e.value)
        assert count(storage_options=at | {name: None}) == count(storage_options=at | {name: ""}) == 25
        assert count(storage_options=at | keys | {name: ""}) == 25
    assert count(storage_options=at | {"token": "x"}) == 25


@pytest.mark.parametrize("url", ["s3://bucket/key", "gs://b/k", "abfss://b@account/k", "webhdfs://b:1/k"])
@pytest.mark.parametrize("endpoint", ["http://", "http:///", "ftp://host", "http://a b"])
def test_an_endpoint_is_an_address(url, endpoint):
    """An endpoint of http:// was a crash."""
    options = {"endpoint": endpoint, "key": "x", "secret": "x", "token": "x", "max_retries": 0}
    if url.startswith("abfss"):
        options["account_key"] = "a2V5"
    wrong = {"ftp://host": "begins with http://", "http://a b": "a blank"}.get(endpoint, "names no host")
    with pytest.raises(InvalidArgument, match=wrong):
        hd.read_csv(url, storage_options=options).count()


@pytest.mark.parametrize("address", ["http://", "http:///", "ftp://host", "http://a b"])
def test_places_of_credentials_are_addresses(address, monkeypatch, tmp_path):
    """A metadata_endpoint without a host was metadata that do not answer; an authority_host of http:// asked
    a host with the tenant's name for a token.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    wrong = {"ftp://host": "begins with http://", "http://a b": "a blank"}.get(address, "names no host")
    client = {"account_name": "a", "tenant_id": "t", "client_id": "i", "client_secret": "s"}
    keys = {"access_key_id": "AK", "secret_access_key": "HUSH", "role_arn": "arn:aws:iam::1:role/r"}
    for url, name, options in (
        ("s3://bucket/key", "aws_endpoint_url_sts", keys | {"endpoint_url_sts": address}),
        ("s3://bucket/key", "aws_metadata_endpoint", {"metadata_endpoint": address}),
        ("az://bucket/key", "azure_msi_endpoint", {"account_name": "a", "identity_endpoint": address}),
        ("az://bucket/key", "azure_storage_authority_host", client | {"authority_host": address}),
    ):
        with pytest.raises(InvalidArgument, match=f"{name}: .*{wrong}"):
            hd.read_csv(url, storage_options=options).count()


def test_a_path_is_no_url():
    for use in (hd.read_csv, hd.range(3).write_csv, hd.range(3).write_orc):
        with pytest.raises(InvalidArgument, match="s3:/bucket/key: a Path has one slash where the URL has"):
            use(Path("s3://bucket/key"))
    for use in (hd.read_csv, hd.range(3).write_csv):  # by os.path.normpath
        with pytest.raises(InvalidArgument, match="s3:/bucket/key: one slash follows the scheme"):
            use("s3:/bucket/key")
    for use in (lambda p: RunConfig(storage_path=p), Checkpoint):
        for path in ("s3:/bucket/key", Path("s3://bucket/key")):
            with pytest.raises(InvalidArgument, match="s3:/bucket/key: one slash follows the scheme"):
                use(path)
    assert not Path("s3:").exists()  # where the rows were written


@pytest.mark.parametrize(
    "url, options, error",
    [
        ("s3://b/k", {"region": "eu\r\nX: HUSH"}, "s3://b/k: the region has a line break$"),
        ("s3://b/k", {"region": "eu-west-1\n"}, "s3://b/k: the region has a line break at its end"),
        (
            "az://b/k",
            {"account_name": "a", "sas_token": "sig=HUSH\n"},
            "azure_storage_sas_token has a line break",
        ),
        ("az://b/k", {"account_name": "a\n", "account_key": "a2V5"}, "azure_storage_account_name has a line"),
        ("az://b/k", {"account_name": "a/b", "account_key": "a2V5"}, "found a part of an address"),
        ("s3://b/k", {"endpoint": "http://127.0.0.1:1/?x=HUSH"}, "s3://b/k: the endpoint has a '.' or a '#'"),
        (
            "hdfs://b/k",
            {"endpoint": "http://127.0.0.1:1#HUSH"},
            "hdfs://b/k: the endpoint has a '.' or a '#'",
        ),
        ("abfss://b@/k", {"account_key": "a2V5"}, "the URL has no account"),
        ("s3://b/k", {"cache_dir": "s3://c"}, "cache_dir .HEADRACE_CACHE_DIR.: expected a folder on a disk"),
    ],
)
def test_odd_options_are_named(url, options, error, monkeypatch):
    """A region's line break began a header of its own; the others were asked of hosts that do not exist."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    for use in (hd.read_csv, hd.range(3).write_csv):
        with pytest.raises(InvalidArgument, match=error) as e:
            use(url, storage_options=options)
        assert "HUSH" not in str(e.value)


def test_a_single_file_has_a_name(cloud):  # noqa: F811
    """An object "x.csv/" was written, which readers take for a folder."""
    with pytest.raises(InvalidArgument, match="expected the name of a file, found the name of a folder"):
        hd.range(3).write_csv("s3://many/x.csv/", single_file=True)


def test_texts_of_options():
    """The engine gets names as they are, and nothing of an option without a value."""
    assert storage_texts("it", {"AWS_REGION": "a", "timeout": 5, "anon": True, "profile": None}) == [
        "AWS_REGION=a",
        "timeout=5",
        "anon=true",
    ]
