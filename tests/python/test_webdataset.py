"""Tar archives of samples against Python's tarfile and the rules of the webdataset package, restated here."""

import gzip
import io
import json
import re
import tarfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace._core import set_num_threads
from headrace.data.files import read_files
from headrace.exceptions import DataError, HeadraceError, InvalidArgument, TypeMismatchError, UnsupportedError


def write_tar(path, members, form=tarfile.PAX_FORMAT, mode="w"):
    with tarfile.open(path, mode, format=form) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def samples_of(path):
    """The samples by the webdataset package's rules: group_by_keys over base_plus_ext."""
    out = []
    with tarfile.open(path, "r|*") as t:
        for m in t:
            if not m.isreg() or re.match(r"__[^/]*__($|/)", m.name):
                continue
            found = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", m.name)
            if not found:
                continue
            key, suffix = found[1], found[2].lower()
            if not out or out[-1]["__key__"] != key:
                out.append({"__key__": key})
            out[-1][suffix] = t.extractfile(m).read()
    return out


def rows(path, **options):
    options.setdefault("decoder", None)
    return hd.read_webdataset(str(path), **options).take_all()


def same(path):
    want = samples_of(path)
    got = rows(path)
    assert [r["__key__"] for r in got] == [s["__key__"] for s in want]
    for g, s in zip(got, want, strict=True):
        assert {k: v for k, v in g.items() if v is not None and k != "__url__"} == s
        assert g["__url__"] == str(path)


NAMES = [
    "a.txt",
    "a.seg.PNG",
    "b.txt",
    "d/b.txt",
    "d/b.cls",
    "d.x/c.txt",
    "none",
    "d.x/none",
    ".hidden",
    "e/.h",
    "__m__/x.y",
    "__meta__",
    "__x.y",
    "f.",
    "./g.txt",
    "long/" + "n" * 150 + ".txt",
    "deep/" * 60 + "k.bin",
    "ümlaut.jpg",
]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_names(tmp_path, form, mode):
    members = [(n, n.encode() * 3) for n in NAMES if form != tarfile.USTAR_FORMAT or len(n) < 100]
    p = tmp_path / "n.tar"
    write_tar(p, members, form, mode)
    same(p)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.text("ab./_", min_size=1, max_size=8).filter(lambda s: s.strip("/")), st.binary(max_size=1500)
        ),
        max_size=8,
        unique_by=lambda m: m[0],
    ),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_random(tmp_path, members, form):
    p = tmp_path / "r.tar"
    write_tar(p, members, form)
    same(p)


def test_other_members(tmp_path):
    p = tmp_path / "o.tar"
    with tarfile.open(p, "w") as t:
        folder = tarfile.TarInfo("d.x")
        folder.type = tarfile.DIRTYPE
        t.addfile(folder)
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("link.txt")
            info.type, info.linkname = kind, "y" * 200
            t.addfile(info)
        info = tarfile.TarInfo("a.txt")
        info.size, info.mtime = 2, -5
        t.addfile(info, io.BytesIO(b"ok"))
    same(p)


def many(n):
    return [
        (f"s{i // 2:06}.{'jpg' if i % 2 else 'cls'}", bytes([i % 251]) * (i * 7 % 9000)) for i in range(n)
    ]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_fragments_and_threads(tmp_path, mode):
    p = tmp_path / "big.tar"
    write_tar(p, many(4000), mode=mode)
    ds = hd.read_webdataset(str(p), decoder=None)
    want = samples_of(p)
    try:
        for n in (1, 4):
            set_num_threads(n)
            got = ds.take_all()
            assert [(r["__key__"], r["cls"], r["jpg"]) for r in got] == [
                (s["__key__"], s["cls"], s["jpg"]) for s in want
            ]
    finally:
        set_num_threads(0)
    assert ds.count() == 2000
    assert ds.select_columns(["cls"]).take(2) == [{"cls": s["cls"]} for s in want[:2]]


def test_archives_of_one_schema(tmp_path):
    write_tar(tmp_path / "a.tar", [("1.x", b"1"), ("1.y", b"2")])
    write_tar(tmp_path / "b.tar", [("2.y", b"3"), ("2.z", b"4")])
    assert [(r["__key__"], r["x"], r["y"]) for r in rows(tmp_path)] == [("1", b"1", b"2"), ("2", None, b"3")]


