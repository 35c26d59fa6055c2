"""read_videos: one row per frame. The package av (PyAV, FFmpeg) decodes.

Worker processes read the files, so that a damaged file cannot corrupt this process's memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from headrace._core import InvalidArgument, Table
from headrace.data.context import is_whole
from headrace.data.files import FileArguments
from headrace.data.sources.each_file import damaged, read_each_file
from headrace.optional import package

if TYPE_CHECKING:
    from headrace.data.annotations import Paths
    from headrace.data.dataset import Dataset

EXTENSIONS = (
    "mp4 mkv mov avi wmv flv webm m4v 3gp mpeg mpg ts ogv rm rmvb vob asf f4v m2ts mts divx xvid mxf"
).split()
BLOCK_BYTES = 8 << 20  # of frames in a table


class _Frames:
    """Reads the frames of a file."""

    def __init__(self, fps, size, times):
        self.fps, self.size, self.times = fps, size, times

    def __call__(self, path):
        av = package("av", "read_videos")
        try:
            with av.open(path) as file:
                yield from self._tables(file, file.streams.video[0])
        except IndexError:
            raise damaged(path, ValueError("there is no video in the file")) from None
        except (av.error.FFmpegError, ValueError) as e:
            raise damaged(path, e) from None

    def _tables(self, file, stream):
        stride = self._stride(stream)
        frames, numbers, times, held = [], [], [], 0
        for number, frame in enumerate(file.decode(stream)):
            if number % stride:
                continue
            frames.append(self._pixels(frame))
            numbers.append(number)
            times.append(self._span(frame, stream))
            held += frames[-1].nbytes
            if held >= BLOCK_BYTES:
                yield self._table(frames, numbers, times)
                frames, numbers, times, held = [], [], [], 0
        if frames:
            yield self._table(frames, numbers, times)

    def _stride(self, stream):
        rate = stream.average_rate
        return 1 if self.fps is None or not rate else max(1, round(float(rate) / self.fps))

    def _pixels(self, frame):
        height, width = self.size or (frame.height, frame.width)
        return frame.to_ndarray(format="rgb24", width=width, height=height)

    def _span(self, frame, stream):
        """(begin, end) of a frame in seconds."""
        begin = frame.time if frame.time is not None else 0.0
        return [begin, begin + (float(1 / stream.average_rate) if stream.average_rate else 0.0)]

    def _table(self, frames, numbers, times):
        import numpy as np

        table = Table.build({"frame": np.stack(frames), "frame_index": np.array(numbers)})
        return table.with_column("frame_timestamp", np.array(times)) if self.times else table


def read_videos(
    paths: Paths,
    *,
    include_timestamps: bool = False,
    fps: int | None = None,
    resize: tuple[int, int] | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """One row per frame of each video: 'frame', a uint8 tensor (height, width, 3) of RGB, and 'frame_index',
    the number of the frame in its file; include_timestamps: 'frame_timestamp', its begin and end in seconds.
    From a folder it reads files with the usual suffixes.

    fps: about so many frames per second: every n-th frame, n = max(1, round(the file's rate / fps)). resize:
    (height, width) of all frames. Needs the package av. A worker process decodes each file, whose rows stay
    in memory until its end: give fps or resize for long videos. DataError names a file that is damaged.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    package("av", "read_videos")
    if fps is not None and not is_whole(fps, 1):
        raise InvalidArgument(f"read_videos: fps: expected a number of at least 1, found {fps!r}")
    if resize is not None and not (len(resize) == 2 and all(is_whole(n, 1) for n in resize)):
        raise InvalidArgument(f"read_videos: resize: expected (height, width), found {resize!r}")
    read = _Frames(fps, resize and tuple(resize), include_timestamps)
    return read_each_file("read_videos", "videos", paths, read, extensions=EXTENSIONS, **common)
