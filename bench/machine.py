"""What this machine can do at most, measured now, for comparison with the figures of the benchmarks."""

import mmap
import os
import platform
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

MIB = 1 << 20


def best(run, n_bytes, times=5):
    """GB/s of the quickest of some runs."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return n_bytes / min(taken) / 1e9


def n_cpus():
    return len(os.sched_getaffinity(0))


def memcpy(n_threads):
    """Copies of 64 MiB from and to pages that are there already; bytes copied, not bytes moved."""
    pairs = [(np.ones(64 * MIB, np.uint8), np.ones(64 * MIB, np.uint8)) for _ in range(n_threads)]

    def run():
        threads = [threading.Thread(target=np.copyto, args=pair) for pair in pairs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    return best(run, n_threads * 64 * MIB)


def first_touch():
    """One write to each page of fresh memory."""

    def run():
        with mmap.mmap(-1, 256 * MIB) as fresh:
            pages = np.frombuffer(fresh, np.uint8)[:: mmap.PAGESIZE]
            pages[:] = 1
            del pages

    return best(run, 256 * MIB, 3)


def disk_read(path):
    """The file from the drive, past the page cache; None where the file system has no such way."""
    block = mmap.mmap(-1, 8 * MIB)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except (AttributeError, OSError):
        return None
    try:
        n_bytes, begin = 0, time.perf_counter()
        while got := os.preadv(fd, [block], n_bytes):
            n_bytes += got
            if got % 4096:
                break
        return n_bytes / (time.perf_counter() - begin) / 1e9
    except OSError:
        return None
    finally:
        os.close(fd)


def codec_alone(name, values):
    """Unpacking pages of 1 MiB, one core; GB/s of what comes out."""
    import pyarrow as pa

    codec, raw = pa.Codec(name), np.resize(values, 8 * MIB // values.itemsize).tobytes()
    pages = [raw[i : i + MIB] for i in range(0, len(raw) - MIB + 1, MIB)]
    packed = [codec.compress(p) for p in pages]

    def run():
        for p in packed:
            codec.decompress(p, MIB, asbytes=False)  # into memory that its pool has already

    return best(run, len(pages) * MIB)


def jpeg_alone(photos):
    """Images a second that libjpeg-turbo decodes on all cores; None without a compiler or its headers."""
    paths = [str(p) for p in sorted(photos.iterdir())]
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/decode_jpeg"
        source = Path(__file__).with_name("decode_jpeg.c")
        try:
            built = subprocess.run(
                ["cc", "-O2", "-o", program, source, "-ljpeg", "-lpthread"], capture_output=True, check=False
            )
            if built.returncode:
                return None
            runs = [
                subprocess.run([program, str(n_cpus()), *paths], capture_output=True, check=True)
                for _ in range(3)
            ]
        except (OSError, subprocess.CalledProcessError):
            return None
    return len(paths) / min(float(r.stdout) for r in runs)


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def limits(table, tokens, photos):
    """Lines of text; the arguments are folders of the benchmark's files."""
    import pyarrow.parquet as pq

    cpus = n_cpus()
    file = sorted(table.glob("*.parquet"))[0]
    fares = pq.read_table(file, columns=["fare"])["fare"].to_numpy()
    ids = pq.ParquetFile(sorted(tokens.glob("*.parquet"))[0]).read_row_group(0, columns=["tokens"])["tokens"]
    ids = ids.combine_chunks().flatten().to_numpy()
    disk, jpeg = disk_read(file), jpeg_alone(photos)
    rows = [
        (f"memcpy, 1 core / {cpus} cores", f"{memcpy(1):.1f} / {memcpy(cpus):.1f} GB/s"),
        ("first touch of fresh pages, 1 core", f"{first_touch():.1f} GB/s"),
        ("disk read, direct", f"{disk:.1f} GB/s" if disk else "not to be had here"),
        ("snappy alone (column fare), 1 core", f"{codec_alone('snappy', fares):.1f} GB/s out"),
        ("zstd alone (token ids), 1 core", f"{codec_alone('zstd', ids):.1f} GB/s out"),
        (
            f"libjpeg-turbo alone (photos to RGB), {cpus} cores",
            f"{jpeg:,.0f} images/s" if jpeg else "not to be had here",
        ),
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    head = f"{cpu_name()}, {cpus} CPUs, {memory:.0f} GB, Linux {platform.release()}"
    width = max(len(what) for what, _ in rows)
    return [head, *(f"  {what:<{width}}  {value}" for what, value in rows)]