def test_decoders(tmp_path):
    image = pytest.importorskip("PIL.Image")
    png, npy = io.BytesIO(), io.BytesIO()
    image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)).save(png, "PNG")
    np.save(npy, np.arange(3.0))
    members = [
        ("0.cls", b" 17\n"),
        ("0.txt", "größe".encode()),
        ("0.json", json.dumps({"a": [1, 2]}).encode()),
        ("0.png", png.getvalue()),
        ("0.npy", npy.getvalue()),
        ("0.bin", b"\0"),
    ]
    write_tar(tmp_path / "d.tar", members)
    p = str(tmp_path / "d.tar")
    row = hd.read_webdataset(p).take(1)[0]
    assert (row["cls"], row["txt"], list(row["json"]["a"]), row["bin"]) == (17, "größe", [1, 2], b"\0")
    assert row["png"].shape == (2, 2, 3) and row["npy"].tolist() == [0, 1, 2]
    assert hd.read_webdataset(p, decoder="l").take(1)[0]["png"].shape == (2, 2)
    assert hd.read_webdataset(p, decoder=None).take(1)[0]["cls"] == b" 17\n"
    got = hd.read_webdataset(p, decoder=[True, lambda r: {"n": r["cls"] + 1}]).take(1)
    assert got == [{"n": 18}]
    assert hd.read_webdataset(p, decoder=None, suffixes=["cls", "*n"]).schema().names == [
        "__key__",
        "bin",
        "cls",
        "json",
        "__url__",
    ]
    write_tar(tmp_path / "p.tar", [("0.pkl", b"x")])
    with pytest.raises(UnsupportedError, match="pkl"):
        hd.read_webdataset(str(tmp_path / "p.tar"))
    for name, data in (("0.cls", b"x"), ("0.cls", b""), ("0.txt", b"\xff")):
        write_tar(tmp_path / "bad.tar", [(name, data)])
        with pytest.raises(DataError, match=r"bad.tar: tar: byte 0: '0\."):
            hd.read_webdataset(str(tmp_path / "bad.tar")).materialize()


def test_images_are_decoded_by_the_engine(tmp_path):
    image = pytest.importorskip("PIL.Image")
    members, want = [], {}
    for i in range(300):
        pixels = np.random.default_rng(i).integers(0, 256, (3 + i % 7, 5 + i % 4, 3), np.uint8)
        form, mode = [("png", "RGB"), ("bmp", "RGB"), ("png", "L"), ("webp", "RGB"), ("png", "RGBA")][i % 5]
        picture, file = image.fromarray(pixels).convert(mode), io.BytesIO()
        picture.save(file, form, **({"lossless": True} if form == "webp" else {}))
        if i % 11:  # some samples lack the image
            members.append((f"{i:03}.jpg", file.getvalue()))  # what a member is stands in it, not in its name
            want[f"{i:03}"] = picture
        members.append((f"{i:03}.cls", b"1"))
    write_tar(tmp_path / "i.tar", members)
    write_tar(tmp_path / "i.tar.gz", members, mode="w:gz")
    for name in ("i.tar", "i.tar.gz"):
        for decoder, mode in ((True, None), ("pil", None), ("rgb", "RGB"), ("rgba8", "RGBA"), ("pill", "L")):
            got = hd.read_webdataset(str(tmp_path / name), decoder=decoder).take_all()
            assert len(got) == 300
            for row in got:
                picture = want.get(row["__key__"])
                if picture is None:
                    assert row["jpg"] is None
                    continue
                pixels = np.asarray(picture if mode is None else picture.convert(mode))
                assert row["jpg"].dtype == np.uint8
                assert row["jpg"].shape == pixels.shape and (row["jpg"] == pixels).all()
    write_tar(tmp_path / "b.tar", [("0.png", members[1][1]), ("1.png", b"no image")])
    with pytest.raises(DataError, match=r"b.tar: tar: byte \d+: '1.png': "):
        hd.read_webdataset(str(tmp_path / "b.tar")).materialize()
    with pytest.raises(UnsupportedError, match="expected one of pil, l, rgb, rgba, found 'hsv'"):
        hd.read_webdataset(str(tmp_path / "i.tar"), decoder="hsv")


