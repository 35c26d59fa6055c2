"""read_audio against soundfile and the written samples; damaged and cut files."""

import sys

import numpy as np
import pytest

import headrace.data as hd
from headrace import exceptions

soundfile = pytest.importorskip("soundfile")


def tone(channels=1, n=4000, rate=8000):
    t = np.arange(n) / rate
    return np.stack([0.5 * np.sin(2 * np.pi * 110 * (c + 1) * t) for c in range(channels)], 1).astype("f4")


def write(path, samples, rate=8000, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, **how)
    return path


KINDS = {
    "a.wav": {"subtype": "PCM_16"},
    "b.wav": {"subtype": "FLOAT"},
    "c.wav": {"subtype": "ULAW"},
    "d.flac": {"subtype": "PCM_24"},
    "e.ogg": {"format": "OGG", "subtype": "VORBIS"},
    "f.mp3": {"format": "MP3"},
    "g.aiff": {},
    "h.au": {},
    "i.caf": {},
    "j.opus": {"format": "OGG", "subtype": "OPUS"},
    "k.w64": {},
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(tmp_path, name):
    for channels in (1, 2):
        path = write(tmp_path / name, tone(channels), **KINDS[name])
        expected, rate = soundfile.read(path, dtype="float32", always_2d=True)
        (row,) = hd.read_audio(path).take_all()
        assert row["sample_rate"] == rate == 8000
        assert row["amplitude"].dtype == np.float32 and row["amplitude"].shape == (channels, len(expected))
        error = np.abs(row["amplitude"] - expected.T).max()
        assert error == 0 or name == "f.mp3" and error < 1e-6  # mpg123's rounding depends on its state


def test_lengths_differ(tmp_path):
    for i, n in enumerate([10, 3_000_000, 10, 0, 7]):
        write(tmp_path / f"{i}.wav", tone(1 + i % 2, n), 1000 * (i + 1))
    ds = hd.read_audio(tmp_path)
    assert ds.schema().names == ["amplitude", "sample_rate"]
    rows = ds.take_all()
    assert [r["amplitude"].shape for r in rows] == [(1, 10), (2, 3_000_000), (1, 10), (2, 0), (1, 7)]
    assert [r["sample_rate"] for r in rows] == [1000, 2000, 3000, 4000, 5000]
    (batch,) = ds.iter_batches(batch_size=10)
    assert batch["amplitude"].dtype == object and batch["amplitude"][4].shape == (1, 7)
    whole = ds.materialize()
    assert whole.count() == 5 and whole.schema() == ds.schema()


def test_equal_lengths_are_still_ragged(tmp_path):
    """The type of a column must not depend on which files are read."""
    write(tmp_path / "a.wav", tone())
    types = hd.read_audio(tmp_path).schema().types
    write(tmp_path / "b.wav", tone(2, 5))
    assert hd.read_audio(tmp_path).schema().types == types
    assert hd.read_audio(tmp_path / "b.wav").schema().types == types


def test_the_page_says_so(tmp_path):
    """Checks the sentences of docs/formats/audio.md; the story: the column was a list of lists."""
    for i, n in enumerate((30, 30, 20)):
        write(tmp_path / f"{i}.flac", tone(2, n), 16000)
    ds = hd.read_audio(tmp_path)
    kinds = ["extension<arrow.variable_shape_tensor[value_type=float, ndim=2]>", "int64"]
    assert ds.schema().names == ["amplitude", "sample_rate"] and ds.schema().types == kinds
    assert hd.read_audio(tmp_path / "0.flac").schema().types == kinds  # whichever files are read
    rows = ds.take_all()
    assert [r["amplitude"].shape for r in rows] == [(2, 30), (2, 30), (2, 20)]  # (channels, samples)
    assert all(r["amplitude"].dtype == np.float32 and abs(r["amplitude"]).max() <= 1 for r in rows)
    assert [r["sample_rate"] for r in rows] == [16000] * 3
    batch = ds.take_batch(3)
    assert batch["amplitude"].shape == (3,) and batch["amplitude"][2].shape == (2, 20)
    assert ds.take_batch(2)["amplitude"].shape == (2, 2, 30)  # all shapes of the batch are equal
    first = next(iter(ds.iter_torch_batches(batch_size=2)))
    assert tuple(first["amplitude"].shape) == (2, 2, 30)
    with pytest.raises(
        exceptions.TypeMismatchError, match=r"row 0 has the shape \(2, 30\), row 2 has \(2, 20\)"
    ):
        next(iter(ds.iter_torch_batches(batch_size=3)))
    padded = ds.iter_torch_batches(batch_size=3, collate_fn=lambda b: [a.shape for a in b["amplitude"]])
    assert next(iter(padded)) == [(2, 30), (2, 30), (2, 20)]
    kept = ds.map_batches(lambda b: {"n": [a.shape[1] for a in b["amplitude"]]}).take_all()
    assert [r["n"] for r in kept] == [30, 30, 20]
    ds.write_parquet(tmp_path / "p")
    back = hd.read_parquet(tmp_path / "p")
    assert back.schema().types == kinds
    assert all((a["amplitude"] == b["amplitude"]).all() for a, b in zip(back.take_all(), rows, strict=True))


def test_arguments_of_all_readers(tmp_path):
    for speaker in (1, 2):
        write(tmp_path / f"speaker={speaker}" / "a.flac", tone(1, speaker))
    (tmp_path / "notes.txt").write_text("no sound")
    ds = hd.read_audio(tmp_path, partitioning=hd.Partitioning("hive"), include_paths=True)
    assert [(r["speaker"], r["path"][-6:], r["amplitude"].size) for r in ds.iter_rows()] == [
        ("1", "a.flac", 1),
        ("2", "a.flac", 2),
    ]
    assert "read_audio" in repr(ds)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        hd.read_audio(tmp_path / "nowhere")
    assert hd.read_audio([tmp_path / "nowhere", tmp_path], ignore_missing_paths=True).count() == 2


@pytest.mark.parametrize("name", ["a.wav", "d.flac", "g.aiff", "h.au", "i.caf", "k.w64"])
def test_files_that_end_early(tmp_path, name):
    path = write(tmp_path / name, tone(1, 40000), **KINDS[name])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(exceptions.DataError, match=name):
        hd.read_audio(path).take_all()


@pytest.mark.parametrize("data", [b"", b"RIFF", b"fLaC" + bytes(100), b"nonsense" * 100, b"OggS" * 50])
def test_files_that_are_no_sound(tmp_path, data):
    write(tmp_path / "a.wav", tone())
    (tmp_path / "b.wav").write_bytes(data)
    with pytest.raises(exceptions.DataError, match="b.wav: LibsndfileError"):
        hd.read_audio(tmp_path).take_all()


def test_a_length_that_is_a_lie(tmp_path):
    """A FLAC header that states 2^35 samples must not cause an allocation of that size."""
    data = bytearray(write(tmp_path / "a.flac", tone()).read_bytes())
    at = data.index(b"fLaC") + 8 + 13  # the 36 bits of STREAMINFO
    data[at] |= 0x08
    (tmp_path / "a.flac").write_bytes(data)
    with pytest.raises(exceptions.DataError, match="a.flac"):
        hd.read_audio(tmp_path).take_all()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)  # an import of it fails now
    with pytest.raises(
        NotImplementedError, match=r"read_audio: needs the package soundfile: pip install 'headrace\[audio\]'"
    ):
        hd.read_audio("nowhere")
