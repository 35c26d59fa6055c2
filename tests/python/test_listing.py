"""Long lists of stores are asked for in several spans at once, and are complete in any order of the store."""

import bisect
import io
import pickle
import random
import time
import uuid
from urllib.parse import parse_qs, urlsplit

import pytest
from cloud_servers import AzServer
from object_server import S3Server

import headrace.data as hd
from headrace.exceptions import HeadraceError


class ListServer(S3Server):
    """Lists `keys` in the order of `order`, a function of a key; ignores_start: lists from the beginning;
    ignores_level: lists the keys of folders too.
    """

    keys = ()
    order = staticmethod(str.encode)
    ignores_start = ignores_level = False
    n_keys = 0  # sent
    on_list = None

    def _list(self, handler, bucket, query):
        if self.on_list:
            self.on_list(len(self.requests))
        with self.lock:
            self.at_work.add(handler)
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.delay_s)
        self._page(handler, query)
        with self.lock:
            self.at_work.discard(handler)

    def _page(self, handler, query):
        prefix = query["prefix"][0]
        keys = {k for k in self.keys if k.startswith(prefix)}
        if "delimiter" in query and not self.ignores_level:
            ends = {k: k.find("/", len(prefix)) + 1 for k in keys}
            keys = {k[:end] if (end := ends[k]) else k for k in keys}
        keys = sorted(keys, key=self.order)
        if "continuation-token" in query:
            behind = query["continuation-token"][0]
        else:
            behind = "" if self.ignores_start else query.get("start-after", [""])[0]
        begin = bisect.bisect_right([self.order(k) for k in keys], self.order(behind)) if behind else 0
        size = min(self.page, int(query.get("max-keys", [self.page])[0]))
        page = keys[begin : begin + size]
        cut = begin + size < len(keys)
        with self.lock:
            self.n_keys += len(page)
        lines = [
            f"<CommonPrefixes><Prefix>{k}</Prefix></CommonPrefixes>"
            if k.endswith("/")
            else f"<Contents><Key>{k}</Key><ETag>&quot;1&quot;</ETag><Size>1</Size></Contents>"
            for k in page
        ]
        if cut:
            lines.append(
                f"<IsTruncated>true</IsTruncated><NextContinuationToken>{page[-1]}</NextContinuationToken>"
            )
        body = f"<ListBucketResult>{''.join(lines)}</ListBucketResult>".encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ListServer(tmp_path)
    yield server
    server.close()


def listed(server, path="s3://bucket/"):
    server.forget()
    options = {"endpoint": server.url, "key": server.key, "secret": server.secret}
    return [
        url.removeprefix("s3://bucket/")
        for url in hd.read_binary_files(path, storage_options=options).input_files()
    ]


def in_bytes(keys):
    return sorted(keys, key=str.encode)


NUMBERS = [f"in/part-{i:05}.parquet" for i in range(3000)]
DAYS = [
    f"y={y}/m={m:02}/d={d:02}/{i}.csv"
    for y in (2023, 2024)
    for m in range(1, 13)
    for d in range(1, 29)
    for i in "ab"
]
HEX = [str(uuid.UUID(int=random.Random(i).getrandbits(128))) + ".jpg" for i in range(2000)]
ODD = [
    f"{word}{sep}{i}"
    for word in ("a", "é", "a b", "ü+", "z%2F", "Q")
    for sep in ("/", "-", ".", "//")
    for i in range(40)
]
NAMES = [f"{a}{b}/{c}" for a in "abcXYZ" for b in "lmnop012" for c in range(30)]
SHAPES = {
    "numbers": NUMBERS[:1200],
    "days": DAYS,
    "hex": HEX,
    "odd": ODD,
    "names": NAMES,
    "one": ["x"],
    "nested": ["a" * n + "/x" for n in range(1, 300)],
}


