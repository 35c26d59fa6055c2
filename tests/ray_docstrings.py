"""Runs the examples in Ray's docstrings, on Ray and on Headrace, and compares what they print.

    python tests/ray_docstrings.py FOLDER --ray PYTHON [--here PYTHON] [--only WORD] [--show]

PYTHON: interpreters with ray[data,train] and with headrace. FOLDER keeps the examples, the data and what Ray
printed, so that a second call runs only Headrace. Not a part of `make test`: Ray is not installed there.

An example is a block of a docstring of Ray Data or Ray Train: its `>>>` lines, or a `testcode`. It counts
if it runs on Ray without a network, a GPU, a cluster, Ray Core, Ray Tune or a package that is missing.
Public samples (s3://anonymous@ray-example-data/...) are made here, with the same columns and other rows, for
both. The comparison leaves out plans, the `repr` of datasets, times, folders and lines of workers.
show() prints a table here (docs/ray.md); it prints rows for the comparison. INTENDED has the
examples that differ on purpose.
"""

import argparse
import contextlib
import difflib
import doctest
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import traceback
from pathlib import Path

TIMEOUT_S = 60
SKIPPED_MODULES = ("_internal", ".tests", ".examples", ".llm", "benchmark", ".v2._internal")
ELSEWHERE = {  # what an example needs that is not here; the first word found is the reason
    "a network": (
        "s3://",
        "gs://",
        "gcs://",
        "abfss://",
        "http://",
        "https://",
        "hf://",
        "hdfs://",
        "databricks",
    ),
    "a service": (
        "mongo",
        "bigquery",
        "snowflake",
        "clickhouse",
        "kafka",
        "turbopuffer",
        "unity_catalog",
        "iceberg",
    ),
    "a GPU or a TPU": ("num_gpus", "use_gpu=True", "cuda", "use_tpu", '.to("cpu")  # gpu', "jax"),
    "Ray Core": (
        "ray.remote",
        "@ray.",
        "ray.get(",
        "ray.put(",
        "placement_group",
        "ray.nodes",
        "ray.util",
        "_block_refs()",  # prints an ObjectRef, another one in each run
    ),
    "Ray Tune": ("ray.tune",),
}
SAMPLES = "s3://anonymous@ray-example-data/"
PLANS = ("ray.data.dataset.Dataset.explain#0",)  # print nothing but a plan, which is Headrace's own
WRITERS = "writers return the list of files"
INTENDED = {  # see docs/ray.md; these count as different
    "ray.data.read_api.read_images#0": "images of files have any size unless size= is given",
    "ray.data.dataset.Dataset.stats#0": "the text says that there is no run yet; Ray's is empty",
    "ray.data.dataset.Dataset.write_images#0": WRITERS,
    "ray.data.dataset.Dataset.write_json#0": WRITERS,
    "ray.data.dataset.Dataset.write_numpy#0": WRITERS,
    "ray.data.dataset.Dataset.write_parquet#0": WRITERS,
    "ray.train.data_parallel_trainer.DataParallelTrainer#4": "a BackendConfig does what a Backend does",
}


# ------------------------------------------------------------------------------------------------ examples


def modules(package):
    yield package
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if any(word in found.name for word in SKIPPED_MODULES):
            continue
        with contextlib.suppress(BaseException):
            yield importlib.import_module(found.name)


