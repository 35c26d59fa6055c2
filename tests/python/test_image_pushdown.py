"""The reader performs steps on the images of read_images: the same values, types, order and errors."""

import io

import numpy as np
import pytest
from PIL import Image

import headrace.data as rd
from headrace.data.expressions import col
from headrace.exceptions import DataError

RNG = np.random.default_rng(11)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(h, w, c=3):
    y, x = np.mgrid[0:h, 0:w]
    base = np.stack([x * 200 / w, y * 200 / h, (x + y) * 100 / (w + h), 255 - x * 100 / w][:c], -1)
    return (base + RNG.integers(0, 30, base.shape)).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of all kinds, sizes and orientations."""
    path = tmp_path_factory.mktemp("images")
    kinds = ["jpg", "png", "webp", "jpg", "bmp", "tif", "jpg", "gif"]
    for i in range(70):
        h, w = (int(n) for n in RNG.integers(20, 90, 2))
        kind, exif = kinds[i % len(kinds)], Image.Exif()
        exif[0x0112] = i % 9 or 1
        how = {"exif": exif} if kind in ("jpg", "png", "webp") else {}
        image = Image.fromarray(picture(h, w))
        if i % 11 == 3:
            image = image.convert("L")
        if i % 11 == 5 and kind == "png":
            image = Image.fromarray(picture(h, w, 4), "RGBA")
        if kind == "jpg":
            how |= {"quality": 60 + i % 40, "subsampling": i % 3, "progressive": i % 5 == 0}
        image.save(path / f"{i:03d}.{kind}", **how)
    return str(path)


def turned(x):
    return x.image.random_flip(seed=2).image.resize(31, 29)


CHAINS = {
    "random": lambda x: x.image.random_resized_crop(24, 20, seed=3).image.random_flip(seed=4),
    "middle": lambda x: x.image.resize(40, 33).image.center_crop(24, 24),
    "border": lambda x: x.image.center_crop(64, 50).image.random_flip(0.3, seed=9),
    "twice": lambda x: x.image.resize(50, 60, interpolation="bicubic").image.random_resized_crop(
        16, 16, seed=1
    ),
    "flip": lambda x: x.image.random_flip(seed=8),
    "turned": turned,
}
DTYPES = ["float32", "float16", "bfloat16"]


def pushed(ds, capsys=None):
    """Whether the plan's reader performs image functions."""
    ds.explain()
    return " image=image_" in capsys.readouterr().out.split("runs as")[-1]


def forms(ds, chain, keep=()):
    """The same rows with the steps in the reader, and after it (which the raw column enforces)."""
    inside = ds.with_column("image", chain(col("image")))
    outside = ds.with_column("raw", col("image")).with_column("image", chain(col("image")))
    return inside, outside


def rows_of(ds, columns=("image",)):
    found = {}
    for batch in ds.iter_batches(batch_size=7):
        for name in columns:
            found.setdefault(name, []).extend(batch[name])
    return found


