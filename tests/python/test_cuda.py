"""Tensors, functions and trainers on a real CUDA device. Skipped where torch sees none, as in CI."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd
import headrace.train
import headrace.train.torch as ht
from headrace.data.expressions import col

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

N = 20_000


@pytest.fixture(scope="module")
def ds():
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "id": np.arange(N),
            "x": rng.normal(size=N).astype(np.float32),
            "flag": rng.integers(0, 2, N).astype(bool),
            "image": pa.FixedShapeTensorArray.from_numpy_ndarray(
                rng.integers(0, 256, (N, 6, 5, 3)).astype(np.uint8)
            ),
            "name": [f"row {i}" for i in range(N)],
        }
    )
    return hd.from_arrow([table.slice(0, 7_777).combine_chunks(), table.slice(7_777).combine_chunks()])


def same(found, wanted):
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        if isinstance(value, list):
            assert found[name] == value
        else:
            assert found[name].dtype == value.dtype
            assert torch.equal(found[name].cpu(), value.cpu()), name


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda", 0)], ids=str)
def test_batches_on_the_device(ds, device, pin):
    here = list(ds.iter_torch_batches(batch_size=1000))
    there = list(ds.iter_torch_batches(batch_size=1000, device=device, pin_memory=pin))
    assert len(here) == len(there) == N // 1000
    for a, b in zip(there, here, strict=True):
        assert all(v.device == torch.device("cuda", 0) for v in a.values() if isinstance(v, torch.Tensor))
        same(a, b)


@pytest.mark.parametrize("pin", [False, True])
def test_types_collate_and_padding(ds, pin):
    numbers = ds.select_columns(["id", "x"])
    way = {"batch_size": 512, "device": "cuda", "pin_memory": pin}
    typed = list(numbers.iter_torch_batches(dtypes={"id": torch.int32, "x": torch.bfloat16}, **way))
    assert {v.dtype for v in typed[0].values()} == {torch.int32, torch.bfloat16}
    assert torch.cat([b["id"] for b in typed]).tolist() == list(range(N))

    def pair(batch):
        return {"both": (torch.as_tensor(batch["x"]), [torch.as_tensor(batch["id"])]), "n": len(batch["id"])}

    nested = list(numbers.iter_torch_batches(collate_fn=pair, **way))
    assert (
        {b["both"][0].device.type for b in nested}
        == {b["both"][1][0].device.type for b in nested}
        == {"cuda"}
    )
    assert torch.cat([b["both"][1][0] for b in nested]).tolist() == list(range(N))
    lists = hd.from_items([{"t": list(range(i % 5 + 1))} for i in range(100)])
    padded = next(
        iter(lists.iter_torch_batches(batch_size=100, padding={"t": -1}, device="cuda", pin_memory=pin))
    )
    assert padded["t"].shape == (100, 5) and padded["t"].device.type == "cuda"
    assert int((padded["t"] >= 0).sum()) == sum(i % 5 + 1 for i in range(100))


def test_pinned_memory_is_pinned_and_reused(ds):
    where = set()
    for batch in ds.iter_torch_batches(batch_size=1000, pin_memory=True).repeat(10):
        tensors = [v for v in batch.values() if isinstance(v, torch.Tensor)]
        assert all(v.is_pinned() and v.device.type == "cpu" for v in tensors)
        where.add(batch["image"].data_ptr())
    assert len(where) <= 8  # of 200 batches


def test_a_copy_under_way_is_never_overwritten(ds):
    """The device is busy, so that copies of many batches wait in its stream while the loop goes on: each must
    still find its own values in pinned memory.
    """
    heavy = torch.randn(4096, 4096, device="cuda")
    sums, wanted = [], []
    images = ds.select_columns(["image"])
    for batch in images.iter_torch_batches(batch_size=500, device="cuda", pin_memory=True):
        for _ in range(4):
            heavy = torch.nn.functional.normalize(heavy @ heavy)
        sums.append(batch["image"].sum(dtype=torch.int64))
    for batch in images.iter_batches(batch_size=500):
        wanted.append(int(batch["image"].sum(dtype=np.int64)))
    assert [int(s) for s in sums] == wanted and bool(heavy.isfinite().all())


def test_data_loader_pins(ds):
    from headrace.torch import DataLoader

    rows = torch.utils.data.TensorDataset(torch.arange(1000), torch.randn(1000, 3))
    batches = list(DataLoader(rows, batch_size=100, shuffle=True, num_workers=2, pin_memory=True))
    assert all(v.is_pinned() for b in batches for v in b)
    assert sorted(torch.cat([b[0] for b in batches]).tolist()) == list(range(1000))


class Doubling:
    """A model on the device, as batch inference has it."""

    def __init__(self):
        self.model = torch.nn.Linear(1, 1).cuda()
        with torch.no_grad():
            self.model.weight.fill_(2)
            self.model.bias.fill_(1)

    @torch.inference_mode()
    def __call__(self, batch):
        x = torch.as_tensor(batch["x"]).cuda()[:, None]
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        n = len(batch["x"])
        return {"y": self.model(x)[:, 0].cpu().numpy(), "seen": [seen] * n, "pid": [os.getpid()] * n}


def test_functions_with_gpus(ds):
    """Also after this process has used CUDA: workers never are forks of it."""
    torch.zeros(1, device="cuda").item()
    x = ds.select_columns(["x"])
    out = x.map_batches(Doubling, batch_size=500, num_gpus=1, concurrency=1).to_arrow()
    np.testing.assert_allclose(np.asarray(out["y"]), 2 * np.asarray(x.to_arrow()["x"]) + 1, rtol=1e-5)
    assert set(out["seen"].to_pylist()) == {"0"} and os.getpid() not in out["pid"].to_pylist()
    both = x.map_batches(Doubling, batch_size=500, num_gpus=0.5, concurrency=(2, 2)).to_arrow()
    assert both["y"].equals(out["y"])


def loop(config):
    device = ht.get_device()
    assert device == torch.device("cuda", 0) and torch.distributed.get_backend() == config["backend"]
    torch.manual_seed(0)
    model = ht.prepare_model(torch.nn.Linear(1, 1))
    assert next(model.parameters()).device == device
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    shard = headrace.train.get_dataset_shard("train")
    for _ in range(3):
        for batch in shard.iter_torch_batches(batch_size=100, dtypes=torch.float32):  # device="auto"
            assert batch["x"].device == device
            loss = ((model(batch["x"][:, None])[:, 0] - 3 * batch["x"]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total = torch.ones(1, device=device)
        torch.distributed.all_reduce(total)
        headrace.train.report({"loss": float(loss), "ranks": int(total)})


@pytest.mark.parametrize(("ranks", "backend"), [(1, "nccl"), (2, "gloo")])
def test_trainer(ds, tmp_path, ranks, backend):
    """NCCL refuses two ranks on one device; gloo does not."""
    result = ht.TorchTrainer(
        loop,
        train_loop_config={"backend": backend},
        torch_config=ht.TorchConfig(backend=None if backend == "nccl" else backend),
        datasets={"train": ds.select_columns(["x"])},
        scaling_config=headrace.train.ScalingConfig(num_workers=ranks, use_gpu=True),
        run_config=headrace.train.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    assert result.metrics["ranks"] == ranks and result.metrics["loss"] < 1e-3


def test_jax_on_the_device(ds):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    found = list(ds.select_columns(["id", "x"]).iter_jax_batches(batch_size=1000))
    assert all(b["x"].devices() == {jax.devices()[0]} for b in found)
    assert np.concatenate([np.asarray(b["id"]) for b in found]).tolist() == list(range(N))


def test_images_decoded_to_the_device(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(5)
    for i in range(40):
        Image.fromarray(rng.integers(0, 256, (64, 48, 3), np.uint8)).save(tmp_path / f"{i:02}.jpg")
    ds = hd.read_images(str(tmp_path), size=(32, 32)).with_column("image", col("image").image.normalize())
    wanted = list(ds.iter_torch_batches(batch_size=16))
    found = list(ds.iter_torch_batches(batch_size=16, device="cuda", pin_memory=True))
    for a, b in zip(found, wanted, strict=True):
        same(a, b)


def test_tune_reports_the_use_of_the_gpu(tmp_path):
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import torch

            class Rows(torch.utils.data.Dataset):
                def __len__(self):
                    return 4000

                def __getitem__(self, i):
                    return torch.full((64,), float(i))

            heavy = None

            def make_loader():
                return torch.utils.data.DataLoader(Rows(), batch_size=100)

            def step(batch):
                global heavy
                if heavy is None:
                    heavy = torch.randn(8192, 8192, device="cuda")
                heavy.copy_(torch.nn.functional.normalize(heavy @ heavy))
                return float(batch.to("cuda").sum())
            """
        )
    )
    command = [sys.executable, "-m", "headrace.tune", "script.py:make_loader", "--step", "script.py:step"]
    command += ["--seconds", "8", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "GPU" in done.stdout and re.search(r"\b([1-9]\d?|100) ?%", done.stdout), done.stdout
