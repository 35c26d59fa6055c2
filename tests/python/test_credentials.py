"""Credentials that are fetched, of roles, containers, machines, SSO and programs; they are renewed."""

import base64
import hashlib
import http.server
import json
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from cloud_servers import AzServer, GsServer
from object_server import S3Server, Server

import headrace.data as hd
from headrace.exceptions import HeadraceError, InvalidArgument

ROLE = "arn:aws:iam::123456789012:role/reader"
NAMES = """AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION
    AWS_ENDPOINT_URL_S3 AWS_ROLE_ARN AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_SESSION_NAME
    AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
    AWS_CONTAINER_AUTHORIZATION_TOKEN
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE AWS_EC2_METADATA_DISABLED AWS_EC2_METADATA_SERVICE_ENDPOINT"""


class IssuingServer(S3Server):
    """S3, with keys that a service issues: `issue()` makes the next one; `expired` are refused."""

    life_s = 3600

    def __init__(self, root):
        self.issued, self.expired, self.used = {}, set(), []
        super().__init__(root)

    def issue(self):
        name = f"ASIA{len(self.issued) + 1}"
        until = datetime.now(UTC) + timedelta(seconds=self.life_s)
        self.issued[name] = until
        return {
            "AccessKeyId": name,
            "SecretAccessKey": f"secret/{name}",
            "Token": f"token/{name}=",
            "Expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _wrong(self, handler, of=None):
        name = handler.headers.get("Authorization", "=").split("=")[1].split("/")[0]
        if name in self.issued:
            self.used.append(name)
            if name in self.expired or self.issued[name] < datetime.now(UTC):
                return "ExpiredToken"
            self.key, self.secret, self.token = name, f"secret/{name}", f"token/{name}="
        return super()._wrong(handler, of)


class Services:
    """STS, the metadata of a machine, a container's service and SSO, at one address."""

    def __init__(self, s3):
        self.s3, self.requests, self.down = s3, [], False
        self.tokens, self.life_s, self.takes = [], 3600, None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.requests.append((self.command, self.path))
                answer = None if outer.down else outer.answer(self, urlsplit(self.path))
                body = (answer or "<Error><Code>AccessDenied</Code></Error>").encode()
                self.send_response(200 if answer else 403)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_POST = do_GET

            def log_message(self, *args):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, handler, parts):
        headers, query = handler.headers, parse_qs(parts.query)
        if parts.path == "/latest/api/token":
            ok = handler.command == "PUT" and headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            return "metadata-token" if ok else None
        if parts.path.startswith("/latest/meta-data/iam/security-credentials/"):
            if headers["X-aws-ec2-metadata-token"] != "metadata-token":
                return None
            named = parts.path.endswith("/machine-role")
            return json.dumps({"Code": "Success", **self.s3.issue()}) if named else "machine-role\n"
        if parts.path == "/computeMetadata/v1/instance/service-accounts/default/token":
            return self._bearer() if headers["Metadata-Flavor"] == "Google" else None
        if parts.path == "/metadata/identity/oauth2/token":
            ok = headers["Metadata"] == "true" and query["resource"] == ["https://storage.azure.com/"]
            return self._bearer() if ok else None
        if parts.path in ("/google/token", "/tenant/oauth2/v2.0/token"):
            return self._bearer() if self.takes(parse_qs(handler.body.decode())) else None
        if parts.path == "/container":
            return json.dumps(self.s3.issue()) if headers["Authorization"] == "pod token" else None
        if parts.path == "/federation/credentials":
            ok = headers["x-amz-sso_bearer_token"] == "sso token" and query["account_id"] == ["123"]
            return self._sso() if ok and query["role_name"] == ["Data Reader"] else None
        form = parse_qs(handler.body.decode()) or query
        if form.get("Action") == ["AssumeRoleWithWebIdentity"]:
            ok = form["WebIdentityToken"] == ["web+token/="] and form["RoleArn"] == [ROLE]
            return self._sts() if ok else None
        if form.get("Action") == ["AssumeRole"] and form["RoleArn"] == [ROLE]:
            return None if self.s3._wrong(handler, "sts") else self._sts()
        return None

    def _bearer(self):
        self.tokens.append(f"ya29.{len(self.tokens)}")
        self.s3.tokens |= {self.tokens[-1]}
        return json.dumps(
            {"access_token": self.tokens[-1], "expires_in": self.life_s, "token_type": "Bearer"}
        )

    def _sts(self):
        keys = self.s3.issue()
        keys["SessionToken"] = keys.pop("Token")
        inner = "".join(f"<{k}>{v}</{k}>" for k, v in keys.items())
        return f"<AssumeRoleResponse><Credentials>{inner}</Credentials></AssumeRoleResponse>"

    def _sso(self):
        keys = self.s3.issue()
        until = self.s3.issued[keys["AccessKeyId"]].timestamp() * 1000
        return json.dumps(
            {
                "roleCredentials": {
                    "accessKeyId": keys["AccessKeyId"],
                    "secretAccessKey": keys["SecretAccessKey"],
                    "sessionToken": keys["Token"],
                    "expiration": int(until),
                }
            }
        )


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """(S3, services, home): the environment names none of the places yet."""
    folder = tmp_path / "buckets" / "many" / "x"
    folder.mkdir(parents=True)
    for i in range(25):
        (folder / f"{i:03}.txt").write_text(f"{i}\n")
    home = tmp_path / "home"
    (home / ".aws" / "sso" / "cache").mkdir(parents=True)
    s3 = IssuingServer(tmp_path / "buckets")
    services = Services(s3)
    for name in [*NAMES.split(), "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", services.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", services.url)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", services.url)
    yield s3, services, home
    services.close()
    s3.close()