def same(a, b):
    return len(a) == len(b) and all(
        x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


def type_of(ds, name="image"):
    schema = ds.schema()
    return schema.types[schema.names.index(name)]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("mode", [None, "L", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [None, (48, 37)])
def test_values(folder, capsys, chain, mode, size):
    how = {"fixed_shape": mode is not None, "exif_orientation": mode == "RGB"}
    ds = rd.read_images(folder, mode=mode, size=size, include_paths=True, **how)
    inside, outside = forms(ds, CHAINS[chain])
    assert pushed(inside, capsys) and not pushed(outside, capsys)
    assert type_of(inside) == type_of(outside)
    for _ in range(2):  # epochs
        a, b = rows_of(inside, ("image", "path")), rows_of(outside, ("image", "path"))
        assert a["path"] == b["path"] and len(a["path"]) == 70
        assert same(a["image"], b["image"])
    assert inside.to_arrow().schema.field("image") == outside.to_arrow().schema.field("image")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("size", [None, (48, 37)])
def test_normalized(folder, capsys, dtype, layout, size):
    def chain(x):
        return CHAINS["random"](x).image.normalize(MEAN, STD, dtype=dtype, layout=layout)

    inside, outside = forms(rd.read_images(folder, mode="RGB", size=size), chain)
    assert pushed(inside, capsys) and not pushed(outside, capsys)
    assert same(rows_of(inside)["image"], rows_of(outside)["image"])
    alone = forms(
        rd.read_images(folder, size=size, fixed_shape=False),
        lambda x: x.image.normalize(0.5, 0.5, dtype=dtype, layout=layout),
    )
    assert same(*(rows_of(ds)["image"] for ds in alone))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_and_shuffled_files(folder, threads):
    context = rd.DataContext.get_current()
    before = context.num_threads
    ds = rd.read_images(folder, mode="RGB", include_paths=True, shuffle="files")
    inside, outside = forms(ds, CHAINS["random"])
    try:
        b = [rows_of(outside, ("image", "path")) for _ in range(2)]
        context.num_threads = threads
        a = [rows_of(inside, ("image", "path")) for _ in range(2)]
    finally:
        context.num_threads = before
    for x, y in zip(a, b, strict=True):
        assert x["path"] == y["path"] and same(x["image"], y["image"])
    assert a[0]["path"] != a[1]["path"]


def test_resumed_in_the_middle(folder):
    inside, outside = forms(rd.read_images(folder, mode="RGB"), CHAINS["random"])
    whole = rows_of(outside)["image"]
    for stop in (1, 5, 9):
        passes = [
            forms(rd.read_images(folder, mode="RGB"), CHAINS["random"])[0].iter_batches(batch_size=7)
            for _ in "ab"
        ]
        batches = iter(passes[0])
        for _ in range(stop):
            next(batches)
        passes[1].load_state_dict(passes[0].state_dict())
        assert same([x for b in passes[1] for x in b["image"]], whole[7 * stop :])


def test_between_reader_and_steps(folder, capsys):
    ds = rd.read_images(folder, mode="RGB", include_paths=True)
    chain = CHAINS["random"]
    want = rows_of(forms(ds, chain)[1])["image"]
    limited = ds.limit(33).with_column("image", chain(col("image")))
    assert pushed(limited, capsys) and same(rows_of(limited)["image"], want[:33])
    behind = ds.with_column("image", chain(col("image"))).limit(33)
    assert pushed(behind, capsys) and same(rows_of(behind)["image"], want[:33])
    renamed = (
        ds.rename_columns({"image": "x"}).with_column("y", chain(col("x"))).select_columns(["y", "path"])
    )
    assert pushed(renamed, capsys) and same(rows_of(renamed, ("y",))["y"], want)
    paths = rows_of(ds, ("path",))["path"]
    some = ds.filter(expr=col("path").is_in(paths[3:40:2])).with_column("image", chain(col("image")))
    assert pushed(some, capsys)
    assert same(rows_of(some)["image"], want[3:40:2])
    other = ds.with_column("n", col("path").is_null()).with_column("image", chain(col("image")))
    assert pushed(other, capsys) and same(rows_of(other)["image"], want)


def test_steps_in_two_columns_and_two_operators(folder, capsys):
    """The reader performs the lower steps; those of another operator have other random numbers and stay."""
    ds = rd.read_images(folder, mode="RGB")
    first, second = CHAINS["random"], CHAINS["flip"]
    inside = ds.with_column("image", first(col("image"))).with_column("image", second(col("image")))
    outside = ds.with_column("raw", col("image")).with_column("image", first(col("image")))
    outside = outside.with_column("image", second(col("image")))
    assert pushed(inside, capsys) and same(rows_of(inside)["image"], rows_of(outside)["image"])
    two = ds.with_column("a", first(col("image"))).with_column("b", second(col("image")))
    assert not pushed(two.select_columns(["a", "b"]), capsys)
    assert not pushed(two, capsys)


def test_where_it_may_not(folder, capsys):
    ds = rd.read_images(folder, mode="RGB", include_paths=True)
    chain = CHAINS["random"]
    for plan in (
        ds.with_column("y", chain(col("image"))),  # the images are wanted, too
        ds.map_batches(lambda b: b, compute="inline").with_column("image", chain(col("image"))),
        ds.union(ds).with_column("image", chain(col("image"))),
        ds.with_column("image", chain(col("image"))).select_columns(["path"]),
        ds.filter(expr=col("image").is_not_null()).with_column("image", chain(col("image"))),
    ):
        assert not pushed(plan, capsys)
    known = ds.filter(expr=col("path").is_not_null())
    assert not pushed(known.with_column("image", chain(col("image")).image.normalize(MEAN, STD)), capsys)
    assert pushed(known.with_column("image", chain(col("image")).image.normalize(0.5, 0.5)), capsys)


def test_sources_have_places_of_their_own(folder, capsys):
    ds = rd.read_images(folder, mode="RGB")
    inside, outside = forms(ds, CHAINS["random"])
    a, b = inside.union(inside), outside.union(outside)
    assert pushed(a, capsys) and not pushed(b, capsys)
    a, b = rows_of(a)["image"], rows_of(b)["image"]
    assert same(a, b) and not same(a[:70], a[70:])


def test_split(folder):
    inside, outside = forms(rd.read_images(folder, mode="RGB"), CHAINS["random"])
    found = []
    for ds in (inside, outside):
        (only,) = ds.streaming_split(1, equal=True)
        found.append([x for b in only.iter_batches(batch_size=7) for x in b["image"]])
    assert same(*found)


def test_functions_in_other_processes(folder):
    inside, outside = forms(rd.read_images(folder, mode="RGB"), CHAINS["random"])
    a, b = inside.map_batches(total), outside.map_batches(total)
    assert [r["n"] for r in a.take_all()] == [r["n"] for r in b.take_all()]


def total(batch):
    return {"n": np.array([int(np.asarray(x).astype(int).sum()) for x in batch["image"]])}


def jpeg(h, w, **how):
    out = io.BytesIO()
    Image.fromarray(picture(h, w)).save(out, "JPEG", **how)
    return out.getvalue()


def damaged(path):
    """Valid images, files that are no images, one that ends early."""
    for i in range(12):
        data = jpeg(64 + i, 80)
        if i in (2, 3, 11):
            data = b"no image"
        if i == 6:
            data = data[: len(data) // 4]
        (path / f"{i:02d}.jpg").write_bytes(data)
    return str(path)


def whole(x):
    return x.image.resize(20, 20).image.random_flip(seed=5)


def test_damage(tmp_path):
    ds = rd.read_images(damaged(tmp_path), mode="RGB", on_error="skip", include_paths=True)
    inside, outside = forms(ds, whole)
    a, b = rows_of(inside, ("image", "path")), rows_of(outside, ("image", "path"))
    assert a["path"] == b["path"] and len(a["path"]) == 8 and same(a["image"], b["image"])
    assert inside.stats("dict")["bad_rows"] == outside.stats("dict")["bad_rows"] == 4
    assert inside.count() == outside.count() == 8
    assert len(inside.select_columns(["path"]).take_all()) == 8
    strict = rd.read_images(str(tmp_path), mode="RGB").with_column("image", whole(col("image")))
    with pytest.raises(DataError, match="02.jpg.*begins with"):
        strict.take_all()
    (tmp_path / "02.jpg").unlink()
    (tmp_path / "03.jpg").unlink()
    strict = rd.read_images(str(tmp_path), mode="RGB").with_column("image", whole(col("image")))
    with pytest.raises(DataError, match="06.jpg.*ends inside"):
        strict.take_all()
    assert len(strict.take(4)) == 4


@pytest.mark.parametrize("kind", ["jpg", "png"])
def test_truncated_and_allowed(tmp_path, kind):
    for i in range(20):
        out = io.BytesIO()
        Image.fromarray(picture(150, 160)).save(out, "JPEG" if kind == "jpg" else "PNG")
        (tmp_path / f"{i:02d}.{kind}").write_bytes(out.getvalue()[: len(out.getvalue()) * (i + 8) // 28])
    for chain in CHAINS.values():
        inside, outside = forms(rd.read_images(str(tmp_path), mode="RGB", allow_truncated=True), chain)
        assert same(rows_of(inside)["image"], rows_of(outside)["image"])


def test_damage_outside_of_what_is_kept(tmp_path, capsys):
    """As documented, a crop does not decode what it does not need, so damage there is not detected. But the
    skipped files do not depend on a crop: otherwise a dataset would have different lengths in two epochs.
    """
    data = jpeg(400, 60, quality=95, restart_marker_blocks=1)
    (tmp_path / "a.jpg").write_bytes(data[: len(data) * 3 // 4])
    chain = lambda x: x.image.center_crop(16, 16)  # noqa: E731
    inside, outside = forms(rd.read_images(str(tmp_path), mode="RGB"), chain)
    assert len(inside.take_all()) == 1
    with pytest.raises(DataError, match="a.jpg.*ends inside"):
        outside.take_all()
    inside, outside = forms(rd.read_images(str(tmp_path), mode="RGB", on_error="skip"), chain)
    assert not pushed(inside, capsys)
    assert inside.take_all() == outside.take_all() == [] and inside.count() == 0


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_step_that_refuses_is_an_error(tmp_path, on_error):
    for name, channels in (("a", 3), ("c", 1)):
        image = Image.fromarray(picture(30, 30, channels).squeeze())
        image.save(tmp_path / f"{name}.jpg")
    chain = lambda x: x.image.resize(9, 9).image.normalize(MEAN, STD)  # noqa: E731
    for ds in forms(rd.read_images(str(tmp_path), on_error=on_error), chain):
        with pytest.raises(DataError, match="normalize: 3 values, the image has 1 channels"):
            ds.take_all()
    (tmp_path / "c.jpg").unlink()
    inside, outside = forms(rd.read_images(str(tmp_path), on_error=on_error), chain)
    assert same(rows_of(inside)["image"], rows_of(outside)["image"]) and len(inside.take_all()) == 1


def test_written(folder, tmp_path):
    inside, outside = forms(rd.read_images(folder, mode="RGB"), CHAINS["random"])
    for name, ds in (("a", inside), ("b", outside.drop_columns(["raw"]))):
        ds.write_parquet(str(tmp_path / name))
    a, b = (rd.read_parquet(str(tmp_path / n)) for n in "ab")
    assert same(rows_of(a)["image"], rows_of(b)["image"])


def test_many_steps_stay(folder, capsys):
    e = col("image")
    for i in range(14):
        e = e.image.random_flip(seed=i)
    ds = rd.read_images(folder, mode="RGB")
    inside, outside = ds.with_column("image", e), ds.with_column("raw", col("image")).with_column("image", e)
    assert pushed(inside, capsys) and same(rows_of(inside)["image"], rows_of(outside)["image"])
    assert not pushed(ds.with_column("image", e.image.random_flip(seed=99)), capsys)
