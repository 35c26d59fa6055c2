"""A program as users write it: checkers find no mistake, and it runs."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import headrace.data as hd
from headrace.data import BlockMetadata, Datasource, ReadTask


class Numbers(Datasource):
    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: object = None
    ) -> list[ReadTask]:
        def read() -> Iterator[pa.Table]:
            yield pa.table({"n": [1, 2, 3]})

        return [ReadTask(read, BlockMetadata(num_rows=3, size_bytes=24))]

    def estimate_inmemory_data_size(self) -> int | None:
        return None


def main(folder: Path) -> None:
    assert hd.read_datasource(Numbers()).count() == 3