def count(**options):
    return hd.read_text("s3://many/x", **options).count()


def test_a_machine(cloud):
    s3, services, _ = cloud
    assert count() == 25
    assert count() == 25  # one fetch for all readers of the process
    assert len(s3.issued) == 1
    assert services.requests[0] == ("PUT", "/latest/api/token")


def test_a_container(cloud, monkeypatch, tmp_path):
    s3, services, _ = cloud
    token = tmp_path / "token"
    token.write_text("pod token\n")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{services.url}/container")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    assert count() == 25
    assert [path for _, path in services.requests] == ["/container"]
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/container")
    with pytest.raises(
        InvalidArgument, match=r"s3://many/x: AWS_CONTAINER_CREDENTIALS_FULL_URI: expected https"
    ):
        count()


def test_a_pod_with_a_token(cloud, monkeypatch, tmp_path):
    s3, services, _ = cloud
    token = tmp_path / "token"
    token.write_text("web+token/=\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    assert count() == 25
    assert services.requests == [("POST", "/")]
    token.write_text("another")
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "other")
    with pytest.raises(HeadraceError, match=r"AWS STS \(AssumeRoleWithWebIdentity\): access denied") as e:
        count()
    assert "another" not in str(e.value)


def test_a_role_of_another_profile(cloud):
    s3, services, home = cloud
    (home / ".aws" / "config").write_text(
        f"[profile reader]\nrole_arn = {ROLE}\nsource_profile = base\nregion = us-east-1\n"
        f"[profile base]\naws_access_key_id = {s3.key}\naws_secret_access_key = {s3.secret}\n"
        f"[profile machine]\nrole_arn = {ROLE}\ncredential_source = Ec2InstanceMetadata\n"
        "[profile loop]\nrole_arn = a\nsource_profile = other\n"
        "[profile other]\nrole_arn = b\nsource_profile = loop\n"
        f"[profile code]\nrole_arn = {ROLE}\nsource_profile = base\nmfa_serial = arn:aws:iam::1:mfa/me\n"
    )
    assert count(storage_options={"profile": "reader"}) == 25
    assert count(storage_options={"profile": "machine"}) == 25
    with pytest.raises(InvalidArgument, match="more than 5 roles follow each other"):
        count(storage_options={"profile": "loop"})
    with pytest.raises(HeadraceError, match=r"the profile 'code': its role needs a code \(mfa_serial\)"):
        count(storage_options={"profile": "code"})
    with pytest.raises(
        InvalidArgument, match="s3://many/x: the profile 'nobody': no file of AWS has this profile"
    ):
        count(storage_options={"profile": "nobody"})


def test_sso(cloud):
    s3, services, home = cloud
    (home / ".aws" / "config").write_text(
        "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.awsapps.com/start\n"
        "[default]\nsso_session = corp\nsso_account_id = 123\nsso_role_name = Data Reader\n"
    )
    with pytest.raises(InvalidArgument, match="run 'aws sso login --profile default'"):
        count()
    cache = home / ".aws" / "sso" / "cache" / f"{hashlib.sha1(b'corp').hexdigest()}.json"
    cache.write_text(json.dumps({"accessToken": "sso token", "expiresAt": "2020-01-01T00:00:00Z"}))
    with pytest.raises(InvalidArgument, match="its login has ended"):
        count()
    cache.write_text(json.dumps({"accessToken": "sso token", "expiresAt": "2999-01-01T00:00:00Z"}))
    assert count() == 25


