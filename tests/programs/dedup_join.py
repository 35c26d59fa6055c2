"""Dedup and join: crawled pages with repeats, one per URL kept, joined with scores, summed by site."""

import json
import os
import sys

import ray


def write(folder):
    with open(os.path.join(folder, "pages.jsonl"), "w") as out:
        for i in range(1500):
            url = f"https://site{i % 13}.example/{i % 40}"
            out.write(json.dumps({"url": url, "seen": i, "words": (i * 31) % 700}) + "\n")
    with open(os.path.join(folder, "scores.csv"), "w") as out:
        out.write("url,score\n")
        for i in range(0, 520, 3):
            out.write(f"https://site{i % 13}.example/{i % 40},{i % 10 / 10}\n")


def newest(group):
    """The last of the rows of one URL."""
    at = group["seen"].argmax()
    return {name: column[at : at + 1] for name, column in group.items()}


def site(row):
    return {**row, "site": row["url"].split("/")[2]}


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    write(folder)
    pages = ray.data.read_json(os.path.join(folder, "pages.jsonl"))
    kept = pages.groupby("url").map_groups(newest, batch_format="numpy")
    scores = ray.data.read_csv(os.path.join(folder, "scores.csv"))
    scores = scores.groupby("url").max("score").rename_columns({"max(score)": "score"})
    both = kept.join(scores, join_type="inner", num_partitions=4, on=("url",)).map(site)
    sites = both.groupby("site").aggregate(
        ray.data.aggregate.Count(), ray.data.aggregate.Sum("words"), ray.data.aggregate.Max("score")
    )
    left = kept.join(scores, join_type="left_outer", num_partitions=4, on=("url",))
    print(
        json.dumps(
            {
                "pages": pages.count(),
                "kept": kept.count(),
                "both": both.count(),
                "unmatched": sum(
                    row["score"] is None or row["score"] != row["score"] for row in left.take_all()
                ),
                "sites": sorted(
                    [row["site"], row["count()"], row["sum(words)"], row["max(score)"]]
                    for row in sites.take_all()
                ),
                "unique": len(pages.unique("url")),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
