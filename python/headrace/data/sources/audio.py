"""read_audio: one row per sound file. The package soundfile (libsndfile) decodes.

Worker processes read the files, so that a damaged file cannot corrupt this process's memory. They read chunk
by chunk, because a header may state a wrong length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Unpack

from headrace._core import DataError, Table
from headrace.data.files import FileArguments
from headrace.data.sources.each_file import damaged, read_each_file
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.annotations import Paths
    from headrace.data.dataset import Dataset


EXTENSIONS = ["wav", "flac", "ogg", "oga", "opus", "mp3", "aiff", "aif", "au", "caf", "w64", "rf64", "snd"]
CHUNK_VALUES = 1 << 20
SHORT = r"^ *(?:data|riff|SSND|Data Size) *: (\d+) \(should be (\d+)\)"  # in libsndfile's log
UNKNOWN_FRAMES = 1 << 62  # and more: the header does not state the length
UNKNOWN_BYTES = 0x7FFF0000  # and more: written by programs that do not know the size yet


def _check_length(path, file, n_frames):
    """Raises DataError if the file is shorter than its header says."""
    cut = re.search(SHORT, file.extra_info, re.MULTILINE)
    if cut and int(cut[2]) < int(cut[1]) < UNKNOWN_BYTES:
        raise DataError(f"{path}: expected {cut[1]} bytes of sound (header), found {cut[2]}")
    if n_frames < file.frames < UNKNOWN_FRAMES:
        raise DataError(f"{path}: expected {file.frames} samples (header), found {n_frames}")


def _samples(path):
    """(array (channels, samples), samples per second)."""
    import numpy as np

    soundfile = package("soundfile", "read_audio")
    try:
        with soundfile.SoundFile(path) as file:
            chunks, n = [], max(1, CHUNK_VALUES // file.channels)
            while len(chunk := file.read(n, dtype="float32", always_2d=True)):
                chunks.append(chunk.T)
            chunks = chunks or [np.zeros((file.channels, 0), "f4")]
            _check_length(path, file, sum(c.shape[1] for c in chunks))
            return np.concatenate(chunks, axis=1), file.samplerate
    except Exception as e:
        raise damaged(path, e) from None


def _sound(path):
    """A table of one row; the column `amplitude` may have another shape in each row."""
    samples, rate = _samples(path)
    table = Table.build({"amplitude": [None], "sample_rate": [rate]})
    yield table.with_column("amplitude", samples[None], True)


def read_audio(paths: Paths, **common: Unpack[FileArguments]) -> Dataset:
    """One row per sound file: 'amplitude', a float32 tensor (channels, samples) from -1 to 1, and
    'sample_rate'. From a folder it reads files with the usual suffixes.

    Lengths differ from row to row, so a batch has an array of arrays there, unless all its rows have one
    shape. Formats: WAV, FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU, CAF and the others of libsndfile; needs the
    package soundfile. A worker process decodes each file as a whole. DataError names a file that is damaged
    or ends early.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    package("soundfile", "read_audio")
    return read_each_file("read_audio", "audio", paths, _sound, extensions=EXTENSIONS, **common)
