"""Train the embedded model: ``python -m dwise_predict.tiny.train --out DIR``.

A run is a number of steps at a constant learning rate followed by a linear decay to zero
(warm-up, stable, decay), so that a longer run can continue from a stable checkpoint of a shorter
one. State is written atomically every few minutes; the same command continues where it was.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from dwise_predict.engines.torch_engine.allocator import keep_freed_memory
from dwise_predict.engines.torch_engine.model import SdarConfig, SdarModel
from dwise_predict.tiny.corpus import Example, build_corpus, corpus_digest
from dwise_predict.tiny.export import export_checkpoint
from dwise_predict.tiny.objective import Tokens, lay_out, padded_length, weighted_loss
from dwise_predict.tiny.tokenizer import ASSISTANT, EOS, MASK, USER, train_tokenizer

BLOCK_SIZE = 16
VOCABULARY = 2048
CONTEXT = 2048
ARCHITECTURE = SdarConfig(
    vocab_size=VOCABULARY,
    hidden_size=256,
    intermediate_size=640,
    num_hidden_layers=5,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=CONTEXT,
)
# Longer real examples are rare and expensive; generated ones never reach these limits.
MAX_PROMPT, MAX_ANSWER = 1500, 272
_WARM_UP_STEPS = 50
_EMBEDDING_SCALE = 0.7
_QK_GAIN = 1.25
_HELD_OUT = 512
_POOL = 4096
_TOKENIZER_EXAMPLES = 40_000


@dataclass(frozen=True)
class SpecialIds:
    """Token ids that training treats apart."""

    mask: int
    eos: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> SpecialIds:
        """Look them up by name."""
        ids = tokenizer.get_vocab(with_added_tokens=True)
        return cls(mask=ids[MASK], eos=ids[EOS])


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that decides the weights, apart from the corpus' sources on disk."""

    examples: int
    steps: int
    decay_steps: int
    batch_positions: int
    matrix_lr: float
    vector_lr: float
    seed: int

    def rate(self, step: int) -> float:
        """Learning-rate factor of a step: warm-up, constant, linear decay to zero."""
        return min(1.0, (step + 1) / _WARM_UP_STEPS, (self.steps - step) / max(self.decay_steps, 1))


def tokenize(tokenizer: Tokenizer, examples: list[Example]) -> list[Tokens]:
    """Apply the chat template and encode; examples over the length limits are dropped."""
    prompts = tokenizer.encode_batch_fast([f"{USER}{e.prompt}{ASSISTANT}" for e in examples])
    answers = tokenizer.encode_batch_fast([f"{e.answer}{EOS}" for e in examples])
    return [
        Tokens(np.array(p.ids, dtype=np.int16), np.array(a.ids, dtype=np.int16))
        for p, a in zip(prompts, answers, strict=True)
        if len(p.ids) <= MAX_PROMPT and len(a.ids) <= MAX_ANSWER
    ]


