"""Messages between a DataLoader and its worker processes: pickles, with the arrays beside them.

A small message is one packet. A larger one lies in memory that both processes map: the receiver's tensors
and arrays use that memory, without a copy. A dataset lies in memory that all workers share: each maps it
privately, so that what one of them writes stays its own. Both ends hold a SOCK_SEQPACKET socket.
"""

import io
import mmap
import os
import pickle
import socket
import struct

import torch

from headrace.udf.sending import OF_CLASS, _Pickler, classes_stay

INLINE = 4096  # bytes of a message that travels in its packet
ALIGN = 64
MESSAGE, DATASET = b"m", b"d"  # packets with a descriptor; other packets are longer
HEAD = struct.Struct("<QQ")  # length of the pickle, number of buffers


class _WithBuffers(_Pickler):
    """Leaves the bytes of dense tensors and arrays beside the pickle."""

    def reducer_override(self, value):
        if type(value) is torch.Tensor and _is_plain(value):
            flat = value.contiguous().reshape(-1).view(torch.uint8).numpy()
            return _tensor, (pickle.PickleBuffer(flat), value.dtype, tuple(value.shape))
        return super().reducer_override(value)


def _is_plain(t):
    return (
        t.device.type == "cpu"
        and t.layout is torch.strided
        and not t.requires_grad
        and not t.is_quantized
        and not t.is_conj()
        and not t.is_neg()
        and t.numel() > 0
    )


def _tensor(buffer, dtype, shape):
    return torch.frombuffer(buffer, dtype=dtype).reshape(shape)


def dumps(value):
    """The parts of a message: a head, the pickle, and buffers, each at a multiple of ALIGN."""
    buffers = []
    out = io.BytesIO()
    _WithBuffers(out, protocol=5, buffer_callback=lambda b: buffers.append(b.raw())).dump(value)
    data = out.getbuffer()
    sizes = struct.pack(f"<{len(buffers)}Q", *(b.nbytes for b in buffers))
    parts = []
    for part in (HEAD.pack(data.nbytes, len(buffers)) + sizes, data, *buffers):
        n = part.nbytes if isinstance(part, memoryview) else len(part)
        parts += [part, bytes(-n % ALIGN)]
    return parts


def loads(memory, keeps_classes=True):
    """The value of the parts in `memory`, a writable memoryview that its tensors keep alive. keeps_classes:
    see classes_stay().
    """
    n, n_buffers = HEAD.unpack_from(memory)
    sizes = struct.unpack_from(f"<{n_buffers}Q", memory, HEAD.size)
    at = _aligned(HEAD.size + 8 * n_buffers)
    data = memory[at : at + n]
    buffers = []
    for size in sizes:
        at = _aligned(at + n)
        n = size
        buffers.append(memory[at : at + n])
    if keeps_classes and OF_CLASS in bytes(data):
        with classes_stay():
            return pickle.loads(data, buffers=buffers)
    return pickle.loads(data, buffers=buffers)


def _aligned(n):
    return -(-n // ALIGN) * ALIGN


def in_memory(parts):
    """The descriptor of memory that holds the parts; the caller closes it."""
    fd = os.memfd_create("headrace batch")
    try:
        with open(fd, "wb", closefd=False, buffering=0) as file:
            for part in parts:
                part = memoryview(part)
                while part.nbytes:
                    part = part[file.write(part) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def packet(parts):
    """(bytes, descriptor or None) to send; the sender closes the descriptor."""
    size = sum(p.nbytes if isinstance(p, memoryview) else len(p) for p in parts)
    if size <= INLINE:
        return b"".join(parts), None
    return b"", in_memory(parts)


def send(sock, parts, flags=0):
    """Sends parts of dumps(). BlockingIOError: the socket is full, with flags of MSG_DONTWAIT."""
    data, fd = packet(parts)
    try:
        if fd is None:
            sock.send(data, flags)
        else:
            socket.send_fds(sock, [MESSAGE], [fd], flags)
    finally:
        if fd is not None:
            os.close(fd)


def send_dataset(sock, fd, flags=0):
    """Sends the descriptor of a dataset's memory, which stays the sender's."""
    socket.send_fds(sock, [DATASET], [fd], flags)


def receive(sock, flags=0):
    """The next message's value, or ("dataset", descriptor). EOFError: the other end is gone."""
    data, fds, _, _ = socket.recv_fds(sock, INLINE + 1, 1, flags)
    if not data:
        raise EOFError
    if not fds:
        return loads(memoryview(bytearray(data)))
    if data == DATASET:
        return "dataset", fds[0]
    try:
        memory = mmap.mmap(fds[0], 0)
    finally:
        os.close(fds[0])
    return loads(memoryview(memory))


def load_dataset(fd):
    """A fresh copy of what lies in the memory of `fd`; arrays share the pages that nobody writes to."""
    return loads(memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)), keeps_classes=False)