def documented(module):
    """(name, docstring) of what the module defines, and of the members of its classes."""
    for name, value in sorted(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__ or name.startswith("_"):
            continue
        yield f"{module.__name__}.{name}", inspect.getdoc(value) if callable(value) else None
        for member, of_class in sorted(vars(value).items()) if inspect.isclass(value) else ():
            if not member.startswith("_"):
                of_class = getattr(of_class, "__func__", of_class)
                yield f"{module.__name__}.{name}.{member}", getattr(of_class, "__doc__", None)


def blocks(text):
    """The examples of a docstring: lists of (source, mode), of which one runs after the other."""
    text = inspect.cleandoc(text)
    try:
        parts = doctest.DocTestParser().parse(text)
    except ValueError:
        parts = []
    steps = [(p.source, "single") for p in parts if isinstance(p, doctest.Example)]
    skipped = any("+SKIP" in p.source for p in parts if isinstance(p, doctest.Example))
    if steps and not skipped:
        yield steps
    for found in re.finditer(
        r"^( *)\.\. testcode::([^\n]*)\n((?:\1 +[^\n]*\n|\s*\n)+)", text + "\n", re.MULTILINE
    ):
        body = textwrap.dedent(found[3])
        options = re.match(r"(?:\s*:[\w-]+:[^\n]*\n)*", body)[0]
        if ":skipif:" not in options:
            yield [(body[len(options) :], "exec")]


def collect():
    """All examples, by name."""
    import ray.data
    import ray.train

    found, seen = {}, set()
    for package in (ray.data, ray.train):
        for module in modules(package):
            for name, text in documented(module):
                if not text or text in seen:
                    continue
                seen.add(text)
                for i, steps in enumerate(blocks(text)):
                    found[f"{name}#{i}"] = steps
    return found


def needs(steps):
    """What the example needs that is not here; None: nothing."""
    source = "\n".join(s for s, _ in steps).replace(SAMPLES, "")
    return next((why for why, words in ELSEWHERE.items() if any(w in source for w in words)), None)


# ------------------------------------------------------------------------------------------ public samples


def make_samples(folder):
    """Files with the names and columns of those in Ray's public bucket."""
    import numpy as np
    import pandas as pd
    from PIL import Image
    from sklearn.datasets import load_breast_cancer, load_iris

    folder.mkdir(parents=True, exist_ok=True)
    iris = load_iris()
    names = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]
    frame = pd.DataFrame(iris.data, columns=names)
    frame["target"] = iris.target
    frame.to_csv(folder / "iris.csv", index=False)
    frame.to_json(folder / "iris.json", orient="records", lines=True)
    flowers = frame.set_axis(
        ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"], axis=1
    )
    flowers["variety"] = [["Setosa", "Versicolor", "Virginica"][k] for k in iris.target]
    flowers.to_parquet(folder / "iris.parquet")
    cancer = load_breast_cancer(as_frame=True).frame
    cancer.to_csv(folder / "breast_cancer.csv", index=False)
    cancer.to_csv(folder / "breast_cancer_with_categorical.csv", index=False)
    flowers.to_json(folder / "log.json", orient="records", lines=True)
    rng = np.random.default_rng(1)
    for path, n, shape in (
        ("batoidea/JPEGImages", 3, (48, 64, 3)),
        ("image-datasets/simple", 3, (32, 32, 3)),
    ):
        (folder / path).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            Image.fromarray(rng.integers(0, 255, shape, np.uint8)).save(folder / path / f"{i}.jpeg")
    for i in range(3):
        for digit in ("0", "1"):
            (folder / "digits" / digit).mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (28, 28), np.uint8)).save(
                folder / "digits" / digit / f"{i}.png"
            )
    (folder / "this.txt").write_text("The Zen of Python, by Tim Peters\nBeautiful is better than ugly.\n")
    (folder / "sms_spam_collection_subset.txt").write_text("ham\tGo until jurong point\nham\tOk lar...\n")
    np.save(folder / "mnist_subset.npy", rng.integers(0, 255, (5, 28, 28)))
    frame.to_json(folder / "train.jsonl", orient="records", lines=True)
    pd.DataFrame({"image": [rng.integers(0, 255, (8, 8)).tolist() for _ in range(3)]}).to_parquet(
        folder / "images.parquet"
    )
    for label in ("dog", "cat"):
        (folder / "image-datasets/dir-partitioned" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (16, 16, 3), np.uint8)).save(
            folder / "image-datasets/dir-partitioned" / label / "1.png"
        )
    (folder / "documents").mkdir(exist_ok=True)
    (folder / "documents" / "a.bin").write_bytes(b"abc")


