"""How fast are documents packed, and how much of the rows is padding? Ours beside Grain's iterators.

    python bench/packing.py [--documents N] [--seq-len N] [--bins N] [--runs N]

prints a table in Markdown: the median of million tokens per second, and the padding. Documents have
log-normal lengths and lie in memory; both hand out NumPy arrays with segment ids and positions, Grain row by
row, as its iterators do. Grain is left out where it is not installed.
"""

import argparse
import statistics
import time

import numpy as np
import pyarrow as pa

import headrace.data as hd


def documents(n, longest):
    rng = np.random.default_rng(3)
    lengths = np.clip(rng.lognormal(np.log(longest / 5), 1, n).astype(int), 1, longest)
    return np.split(np.arange(1, lengths.sum() + 1, dtype=np.int32), np.cumsum(lengths)[:-1])


def ours(docs, strategy, seq_len, bins):
    table = pa.table({"t": pa.array(docs, pa.list_(pa.int32()))})
    batches = hd.from_arrow(table).pack(seq_len, strategy, open_bins=bins).iter_batches(batch_size=32)

    def run():
        for batch in batches:
            yield batch["t"], batch["segment_ids"]

    return run


def grain_packed(docs, strategy, seq_len, bins):
    import grain
    from grain import experimental

    class Source:
        def __len__(self):
            return len(docs)

        def __getitem__(self, i):
            return {"t": docs[i]}

    made = {
        "concat": "ConcatThenSplitIterDataset",
        "first_fit": "FirstFitPackIterDataset",
        "best_fit": "BestFitPackIterDataset",
    }[strategy]
    read = grain.MapDataset.source(Source()).to_iter_dataset()
    how = {} if strategy == "concat" else {"num_packing_bins": bins, "shuffle_bins": False}
    rows = getattr(experimental, made)(read, length_struct={"t": seq_len}, **how)

    def run():
        for row in rows:
            yield row["t"], row["t_segment_ids"]

    return run


def measure(run):
    """(seconds, padding, sum of all tokens); another pass computes the sum and the padding."""
    begin = time.perf_counter()
    for _ in run():
        pass
    seconds = time.perf_counter() - begin
    total = cells = padding = 0
    for tokens, segments in run():
        total += int(tokens[segments > 0].sum(dtype=np.int64))
        cells += tokens.size
        padding += int((segments == 0).sum())
    return seconds, padding / cells, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000, help="(%(default)s)")
    parser.add_argument("--seq-len", type=int, default=2048, help="(%(default)s)")
    parser.add_argument("--bins", type=int, default=64, help="open at a time (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="(%(default)s)")
    args = parser.parse_args()
    docs = documents(args.documents, args.seq_len)
    n_tokens = sum(map(len, docs))
    print("| strategy | who | million tokens/s | padding |\n|---|---|---|---|")
    for strategy in ("concat", "first_fit", "best_fit"):
        for who, make in (("headrace", ours), ("Grain", grain_packed)):
            try:
                run = make(docs, strategy, args.seq_len, args.bins)
            except ImportError:
                continue
            seen = [measure(run) for _ in range(args.runs)]
            if any(total != n_tokens * (n_tokens + 1) // 2 for _, _, total in seen):
                raise SystemExit(f"{who}, {strategy}: the tokens are not those of the documents")
            rate = n_tokens / statistics.median(seconds for seconds, _, _ in seen) / 1e6
            print(f"| {strategy} | {who} | {rate:.1f} | {100 * seen[0][1]:.2f} % |", flush=True)


if __name__ == "__main__":
    main()
