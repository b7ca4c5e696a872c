"""The zoo: which models have predictor bundles, where, and how good they are."""

from dwise_predict.zoo.index import ZooEntry, bundled_folder, read_index

__all__ = ["ZooEntry", "bundled_folder", "read_index"]