# --------------------------------------------------------------------------------------------------- a run


class Late(BaseException):
    """An example takes too long."""


def interrupt(*_):
    raise Late


def space_of(name):
    """The names that an example sees, as in a doctest: those of its module, if that can be imported. The
    modules here import other names than Ray's, so the names that examples take from Ray's are always there.
    """
    import typing

    space = dict(vars(typing))
    for module, names in (("block", "BlockAccessor"), ("datatype", "DataType")):
        found = importlib.import_module(f"{name.partition('.')[0]}.data.{module}")
        space[names] = getattr(found, names)
    parts = name.partition("#")[0].split(".")
    for n in range(len(parts), 0, -1):
        with contextlib.suppress(Exception):
            space |= vars(importlib.import_module(".".join(parts[:n])))
            break
    return space | {"__name__": "__main__", parts[0]: importlib.import_module(parts[0])}


def run_one(steps, space, folder):
    """(what it prints, the error's text or None)."""
    out, error = io.StringIO(), None
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    signal.alarm(TIMEOUT_S)
    try:
        with contextlib.redirect_stdout(out):
            for source, mode in steps:
                exec(compile(source, "<example>", mode), space)
    except Late:
        error = f"takes longer than {TIMEOUT_S} s"
    except BaseException as e:
        error = "".join(traceback.format_exception_only(e)).strip()
    finally:
        signal.alarm(0)
    return out.getvalue(), error


def start_ray():
    import ray

    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="error")
    # Otherwise rows come in another order in some runs; here their order is fixed.
    ray.data.DataContext.get_current().execution_options.preserve_order = True


def show_rows():
    """Dataset.show() of Headrace as Ray's: a row a line."""
    import headrace.data

    def show(self, limit=20):
        for row in self.take(limit):
            print(row)

    headrace.data.Dataset.show = show


