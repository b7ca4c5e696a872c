"""Generated prompts in the categories and proportions of the paper's Table 1.

One file a category. The same generators build the embedded model's training corpus
(``dwise_predict.tiny.corpus``); :func:`partition` keeps the two disjoint.
"""

from dwise_predict.workload.builtin.mix import GENERATORS, builtin_workload, composition, partition

__all__ = ["GENERATORS", "builtin_workload", "composition", "partition"]