def test_steps_behind_a_function(tmp_path):
    image = pytest.importorskip("PIL.Image")
    png = io.BytesIO()
    image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3)).save(png, "PNG")
    write_tar(tmp_path / "s.tar", [("0.png", png.getvalue()), ("0.cls", b"7"), ("0.txt", b"abc")])

    def renamed(row):
        return {"a.png": row["png"], "a.cls": row["cls"], "a.txt": row["txt"], "__key__": row["__key__"]}

    (row,) = hd.read_webdataset(str(tmp_path / "s.tar"), decoder=[renamed, "l"]).take_all()
    assert (row["a.cls"], row["a.txt"], row["a.png"].shape) == (7, "abc", (2, 2))


def test_paths_beside_urls(tmp_path):
    write_tar(tmp_path / "a.tar", [("1.txt", b"x")])
    p = str(tmp_path / "a.tar")
    (row,) = hd.read_webdataset(p, include_paths=True).take_all()
    assert row == {"__key__": "1", "txt": "x", "__url__": p, "path": p}


def test_suffixes(tmp_path):
    write_tar(tmp_path / "a.tar", [("1.txt", b"x"), ("1.seg.png", b"y"), ("1.cls", b"1")])

    def names(suffixes):
        ds = hd.read_webdataset(str(tmp_path / "a.tar"), decoder=None, suffixes=suffixes)
        return [n for n in ds.schema().names if not n.startswith("__")]

    assert names(["txt", ".cls"]) == ["cls", "txt"]
    assert names(["*.png"]) == names([".seg.*"]) == names(["seg.png"]) == ["seg.png"]
    assert names(lambda s: s.startswith("c")) == ["cls"]
    assert names([]) == []


def test_fileselect_and_filerename(tmp_path):
    members = [
        ("d/1.in.jpg", b"a"),
        ("d/1.out.jpg", b"b"),
        ("d/1.cls", b"5"),
        ("d/none", b""),
        ("d/2.in.jpg", b"c"),
    ]
    write_tar(tmp_path / "a.tar", members)
    write_tar(
        tmp_path / "b.tar.gz", [("d/3.out.jpg", b"d"), ("d/3.cls", b"6"), ("d/3.other", b"")], mode="w:gz"
    )
    paths = [str(tmp_path / "a.tar"), str(tmp_path / "b.tar.gz")]

    def read(**options):
        rows = hd.read_webdataset(paths, **{"decoder": None, **options}).take_all()
        assert [r.pop("__url__") for r in rows] == [
            p for p, n in zip(paths, (2, 1), strict=True) for _ in range(n)
        ]
        return rows

    plain = read()
    assert plain == read(verbose_open=True)
    assert read(fileselect=lambda name: not name.endswith(".cls")) == [
        {k: v for k, v in row.items() if k != "cls"} for row in plain
    ]
    assert [list(r) for r in read(fileselect=["*.in.jpg", "d/3.cls", "*.cls"])] == [
        ["__key__", "cls", "in.jpg"]
    ] * 3
    swapped = [
        {"__key__": "d/1", "cls": b"5", "in.jpg": b"b", "out.jpg": b"a"},
        {"__key__": "d/2", "cls": None, "in.jpg": None, "out.jpg": b"c"},
        {"__key__": "d/3", "cls": b"6", "in.jpg": b"d", "out.jpg": None},
    ]

    def swap(name):
        return name.replace(".in.", ".x.").replace(".out.", ".in.").replace(".x.", ".out.")

    assert read(filerename=swap) == read(filerename=[swap]) == swapped
    pairs = [(r"[.]in[.]", ".x."), (r"[.]out[.]", ".in."), (r"[.]x[.]", ".out.")]
    assert read(filerename=pairs) == swapped
    assert [r["cls"] for r in read(filerename=swap, decoder=lambda r: {**r, "cls": len(r["__key__"])})] == [
        3,
        3,
        3,
    ]
    decoded = hd.read_webdataset(paths, fileselect=["*.cls"], decoder=True).take_all()
    assert [(r["__key__"], r["cls"]) for r in decoded] == [("d/1", 5), ("d/3", 6)]
    with pytest.raises(InvalidArgument, match="filerename: expected a function"):
        read(filerename="x")
    with pytest.raises(UnsupportedError, match="shuffle is not supported with fileselect"):
        read(filerename=swap, shuffle="files")
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:700])
    with pytest.raises(DataError, match="a.tar: tar: "):
        read(fileselect=["*"])


