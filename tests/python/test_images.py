"""Images: pixels of every kind and mode against Pillow; sizes, orientation, damage, several shapes."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

import headrace.data as rd
from headrace import exceptions
from headrace.data.expressions import col
from headrace.exceptions import DataError

RNG = np.random.default_rng(3)


def picture(h, w, c=3):
    y, x = np.mgrid[0:h, 0:w]
    base = np.stack([x * 200 / w, y * 200 / h, (x + y) * 100 / (w + h), 255 - x * 100 / w][:c], -1)
    return (base + RNG.integers(0, 30, base.shape)).astype(np.uint8)


def write(path, image, **how):
    image.save(path, **how)
    return str(path)


def read(path, **how):
    return rd.read_images(str(path), **how).take_all()[0]["image"]


def of_pillow(path, mode):
    return np.array(Image.open(path).convert(mode))


def samples():
    rgb, grey = Image.fromarray(picture(37, 53)), Image.fromarray(picture(37, 53, 1)[:, :, 0])
    rgba = Image.fromarray(picture(37, 53, 4), "RGBA")
    deep = Image.fromarray(RNG.integers(0, 65536, (20, 30)).astype(np.uint16))
    one = grey.convert("1")
    yield "rgb.jpg", rgb, {"quality": 90}
    yield "progressive.jpg", rgb, {"progressive": True, "subsampling": 0}
    yield "restart.jpg", rgb, {"restart_marker_blocks": 2}
    yield "grey.jpg", grey, {}
    yield "cmyk.jpg", rgb.convert("CMYK"), {}
    yield "rgb.png", rgb, {}
    yield "rgba.png", rgba, {}
    yield "grey.png", grey, {}
    yield "la.png", rgba.convert("LA"), {}
    yield "palette.png", rgb.quantize(17), {}
    yield "palette2.png", rgb.quantize(4), {"bits": 2}
    yield "transparent.png", rgb.quantize(9), {"transparency": 3}
    yield "bit.png", one, {}
    yield "lossy.webp", rgb, {"quality": 70}
    yield "alpha.webp", rgba, {"quality": 70}
    yield "lossless.webp", rgba, {"lossless": True, "exact": True}
    yield "animated.webp", rgba, {"save_all": True, "append_images": [rgba.rotate(90)], "lossless": True}
    yield "plain.gif", rgb.quantize(50), {}
    yield "animated.gif", rgb.quantize(50), {"save_all": True, "append_images": [rgb.rotate(9).quantize(50)]}
    yield "transparent.gif", rgb.quantize(50), {"transparency": 2}
    yield "rgb.bmp", rgb, {}
    yield "rgba.bmp", rgba, {}
    yield "grey.bmp", grey, {}
    yield "bit.bmp", one, {}
    yield "palette.bmp", rgb.quantize(20), {}
    for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        yield f"rgb.{compression}.tif", rgb, {"compression": compression}
    yield "rgba.tif", rgba, {}
    yield "grey.tif", grey, {}
    yield "jpeg.tif", rgb, {"compression": "jpeg"}
    yield "fax.tif", one, {"compression": "group4"}
    yield "bit.tif", one, {}
    yield "palette.tif", rgb.quantize(30), {}
    yield "cmyk.tif", rgb.convert("CMYK"), {}
    yield "float.tif", Image.fromarray(RNG.uniform(-20, 300, (20, 30)).astype(np.float32)), {}
    yield "deep.png", deep, {}


SAMPLES = list(samples())


@pytest.mark.parametrize("name, image, how", SAMPLES, ids=[s[0] for s in SAMPLES])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_pixels_are_pillows(tmp_path, name, image, how, mode):
    path = write(tmp_path / name, image, **how)
    got = read(path, mode=mode)
    if name == "deep.png":  # Pillow cuts 16 bits of grey off at 255
        want = (np.array(image) >> 8).astype(np.uint8)
        assert (got == want if mode == "L" else got[:, :, 0] == want).all()
        return
    want = of_pillow(path, mode)
    assert got.shape == want.shape and got.dtype == np.uint8
    if name == "jpeg.tif":
        assert np.abs(got.astype(int) - want).max() <= 4  # two versions of libjpeg, inside of libtiff
        return
    if name == "alpha.webp" or name == "animated.webp":
        shown = of_pillow(path, "RGBA")[:, :, 3] > 0
        assert (got[shown] == want[shown]).all()
        return
    assert (got == want).all()


def test_as_stored(tmp_path):
    """A palette of greys gives one channel; the story: BMP files gave three."""
    kinds = {"rgba.png": 4, "grey.jpg": None, "la.png": 2, "rgb.jpg": 3, "cmyk.jpg": 3}
    kinds |= {"grey.bmp": None, "bit.bmp": None, "palette.bmp": 3, "rgb.bmp": 3}
    for name, c in kinds.items():
        sample = next(s for s in SAMPLES if s[0] == name)
        assert read(write(tmp_path / name, sample[1])).shape[2:] == (() if c is None else (c,))


def shades(folder, shapes, mode="L"):
    """Writes PNG files of these shapes; returns (folder, their pixels by Pillow)."""
    folder.mkdir(exist_ok=True)
    images = [Image.fromarray(picture(h, w)).convert(mode) for h, w in shapes]
    for i, image in enumerate(images):
        image.save(folder / f"{i}.png")
    return folder, [np.asarray(image) for image in images]


@pytest.mark.parametrize("mode", [None, "L"])
@pytest.mark.parametrize("size", [None, (9, 12)])
@pytest.mark.parametrize("even", [False, True])
def test_grey_images_have_two_dimensions(tmp_path, mode, size, even):
    """(height, width), as in Ray and Pillow; the story: they had a third dimension of 1."""
    folder, pixels = shades(tmp_path / "g", [(20, 30)] * 3 if even else [(20, 30), (21, 30), (20, 31)])
    ds = rd.read_images(folder, mode=mode, size=size)
    want = [np.asarray(Image.fromarray(p).resize(size[::-1], 2)) if size else p for p in pixels]
    rows = [r["image"] for r in ds.take_all()]
    for got, p in zip(rows, want, strict=True):
        assert got.shape == p.shape and np.abs(got.astype(int) - p).max() <= (1 if size else 0)
    batch = next(iter(ds.iter_batches(batch_size=3)))["image"]
    assert all((a == b).all() for a, b in zip(batch, rows, strict=True))
    assert [f.shape for f in ds.to_pandas()["image"]] == [p.shape for p in want]
    seen = ds.map_batches(lambda b: {"s": [str(i.shape) for i in b["image"]]}).take_all()
    assert [r["s"] for r in seen] == [str(p.shape) for p in want]
    if even or size:
        assert batch.shape == (3, *want[0].shape)
        tensor = next(iter(ds.iter_torch_batches(batch_size=3)))["image"]
        assert tuple(tensor.shape) == batch.shape
    if size:
        assert ds.schema().types == ["extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[9,12]]>"]
    ds.write_parquet(tmp_path / "p")
    back = [r["image"] for r in rd.read_parquet(tmp_path / "p").take_all()]
    assert all((a == b).all() and a.shape == b.shape for a, b in zip(back, rows, strict=True))
    ds.write_images(tmp_path / "w", column="image", file_format="png")
    written = [np.asarray(Image.open(p)) for p in sorted((tmp_path / "w").iterdir())]
    assert sorted(w.tobytes() for w in written) == sorted(r.tobytes() for r in rows)
    assert {w.ndim for w in written} == {2}


def test_grey_among_colours(tmp_path):
    """Each image keeps its channels, as in Ray."""
    folder, grey = shades(tmp_path / "m", [(4, 5)])
    colour = picture(4, 5)
    Image.fromarray(colour).save(folder / "1.png")
    Image.fromarray(picture(4, 5, 2), "LA").save(folder / "2.png")
    ds = rd.read_images(folder)
    assert [r["image"].shape for r in ds.iter_rows()] == [(4, 5), (4, 5, 3), (4, 5, 2)]
    assert [i.shape for i in ds.take_batch(3)["image"]] == [(4, 5), (4, 5, 3), (4, 5, 2)]
    assert (ds.take_batch(1)["image"] == grey[0]).all()
    with pytest.raises(
        exceptions.TypeMismatchError, match=r"row 0 has the shape \(4, 5\), row 1 has \(4, 5, 3\)"
    ):
        next(iter(ds.iter_torch_batches(batch_size=2)))
    back = rd.from_arrow(ds.to_arrow()).take_all()
    assert [r["image"].shape for r in back] == [(4, 5), (4, 5, 3), (4, 5, 2)]
    flipped = ds.with_column("image", col("image").image.random_flip(1.0)).take_all()
    assert (flipped[0]["image"] == grey[0][:, ::-1]).all() and (flipped[1]["image"] == colour[:, ::-1]).all()


def test_a_size_declares_a_shape(tmp_path):
    """Without a mode the first file's mode counts; another one is an error that names the remedy."""
    folder, _ = shades(tmp_path / "m", [(8, 9), (7, 9)], "RGB")
    ds = rd.read_images(folder, size=(4, 5))
    assert ds.schema().types == ["extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[4,5,3]]>"]
    assert ds.take_batch(2)["image"].shape == (2, 4, 5, 3) and ds.count() == 2
    Image.fromarray(picture(8, 9, 1)[:, :, 0]).save(folder / "2.png")
    ds = rd.read_images(folder, size=(4, 5))
    assert ds.limit(2).take_batch(2)["image"].shape == (2, 4, 5, 3) and ds.count() == 3
    with pytest.raises(
        exceptions.TypeMismatchError, match="2.png: an image of 1 channel, the first file has 3"
    ):
        ds.take_all()
    assert rd.read_images(folder, size=(4, 5), mode="RGB").take_batch(3)["image"].shape == (3, 4, 5, 3)
    loose = rd.read_images(folder, size=(4, 5), fixed_shape=False)
    assert [r["image"].shape for r in loose.take_all()] == [(4, 5, 3), (4, 5, 3), (4, 5)]
    assert "variable_shape" in loose.schema().types[0]
    (folder / "0.png").write_bytes(b"no image")
    with pytest.raises(exceptions.DataError, match="0.png"):
        rd.read_images(folder, size=(4, 5)).take_all()
    assert len(rd.read_images(folder, size=(4, 5), on_error="skip").take_all()) == 2


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("how", range(1, 9))
def test_exif_orientation(tmp_path, kind, how):
    from PIL import ImageOps

    image = Image.fromarray(picture(23, 31))
    exif = Image.Exif()
    exif[0x0112] = how
    path = write(tmp_path / f"a.{kind}", image, exif=exif, **({"lossless": True} if kind == "webp" else {}))
    with Image.open(path) as im:
        plain, turned = np.array(im), np.array(ImageOps.exif_transpose(im))
    assert (read(path, mode="RGB", exif_orientation=True) == turned).all()
    if kind != "tif":  # Pillow turns TIFF as it loads
        assert (read(path, mode="RGB") == plain).all()