def initialise(model: SdarModel, mask_id: int, seed: int) -> None:
    """Initial weights that learn fast at this size.

    Embeddings share one random direction as large as what tells them apart: projections have no
    bias, so without it no first-layer head can attend by position alone, and copying, which is
    built on attending to the token before, is learned many times later. Output projections and
    the mask's row of the head start at zero.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "q_norm" in name or "k_norm" in name:
            nn.init.constant_(parameter, _QK_GAIN)
        elif "o_proj" in name or "down_proj" in name:
            nn.init.zeros_(parameter)
        elif "embed_tokens" in name:
            shared = torch.randn(parameter.shape[1], generator=generator)
            own = torch.randn(parameter.shape, generator=generator)
            with torch.no_grad():
                parameter.copy_(_EMBEDDING_SCALE * (own + shared))
        elif parameter.ndim == 2:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5, generator=generator)
    with torch.no_grad():
        model.lm_head.weight[mask_id] = 0


def optimizers(model: SdarModel, plan: TrainingPlan) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices, AdamW for embeddings, head and gains."""
    matrices = [
        p
        for n, p in model.named_parameters()
        if p.ndim == 2 and "embed" not in n and "head" not in n
    ]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [
        torch.optim.Muon(matrices, lr=plan.matrix_lr, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=plan.vector_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def batch_at(data: list[Tokens], plan: TrainingPlan, step: int) -> list[Tokens]:
    """The batch of a step: a pure function of the seed, so that a resumed run sees the same data.

    A pool of examples is sorted by length before it is cut, to keep padding small.
    """
    rng = np.random.default_rng((plan.seed, 1, step))
    pool = rng.integers(0, len(data), _POOL)
    sizes = np.array([_layout_length(data[i]) for i in pool])
    order = np.argsort(sizes, kind="stable")
    # A start drawn in proportion to length makes every example equally likely to be chosen.
    shares = sizes[order] / sizes.sum()
    start = int(rng.choice(len(order), p=shares))
    batch: list[Tokens] = []
    clean = noisy = 0
    for i in order[start:]:
        c, n = padded_length(data[pool[i]], BLOCK_SIZE)
        clean, noisy = max(clean, c), max(noisy, n)
        if batch and (len(batch) + 1) * (clean + 2 * noisy) > plan.batch_positions:
            break
        batch.append(data[pool[i]])
    return batch


def _layout_length(tokens: Tokens) -> int:
    clean, noisy = padded_length(tokens, BLOCK_SIZE)
    return clean + 2 * noisy


def batch_loss(
    model: SdarModel,
    batch: list[Tokens],
    special: SpecialIds,
    rng: np.random.Generator,
) -> Tensor:
    """Loss of one batch under bf16 autocast."""
    layout = lay_out(batch, BLOCK_SIZE, special.mask, special.eos, rng)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden, _ = model(layout.input_ids, layout.positions, layout.attention)
        logits = model.logits(hidden[layout.masked])
    return weighted_loss(logits, layout.targets, layout.weights)


@torch.no_grad()
def held_out_loss(model: SdarModel, data: list[Tokens], special: SpecialIds) -> float:
    """Mean loss over held-out examples with fixed noise."""
    ordered = sorted(data, key=_layout_length)
    rng = np.random.default_rng(0)
    losses = [
        float(batch_loss(model, ordered[i : i + 32], special, rng))
        for i in range(0, len(ordered), 32)
    ]
    return float(np.mean(losses))


class Run:
    """One training run in a working folder: ``state.pt``, ``log.jsonl`` and ``checkpoint/``."""

    def __init__(self, out: Path, plan: TrainingPlan, tokenizer: Tokenizer) -> None:
        self.out, self.plan, self.tokenizer = out, plan, tokenizer
        self.special = SpecialIds.of(tokenizer)
        self.model = SdarModel(ARCHITECTURE)
        initialise(self.model, self.special.mask, plan.seed)
        self.optimizers = optimizers(self.model, plan)
        self.step = 0

    def restore(self) -> bool:
        """Continue from ``state.pt``; False when there is none."""
        path = self.out / "state.pt"
        if not path.exists():
            return False
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step = state["step"]
        return True

    def start_from(self, checkpoint: Path) -> None:
        """Take the weights of a checkpoint folder, nothing else."""
        self.model.load_state_dict(load_file(checkpoint / "model.safetensors"))

    def advance(self, training: list[Tokens]) -> float:
        """Take one step and return its loss."""
        plan = self.plan
        for optimizer, rate in zip(self.optimizers, (plan.matrix_lr, plan.vector_lr), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * plan.rate(self.step)
        rng = np.random.default_rng((plan.seed, 2, self.step))
        loss = batch_loss(self.model, batch_at(training, plan, self.step), self.special, rng)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            # A mask token must never be predicted, or its block would never resolve.
            self.model.lm_head.weight[self.special.mask] = 0
        self.step += 1
        return loss.item()

    def save(self, row: dict[str, object]) -> None:
        """Append to the log, then write the state and a servable checkpoint."""
        with (self.out / "log.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        temporary = self.out / "state.tmp"
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        state = {"model": self.model.state_dict(), "optimizers": optimizers, "step": self.step}
        torch.save(state, temporary)
        os.replace(temporary, self.out / "state.pt")
        export_checkpoint(
            self.model,
            self.tokenizer,
            self.out / "checkpoint",
            BLOCK_SIZE,
            self.special.mask,
            self.special.eos,
        )


def load_or_train_tokenizer(
    out: Path, init_from: Path | None, examples: list[Example]
) -> Tokenizer:
    """The run's own tokenizer, that of the checkpoint it starts from, or a new one."""
    path = out / "tokenizer.json"
    if not path.exists():
        if init_from is not None:
            shutil.copy(init_from / "tokenizer.json", path)
        else:
            texts = (f"{e.prompt}\n{e.answer}" for e in examples[:_TOKENIZER_EXAMPLES])
            train_tokenizer(texts, VOCABULARY).save(str(path))
    return Tokenizer.from_file(str(path))


_COUNT = click.IntRange(min=1)
_RATE = click.FloatRange(min=0, min_open=True)


@click.command(help=__doc__)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Working folder.")
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Public data sets.")
@click.option(
    "--init-from",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Checkpoint folder whose weights and tokenizer to start from, e.g. the shipped one.",
)
@click.option(
    "--examples", type=_COUNT, default=300_000, show_default=True, help="Size of the corpus."
)
@click.option(
    "--steps", type=_COUNT, default=5300, show_default=True, help="Steps of the whole run."
)
@click.option(
    "--decay-steps",
    type=click.IntRange(0),
    default=900,
    show_default=True,
    help="Last steps that decay.",
)
@click.option(
    "--batch-positions", type=_COUNT, default=8192, show_default=True, help="Positions a step."
)
@click.option(
    "--matrix-lr", type=_RATE, default=0.02, show_default=True, help="Muon, hidden matrices."
)
@click.option(
    "--vector-lr", type=_RATE, default=3e-3, show_default=True, help="AdamW, everything else."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option(
    "--save-every", type=_COUNT, default=100, show_default=True, help="Steps between checkpoints."
)
@click.option(
    "--compile/--no-compile",
    "compiled",
    default=True,
    show_default=True,
    help="Compile the layers: a fifth faster, needs a C++ compiler.",
)
def main(
    out: Path,
    data: Path | None,
    init_from: Path | None,
    save_every: int,
    compiled: bool,
    **options: Any,
) -> None:
    """Train, or continue, one run."""
    plan = TrainingPlan(**options)
    keep_freed_memory()
    out.mkdir(parents=True, exist_ok=True)
    examples = build_corpus(plan.examples, plan.seed, data)
    digest = corpus_digest(examples)
    run = Run(out, plan, load_or_train_tokenizer(out, init_from, examples))
    tokens = tokenize(run.tokenizer, examples)
    split = min(_HELD_OUT, len(tokens) // 10)
    held_out, training = tokens[:split], tokens[split:]
    click.echo(f"{len(training)} training examples, corpus {digest[:12]}")
    if run.restore():
        click.echo(f"continuing at step {run.step}")
    elif init_from is not None:
        run.start_from(init_from)
    if compiled:
        for layer in run.model.model.layers:
            layer.compile(dynamic=True)

    first, started, losses = run.step, time.monotonic(), []
    while run.step < plan.steps:
        losses.append(run.advance(training))
        seconds = time.monotonic() - started
        if run.step % 20 == 0:
            pace = seconds / (run.step - first)
            click.echo(
                f"step {run.step}/{plan.steps} loss {np.mean(losses[-20:]):.4f} "
                f"{pace:.2f} s/step, {(plan.steps - run.step) * pace / 60:.0f} min left"
            )
        if run.step % save_every == 0 or run.step == plan.steps:
            row: dict[str, object] = {
                "step": run.step,
                "loss": float(np.mean(losses[-save_every:])),
                "held_out": held_out_loss(run.model, held_out, run.special),
                "seconds": seconds,
                "corpus": digest,
                **asdict(plan),
            }
            run.save(row)
            click.echo(f"step {run.step}: held-out loss {row['held_out']:.4f}, saved")


if __name__ == "__main__":
    main()
