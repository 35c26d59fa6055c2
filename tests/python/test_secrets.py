"""Planted secrets are nowhere to be seen: keys, session tokens, passwords and signatures in URLs. Each of
them contains HUSH.
"""

import contextlib
import io
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from command import MISSING, headrace
from object_server import ObjectServer, S3Server

import headrace.data as hd
from headrace import train
from headrace.data import DataContext
from headrace.data.expressions import col, download
from headrace.train.data_parallel_trainer import DataParallelTrainer

SECRET, TOKEN = "HUSHsecretKEY/+", "HUSHtoken//=="
PLANTED = (b"HUSH", b"%48USH")


def check(*things):
    """Fails if one of the things (texts, bytes, others by their str and repr) has a planted secret."""
    for thing in things:
        data = thing if isinstance(thing, bytes) else f"{thing}\n{thing!r}".encode("utf-8", "replace")
        for planted in PLANTED:
            at = data.find(planted)
            assert at < 0, data[max(0, at - 300) : at + 100]


def check_error(e):
    while e is not None:
        check(e, vars(e) if hasattr(e, "__dict__") else "", getattr(e, "__notes__", ""))
        check("".join(traceback.format_exception_only(e)), pickle.dumps(e))
        e = e.__cause__ or e.__context__


def fails(call, *args, **kwargs):
    with pytest.raises(Exception) as found:  # noqa: PT011 (whatever it is: its text counts)
        call(*args, **kwargs)
    check_error(found.value)


@pytest.fixture(autouse=True)
def no_machine(monkeypatch):
    """Nothing waits for the metadata of a machine."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def seen(capfd, caplog):
    """All output of this process is searched at the end of the test."""
    caplog.set_level(logging.DEBUG)
    yield
    out, err = capfd.readouterr()
    check(out, err, caplog.text)


@pytest.fixture
def server(tmp_path, monkeypatch):
    folder = tmp_path / "root" / "bucket" / "in"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(100)))
    server = S3Server(tmp_path / "root")
    server.secret, server.token = SECRET, TOKEN
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    yield server
    server.close()


@pytest.fixture
def given(server):
    keys = {"key": server.key, "secret": SECRET, "token": TOKEN}
    return {"endpoint": server.url, **keys, "max_retries": 0}


def looked_at(ds):
    """Everything that a dataset and its passes say of themselves."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        ds.explain()
    check(out.getvalue(), ds, ds.schema(), ds.stats(), ds.stats("json"))
    batches = ds.iter_batches(batch_size=10)
    next(iter(batches))
    check(batches.state_dict(), batches.stats("dict"))
    check(ds.stats("json"), pickle.dumps(batches.state_dict()))
    return batches


def test_reading_s3(server, given, seen):
    ds = hd.read_csv("s3://bucket/in", storage_options=given, include_paths=True)
    check(ds.take_all())
    looked_at(ds)
    looked_at(ds.map(lambda row: row).filter(expr=col("id") > 3))
    userinfo = server.url.replace("//", "//me:HUSHproxy@")
    for name, value in (
        ("key", "x"),
        ("secret", "HUSHother"),
        ("token", "HUSHother"),
        ("endpoint", f"{userinfo}/none"),
    ):
        fails(hd.read_csv, "s3://bucket/in", storage_options={**given, name: value})
    fails(hd.read_csv, "s3://bucket/none", storage_options=given)
    fails(hd.read_csv, "s3://none/none", storage_options=given)
    fails(hd.read_parquet("s3://bucket/in/a.csv", storage_options=given).take_all)
    server.fault = lambda number, handler: server.status(handler, 500)
    fails(hd.read_csv, "s3://bucket/in/a.csv", storage_options=given)


def test_urls_of_http(tmp_path, seen):
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    server = ObjectServer(tmp_path)
    where = server.url.replace("//", "//me:HUSHpassword@")
    query = "?X-Amz-Signature=HUSHsignature&sig=HUSHsas"
    try:
        ds = hd.read_csv(f"{where}/a.csv{query}", include_paths=True)
        check(ds.take_all())
        looked_at(ds)
        fails(ds.map(lambda row: row["none"]).take_all)
        position = looked_at(ds).state_dict()
        (tmp_path / "a.csv").write_text("id\n1\n3\n")
        other = hd.read_csv(f"{where}/a.csv{query}", include_paths=True).iter_batches(batch_size=10)
        other.load_state_dict(position)
        fails(list, other)
        assert query in ds.input_files()[0]  # they are for reading
        fails(hd.read_csv, f"{where}/none.csv{query}")
        fails(hd.read_parquet(f"{where}/a.csv{query}").take_all)
        rows = hd.from_items([{"url": f"{where}/none{query}"}])
        fails(rows.with_column("b", col("url").download(allow_private=True)).take_all)
        fails(rows.with_column("b", col("url").download()).take_all)
        server.fault = lambda number, handler: server.status(
            handler, 302, Location=f"{where}/else{query}&{number}"
        )
        fails(hd.read_csv, f"{where}/none.csv{query}")
    finally:
        server.close()
    fails(hd.read_csv, f"{where}/a.csv{query}", storage_options={"max_retries": 0})
    for scheme in ("ftp", "hdfs", "gs", "az", "abfss", "xyz"):
        fails(hd.read_csv, f"{scheme}://me:HUSHpw@localhost:1/x{query}", storage_options={"max_retries": 0})
        fails(hd.range(3).write_csv, f"{scheme}://me:HUSHpw@localhost:1/x{query}")