FILTERS = ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
@pytest.mark.parametrize("size", [(20, 30), (211, 97), (1, 1), (61, 200)])
def test_sizes(tmp_path, name, mode, size):
    image = Image.fromarray(picture(120, 77))
    path = write(tmp_path / "a.png", image)
    got = read(path, mode=mode, size=size, interpolation=name)
    how = getattr(Image.Resampling, name.upper())
    wide = image.convert(mode)
    if name != "nearest":  # rows first, as all versions of Pillow did before 12 or so
        wide = wide.resize((size[1], 120), how)
    want = np.array(wide.resize(size[::-1], how))
    assert got.shape[:2] == size
    assert np.abs(got.reshape(want.shape).astype(int) - want).max() <= (0 if name == "nearest" else 1)


def test_shapes(tmp_path):
    for i, (h, w) in enumerate([(4, 5), (4, 5), (7, 3)]):
        write(tmp_path / f"{i}.png", Image.fromarray(picture(h, w)))
    ds = rd.read_images(str(tmp_path), mode="RGB", include_paths=True)
    first, second = (b["image"] for b in ds.iter_batches(batch_size=2))
    assert first.shape == (2, 4, 5, 3) and second.shape == (1, 7, 3, 3)
    batch = next(iter(ds.iter_batches(batch_size=3)))
    assert batch["image"].dtype == object
    assert [a.shape for a in batch["image"]] == [
        (4, 5, 3),
        (4, 5, 3),
        (7, 3, 3),
    ]
    assert [p.rsplit("/", 1)[1] for p in batch["path"]] == ["0.png", "1.png", "2.png"]
    assert ds.count() == 3
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception, match=r"'image'.*\(4, 5, 3\).*\(7, 3, 3\)"):
        list(ds.iter_torch_batches(batch_size=3))
    sized = rd.read_images(str(tmp_path), mode="RGB", size=(8, 9))
    (t,) = sized.select_columns(["image"]).iter_torch_batches(batch_size=3)
    assert t["image"].shape == (3, 8, 9, 3) and t["image"].dtype == torch.uint8


