"""read_audio: a row for each sound file, decoded by the package soundfile (libsndfile).

Files are read by worker processes: what a damaged one does to the decoder's memory, it does not do to ours.
They are read piece by piece, because what a header says of their length is not to be believed.
"""

import re
from typing import Unpack

from headrace._core import DataError, Table
from headrace.data.files import FileArguments
from headrace.data.sources import package
from headrace.data.sources.each_file import damaged, read_each_file

EXTENSIONS = ["wav", "flac", "ogg", "oga", "opus", "mp3", "aiff", "aif", "au", "caf", "w64", "rf64", "snd"]
PIECE_VALUES = 1 << 20
SHORT = r"^ *(?:data|riff|SSND|Data Size) *: (\d+) \(should be (\d+)\)"  # in libsndfile's log
UNKNOWN_FRAMES = 1 << 62  # and more: the header does not say it
UNKNOWN_BYTES = 0x7FFF0000  # and more: what programs write that do not know the size yet


def _check_length(path, file, n_frames):
    """A file that ends early is an error, where its header says how long it should be."""
    cut = re.search(SHORT, file.extra_info, re.MULTILINE)
    if cut and int(cut[2]) < int(cut[1]) < UNKNOWN_BYTES:
        raise DataError(f"{path}: its header says {cut[1]} bytes of sound, there are {cut[2]}")
    if n_frames < file.frames < UNKNOWN_FRAMES:
        raise DataError(f"{path}: its header says {file.frames} samples, there are {n_frames}")


def _samples(path):
    """(array (channels, samples), samples a second)."""
    import numpy as np

    soundfile = package("soundfile", "read_audio")
    try:
        with soundfile.SoundFile(path) as file:
            pieces, n = [], max(1, PIECE_VALUES // file.channels)
            while len(piece := file.read(n, dtype="float32", always_2d=True)):
                pieces.append(piece.T)
            pieces = pieces or [np.zeros((file.channels, 0), "f4")]
            _check_length(path, file, sum(p.shape[1] for p in pieces))
            return np.concatenate(pieces, axis=1), file.samplerate
    except Exception as e:
        raise damaged(path, e) from None


def _sound(path):
    """A table of one row, whose column `amplitude` may have other shapes in other rows."""
    samples, rate = _samples(path)
    table = Table.build({"amplitude": [None], "sample_rate": [rate]})
    yield table.with_column("amplitude", samples[None], True)


def read_audio(paths, **common: Unpack[FileArguments]):
    """A row for each sound file: 'amplitude', a float32 tensor (channels, samples) from -1 to 1, and
    'sample_rate'. Of a folder, files with the usual suffixes are read.

    Lengths differ from row to row, so that a batch has an array of arrays there, but where all of its rows
    have one shape. WAV, FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU, CAF and what else libsndfile knows; needs
    the package soundfile. A file is decoded as a whole, by a worker process. DataError names a file that is
    damaged or ends early.
    """
    package("soundfile", "read_audio")
    return read_each_file("read_audio", "audio", paths, _sound, extensions=EXTENSIONS, **common)