def test_expand_json(tmp_path):
    members = [
        ("1.json", b'{"a": 1, "b": [1, 2]}'),
        ("1.txt", b"x"),
        ("2.json", b'{"a": 2, "c": "y"}'),
        ("2.txt", b"y"),
        ("3.txt", b"z"),
    ]
    write_tar(tmp_path / "a.tar", members)
    p = str(tmp_path / "a.tar")
    for decoder in (True, None):
        got = hd.read_webdataset(p, decoder=decoder, expand_json=True).take_all()
        assert [r["a"] for r in got] == [1, 2, None]
        assert [r["b"] if r["b"] is None else list(r["b"]) for r in got] == [[1, 2], None, None]
        assert [r["c"] for r in got] == [None, "y", None]
    with pytest.raises(InvalidArgument, match="no column 'json'"):
        hd.read_webdataset(p, suffixes=["txt"], expand_json=True)
    write_tar(tmp_path / "b.tar", [("1.json", b'{"txt": 1}'), ("1.txt", b"x")])
    with pytest.raises(InvalidArgument, match="a column 'txt' already"):
        hd.read_webdataset(str(tmp_path / "b.tar"), expand_json=True).materialize()
    write_tar(tmp_path / "c.tar", [("1.json", b"[1]")])
    with pytest.raises(TypeMismatchError, match="expected objects"):
        hd.read_webdataset(str(tmp_path / "c.tar"), decoder=None, expand_json=True).materialize()


def test_twice_in_a_sample(tmp_path):
    write_tar(tmp_path / "t.tar", [("a.txt", b"1"), ("a.TXT", b"2")])
    with pytest.raises(
        DataError, match=r"t.tar: tar: byte 1024: 'a.TXT': its sample already has a member with this suffix"
    ):
        rows(tmp_path / "t.tar")


def test_a_suffix_behind_the_sample(tmp_path):
    p = tmp_path / "late.tar.gz"
    write_tar(p, [*many(50), ("z.late", b"1")], mode="w:gz")
    assert "late" in hd.read_webdataset(str(p), decoder=None).schema().names
    with pytest.raises(TypeMismatchError, match=r"late.tar.gz: .*'z.late': no member .* has its suffix"):
        read_files("t", "webdataset", str(p), options={"sample": 1024}).materialize()


def test_damage(tmp_path):
    p = tmp_path / "good.tar"
    write_tar(p, [("a.x", b"1" * 700), ("b" * 120 + ".y", b"2" * 100)], tarfile.GNU_FORMAT)
    data = p.read_bytes()
    bad = tmp_path / "bad.tar"
    # Where members are whole, padding and all, only the end mark lacks.
    for n in [*range(0, 4200, 97), 1536, 3200, 3584, 4096]:
        bad.write_bytes(data[:n])
        if n in (1536, 3584) or n >= 4096:
            assert len(rows(bad)) == (1 if n <= 1536 else 2)
        else:
            with pytest.raises(HeadraceError, match=r"bad.tar"):
                rows(bad)
    for at in [*range(0, 150), 156, 257, 1540, 2200, 2600]:
        bad.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        if at < 512 or 1536 <= at < 2048:
            with pytest.raises(DataError, match="bad.tar: tar: byte"):
                rows(bad)
    bad.write_bytes(b"x" * 2000)
    with pytest.raises(DataError, match="bad.tar: tar: byte 0: not a header"):
        rows(bad)
    bad.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(DataError, match="bad.tar"):
        rows(bad)


