"""`.image` expressions against Pillow and NumPy, in one pass; random by coordinate; types, errors, nulls."""

import io

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import headrace.data as rd
from headrace.data.expressions import col
from headrace.exceptions import DataError, HeadraceError

RNG = np.random.default_rng(5)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def picture(h, w):
    y, x = np.mgrid[0:h, 0:w]
    base = np.stack([x * 200 / w, y * 200 / h, (x + y) * 100 / (w + h)], -1)
    return (base + RNG.integers(0, 30, base.shape)).astype(np.uint8)


def encoded(array, form="PNG", **how):
    out = io.BytesIO()
    Image.fromarray(array).save(out, form, **how)
    return out.getvalue()


PICTURES = [picture(h, w) for h, w in [(50, 70), (64, 40), (33, 33), (90, 120)]]
BYTES = [encoded(p, "JPEG", quality=92) for p in PICTURES]


def of_pillow(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def apply(expr, data=BYTES, **column):
    ds = rd.from_items([{"x": b} for b in data]).with_column("y", expr)
    return next(iter(ds.iter_batches(batch_size=len(data))))["y"]


def test_decode():
    got = apply(col("x").image.decode())
    for g, b in zip(got, BYTES, strict=True):
        assert (g == np.array(of_pillow(b))).all()


@pytest.mark.parametrize("name", ["nearest", "box", "bilinear", "bicubic"])
def test_resize(name):
    got = apply(col("x").image.decode().image.resize(40, 30, interpolation=name))
    assert got.shape == (4, 40, 30, 3) and got.dtype == np.uint8
    how = getattr(Image.Resampling, name.upper())
    for g, b in zip(got, BYTES, strict=True):
        image = of_pillow(b)
        wide = image if name == "nearest" else image.resize((30, image.height), how)
        want = np.array(wide.resize((30, 40), how)).astype(int)
        assert np.abs(g - want).max() <= (0 if name == "nearest" else 1)


def recipe(x, **how):
    e = x.image.decode().image.resize(48, 56).image.center_crop(32, 32)
    return e.image.normalize(MEAN, STD, **how)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_normalize(dtype, layout):
    got = apply(recipe(col("x"), dtype=dtype, layout=layout))
    if dtype == "bfloat16":
        assert got.dtype == np.uint16
        got = (got.astype(np.uint32) << 16).view(np.float32)
    for g, b in zip(got, BYTES, strict=True):
        image, how = of_pillow(b), Image.Resampling.BILINEAR
        image = image.resize((56, image.height), how).resize((56, 48), how)
        pixels = np.array(image)[8:40, 12:44]
        want = (pixels / 255 - MEAN) / STD
        want = want.transpose(2, 0, 1) if layout == "CHW" else want
        slack = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
        assert g.shape == want.shape and np.abs(g - want).max() <= 1 / 255 / 0.224 + slack


def random_recipe(x):
    e = x.image.random_resized_crop(24, 20, seed=3)
    return e.image.random_flip(seed=4).image.normalize(MEAN, STD)


def test_random_is_of_the_place(tmp_path):
    for i, b in enumerate(BYTES * 3):
        (tmp_path / f"{i:02}.jpg").write_bytes(b)
    whole = rd.read_images(str(tmp_path), mode="RGB").with_column("y", random_recipe(col("image")))
    fused = rd.read_binary_files(str(tmp_path)).with_column("y", random_recipe(col("bytes").image.decode()))
    a = next(iter(whole.iter_batches(batch_size=12)))["y"]
    b = next(iter(fused.iter_batches(batch_size=12)))["y"]
    again = rd.read_binary_files(str(tmp_path)).with_column("y", random_recipe(col("bytes").image.decode()))
    parts = [x for t in again.iter_batches(batch_size=5) for x in t["y"]]
    assert (np.array(parts) == b).all()
    assert (a == b).all()  # what is decoded as a whole or in a part is the same
    next_epoch = next(iter(again.iter_batches(batch_size=12)))["y"]
    assert not (next_epoch == b).all()
    assert len({x.tobytes() for x in b}) == 12  # other rows, other crops


def test_flip_alone():
    always = apply(col("x").image.decode().image.random_flip(1.0))
    for g, b in zip(always, BYTES, strict=True):
        assert (g == np.array(of_pillow(b))[:, ::-1]).all()
    half = apply(col("x").image.decode().image.random_flip(0.5), [BYTES[0]] * 400)
    straight = np.array(of_pillow(BYTES[0]))
    assert 150 < sum((g == straight).all() for g in half) < 250


def test_crops_are_spread():
    ramp = np.zeros((64, 64, 3), np.uint8)
    ramp[:, :, 0], ramp[:, :, 1] = np.arange(64)[None], np.arange(64)[:, None]
    e = col("x").image.decode().image.random_resized_crop(16, 16, scale=(0.25, 0.25), ratio=(1, 1))
    got = apply(e, [encoded(ramp)] * 500).astype(int)
    left, top = got[:, 0, 0, 0], got[:, 0, 0, 1]
    assert (got[:, 0, -1, 0] - left >= 28).all()  # half of each side
    assert left.min() <= 2 and left.max() >= 30 and abs(left.mean() - 16.5) < 2 and abs(top.mean() - 16.5) < 2
    assert abs(np.corrcoef(left, top)[0, 1]) < 0.15


def test_fast_is_near():
    big = encoded(picture(900, 1200), "JPEG", quality=92)
    exact = apply(col("x").image.decode().image.resize(100, 120), [big])
    fast = apply(col("x").image.decode(exact=False).image.resize(100, 120), [big])
    difference = np.abs(exact.astype(int) - fast)
    assert difference.mean() < 1 and difference.max() <= 6


def test_nulls_and_errors():
    ds = rd.from_items([{"x": BYTES[0]}, {"x": None}, {"x": BYTES[2]}])
    ds = ds.with_column("y", col("x").image.decode().image.resize(4, 4))
    assert [r["y"] is None for r in ds.take_all()] == [False, True, False]
    with pytest.raises(DataError, match="row 1.*begins with"):
        apply(col("x").image.decode(), [BYTES[0], b"no image"])
    numbers = rd.from_items([{"x": 1}])
    for expr, text in (
        (col("x").image.decode(), "holds no images|no bytes"),
        (col("x").image.resize(3, 3), "holds no images"),
        (col("x").image.normalize(0.5, 0.0), "std"),
    ):
        with pytest.raises(HeadraceError, match=text):
            numbers.with_column("y", expr)
    with pytest.raises(HeadraceError, match="last operation"):
        rd.from_items([{"x": b""}]).with_column(
            "y", col("x").image.decode().image.normalize().image.resize(3, 3)
        )


def ragged(arrays):
    """A column of arrow.variable_shape_tensor."""
    values, shape = pa.list_(pa.uint8()), pa.list_(pa.int32(), arrays[0].ndim)
    rows = [{"data": a.ravel().tolist(), "shape": list(a.shape)} for a in arrays]
    kind = pa.struct([("data", values), ("shape", shape)])
    mark = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": "{}"}
    return rd.from_arrow(pa.table([pa.array(rows, kind)], pa.schema([pa.field("x", kind, metadata=mark)])))


@pytest.mark.parametrize("third", [False, True])
@pytest.mark.parametrize("even", [False, True])
def test_grey_arrays_keep_their_dimensions(third, even):
    """The story: (height, width) was no image for these functions; (height, width, 1) keeps its shape."""
    arrays = [np.arange(20 * n, dtype=np.uint8).reshape(20, n) for n in (10, 10, 10 if even else 13)]
    arrays = [a[:, :, None] if third else a for a in arrays]
    end = (1,) if third else ()
    ds = rd.from_items([{"x": a} for a in arrays]) if even else ragged(arrays)
    image = col("x").image
    flipped = [r["y"] for r in ds.with_column("y", image.random_flip(1.0)).take_all()]
    assert all((f == a[:, ::-1]).all() and f.shape == a.shape for f, a in zip(flipped, arrays, strict=True))
    for y, shape in (
        (image.resize(6, 7), (6, 7, *end)),
        (image.center_crop(6, 6), (6, 6, *end)),
        (image.resize(6, 7).image.normalize(layout="HWC"), (6, 7, *end)),
        (image.resize(6, 7).image.normalize(), (1, 6, 7)),
    ):
        made = ds.with_column("y", y)
        assert made.take_batch(3)["y"].shape == (3, *shape)
        if even or not third:
            assert f"shape=[{','.join(map(str, shape))}]" in made.schema().types[1]


def test_grey_files_keep_theirs():
    decoded = rd.from_items([{"x": b} for b in BYTES]).with_column("x", col("x").image.decode("L"))
    assert {r["x"].ndim for r in decoded.take_all()} == {2}
    sized = decoded.with_column("x", col("x").image.resize(6, 7))
    assert sized.take_batch(2)["x"].shape == (2, 6, 7)


def test_ragged_stays_ragged():
    ds = rd.from_items([{"x": b} for b in BYTES]).with_column("x", col("x").image.decode("L"))
    ds = ds.with_column("y", col("x").image.random_flip(1.0).image.normalize(0.5, 0.5, layout="HWC"))
    for row, b in zip(ds.take_all(), BYTES, strict=True):
        grey = np.array(of_pillow(b).convert("L"))[:, ::-1]
        assert row["y"].shape == grey.shape
        assert row["y"].dtype == np.float32 and np.abs(row["y"] - (grey / 255 - 0.5) / 0.5).max() < 1e-5


def test_null_tensors_of_foreign_tables_need_no_shape():
    """Rows that are null once failed with an IndexError where their shapes are null, too."""
    kind = pa.struct([("data", pa.list_(pa.uint8())), ("shape", pa.list_(pa.int32(), 2))])
    mark = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": "{}"}
    rows = [{"data": [1, 2], "shape": [1, 2]}, {"data": None, "shape": None}, {"data": [3], "shape": [1, 1]}]
    parts = [pa.array([row[name] for row in rows], kind.field(name).type) for name in ("data", "shape")]
    column = pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array([False, True, False]))
    table = pa.table([column], pa.schema([pa.field("x", kind, metadata=mark)]))
    found = [row["x"] for row in rd.from_arrow(table).take_all()]
    assert [None if x is None else x.tolist() for x in found] == [[[1, 2]], None, [[3]]]