@pytest.mark.parametrize("page", [1, 7, 100, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_list_is_complete(server, shape, page):
    keys = SHAPES[shape]
    server.keys, server.page = (keys[:: len(keys) // 60 + 1] if page == 1 else keys), page
    assert listed(server) == in_bytes(server.keys)


def as_folders(key):
    """The order of stores that keep folders as folders: a/b comes before a-b."""
    return [part.encode() for part in key.split("/")]


def backwards(key):
    return [255 - byte for byte in key.encode()] + [256]


def shuffled(key):
    return random.Random(key).random()


@pytest.mark.parametrize("order", [as_folders, backwards, shuffled])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_order_of_the_store(server, shape, order):
    server.keys, server.page, server.order = SHAPES[shape], 50, order
    assert listed(server) == in_bytes(server.keys)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_store_that_begins_at_the_beginning(server, shape):
    server.keys, server.page, server.ignores_start = SHAPES[shape], 50, True
    assert listed(server) == in_bytes(server.keys)


def test_random_keys(server):
    rng = random.Random(1)
    for _ in range(25):
        letters = rng.choice(["01", "0123456789", "abc/", "aB0-/_.", "é0z/"])
        keys = {
            "".join(rng.choices(letters, k=rng.randint(1, 7))).strip("/") or "x"
            for _ in range(rng.randint(1, 400))
        }
        server.keys = [k for k in keys if not any(part[:1] in ("", ".", "_") for part in k.split("/"))]
        server.page = rng.choice([2, 3, 10, 50])
        if server.keys:
            assert listed(server) == in_bytes(server.keys)


def test_patterns(server):
    server.keys, server.page = NUMBERS, 100
    assert listed(server, "s3://bucket/in/part-02*5.parquet") == [
        k for k in NUMBERS if k.startswith("in/part-02") and k.endswith("5.parquet")
    ]


@pytest.mark.parametrize("shape", ["numbers", "hex"])
def test_pages_travel_at_once(server, shape):
    """30 pages one after the other would take 30 times the delay."""
    server.keys, server.page, server.delay_s = SHAPES[shape], len(SHAPES[shape]) // 30, 0.02
    listed(server)
    assert server.most_at_once > 8
    assert len(server.requests) < 120


def refuse_lists(server, parameter):
    """The server refuses lists with this parameter."""
    listing = server._list

    def refuse(handler, bucket, query):
        if parameter in query:
            return server.refuse(handler, 403, "AccessDenied")
        return listing(handler, bucket, query)

    server._list = refuse


@pytest.mark.parametrize("page", [20, 50])
@pytest.mark.parametrize("refuses", [False, True])
def test_folders_are_where_a_list_is_cut(server, refuses, page):
    """Words make no other word likely: a page came after the other. Who may not list a level goes on so."""
    words = ["alpha", "beta", "gamma", "delta", "kappa", "lambda", "omega", "sigma", "tau", "zeta"]
    server.keys = in_bytes(f"in/{a}{b}/{i:02}" for a in words for b in words for i in range(6))
    server.page, server.delay_s = page, 0.005
    if refuses:
        refuse_lists(server, "delimiter")
    assert listed(server, "s3://bucket/in/") == server.keys
    assert len(server.requests) < 5 * len(server.keys) // page
    assert refuses or server.most_at_once > 5


def test_no_cut_names_a_folder_without_its_slash(server):
    """SeaweedFS begins behind the whole folder then: the spans were no list, and all was listed again."""
    server.keys, server.page = [f"in/{a:03}/{a:03}{i:02}" for a in range(20) for i in range(50)], 50
    assert listed(server, "s3://bucket/in/") == server.keys
    starts = [parse_qs(urlsplit(path).query).get("start-after", [""])[0] for _, path, *_ in server.requests]
    folders = {f"in/{a:03}" for a in range(20)}
    assert any(s.endswith("/") for s in starts) and not folders & {*starts}


def test_a_folder_is_not_cut_before_its_second_page(server):
    """Each cut behind the last key of a folder of one page asked for the next folder's page again."""
    server.keys, server.page = [f"in/{a:03}/{a:03}{i:03}" for a in range(10) for i in range(100)], 100
    assert listed(server, "s3://bucket/in/") == server.keys
    assert len(server.requests) <= 24  # there were 32


@pytest.mark.parametrize("larger", [(), (7, 13), tuple(range(10, 20))])
def test_folders_of_one_page_are_proven_by_one_key(server, larger):
    """The story: each folder's second page was the next folder's first one, and all keys travelled twice."""
    sizes = [53 if a in larger else 50 for a in range(20)]
    server.keys, server.page = [f"in/{a:03}/{i:03}" for a in range(20) for i in range(sizes[a])], 50
    assert listed(server, "s3://bucket/in/") == server.keys
    ones = sum("max-keys=1&" in path for _, path, *_ in server.requests)
    assert ones >= 2 and (larger or server.n_keys < 1.5 * len(server.keys) and ones >= 10)


def test_levels_of_many_pages(server):
    """Folders behind the first page of a level are asked for when the list comes there."""
    server.keys = in_bytes(f"in/{i * 7919 % 10000:04x}/{j}" for i in range(900) for j in "abc")
    server.page = 30
    assert listed(server, "s3://bucket/in/") == server.keys
    assert len(server.requests) < 4 * 90


def test_short_lists_cost_few_requests(server):
    server.keys, server.page = NUMBERS[:1500], 1000
    listed(server)
    assert kinds_of(server).count("LIST") <= 9  # two prove that the page is the beginning, one is a level
    server.keys = NUMBERS[:1000]
    listed(server)
    assert len(server.requests) == 1


def test_objects_that_come_meanwhile(server):
    """A list is never without an object that was there all the time."""
    server.page = 50
    for n in range(1, 40, 6):
        server.keys = list(NUMBERS)

        def add(number, n=n):
            if number == n:
                server.keys = [*server.keys, *(f"in/part-0{i}x" for i in range(10))]

        server.on_list = add
        assert set(listed(server)) >= set(NUMBERS)


def test_an_error_in_one_span_is_one_error(server):
    server.keys, server.page = NUMBERS, 100
    refuse_lists(server, "start-after")
    with pytest.raises(HeadraceError, match="AccessDenied"):
        listed(server)


class FileServer(ListServer):
    """Each key is the same file."""

    def file(self, path):
        return self.root / "one.parquet"

    def _page(self, handler, query):
        size, tag = self.file("").stat().st_size, self.etag(self.file("")).replace('"', "&quot;")
        wfile, handler.wfile = handler.wfile, io.BytesIO()
        super()._page(handler, query)
        text = handler.wfile.getvalue().decode()
        handler.wfile = wfile
        head, _, body = text.partition("\r\n\r\n")
        body = body.replace("<Size>1<", f"<Size>{size}<").replace("&quot;1&quot;", tag).encode()
        handler._headers_buffer = []
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    hd.range(10).write_parquet(str(tmp_path / "made"))
    next((tmp_path / "made").glob("*.parquet")).rename(tmp_path / "one.parquet")
    server = FileServer(tmp_path)
    server.keys, server.page = NUMBERS, 50
    yield server
    server.close()


def reader(server):
    server.forget()
    options = {"endpoint": server.url, "key": server.key, "secret": server.secret}
    return hd.read_parquet("s3://bucket/in/", storage_options=options)


def test_the_first_footer_travels_beside_the_list(files):
    """It was asked for when the last page had come."""
    files.delay_s = 0.02
    ds = reader(files)
    kinds = [kind for kind, *_ in files.requests]
    assert kinds.index("GET") < len(kinds) - kinds[::-1].index("LIST") - 1
    assert ds.schema().names == ["id"]
    assert [kind for kind, *_ in files.requests].count("GET") == 1
    assert ds.take(3) == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_an_early_file_that_is_not_the_first_one(files):
    """A key that comes before the others while they are listed: the rows are those of the list."""
    files.order = as_folders
    files.keys = [*NUMBERS, "in/part/x.parquet"]
    ds = reader(files)
    assert ds.input_files()[0] == f"s3://bucket/{in_bytes(files.keys)[0]}"
    assert ds.schema().names == ["id"]


def test_an_early_file_that_changes_while_the_list_is_made(files):
    """The list that counts has another version: the early bytes are not used, and none are mixed."""
    calls = []

    def change(number):
        calls.append(number)
        if len(calls) == 4:
            files.keys = [k for k in files.keys if k != NUMBERS[0]]

    files.on_list = change
    ds = reader(files)
    assert ds.schema().names == ["id"]


def test_a_list_that_fails_after_its_first_page(files):
    listing = files._list

    def refuse(handler, bucket, query):
        if "start-after" in query or "continuation-token" in query:
            return files.refuse(handler, 403, "AccessDenied")
        return listing(handler, bucket, query)

    files._list = refuse
    with pytest.raises(HeadraceError, match="AccessDenied"):
        reader(files)


class AzListServer(AzServer):
    """Lists `keys`, in the order of `order`. flat: how many requests were not for one level."""

    keys = ()
    order = staticmethod(str.encode)

    def objects(self, container):
        return dict.fromkeys(self.keys, self.root / "bucket" / "x")

    def _list(self, handler, container, query):
        with self.lock:
            self.at_work.add(handler)
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.delay_s)
        begin = query["prefix"]
        names = {k for k in self.keys if k.startswith(begin)}
        if "delimiter" in query:
            names = {
                begin + head + slash for head, slash, _ in (k[len(begin) :].partition("/") for k in names)
            }
        names = sorted(names, key=self.order)
        at = int(query.get("marker", "0"))
        lines = [
            f"<BlobPrefix><Name>{name}</Name></BlobPrefix>"
            if name.endswith("/")
            else f"<Blob><Name>{name}</Name><Properties><Content-Length>1</Content-Length><Etag>1</Etag>"
            "</Properties></Blob>"
            for name in names[at : at + self.page]
        ]
        marker = at + self.page if at + self.page < len(names) else ""
        body = (
            f"<EnumerationResults><Blobs>{''.join(lines)}</Blobs><NextMarker>{marker}</NextMarker>"
            "</EnumerationResults>"
        ).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        with self.lock:
            self.at_work.discard(handler)


@pytest.fixture
def azure(tmp_path):
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "x").write_text("x")
    server = AzListServer(tmp_path)
    yield server
    server.close()


def listed_by_azure(server, path="az://bucket@acct/"):
    server.forget()
    options = {"endpoint": server.url, "account_key": server.key}
    files = hd.read_binary_files(path, storage_options=options).input_files()
    return [url.removeprefix("az://bucket@acct/") for url in files]


SMALL = [f"{a:04}/{b}" for a in range(1500) for b in "xy"]
MIXED = (
    [f"big/{i:04}" for i in range(500)]
    + [f"s{i:04}/x" for i in range(800)]
    + ["a", "zz", "big", "big-1/x", "big0"]
)
AZURE_SHAPES = SHAPES | {"small": SMALL[:800], "mixed": MIXED}


@pytest.mark.parametrize("order", [str.encode, as_folders])
@pytest.mark.parametrize("shape", AZURE_SHAPES)
def test_folders_of_azure_are_complete(azure, shape, order):
    azure.keys, azure.order = AZURE_SHAPES[shape], order
    for page in (7, 100):
        azure.page = page
        assert listed_by_azure(azure) == in_bytes(azure.keys)


def test_random_keys_of_azure(azure):
    rng = random.Random(2)
    for _ in range(20):
        letters = rng.choice(["01", "ab/", "aB0-/.", "é0z/"])
        keys = {"".join(rng.choices(letters, k=rng.randint(1, 9))).strip("/") or "x" for _ in range(300)}
        azure.keys = [k for k in keys if not any(part[:1] in ("", ".", "_") for part in k.split("/"))]
        azure.page, azure.order = rng.choice([2, 3, 10, 50]), rng.choice([str.encode, as_folders])
        assert listed_by_azure(azure) == in_bytes(azure.keys)


def test_large_folders_of_azure_are_listed_at_once(azure):
    azure.keys, azure.page, azure.delay_s = DAYS, 28, 0.02
    assert listed_by_azure(azure) == in_bytes(DAYS)
    assert azure.most_at_once > 8
    assert len(azure.requests) < 3 * len(DAYS) // 28


def test_many_small_folders_of_azure_cost_few_requests(azure):
    """One request for each of 1,500 folders would be 50 times the pages."""
    azure.keys, azure.page = SMALL, 100
    assert listed_by_azure(azure) == in_bytes(SMALL)
    assert len(azure.requests) <= 34
    azure.keys = MIXED
    assert listed_by_azure(azure) == in_bytes(MIXED)
    assert len(azure.requests) < 120


def test_patterns_of_azure(azure):
    azure.keys, azure.page = DAYS, 20
    assert listed_by_azure(azure, "az://bucket@acct/y=202*/m=03/**/*.csv") == [
        k for k in in_bytes(DAYS) if "/m=03/" in k
    ]


def kinds_of(server):
    return [kind for kind, *_ in server.requests]


def begun(server, path="s3://bucket/in/*.parquet", read=hd.read_parquet, **given):
    server.forget()
    options = {"endpoint": server.url, "key": server.key, "secret": server.secret}
    return read(path, storage_options=options, **given)


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("s3://bucket/in/*.parquet", {}),
        ("s3://bucket/in/", {"partitioning": None}),
        ("s3://bucket/in/p*.parquet", {}),
    ],
)
def test_the_beginning_of_a_long_list(files, path, given):
    """schema() and take() waited for all pages: 60 here."""
    ds = begun(files, path, **given)
    assert ds.schema().names == ["id"] and ds.columns() == ["id"]
    assert ds.take(5) == [{"id": i} for i in range(5)]
    assert ds.select_columns("id").limit(12).take_all() == [{"id": i % 10} for i in range(12)]
    assert kinds_of(files).count("LIST") == 2 + ("p*" in path)  # the page, and the records of jobs
    assert [
        r["path"][-13:] for r in begun(files, path, include_paths=True, **given).limit(501).take(501)[::100]
    ] == [f"{i:05}.parquet" for i in range(0, 51, 10)]  # more than the page has
    assert len(ds.input_files()) == 3000 and ds.filter("id < 1").limit(60).count() == 60
    assert pickle.loads(pickle.dumps(ds)).take(1) == [{"id": 0}]