def test_rows_of_functions(tmp_path):
    for i, (h, w) in enumerate([(4, 5), (6, 2)]):
        write(tmp_path / f"{i}.png", Image.fromarray(picture(h, w)))
    ds = rd.read_images(str(tmp_path), mode="RGB")
    assert [r["h"] for r in ds.map(lambda r: {"h": r["image"].shape[0]}).take_all()] == [4, 6]
    assert [r["image"].shape for r in ds.filter(lambda r: r["image"].shape[1] == 2).take_all()] == [(6, 2, 3)]


def test_damage(tmp_path):
    good = io.BytesIO()
    Image.fromarray(picture(40, 50)).save(good, "JPEG")
    (tmp_path / "a.jpg").write_bytes(good.getvalue())
    (tmp_path / "b.jpg").write_bytes(good.getvalue()[:700])
    (tmp_path / "c.png").write_bytes(b"no image")
    (tmp_path / "d.gif").write_bytes(b"")
    for name, text in (("b.jpg", "ends inside"), ("c.png", "begins with 6e 6f"), ("d.gif", "file is empty")):
        with pytest.raises(DataError, match=f"{name}.*{text}"):
            read(tmp_path / name)
    ds = rd.read_images(str(tmp_path), mode="RGB", on_error="skip", include_paths=True)
    assert [r["path"][-5:] for r in ds.take_all()] == ["a.jpg"]
    assert ds.stats("dict")["bad_rows"] == 3
    assert ds.count() == len(ds.select_columns(["path"]).take_all()) == 1
    assert read(tmp_path / "b.jpg", allow_truncated=True).shape == (40, 50, 3)
    with pytest.raises(DataError, match=r"a.jpg.*50 x 40 pixels, the limit is 1999"):
        read(tmp_path / "a.jpg", max_pixels=1999)


