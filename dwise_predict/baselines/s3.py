"""S³: allocation by predicted bucket of output length, doubled when a request outgrows it.

Jin et al., "S³: Increasing GPU Utilization during Generative Inference for Higher Throughput",
NeurIPS 2023 (arXiv:2306.06000). DistilBERT says in which of ten buckets of equal width the output
length lies; the request is allocated the upper end. One that needs more is preempted, its
allocation doubled, and put back into the queue. Without published code, training follows that of
TRAIL's released DistilBERT classifier.

Only the order in which requests are served is S³'s here: the policy ranks by allocation, and
within an equal one by arrival. Memory is reserved by budget under every policy of ours, so a
request that outgrows its allocation loses its place in the order, not its KV cache; the batch
former ``prefill_first`` never displaces residents of this policy, so there it keeps even that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dwise_predict.baselines.buckets import BucketClassifier
from dwise_predict.baselines.lengths import FloatArray
from dwise_predict.engines.protocol import Refinement, RoundHidden
from dwise_predict.simulation.predictions import Reestimate
from dwise_predict.simulation.workload import SimulatedWorkload


class S3:
    """Allocates output tokens from the prompt, and more while a request runs."""

    def __init__(self, classifier: BucketClassifier) -> None:
        self.classifier = classifier

    def admission(self, texts: Sequence[str]) -> FloatArray:
        """Allocated output tokens of n prompts, float64 [n]."""
        return self.classifier.allocated(texts)

    def policy_options(self) -> dict[str, object]:
        """Options of the policy ``s3`` that belong to this predictor: the buckets."""
        return {"edges": tuple(self.classifier.buckets.upper[:-1].tolist())}

    def simulated(self, workload: SimulatedWorkload, admission: FloatArray) -> Reestimate:
        """New allocations after rounds of a replay of ``workload``; ``admission`` are the first."""
        size = workload.block_size
        allocated: list[float] = admission.tolist()
        committed = [0] * len(workload)
        next_block: list[int] = (size - workload.prompt_tokens % size).tolist()

        def ask(index: int, rounds_done: int, block_done: bool) -> float | None:
            if not block_done:
                return None
            committed[index] += next_block[index]
            next_block[index] = size
            if committed[index] < allocated[index]:
                return None
            allocated[index] = grown(allocated[index], committed[index])
            return allocated[index]

        return ask

    def watch(self, admission: Mapping[str, float]) -> S3Watch:
        """The same in the built-in engine, for one call of :meth:`Engine.serve`.

        ``admission`` are the first allocations by request id.
        """
        return S3Watch(admission)


class S3Watch:
    """Tells a scheduler the new allocation of requests that have outgrown theirs."""

    def __init__(self, admission: Mapping[str, float]) -> None:
        self._allocated = dict(admission)

    def __call__(self, seen: RoundHidden) -> Mapping[str, Refinement]:
        """Requests with as many committed tokens as were allocated, or more."""
        answers = {}
        for request, committed in zip(seen.requests, seen.output_tokens, strict=True):
            allocated = self._allocated[request.request_id]
            if committed >= allocated:
                allocated = grown(allocated, committed)
                self._allocated[request.request_id] = allocated
                answers[request.request_id] = Refinement(allocated)
        return answers


def grown(allocated: float, committed: int) -> float:
    """``allocated`` doubled until there is room for another token after ``committed``."""
    while allocated <= committed:
        allocated *= 2
    return allocated
