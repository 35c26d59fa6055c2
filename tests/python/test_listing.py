"""Long lists of stores are asked for in several spans at once, and are complete in any order of the store."""

import bisect
import random
import time
import uuid

import pytest
from object_server import S3Server

import headrace.data as hd
from headrace.exceptions import HeadraceError


class ListServer(S3Server):
    """Lists `keys` in the order of `order`, a function of a key; ignores_start: lists from the beginning."""

    keys = ()
    order = staticmethod(str.encode)
    ignores_start = False
    on_list = None

    def _list(self, handler, bucket, query):
        if self.on_list:
            self.on_list(len(self.requests))
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.delay_s)
        self._page(handler, query)
        with self.lock:
            self.at_once -= 1

    def _page(self, handler, query):
        keys = sorted((k for k in self.keys if k.startswith(query["prefix"][0])), key=self.order)
        if "continuation-token" in query:
            behind = query["continuation-token"][0]
        else:
            behind = "" if self.ignores_start else query.get("start-after", [""])[0]
        begin = bisect.bisect_right([self.order(k) for k in keys], self.order(behind)) if behind else 0
        page = keys[begin : begin + self.page]
        cut = begin + self.page < len(keys)
        lines = [f"<Contents><Key>{k}</Key><ETag>&quot;1&quot;</ETag><Size>1</Size></Contents>" for k in page]
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
    "numbers": NUMBERS,
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
    for _ in range(60):
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
    assert len(server.requests) < 100


def test_short_lists_cost_few_requests(server):
    server.keys, server.page = NUMBERS[:1500], 1000
    listed(server)
    assert len(server.requests) <= 6
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
    listing = server._list

    def refuse(handler, bucket, query):
        if "start-after" in query:
            return server.refuse(handler, 403, "AccessDenied")
        return listing(handler, bucket, query)

    server._list = refuse
    with pytest.raises(HeadraceError, match="AccessDenied"):
        listed(server)