def test_a_program(cloud, tmp_path):
    s3, services, home = cloud
    keys = {**s3.issue(), "Version": 1}
    keys["SessionToken"] = keys.pop("Token")
    (tmp_path / "my keys.json").write_text(json.dumps(keys))
    config = home / ".aws" / "config"
    config.write_text(f"[default]\ncredential_process = cat '{tmp_path}/my keys.json'\n")
    assert count() == 25
    config.write_text("[profile broken]\ncredential_process = sh -c 'echo hush; exit 7'\n")
    with pytest.raises(HeadraceError, match="credential_process: sh: it ended with status 7") as e:
        count(storage_options={"profile": "broken"})
    assert "hush" not in str(e.value)


def test_nothing_anywhere(cloud, monkeypatch):
    s3, services, _ = cloud
    services.close()
    before = time.monotonic()
    with pytest.raises(InvalidArgument, match=r"s3://many/x: no credentials in storage_options .*metadata"):
        count()
    assert time.monotonic() - before < 5
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(InvalidArgument, match=r"s3://many/x: no credentials in storage_options"):
        count()


def test_keys_that_end_are_renewed_in_the_run(cloud):
    """The credentials of a machine serve for two seconds here (17, less 15 for the way): all files come."""
    s3, services, _ = cloud
    s3.life_s, s3.delay_s = 17, 0.3
    rows = []
    for row in hd.read_text("s3://many/x", storage_options={"max_connections": 2}).iter_rows():
        rows.append(row["text"])
    assert rows == [str(i) for i in range(25)]
    assert len(s3.issued) >= 2
    assert len(set(s3.used)) >= 2


def test_keys_that_the_store_refuses_are_renewed_once(cloud):
    s3, services, _ = cloud
    ds = hd.read_text("s3://many/x")
    s3.expired.add("ASIA1")
    assert ds.count() == 25
    assert s3.used[-1] == "ASIA2"
    s3.expired = {f"ASIA{i}" for i in range(1, 100)}
    with pytest.raises(HeadraceError, match="ExpiredToken"):
        ds.count()
    assert len(s3.issued) < 60


def test_a_service_that_fails_is_named_when_nothing_is_left(cloud):
    s3, services, _ = cloud
    ds = hd.read_text("s3://many/x")
    services.down = True
    s3.expired.add("ASIA1")
    with pytest.raises(HeadraceError, match="metadata"):
        ds.count()


# ------------------------------------------------------------------------------------------ Google and Azure


@pytest.fixture
def google(tmp_path, monkeypatch):
    """(the store, its services, home): the environment names none of the places yet."""
    yield from other_cloud(GsServer, tmp_path, monkeypatch)


@pytest.fixture
def azure(tmp_path, monkeypatch):
    yield from other_cloud(AzServer, tmp_path, monkeypatch)


def other_cloud(kind, tmp_path, monkeypatch):
    folder = tmp_path / "buckets" / "many" / "x"
    folder.mkdir(parents=True)
    for i in range(25):
        (folder / f"{i:03}.txt").write_text(f"{i}\n")
    (tmp_path / "home").mkdir()
    names = "GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG STORAGE_EMULATOR_HOST NO_GCE_CHECK"
    names += " AZURE_TENANT_ID AZURE_CLIENT_ID AZURE_CLIENT_SECRET AZURE_FEDERATED_TOKEN_FILE IDENTITY_HEADER"
    names += " AZURE_STORAGE_ACCOUNT_KEY AZURE_STORAGE_CONNECTION_STRING AZURE_STORAGE_SAS_TOKEN"
    for name in names.split():
        monkeypatch.delenv(name, raising=False)
    server = kind(tmp_path / "buckets")
    services = Services(server)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GCE_METADATA_HOST", services.url.removeprefix("http://"))
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", services.url)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{services.url}/metadata/identity/oauth2/token")
    yield server, services, tmp_path / "home"
    services.close()
    server.close()


def count_google(server, **options):
    return hd.read_text("gs://many/x", storage_options={"endpoint": server.url, **options}).count()


def count_azure(server, **options):
    options = {"endpoint": server.url, "account_name": server.account, **options}
    return hd.read_text("az://many/x", storage_options=options).count()


def test_a_machine_of_google(google):
    server, services, _ = google
    assert count_google(server) == 25
    assert count_google(server) == 25
    assert len(services.tokens) == 1