def test_options_of_azure_and_google(seen):
    sas = {"azure_storage_sas_token": "sv=1&sig=HUSHsas", "endpoint": "http://localhost:1", "max_retries": 0}
    fails(hd.read_csv, "az://container/x", storage_options={**sas, "account_name": "me"})
    line = (
        "DefaultEndpointsProtocol=http;AccountName=me;AccountKey=HUSHkey==;BlobEndpoint=http://localhost:1/me"
    )
    fails(hd.read_csv, "az://container/x", storage_options={"connection_string": line, "max_retries": 0})
    fails(hd.read_csv, "az://container/x", storage_options={"connection_string": "HUSHnonsense"})
    token = {"google_token": "HUSHtoken", "endpoint": "http://localhost:1", "max_retries": 0}
    fails(hd.read_csv, "gs://bucket/x", storage_options=token)


# What a service answers that gives credentials, and whom it refuses.
ANSWERS = [
    (200, b"HUSHnonsense"),
    (200, b'{"SecretAccessKey": "HUSH", "access_tokn": "HUSH"}'),
    (403, b'{"message": "HUSH is no valid token", "error_description": "HUSH"}'),
]


@pytest.mark.parametrize(("code", "body"), ANSWERS)
def test_services_of_credentials(code, body, server, seen, tmp_path, monkeypatch):
    def answer(number, handler):
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return True

    service = ObjectServer(tmp_path)
    service.fault = answer
    user = {"type": "authorized_user", "client_id": "me", "client_secret": "HUSH", "refresh_token": "HUSH"}
    (tmp_path / "user").write_text(json.dumps({**user, "token_uri": service.url}))
    (tmp_path / "token").write_text("HUSHtoken")
    (tmp_path / "config").write_text("[profile p]\ncredential_process = echo HUSHnonsense; echo HUSH >&2\n")
    (tmp_path / "wrong").write_text("HUSH{nonsense")
    whole = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
    token = {"AWS_WEB_IDENTITY_TOKEN_FILE": f"{tmp_path}/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}
    client = {"AZURE_CLIENT_ID": "me", "AZURE_CLIENT_SECRET": "HUSHsecret", "AZURE_TENANT_ID": str(tmp_path)}
    for url, variables in (
        ("s3://b/x", {"AWS_CONFIG_FILE": f"{tmp_path}/config", "AWS_PROFILE": "p"}),
        ("s3://b/x", {whole: f"{service.url}/x?HUSH", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "HUSHtoken"}),
        ("s3://b/x", {**token, "AWS_ENDPOINT_URL_STS": service.url, "AWS_REGION": "here"}),
        ("gs://b/x", {"GOOGLE_APPLICATION_CREDENTIALS": f"{tmp_path}/user"}),
        ("gs://b/x", {"GOOGLE_APPLICATION_CREDENTIALS": f"{tmp_path}/wrong"}),
        ("az://me.blob.core.windows.net/b/x", {**client, "AZURE_AUTHORITY_HOST": service.url}),
    ):
        with monkeypatch.context() as only:
            for name, value in variables.items():
                only.setenv(name, value)
            fails(hd.read_csv, url, storage_options={"max_retries": 0})
    service.close()


def test_a_service_account_in_the_place_of_its_file(seen, monkeypatch):
    """The story: the JSON was taken for a path, and the error showed the private key."""
    account = json.dumps({"type": "service_account", "client_email": "me", "private_key": "HUSHkey"})
    for name in ("google_service_account", "google_application_credentials"):
        fails(hd.read_csv, "gs://bucket/x", storage_options={name: account})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", " " + account)
    fails(hd.read_csv, "gs://bucket/x")


def test_queries_of_stores(seen):
    given = {
        "s3://b/x?X-Amz-Signature=": {"key": "k", "secret": "s"},
        "gs://b/x?X-Goog-Signature=": {"google_token": "t"},
        "az://c/x?SIG=": {"account": "me", "token": "t"},
    }
    for url, keys in given.items():
        options = {"endpoint": "http://localhost:1", "max_retries": 0, **keys}
        fails(hd.read_csv, url + "HUSH", storage_options=options)
    fails(hd.read_csv, "webhdfs://localhost:1/x?delegation=HUSH", storage_options={"max_retries": 0})


def test_wrong_options(seen):
    for options in ({"secret": "HUSH\n"}, {"secrett": "HUSH"}, ["HUSH"]):
        fails(hd.read_csv, "s3://bucket/x", storage_options=options)
    for name in ("timeout", "max_retries", "anon", "hedges", "cache_size", "requester_payer", "bucket"):
        fails(hd.read_csv, "s3://bucket/x", storage_options={name: "HUSH"})
    for name in ("aws_sse_customer_key_base64", "aws_server_side_encryption"):
        keys = {"key": "k", "secret": "HUSH", name: "HUSH"}
        fails(hd.read_csv, "s3://bucket/x", storage_options=keys)
    for options in ({"client_kwargs": {"x": "HUSH"}}, {"config_kwargs": "HUSH"}, {"token": b"HUSH"}):
        fails(hd.read_csv, "s3://bucket/x", storage_options=options)
    proxy = {"proxy_url": "http://me:HUSH@127.0.0.1:1", "max_retries": 0}
    fails(hd.read_csv, "http://data.invalid/x.csv", storage_options=proxy)


def everything(folder):
    """The bytes of all files below."""
    return {p: p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def test_writing(server, given, seen):
    records = []

    def look(kind, path, handler):
        if kind == "PUT":
            records.append(path)
            check(handler.body, path)

    server.on_write = look
    ds = hd.range(20)
    made = ds.write_csv("s3://bucket/out", max_rows_per_file=5, storage_options=given)
    check(made, *everything(server.root / "bucket" / "out").values())
    assert any("_headrace_commit" in r for r in records) and any(r.endswith("_SUCCESS") for r in records)
    server.on_write = lambda kind, path, h: server.refuse(h, 403, "AccessDenied") or True
    fails(ds.write_csv, "s3://bucket/out", storage_options=given)
    fails(ds.write_csv, "s3://bucket/out", storage_options={**given, "secret": "HUSHwrong"})


def loop(config):
    folder = tempfile.mkdtemp()
    Path(folder, "x").write_text("x")
    check(train.get_context().get_storage(), train.get_context())
    for batch in train.get_dataset_shard("train").iter_batches(batch_size=50):
        train.report({"n": len(batch["id"])}, train.Checkpoint(folder))
    check(train.get_checkpoint(), pickle.dumps(train.get_checkpoint()))
    if config:
        raise KeyError("stop")


def test_training(server, given, seen):
    ds = hd.read_csv("s3://bucket/in", storage_options=given)
    config = train.RunConfig(
        name="run",
        storage_path="s3://bucket/runs",
        storage_options=given,
        failure_config=train.FailureConfig(max_failures=1),
    )

    def trainer(config_of_loop):
        return DataParallelTrainer(
            loop,
            train_loop_config=config_of_loop,
            datasets={"train": ds},
            run_config=config,
            scaling_config=train.ScalingConfig(num_workers=0),
            resume_from_checkpoint=train.Checkpoint("s3://bucket/in", storage_options=given),
        )

    check(config, pickle.dumps(config))
    fails(trainer({"stop": True}).fit)
    result = trainer({}).fit()
    check(result, pickle.dumps(result), *everything(server.root / "bucket" / "runs").values())
    server.on_write = lambda kind, path, h: server.refuse(h, 403, "AccessDenied") or True
    fails(trainer({}).fit)
    fails(train.RunConfig, storage_path="ftp://me:HUSH@x/y")


SHARES = """
import pickle, sys, headrace.data as hd
ds = hd.read_csv("s3://bucket/in", storage_options={given!r})
shares = ds.streaming_split(2)
sys.stdout.buffer.write(b"".join(pickle.dumps(s) for s in shares))
sys.stdout.buffer.write(repr([s.stats("json") for s in shares]).encode())
"""


def test_shares(server, given):
    """A pickled share of a launcher's split leads to the process that reads, which alone needs the keys."""
    env = {**os.environ, "HEADRACE_RANK": "0", "HEADRACE_WORLD_SIZE": "1", "HEADRACE_RUN_ID": "hush"}
    text = SHARES.format(given=given)
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, timeout=300)
    check(done.stdout, done.stderr)


@pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")
def test_the_command(server, given):
    own = {"AWS_ENDPOINT_URL": given["endpoint"], "AWS_ACCESS_KEY_ID": server.key}
    env = {**own, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN}
    for words in (("ls", "-l"), ("ls", "--json"), ("stat",), ("head",), ("schema",)):
        check(*headrace(*words, "s3://bucket/in/a.csv", **env))
    check(*headrace("ls", "s3://bucket/none", status=1, **env))
    check(*headrace("head", "s3://bucket/none", status=1, **{**env, "AWS_SECRET_ACCESS_KEY": "HUSH2"}))
    once = "--storage-option", "max_retries=0"
    check(*headrace("ls", "http://me:HUSHpw@localhost:1/x?sig=HUSH", *once, status=1))
    check(*headrace("convert", "s3://bucket/in", "az://me:HUSH@x/y?sig=HUSH", "--to", "csv", status=1, **env))


def test_expressions_and_context(given):
    made = col("url").download(storage_options=given)
    check(made, download("url", storage_options=given))
    ds = hd.from_items([{"url": "s3://bucket/in/a.csv"}]).with_column("b", made)
    looked_at(ds)
    check(DataContext.get_current())
