"""Names of Ray Train's module of constants."""

TRAIN_DATASET_KEY = "train"  # the dataset that get_dataset_shard() gives without a name

__all__ = ["TRAIN_DATASET_KEY"]