def account_of_google(services, folder):
    key = folder / "key.pem"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    public = folder / "public.pem"
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)

    def takes(form):
        head, claims, signature = form["assertion"][0].split(".")
        decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
        assert json.loads(base64.urlsafe_b64decode(head + "=="))["alg"] == "RS256"
        assert decoded["aud"] == f"{services.url}/google/token"
        assert decoded["iss"] == 'reader"é@example.com'
        assert 0 < decoded["exp"] - time.time() <= 3600
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        (folder / "text").write_text(f"{head}.{claims}")
        (folder / "signature").write_bytes(base64.urlsafe_b64decode(signature + "=="))
        command = ["openssl", "dgst", "-sha256", "-verify", public, "-signature", folder / "signature"]
        return subprocess.run([*command, folder / "text"], capture_output=True).returncode == 0

    services.takes = takes
    return {
        "type": "service_account",
        "client_email": 'reader"é@example.com',
        "private_key": key.read_text(),
        "token_uri": f"{services.url}/google/token",
    }


def test_a_service_account_of_google(google, monkeypatch, tmp_path):
    server, services, _ = google
    account = account_of_google(services, tmp_path)
    (tmp_path / "account.json").write_text(json.dumps(account, indent=2))
    assert count_google(server, google_service_account=tmp_path / "account.json") == 25
    assert count_google(server, google_service_account_key=json.dumps(account)) == 25
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    assert count_google(server) == 25
    assert len(services.tokens) == 2  # the file's is one
    (tmp_path / "other.json").write_text(json.dumps({**account, "private_key": "hush"}))
    with pytest.raises(InvalidArgument, match=r"other.json: the private key of the service account") as e:
        count_google(server, google_service_account=tmp_path / "other.json")
    assert "hush" not in str(e.value)
    (tmp_path / "other.json").write_text('{"type": "external_account"}')
    with pytest.raises(
        HeadraceError, match="credentials of type 'external_account'; expected service_account"
    ):
        count_google(server, google_service_account=tmp_path / "other.json")


def test_a_user_of_gcloud(google):
    server, services, home = google
    services.takes = lambda form: form["refresh_token"] == ["1//r+t"] and form["client_secret"] == ["s"]
    folder = home / ".config" / "gcloud"
    folder.mkdir(parents=True)
    user = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "1//r+t"}
    user["token_uri"] = f"{services.url}/google/token"
    (folder / "application_default_credentials.json").write_text(json.dumps(user))
    assert count_google(server) == 25


def test_tokens_are_renewed(google):
    """A token that ends in the run, and one that the store does not take any more."""
    server, services, _ = google
    services.life_s, server.delay_s = 17, 0.25
    options = {"endpoint": server.url, "max_connections": 2}
    rows = [r["text"] for r in hd.read_text("gs://many/x", storage_options=options).iter_rows()]
    assert rows == [str(i) for i in range(25)]
    assert len(services.tokens) >= 2
    server.delay_s, services.life_s = 0, 3600
    ds = hd.read_text("gs://many/x", storage_options=options)
    server.tokens = frozenset()
    assert ds.count() == 25


def test_no_credentials_for_google(google, monkeypatch):
    server, services, _ = google
    services.close()
    with pytest.raises(InvalidArgument, match=r"gs://many/x: no credentials in storage_options .*metadata"):
        count_google(server)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(InvalidArgument, match=r"gs://many/x: no credentials in storage_options"):
        count_google(server)


def test_azure_gives_tokens_to_clients_pods_and_machines(azure, monkeypatch, tmp_path):
    server, services, _ = azure
    assert count_azure(server) == 25
    assert services.requests[0][1].startswith(
        "/metadata/identity/oauth2/token?api-version=2018-02-01&resource="
    )
    services.takes = lambda form: form["client_secret"] == ["se cret"] and form["client_id"] == ["me"]
    login = {"tenant_id": "tenant", "client_id": "me", "client_secret": "se cret"}
    assert count_azure(server, **login) == 25
    services.takes = lambda form: form["client_assertion"] == ["pod token"]
    (tmp_path / "token").write_text("pod token\n")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "pod")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    assert count_azure(server) == 25
    assert len(services.tokens) == 3
    server.tokens = frozenset()
    assert count_azure(server) == 25
    services.takes = lambda form: False
    monkeypatch.setenv("AZURE_CLIENT_ID", "another")
    with pytest.raises(
        HeadraceError, match=r"az://many/x: Microsoft Entra's token service: access denied"
    ) as e:
        count_azure(server)
    assert "pod token" not in str(e.value)


def test_no_credentials_for_azure(azure):
    server, services, _ = azure
    services.close()
    with pytest.raises(InvalidArgument, match=r"az://many/x: no credentials in storage_options .*identity"):
        count_azure(server)
