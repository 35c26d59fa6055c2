"""Jobs that write only where no files are, at the same time: one of them fills the folder."""

import threading

import pytest
from cloud_servers import AzServer, GsServer
from command import headrace
from object_server import ExpressServer, FlatKeys, S3Server

import headrace.data as hd
from headrace.exceptions import HeadraceError

SERVERS = {
    "s3": (type("FlatS3", (FlatKeys, S3Server), {}), "s3://bucket"),
    "express": (ExpressServer, "s3://bucket--use1-az4--x-s3"),
    "gs": (type("FlatGs", (FlatKeys, GsServer), {}), "gs://bucket"),
    "az": (AzServer, "az://bucket@acct.blob.core.windows.net"),
}
CLAIM = "_headrace_commit_"
N = 40


class Folder:
    """A folder of a store, or of this machine."""

    def __init__(self, name, root):
        self.name, self.server, self.options = name, None, None
        if name == "local":
            self.path, self.root = str(root / "out"), root / "out"
            return
        cls, url = SERVERS[name]
        bucket = url.split("://")[1].split("@")[0]
        (root / bucket).mkdir(parents=True)
        self.server = cls(root)
        self.path, self.prefix = f"{url}/out", f"{bucket}/out/"
        keys = {"key": self.server.key, "secret": getattr(self.server, "secret", "")}
        given = {"gs": {"token": getattr(self.server, "bearer", "")}, "az": {"account_key": self.server.key}}
        self.options = given.get(name, keys) | {"endpoint": self.server.url}

    def file(self, name):
        return self.server.file(self.prefix + name) if self.server else self.root / name

    def names(self):
        bucket, _, folder = self.prefix.partition("/")
        return sorted(k.removeprefix(folder) for k in self.server.objects(bucket) if k.startswith(folder))

    def write(self, mode="create", first=0):
        rows = hd.range(N).map(lambda r: {"id": r["id"] + first})
        rows.write_parquet(self.path, mode=mode, storage_options=self.options)

    def ids(self):
        found = hd.read_parquet(self.path, storage_options=self.options).take_all()
        return sorted(row["id"] for row in found)

    def at(self, kind, name, do):
        """Calls do() in another thread, before the server answers the first request of this kind for a file
        whose name begins so.
        """

        def hook(found, path, handler):
            if found == kind and path.rpartition("/")[2].startswith(name):
                self.server.on_write = None
                thread = threading.Thread(target=do)
                thread.start()
                thread.join(60)

        self.server.on_write = hook


@pytest.fixture
def folder(request, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    folder = Folder(request.param, tmp_path / "root")
    yield folder
    if folder.server:
        folder.server.close()


stores = pytest.mark.parametrize("folder", SERVERS, indirect=True)
folders = pytest.mark.parametrize("folder", [*SERVERS, "local"], indirect=True)


@folders
@pytest.mark.parametrize("mode", ["create", "ignore"])
def test_of_four_jobs_one_fills_the_folder(folder, mode):
    """Each had looked into the empty folder before any had written: the folder had the rows of all."""
    ready, failed = threading.Barrier(4), []

    def write(first):
        def wait(batch):
            ready.wait(20)
            return {"id": batch["id"] + first}

        rows = hd.range(N).map_batches(wait, batch_size=None, compute="threads")
        try:
            rows.write_parquet(folder.path, mode=mode, storage_options=folder.options)
        except HeadraceError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(failed) < 4, failed
    ids = folder.ids()
    assert ids == list(range(ids[0], ids[0] + N))
    assert not folder.file(CLAIM).exists()
    assert len(failed) == 3 if mode == "create" else len(failed) <= 3
    assert all(f"{folder.path}: " in error for error in failed), failed
    if folder.server and folder.name != "az":
        assert not getattr(folder.server, "uploads", {})


@stores
@pytest.mark.parametrize(
    "kind, name, winner",
    [
        ("PUT", CLAIM, 100),  # before the claim
        ("PART", "", 100),
        ("COMPLETE", "", 0),  # the first job is decided
        ("PUT", "_SUCCESS", 0),
    ],
)
def test_another_job_in_the_middle(folder, kind, name, winner):
    other = []

    def write():
        try:
            folder.write(first=100)
        except HeadraceError as error:
            other.append(str(error))

    folder.at(kind, name, write)
    if winner:
        with pytest.raises(
            HeadraceError, match='contains files of another program by now .mode is "create".'
        ):
            folder.write()
    else:
        folder.write()
    assert folder.ids() == list(range(winner, winner + N))
    assert not folder.file(CLAIM).exists()
    assert bool(other) == (winner == 0)
    assert "contains files" in "".join(other) or winner


@stores
@pytest.mark.parametrize("mode", ["create", "ignore"])
def test_a_claim_is_taken_over(folder, mode):
    """The other job comes between the claim and the record. With mode "ignore" that was an error, too."""
    claims = []

    def hook(kind, path, handler):
        if kind == "PUT" and path.endswith(CLAIM):
            claims.append(handler.body)
            if len(claims) == 2:
                folder.server.on_write = None
                thread = threading.Thread(target=folder.write, kwargs={"first": 100})
                thread.start()
                thread.join(60)

    folder.server.on_write = hook
    if mode == "ignore":
        folder.write(mode)
    else:
        with pytest.raises(HeadraceError, match="/out: another job fills the folder at the same time"):
            folder.write()
    assert b"\nfile " not in claims[0] and b"\nfile " in claims[1]
    assert folder.ids() == list(range(100, 100 + N))
    assert not folder.file(CLAIM).exists()


@stores
def test_an_ignored_job_leaves_nothing(folder):
    folder.at("PUT", CLAIM, lambda: folder.write("ignore", 100))
    folder.write("ignore")
    assert folder.ids() == list(range(100, 100 + N))
    assert [name.rpartition(".")[2] for name in folder.names()] in (
        ["parquet", "_SUCCESS"],
        ["_SUCCESS", "parquet"],
    )


@stores
def test_the_claim_of_a_killed_job(folder):
    """It hides nothing, and the next job replaces it; clean leaves it to a job that may be alive."""

    def claim():
        folder.file(CLAIM).parent.mkdir(parents=True, exist_ok=True)
        folder.file(CLAIM).write_bytes(b"headrace-commit 1\njob killed\nend\n")

    def clean(*arguments):
        options = [f"--storage-option={name}={value}" for name, value in folder.options.items()]
        headrace("clean", *arguments, *options, folder.path)

    claim()
    folder.write()
    assert folder.ids() == list(range(N))
    claim()
    assert folder.ids() == list(range(N))
    folder.write("append", 100)
    assert folder.file(CLAIM).exists()
    clean()
    clean("--job", "other")
    assert folder.file(CLAIM).exists()
    clean("--job", "killed")
    assert not folder.file(CLAIM).exists()
    assert len(folder.ids()) == 2 * N


@pytest.mark.parametrize("folder", ["s3"], indirect=True)
def test_a_job_that_fails_after_its_claim(folder):
    """The files come between its look into the folder and its claim, from a program without records."""

    def write(kind, path, handler):
        if kind == "PUT" and path.endswith(CLAIM):
            folder.file("other.csv").parent.mkdir(parents=True, exist_ok=True)
            folder.file("other.csv").write_text("id\n1\n")

    folder.server.on_write = write
    with pytest.raises(HeadraceError, match="contains files of another program by now"):
        folder.write()
    assert folder.names() == ["other.csv"]
    assert not folder.server.uploads