def serve(which, samples):
    """Runs the examples whose names and steps come as lines of JSON; prints a line of JSON for each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, interrupt)
    if which == "ray":
        start_ray()
    else:
        show_rows()
    scratch = tempfile.mkdtemp()
    for line in sys.stdin:
        name, steps = json.loads(line)
        steps = [(re.sub(f"{SAMPLES}|example://", f"{samples}/", s), mode) for s, mode in steps]
        place = name
        if which == "headrace":
            steps = [(re.sub(r"(?<![\w./\"'-])ray(?=[.\s,)]|$)", "headrace", s), mode) for s, mode in steps]
            place = name.replace("ray.", "headrace.", 1)
        out, error = run_one(steps, space_of(place), os.path.join(scratch, name))
        answers.write(json.dumps([name, out, error]) + "\n")
        answers.flush()


def run_all(which, python, examples, samples):
    """name -> (output, error), each by a child that starts again after an example that ends it."""
    results, left = {}, list(examples)
    while left:
        env = {
            **os.environ,
            "RAY_TRAIN_V2_ENABLED": "1",
            "PYTHONWARNINGS": "ignore",
            "CUDA_VISIBLE_DEVICES": "",
        }
        command = [python, __file__, str(samples), "--serve", which]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(command, text=True, env=env, **pipes)
        while left:
            try:
                child.stdin.write(json.dumps([left[0], examples[left[0]]]) + "\n")
                child.stdin.flush()
                ready, _, _ = select.select([child.stdout], [], [], 2 * TIMEOUT_S)
                answer = child.stdout.readline() if ready else ""
            except BrokenPipeError:
                answer = ""
            name = left.pop(0)
            if not answer:
                child.kill()
                results[name] = ("", "the process hangs, or has ended")
                break
            results[name] = json.loads(answer)[1:]
            print(f"\r{which}: {len(results)} of {len(examples)} ", end="", file=sys.stderr, flush=True)
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.wait()
    print(file=sys.stderr)
    return results


# ---------------------------------------------------------------------------------------------- comparison


NOISE = "|".join(  # lines that begin so say nothing about rows
    (
        r"\s*(Dataset|MaterializedDataset|DataIterator|SplitIterator)\(",
        r"\S*\w+\(.*\) -> |\w+\(<?\w+>?\)$",
        r"its columns are known after a run|  (-> )?\w+\(.*\)$|\)(, [\d,]+ rows)?$",
        r"[├└│┌╭╰╞─]|\+-|\s*shape: \(|\(Showing |\(Dataset isn't",
        r".*\(raylet\)|.*\(\w+ pid=|\(rank ",
    )
)


def plain(text):
    """The output without what differs on purpose: reprs of datasets, times, addresses, folders."""
    kept = []
    for line in text.replace("headrace", "ray").splitlines():
        if re.match(NOISE, line):
            continue
        line = re.sub(r"/tmp/\S+", "/tmp/...", line)
        line = re.sub(r"0x[0-9a-f]+", "0x...", line)
        line = re.sub(r"\d+\.\d+e?-?\d*", lambda m: f"{float(m[0]):.6g}", line)
        kept.append(re.sub(r"\s+", " ", line).strip())
    return [line for line in kept if line]


def same(ray, here):
    return plain(ray) == plain(here)


def compare(examples, ray, here, show):
    passed = [n for n in examples if ray[n][1] is None]
    runs = [n for n in passed if here[n][1] is None]
    equal = [n for n in runs if n in PLANS or same(ray[n][0], here[n][0])]
    for name in passed:
        if name in equal:
            continue
        why = INTENDED.get(name)
        print(f"\n--- {name}" + (f": {why}" if why else ""))
        if show:
            print(textwrap.indent("".join(s for s, _ in examples[name]), "    "))
        if here[name][1]:
            print(here[name][1])
        else:
            print(
                "\n".join(
                    difflib.unified_diff(plain(ray[name][0]), plain(here[name][0]), "ray", "here", "", "", 1)
                )
            )
    on_purpose = sum(n not in equal and n in INTENDED for n in passed)
    print(f"\n{len(examples)} examples; {len(passed)} pass on Ray; of these {len(runs)} run here, ", end="")
    print(f"{len(equal)} with the same output ({100 * len(equal) / max(1, len(passed)):.1f} %), ", end="")
    print(f"{on_purpose} of the others differ on purpose")


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("folder", type=Path)
    p.add_argument("--ray", help="an interpreter with ray[data,train]")
    p.add_argument("--here", default=sys.executable, help="an interpreter with headrace")
    p.add_argument("--only", default="", help="examples whose names have this word")
    p.add_argument("--show", action="store_true", help="also print the code of those that differ")
    p.add_argument("--serve", help=argparse.SUPPRESS)
    p.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.serve:
        return serve(args.serve, args.folder)
    if args.collect:
        make_samples(args.folder / "samples")
        Path(args.folder, "examples.json").write_text(json.dumps(collect()))
        return None
    args.folder.mkdir(parents=True, exist_ok=True)
    kept = args.folder.resolve()
    if not (kept / "examples.json").exists():
        subprocess.run([args.ray, __file__, str(kept), "--collect"], check=True)
    found = json.loads((kept / "examples.json").read_text())
    reasons = {name: why for name, steps in found.items() if (why := needs(steps))}
    examples = {n: s for n, s in found.items() if n not in reasons}
    for why in ELSEWHERE:
        print(f"{sum(w == why for w in reasons.values())} examples need {why}")
    if not (kept / "ray.json").exists():
        (kept / "ray.json").write_text(json.dumps(run_all("ray", args.ray, examples, kept / "samples")))
    ray = json.loads((kept / "ray.json").read_text())
    examples = {n: s for n, s in examples.items() if args.only in n}
    wanted = {n: s for n, s in examples.items() if ray[n][1] is None}
    here = run_all("headrace", args.here, wanted, kept / "samples")
    compare(examples, ray, {n: here.get(n, ("", "")) for n in examples}, args.show)
    return None


if __name__ == "__main__":
    sys.exit(main())