def test_order_of_many(tmp_path):
    for i in range(300):
        write(tmp_path / f"{i:03}.png", Image.fromarray(np.full((2, 2, 3), i % 256, np.uint8)))
    ds = rd.read_images(str(tmp_path), mode="RGB")
    got = [int(b["image"][0, 0, 0, 0]) for b in ds.iter_batches(batch_size=1)]
    assert got == [i % 256 for i in range(300)]


@pytest.mark.parametrize("kind", ["png", "bmp", "jpeg", "webp"])
def test_written_and_read(tmp_path, kind):
    for i, (h, w) in enumerate([(4, 5), (7, 3)]):
        write(tmp_path / f"{i}.png", Image.fromarray(picture(h, w)))
    ds = rd.read_images(str(tmp_path), mode="RGB")
    ds.write_images(str(tmp_path / "out"), "image", file_format=kind)
    files = sorted((tmp_path / "out").iterdir())
    assert [np.array(Image.open(f)).shape for f in files] == [(4, 5, 3), (7, 3, 3)]
    if kind in ("png", "bmp"):
        for row, f in zip(ds.take_all(), files, strict=True):
            assert (np.array(Image.open(f)) == row["image"]).all()


def test_a_grey_bmp_stays_grey(tmp_path):
    """The story: it was written with 24 bits and read with three channels."""
    write(tmp_path / "0.png", Image.fromarray(picture(5, 7)).convert("L"))
    ds = rd.read_images(str(tmp_path))
    ds.write_images(str(tmp_path / "out"), "image", file_format="bmp")
    (path,) = (tmp_path / "out").iterdir()
    assert Image.open(path).mode == "L"
    for got in (np.array(Image.open(path)), read(path)):
        assert (got == ds.take(1)[0]["image"]).all() and got.shape == (5, 7)


