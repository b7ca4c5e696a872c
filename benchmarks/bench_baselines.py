"""Time of one admission estimate from raw text: the baselines' encoders against our predictor.

    python benchmarks/bench_baselines.py [--encoders minilm bert distilbert opt]

As in the paper's Figure 11(b), every time starts at the prompt's text and includes tokenisation:
chat template and tokenizer of the embedded model for ours, the encoder's own for a baseline.
Prompts are evaluation prompts of the built-in workload, one at a time. BERT, DistilBERT and
OPT-125M are timed with random weights of the published sizes, because time does not depend on what
weights say and they need not be downloaded; MiniLM's tokenizer, which is BERT's, serves all of
them. Encoders are cut at 512 tokens. Prints milliseconds of one thread's CPU time, which other work
on the machine hardly changes, and ratios. The paper finds 9 to 18 times, 4 to 8 ms; it does not
say what its encoders ran on, and one CPU thread does not reach that with BERT.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from transformers import AutoModel, BertConfig, DistilBertConfig, OPTConfig
from transformers.configuration_utils import PreTrainedConfig

from dwise_predict.baselines.encoder import TextEncoder, load_encoder
from dwise_predict.baselines.settings import MINILM_ENCODER, EncoderSettings
from dwise_predict.bundle import PredictorBundle
from dwise_predict.engines.torch_engine.checkpoint import locate
from dwise_predict.engines.torch_engine.tokenizer import ChatTokenizer
from dwise_predict.recipe import load_recipe
from dwise_predict.workload.builtin import builtin_workload
from dwise_predict.workload.schema import Request, newline_count, word_count

PROMPTS, WARM = 64, 8
METHODS = {"bert": "SSJF", "distilbert": "S³ and TRAIL", "opt": "LTR", "minilm": "all, offline"}
CONFIGS: dict[str, tuple[type[PreTrainedConfig], str]] = {
    "bert": (BertConfig, "first"),
    "distilbert": (DistilBertConfig, "first"),
    "opt": (OPTConfig, "last"),
}


def main() -> None:
    """Time ours, then every encoder, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--encoders", nargs="+", choices=sorted(METHODS), default=list(METHODS))
    flags = parser.parse_args()
    torch.set_num_threads(1)
    prompts = builtin_workload(0, PROMPTS, seed=0)
    ours = timed(admission(), prompts)
    show("ours (LightGBM on three sizes)", "", ours, ours)
    for name in flags.encoders:
        encoder = encoder_of(name)
        with torch.no_grad():
            times = timed(lambda request, own=encoder: own([request.text]), prompts)
        show(name, METHODS[name], times, ours)


def admission() -> Callable[[Request], object]:
    """From a request to its predicted rounds, chat template and tokenizer included."""
    bundle = PredictorBundle.from_pretrained("tiny")
    tokenizer = ChatTokenizer.load(locate(load_recipe("tiny").model).folder)

    def predict(request: Request) -> float:
        text = request.text
        return bundle.admission.rounds(
            words=word_count(text),
            newlines=newline_count(text),
            prompt_tokens=len(tokenizer.encode(request.messages)),
        )

    return predict


def encoder_of(name: str) -> TextEncoder:
    """MiniLM as packaged, or a random network of the published size behind its tokenizer."""
    if name == "minilm":
        return load_encoder(MINILM_ENCODER.model_copy(update={"max_tokens": 512}))
    kind, pooling = CONFIGS[name]
    tokenizer = load_encoder(MINILM_ENCODER).tokenizer
    settings = EncoderSettings.model_validate({"model": name, "pooling": pooling})
    return TextEncoder(settings, tokenizer, AutoModel.from_config(kind()))


def timed(predict: Callable[[Request], object], prompts: Sequence[Request]) -> list[float]:
    """Milliseconds of each prompt, the better of two passes, after some to warm up."""
    for request in prompts[:WARM]:
        predict(request)
    passes = []
    for _ in range(2):
        times = []
        for request in prompts:
            start = time.process_time()
            predict(request)
            times.append((time.process_time() - start) * 1e3)
        passes.append(times)
    return [min(pair) for pair in zip(*passes, strict=True)]


def show(name: str, method: str, times: list[float], ours: list[float]) -> None:
    """One line: median and mean milliseconds, and the median over ours."""
    median, mean = statistics.median(times), statistics.fmean(times)
    ratio = median / statistics.median(ours)
    used = f" ({method})" if method else ""
    print(
        f"{name + used:34s} median {median:8.3f} ms   mean {mean:8.3f} ms   {ratio:7.1f} times ours"
    )


if __name__ == "__main__":
    main()