# name -> (keys, given, path): lists whose first page does not prove the first rows or the columns.
NOT_KNOWN = {
    "folders of columns": (["in/k=1/x.parquet", *NUMBERS[:500]], {}, "s3://bucket/in/"),
    "columns behind the page": ([*NUMBERS[:500], "in/z=1/x.parquet"], {}, "s3://bucket/in/"),
    "any folder": ([*NUMBERS[:500], "in/z=1/x.parquet"], {}, "s3://bucket/in/**/*.parquet"),
    "a name of a folder": ([*NUMBERS[:500], "in/z=1/x.parquet"], {}, "s3://bucket/in/*"),
    "a name without a key": (
        [f"in/k=1/v/{i:03}.parquet" for i in range(300)] + ["in/z=1/z=1/x.parquet"],
        {},
        "s3://bucket/in/k=*/*/*.parquet",
    ),
    "a folder that the pattern names": (
        [f"in/k=1/x.parquet/{i:03}.parquet" for i in range(300)],
        {},
        "s3://bucket/in/k=*/*.parquet",
    ),
    "types of others": (
        [f"in/k=1/{i:03}.parquet" for i in range(300)] + ["in/z=1/x.parquet"],
        {"partitioning": hd.Partitioning("hive", field_types={"k": str})},
        "s3://bucket/in/",
    ),
    "another base": (
        [f"in/k=1/{i:03}.parquet" for i in range(300)] + ["in/z=1/x.parquet"],
        {"partitioning": hd.Partitioning("hive", base_dir="s3://bucket/in/k=1")},
        "s3://bucket/in/",
    ),
    "all columns": (NUMBERS[:500], {"unify": "all"}, "s3://bucket/in/*.parquet"),
    "any order": (NUMBERS[:500], {"shuffle": "files"}, "s3://bucket/in/*.parquet"),
    "nothing visible": (
        [f"in/_{i:03}.parquet" for i in range(60)] + NUMBERS[:500],
        {},
        "s3://bucket/in/*.parquet",
    ),
    "a pattern's own name": ([*NUMBERS[:500], "in/p*t-z.parquet"], {}, "s3://bucket/in/p*t-z.parquet"),
    "two paths": (
        NUMBERS[:500],
        {},
        ["s3://bucket/in/part-000*.parquet", "s3://bucket/in/part-001*.parquet"],
    ),
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_a_beginning_that_is_not_known(files, name):
    files.keys, given, path = NOT_KNOWN[name]
    ds = begun(files, path, **given)
    assert ds._node.beginning is None
    assert len(ds.input_files()) == len(ds.take_all()) / 10
    below = "k=1" if name == "another base" else ""  # a base is no column
    found = [f.partition(below)[2] if below else f for f in ds.input_files()]
    assert ds.schema().names == ["id", *(c for c in "kz" if any(f"/{c}=1/" in f for f in found))]


@pytest.mark.parametrize("order", [str.encode, lambda key: key[::-1], lambda key: key.replace("/", "\0")])
def test_a_beginning_is_that_of_the_whole_list(files, order):
    """Hidden files, markers of folders and other endings in the first page; stores with any order."""
    files.order = order
    files.keys = [
        "in/",
        "in/.x.parquet",
        "in/0.csv",
        "in/_SUCCESS",
        "in/A.parquet",
        *NUMBERS[:200],
        "in/q/x.parquet",
    ]
    ds = begun(files, "s3://bucket/in/*.parquet", include_paths=True)
    want = [f"s3://bucket/{key}" for key in in_bytes(["in/A.parquet", *NUMBERS[:200]])]
    rows = ds.take(300)
    assert [r["path"] for r in rows[::10]] == want[:30]
    assert ds.input_files() == want


def test_a_beginning_with_a_job_s_record(files):
    """Files that a job has not shown yet are not among the first rows."""
    files.keys = [*NUMBERS, "in/_headrace_commit_x"]
    with pytest.raises(HeadraceError):  # it is no record
        begun(files)


MONTHS = [f"in/y={y}/m={m:02}/{i:03}.parquet" for y in (2023, 2024) for m in range(1, 13) for i in range(40)]
NAMED = hd.Partitioning("hive", field_names=["y", "m"])
FOLDERS = {
    "columns with names": (MONTHS, {"partitioning": NAMED}, "s3://bucket/in/"),
    "columns with names and a base": (
        MONTHS,
        {"partitioning": hd.Partitioning("hive", "s3://bucket/in", ["y", "m"], {"y": int})},
        "s3://bucket/in/",
    ),
    "columns of a pattern": (MONTHS, {}, "s3://bucket/in/y=*/m=*/*.parquet"),
    "folders that are columns": (
        [key.replace("y=", "").replace("m=", "") for key in MONTHS],
        {"partitioning": hd.Partitioning("dir", "s3://bucket/in/", ["y", "m"])},
        "s3://bucket/in/",
    ),
    "no columns": (MONTHS, {"partitioning": None}, "s3://bucket/in/"),
    "any folder": (MONTHS, {"partitioning": None}, "s3://bucket/in/**/*.parquet"),
}


@pytest.mark.parametrize("order", [str.encode, as_folders])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_beginning_with_folders(files, name, order):
    """These waited for the whole list. The store is asked for names behind the last key's folders."""
    keys, given, path = FOLDERS[name]
    files.keys, files.order = keys, order
    ds = begun(files, path, include_paths=True, **given)
    assert ds._node.beginning is not None
    assert [r["path"] for r in ds.take(450)][::10] == [f"s3://bucket/{key}" for key in keys[:45]]
    names = ["id", *([] if given and given["partitioning"] is None else ["y", "m"]), "path"]
    assert ds.schema().names == names
    assert kinds_of(files).count("LIST") <= 6  # the page, two folders of the last key, records of jobs
    assert ds.input_files() == [f"s3://bucket/{key}" for key in keys]


# Keys whose order by folders is another one: a/ and its files come before a-b.
BEFORE = {
    "behind the page": [*(f"in/a/{i:03}.parquet" for i in range(200)), "in/a-b.parquet"],
    "a folder behind the page": [*(f"in/a/{i:03}.parquet" for i in range(200)), "in/a-b/x.parquet"],
    "of a folder above": [*(f"in/a/b/{i:03}.parquet" for i in range(200)), "in/a.b/x.parquet"],
    "in the page": [
        *(f"in/a/{i:03}.parquet" for i in range(20)),
        "in/a-b.parquet",
        *(f"in/c/{i:03}.parquet" for i in range(90)),
    ],
    "many names": [
        *(f"in/a/{i:03}.parquet" for i in range(200)),
        *(f"in/a{c}{i}/x.parquet" for c in " !+-.0a" for i in range(60)),
    ],
    "none": [*(f"in/a/{i:03}.parquet" for i in range(200)), "in/a0.parquet", "in/ab/x.parquet"],
}


@pytest.mark.parametrize("order", [str.encode, as_folders])
@pytest.mark.parametrize("name", BEFORE)
def test_a_beginning_in_the_order_of_folders(files, name, order):
    files.keys, files.order = BEFORE[name], order
    ds = begun(files, "s3://bucket/in/", partitioning=None, include_paths=True)
    assert (ds._node.beginning is not None) == (order is str.encode or name == "none")
    want = [f"s3://bucket/{key}" for key in in_bytes(files.keys)]
    assert [r["path"] for r in ds.take(300)][::10] == want[:30]
    assert ds.input_files() == want


@pytest.mark.parametrize("order", [str.encode, as_folders])
@pytest.mark.parametrize("name", BEFORE)
def test_a_beginning_of_azure(azure, name, order):
    azure.keys, azure.order, azure.page = BEFORE[name], order, 50
    azure.forget()
    options = {"endpoint": azure.url, "account_key": azure.key}
    where = "az://bucket@acct/"
    ds = hd.read_binary_files(where + "in/", include_paths=True, storage_options=options)
    assert (ds._node.beginning is not None) == (order is str.encode or name == "none")
    want = [where + key for key in in_bytes(azure.keys)]
    assert ds._node.schema_plan.files()[:30] == want[:30]
    assert ds.input_files() == want


def test_a_store_that_lists_no_level(files):
    """Its answer says nothing on what comes behind the folder."""
    files.keys, files.order, files.ignores_level = BEFORE["behind the page"], as_folders, True
    ds = begun(files, "s3://bucket/in/", partitioning=None, include_paths=True)
    assert ds._node.beginning is None
    assert ds.take(1)[0]["path"] == "s3://bucket/in/a-b.parquet"


def test_random_beginnings(files):
    rng = random.Random(3)
    found = 0
    for _ in range(60):
        letters = rng.choice(["01", "ab/", "aB0-/.", "a-/", "é0z/"])
        keys = {"".join(rng.choices(letters, k=rng.randint(1, 9))).strip("/") or "x" for _ in range(60)}
        keys = [k for k in keys if not any(part[:1] in ("", ".", "_") for part in k.split("/"))]
        files.keys, files.page = [f"in/{k}.parquet" for k in keys], rng.choice([2, 3, 10])
        files.order = rng.choice([str.encode, as_folders])
        if keys:
            ds = begun(files, "s3://bucket/in/", partitioning=None, include_paths=True)
            found += ds._node.beginning is not None
            want = [f"s3://bucket/{key}" for key in in_bytes(files.keys)]
            assert [r["path"] for r in ds.take(40)][::10] == want[:4]
            assert ds.input_files() == want
    assert found > 20


def test_the_list_goes_on_behind_its_beginning(files):
    """The first page was asked for twice when all files were needed."""
    files.keys = MONTHS
    ds = begun(files, "s3://bucket/in/", partitioning=NAMED)
    before = len(files.requests)
    assert len(ds.input_files()) == len(MONTHS)
    pages = [path for kind, path, *_ in files.requests[before:] if kind == "LIST"]
    assert pages and all("start-after" in p or "continuation-token" in p or "_headrace" in p for p in pages)


def test_a_list_that_changes_behind_its_beginning(files):
    """A key of the first page that goes meanwhile is an error when it is read, as for any list."""
    files.keys = MONTHS
    ds = begun(files, "s3://bucket/in/", partitioning=NAMED)
    files.keys = [*MONTHS, "in/y=2025/m=01/000.parquet"]
    assert ds.input_files() == [f"s3://bucket/{key}" for key in files.keys]