def planar_tiff(path, planes, extra):
    """An uncompressed TIFF with one plane per sample, which Pillow cannot write."""
    n, (h, w), bits = len(planes), planes[0].shape, planes[0].itemsize * 8
    at = 8 + sum(p.nbytes for p in planes)  # the directory lies after the planes, its lists after it
    lists = at + 2 + 12 * 11 + 4
    fields = [
        (256, 4, 1, w),
        (257, 4, 1, h),
        (258, 3, n, lists),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (273, 4, n, lists + 2 * n),
        (277, 3, 1, n),
        (278, 4, 1, h),
        (279, 4, n, lists + 6 * n),
        (284, 3, 1, 2),
        (338, 3, 1, extra),
    ]
    starts = [8 + i * planes[0].nbytes for i in range(n)]
    path.write_bytes(
        struct.pack("<2sHI", b"II", 42, at)
        + b"".join(p.tobytes() for p in planes)
        + struct.pack("<H", len(fields))
        + b"".join(struct.pack("<HHII", *f) for f in fields)
        + struct.pack(f"<I{n}H{n}I{n}I", 0, *[bits] * n, *starts, *[planes[0].nbytes] * n)
    )


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("extra", [1, 2], ids=["associated", "unassociated"])
def test_planes_of_a_tiff(tmp_path, dtype, extra):
    """libtiff's own conversion would multiply colours by alpha."""
    planes = [RNG.integers(0, np.iinfo(dtype).max, (6, 5), dtype) for _ in range(4)]
    planes[3] |= np.array(np.iinfo(dtype).max // 2 + 1, dtype)
    planar_tiff(tmp_path / "a.tif", planes, extra)
    got = read(tmp_path / "a.tif")
    assert got.shape == (6, 5, 4)
    values = (np.stack(planes, -1) >> (np.iinfo(dtype).bits - 8)).astype(int)
    if extra == 1:
        values[..., :3] = np.minimum(255 * values[..., :3] // values[..., 3:], 255)
    assert np.array_equal(got, values)


def test_a_bmp_that_forgets_its_palette(tmp_path):
    """Its header places the pixels where the palette begins; the reader skips the palette, as Pillow does."""
    file = io.BytesIO()
    Image.fromarray(picture(9, 13)).quantize(40).save(file, "BMP")
    data = bytearray(file.getvalue())
    (tmp_path / "good.bmp").write_bytes(data)
    data[10:14] = struct.pack("<I", 14 + 40)
    (tmp_path / "bad.bmp").write_bytes(data)
    assert np.array_equal(read(tmp_path / "bad.bmp", mode="RGB"), read(tmp_path / "good.bmp", mode="RGB"))


def test_many_files_a_step(tmp_path):
    """The reader reads many small files at a time; order, limits, positions and errors do not change."""
    for i in range(150):
        (tmp_path / f"{i:03d}.bin").write_bytes(bytes([i]) * (i * 40))
    ds = rd.read_binary_files(str(tmp_path))
    whole = [bytes([i]) * (i * 40) for i in range(150)]
    assert [r["bytes"] for r in ds.take_all()] == whole
    assert [r["bytes"] for r in ds.take(70)] == whole[:70]
    assert ds.count() == 150
    assert [len(b["bytes"]) for b in ds.iter_batches(batch_size=64)] == [64, 64, 22]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HR_STALL", "*:2ms")
        assert [r["bytes"] for r in ds.take_all()] == whole
    shuffled = rd.read_binary_files(str(tmp_path), shuffle="files", include_paths=True).take_all()
    assert sorted(len(r["bytes"]) for r in shuffled) == [i * 40 for i in range(150)]
    assert all(int(r["path"][-7:-4]) * 40 == len(r["bytes"]) for r in shuffled)


@pytest.mark.parametrize("bad", [1, 63, 64, 100])
def test_rows_before_a_file_that_is_gone(tmp_path, bad):
    for i in range(130):
        (tmp_path / f"{i:03d}.bin").write_bytes(b"x" * i)
    ds = rd.read_binary_files(str(tmp_path))
    ds.schema()
    (tmp_path / f"{bad:03d}.bin").unlink()
    seen = 0
    with pytest.raises(Exception, match=f"{bad:03d}.bin"):
        for batch in ds.iter_batches(batch_size=1):
            seen += len(batch["bytes"])
    assert seen == bad


def test_large_rows_of_small_files(tmp_path):
    """Large rows go into batches one by one; without batches many of them form a table."""
    shades = [i * 5 for i in range(40)]
    for i, shade in enumerate(shades):
        Image.fromarray(np.full((150 + i, 160, 3), shade, np.uint8)).save(tmp_path / f"{i:02d}.png")
    (tmp_path / "25.png").write_bytes(b"no image")
    ds = rd.read_images(str(tmp_path), mode="RGB", size=(150, 160))
    for size in (1, 5, 64):
        seen = []
        with pytest.raises(DataError, match="25.png.*begins with"):
            for batch in ds.iter_batches(batch_size=size):
                seen += [int(a[0, 0, 0]) for a in batch["image"]]
        assert seen == shades[: 25 // size * size]
    ds = rd.read_images(str(tmp_path), mode="RGB", on_error="skip")
    want = shades[:25] + shades[26:]
    for n in (7, 16):
        assert [int(a[0, 0, 0]) for b in ds.iter_batches(batch_size=n) for a in b["image"]] == want
    tables = [b["image"] for b in ds.iter_batches(batch_size=None)]
    assert len(tables) < 20 and [int(a[0, 0, 0]) for t in tables for a in t] == want


def without_segments(data, marker):
    """A JPEG without the segments of one marker."""
    out, at = data[:2], 2
    while data[at + 1] != 0xDA:
        n = 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        out += b"" if data[at + 1] == marker else data[at : at + n]
        at += n
    return out + data[at:]


@pytest.mark.parametrize("marker, progressive", [(0xDB, False), (0xDB, True), (0xC4, True)])
def test_a_jpeg_without_tables_does_not_take_those_of_the_one_before(tmp_path, marker, progressive):
    """The story: a thread's decompressor kept the tables, so a damaged image decoded with an earlier
    one's.
    """
    good = io.BytesIO()
    pixels = np.random.default_rng(3).integers(0, 255, (40, 40, 3), dtype="u1")
    Image.fromarray(pixels).save(good, "JPEG", progressive=progressive)
    (tmp_path / "a.jpg").write_bytes(good.getvalue())
    (tmp_path / "b.jpg").write_bytes(without_segments(good.getvalue(), marker))
    with pytest.raises(OSError):
        Image.open(tmp_path / "b.jpg").load()
    for _ in range(8):  # on whichever thread
        assert rd.read_images(str(tmp_path / "a.jpg")).count() == 1
        rd.read_images(str(tmp_path / "a.jpg")).take_all()
        with pytest.raises(DataError, match="b.jpg: .*table 0x0. was not defined"):
            rd.read_images(str(tmp_path / "b.jpg")).take_all()


def gif_of(codes, width=3, interlace=0):
    """A GIF of 4 x 2 pixels in 4 colours whose codes have the bits that a decoder expects."""
    bits, n, out, size, made = 0, 0, bytearray(), 3, 6
    for code in codes:
        bits |= code << n
        n += size
        made = 5 if code == 4 else made + 1
        size = 3 if code == 4 else size + (made == 1 << size)
    out = bits.to_bytes(-(-n // 8), "little")
    head = b"GIF89a" + struct.pack("<HHBBB", 4, 2, 0x81, 0, 0) + bytes([0, 0, 0, 80, 0, 0, 0, 80, 0, 9, 9, 9])
    frame = b"," + struct.pack("<HHHHB", 0, 0, 4, 2, interlace) + bytes([2, len(out)]) + out + b"\0;"
    return head + frame


def test_gif_codes_that_do_not_exist(tmp_path):
    """The story: giflib made pixels from them; Pillow refuses the stream, as the reader does now."""
    path = tmp_path / "a.gif"

    def pixels(codes, **options):
        path.write_bytes(gif_of(codes))
        return rd.read_images(str(path), **options).take_all()[0]["image"]

    whole = [4, 0, 1, 2, 3, 0, 1, 2, 3, 5]
    path.write_bytes(gif_of(whole))
    want = np.asarray(Image.open(path).convert("RGB"))
    np.testing.assert_array_equal(pixels(whole, mode="RGB"), want)
    path.write_bytes(gif_of([4, 1, 6, 7, 1, 1, 5]))  # strings that are made as they are used
    np.testing.assert_array_equal(
        rd.read_images(str(path), mode="RGB").take_all()[0]["image"],
        np.asarray(Image.open(path).convert("RGB")),
    )
    for codes in ([4, 0, 7, 1, 1, 1, 1, 1, 5], [4, 6, 1, 1, 1, 1, 1, 1, 5]):
        with pytest.raises(DataError, match="a.gif: gif: code [67] after [01] pixels"):
            pixels(codes)
        with pytest.raises(OSError):
            Image.open(path).load()
    with pytest.raises(DataError, match="a.gif: gif: the data ends after 3 of 8 pixels"):
        pixels([4, 0, 1, 2, 5])


def test_a_tiff_without_places(tmp_path):
    """An emptied list of strips: libtiff reads on, Pillow refuses the file."""
    out = io.BytesIO()
    Image.fromarray(np.zeros((40, 48, 3), "u1")).save(out, "TIFF")
    data = out.getvalue()
    at = data.index(struct.pack("<HHI", 273, 4, 1))
    path = tmp_path / "a.tiff"
    path.write_bytes(data[: at + 4] + bytes(8) + data[at + 12 :])
    with pytest.raises(DataError, match="a.tiff: tiff: strip or tile 0 of 1 has no offset"):
        rd.read_images(str(path)).take_all()
    with pytest.raises(OSError):
        Image.open(path)
