"""The paper's workload (Table 1) from public data sets and generated multi-needle prompts.

``datasets``, ``tokenizers`` and the network are touched only while it is built.
"""

from dwise_predict.workload.paper.build import PaperWorkload, build_paper_workload, shares
from dwise_predict.workload.paper.manifest import Manifest, Source, load_manifest

__all__ = [
    "Manifest",
    "PaperWorkload",
    "Source",
    "build_paper_workload",
    "load_manifest",
    "shares",
]
