"""Single objects of stores, as runs of trainers keep them: read, put, list, remove, upload, save."""

import os

import pytest
from object_server import S3Server

from headrace import _core
from headrace.exceptions import InvalidArgument, MismatchError, NotFoundError, StorageError, UnsupportedError

ODD = "a b+%é[*]?.bin"


@pytest.fixture
def server(tmp_path):
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    server = S3Server(tmp_path / "root")
    yield server
    server.close()


@pytest.fixture
def given(server):
    return [f"endpoint={server.url}", f"key={server.key}", f"secret={server.secret}", "max_retries=1"]


def test_put_and_read(given):
    url = f"s3://bucket/x/{ODD}"
    with pytest.raises(NotFoundError, match="no such object"):
        _core.object_read(url, given)
    first = _core.object_put(url, b"one", None, given)
    assert _core.object_read(url, given) == (b"one", first)
    assert _core.object_put(url, b"", None, given) != first
    assert _core.object_read(url, given)[0] == b""
    assert _core.objects_list("s3://bucket/x", given) == [(url, 0)]
    with pytest.raises(NotFoundError):
        _core.object_read("s3://bucket/x", given)


def test_versions(server, given):
    url = "s3://bucket/x"
    first = _core.object_put(url, b"1", "", given)
    with pytest.raises(MismatchError, match="s3://bucket/x: somebody else has written or removed it"):
        _core.object_put(url, b"2", "", given)
    second = _core.object_put(url, b"2", first, given)
    with pytest.raises(MismatchError):
        _core.object_put(url, b"3", first, given)
    server.on_write = lambda kind, path, handler: setattr(server, "on_write", None) or "lose"
    third = _core.object_put(url, b"3", second, given)  # its answer is lost: it is sent again, and refused
    assert _core.object_read(url, given) == (b"3", third)

    def without_conditions(kind, path, handler):
        if "If-Match" in handler.headers:
            server.refuse(handler, 501, "NotImplemented")
            return True

    server.on_write = without_conditions
    _core.object_put(url, b"4", third, given)
    assert _core.object_read(url, given)[0] == b"4"


def test_lists_have_all_objects_and_removing_takes_all(server, given):
    names = [".hidden", "_own", "a/.b/c", "a/b", ODD]
    for name in names:
        _core.object_put(f"s3://bucket/run[1]/{name}", b"x", None, given)
    _core.object_put("s3://bucket/run[1]x", b"x", None, given)
    server.page = 2
    listed = [url for url, _ in _core.objects_list("s3://bucket/run[1]", given)]
    assert listed == sorted((f"s3://bucket/run[1]/{n}" for n in names), key=str.encode)
    _core.objects_remove([*listed, "s3://bucket/none"], given)
    assert _core.objects_list("s3://bucket/run[1]", given) == []
    assert _core.object_read("s3://bucket/run[1]x", given)[0] == b"x"


def test_upload_and_save(server, given, tmp_path):
    data = os.urandom(20 << 20)
    files = {"large": data, "empty": b"", "sub/" + ODD: b"odd"}
    for name, content in files.items():
        path = tmp_path / "from" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    seen = []
    server.on_write = lambda kind, path, handler: seen.append((kind, path))
    urls = [f"s3://bucket/up/{name}" for name in files]
    _core.objects_upload("s3://bucket/up", urls, [str(tmp_path / "from" / n) for n in files], given)
    first = [kind for kind, _ in seen].index("COMPLETE")
    assert sum(kind == "PART" for kind, _ in seen) == 5
    assert all(kind == "COMPLETE" for kind, _ in seen[first:])  # all have arrived before one appears
    for name, content in files.items():
        _core.object_save(f"s3://bucket/up/{name}", str(tmp_path / "to"), given)
        assert (tmp_path / "to").read_bytes() == content
    with pytest.raises(NotFoundError):
        _core.object_save("s3://bucket/up/none", str(tmp_path / "none"), given)
    assert not (tmp_path / "none").exists()


def test_a_failed_upload_leaves_nothing(server, given, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    urls = ["s3://bucket/up/a", "s3://bucket/up/b"]
    with pytest.raises(NotFoundError, match="none"):
        _core.objects_upload("s3://bucket/up", urls, [str(tmp_path / "a"), str(tmp_path / "none")], given)
    server.on_write = lambda kind, path, h: kind == "PART" and (server.refuse(h, 403, "AccessDenied") or True)
    with pytest.raises(StorageError, match="s3://bucket/up/a: access denied .*AccessDenied"):
        _core.objects_upload("s3://bucket/up", urls[:1], [str(tmp_path / "a")], given)
    assert _core.objects_list("s3://bucket/up", given) == [] and not server.uploads
    server.uploads["1"] = ("/bucket/up/c", {})
    server.on_write = None
    _core.objects_abort("s3://bucket/up", "other", given)
    assert server.uploads
    _core.objects_abort("s3://bucket/up", "", given)
    assert not server.uploads


def test_what_is_refused(given):
    assert _core.url_is_writable("s3://b/x") and not _core.url_is_writable("ftp://b/x")
    with pytest.raises(UnsupportedError, match="x/y: headrace does not write to URLs of this kind") as e:
        _core.object_put("ftp://me:hush@x/y?sig=hush", b"", None, given)
    assert "hush" not in str(e.value)
    with pytest.raises(InvalidArgument, match="1 URLs for 0 files"):
        _core.objects_upload("s3://bucket/up", ["s3://bucket/up/a"], [], given)