def test_what_stands_behind_the_end_is_not_dropped(tmp_path):
    """Zeros over a header, or an archive after another; the story: the rest was lost in silence."""
    good, bad = tmp_path / "good.tar", tmp_path / "bad.tar"
    write_tar(good, [(f"{i}.txt", b"text") for i in range(4)])
    data = good.read_bytes()
    for damaged, end, more in (
        (data[:1024] + bytes(512) + data[1536:], 1024, 1536),
        (data + data, 4096, len(data)),
        (data[:-5] + b"x" + bytes(4), 4096, len(data) - 5),
    ):
        for packed in (False, True):
            bad.write_bytes(gzip.compress(damaged) if packed else damaged)
            place = f"the archive ends at byte {end}, but more bytes follow at {more}"
            with pytest.raises(DataError, match=f"bad.tar: tar: {place}"):
                rows(bad)
    for end in (b"", b"\n", bytes(700)):  # some programs end the file with a newline
        bad.write_bytes(data + end)
        assert len(rows(bad)) == 4
    # Of a compressed archive all is read, so that its checksum is looked at.
    packed = bytearray(gzip.compress(data))
    packed[-6] ^= 1
    bad.write_bytes(packed)
    with pytest.raises(DataError, match="checksum"):
        rows(bad)


def test_sizes(tmp_path):
    """Binary sizes, negative ones, and ones that the file cannot have."""

    def with_size(field):
        info = tarfile.TarInfo("a.bin")
        head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        head[124:136] = field
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
        return bytes(head) + b"abcd".ljust(512, b"\0") + bytes(1024)

    p = tmp_path / "s.tar"
    p.write_bytes(with_size(b"\x80" + (4).to_bytes(11, "big")))
    assert rows(p)[0]["bin"] == b"abcd"
    for field in (
        b"\xff" * 12,
        b"\x80" + b"\x7f" * 11,
        b"\x80" + (1 << 40).to_bytes(11, "big"),
        b"77777777777\0",
        b"12x45678901\0",
    ):
        p.write_bytes(with_size(field))
        with pytest.raises(DataError, match="s.tar: tar: byte 0"):
            rows(p)
        (tmp_path / "s.tar.gz").write_bytes(gzip.compress(with_size(field)))
        with pytest.raises(HeadraceError, match="s.tar.gz: tar: byte"):
            rows(tmp_path / "s.tar.gz")


def test_sparse_members_are_refused(tmp_path):
    p = tmp_path / "sp.tar"
    with tarfile.open(p, "w", format=tarfile.PAX_FORMAT) as t:
        info = tarfile.TarInfo("a.bin")
        info.size, info.pax_headers = 1, {"GNU.sparse.major": "1"}
        t.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(UnsupportedError, match="sp.tar: .*sparse"):
        rows(p)


def test_written_shards(tmp_path):
    rows = [
        {
            "__key__": f"dir/{'k' * (i % 3 * 60)}{i:04d}",
            "txt": f"text {i}",
            "cls": i,
            "bin": None if i % 4 == 0 else bytes([i]),
        }
        for i in range(50)
    ]
    hd.from_items(rows).write_webdataset(tmp_path / "out", max_rows_per_file=30)
    shards = sorted((tmp_path / "out").iterdir())
    assert len(shards) == 2
    members = {}
    for shard in shards:
        with tarfile.open(shard) as archive:
            members |= {m.name: archive.extractfile(m).read() for m in archive}
    assert members == {
        f"{r['__key__']}.{c}": r[c] if isinstance(r[c], bytes) else str(r[c]).encode()
        for r in rows
        for c in ("txt", "cls", "bin")
        if r[c] is not None
    }
    back = hd.read_webdataset(str(tmp_path / "out"), decoder=None).take_all()
    assert [r["__key__"] for r in back] == [r["__key__"] for r in rows]
    assert [r["bin"] for r in back] == [r["bin"] for r in rows]


def test_samples_without_keys_are_named_by_their_place(tmp_path):
    hd.from_items([{"txt": "a"}, {"txt": "b"}]).write_webdataset(tmp_path / "out")
    (shard,) = (tmp_path / "out").iterdir()
    with tarfile.open(shard) as archive:
        assert archive.getnames() == ["000-000000-000000-000000000.txt", "000-000000-000000-000000001.txt"]


def test_what_is_no_member(tmp_path):
    with pytest.raises(
        TypeError, match="column 'x' is list<item: int64>; a member is text, bytes or a number"
    ):
        hd.from_items([{"x": [1]}]).write_webdataset(tmp_path / "x")
