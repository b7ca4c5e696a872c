"""An independent decoder for the engine's tests: no cache, no batch, no code of the engine.

Every denoising step recomputes the whole sequence in float64 from the checkpoint's files.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor


@dataclass
class Decoded:
    output: list[int]
    rounds: list[int]
    finish: str
    first_hidden: Tensor


class Reference:
    def __init__(self, folder: Path, algorithm: str, parameters: dict[str, float]) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {
            name: tensor.double()
            for name, tensor in load_file(folder / "model.safetensors").items()
        }
        self.algorithm = algorithm
        self.parameters = parameters
        eos = self.config["eos_token_id"]
        self.eos = set(eos if isinstance(eos, list) else [eos])

    def decode(self, prompt: list[int], budget: int) -> Decoded:
        size, mask = self.config["block_size"], self.config["mask_token_id"]
        ids, rounds, first_hidden = list(prompt), [], None
        while True:
            start = len(ids) // size * size
            given = len(ids) - start
            block = ids[start:] + [mask] * (size - given)
            count, edits, done = 0, 0, False
            while not done:
                hidden = self._hidden(ids[:start] + block)[start:]
                count += 1
                if first_hidden is None:
                    first_hidden = hidden.mean(0)
                logits = hidden @ self.weights["lm_head.weight"].T
                if self.algorithm == "LowConfidence":
                    block, done = self._low_confidence(block, given, logits)
                else:
                    block, edits, done = self._joint_threshold(block, given, logits, edits)
            rounds.append(count)
            ids = ids[:start] + block
            output = ids[len(prompt) :][:budget]
            for position, token in enumerate(output):
                if token in self.eos:
                    return Decoded(output[: position + 1], rounds, "eos", first_hidden)
            if len(output) == budget:
                return Decoded(output, rounds, "budget", first_hidden)

    def _low_confidence(
        self, block: list[int], given: int, logits: Tensor
    ) -> tuple[list[int], bool]:
        open_positions = self._open(block, given)
        if not open_positions:
            return block, True
        best, sure = self._best(logits)
        chosen = [i for i in open_positions if sure[i] > self.parameters["threshold"]]
        chosen = chosen or [max(open_positions, key=lambda i: sure[i])]
        return [best[i] if i in chosen else token for i, token in enumerate(block)], False

    def _joint_threshold(
        self, block: list[int], given: int, logits: Tensor, edits: int
    ) -> tuple[list[int], int, bool]:
        parameters = self.parameters
        for i in range(1, len(block)):
            logits[i, block[i - 1]] -= parameters["penalty_lambda"]
        best, sure = self._best(logits)
        open_positions = self._open(block, given)
        new = list(block)
        if open_positions:
            chosen = [i for i in open_positions if sure[i] > parameters["threshold"]]
            for i in chosen or [max(open_positions, key=lambda i: sure[i])]:
                new[i] = best[i]
        else:
            edits += 1
            if edits > parameters["max_post_edit_steps"]:
                return block, edits, True
        for i in range(given, len(block)):
            if i not in open_positions and sure[i] > parameters["edit_threshold"]:
                new[i] = best[i]
        return new, edits, new == block

    def _open(self, block: list[int], given: int) -> list[int]:
        mask = self.config["mask_token_id"]
        return [i for i in range(given, len(block)) if block[i] == mask]

    @staticmethod
    def _best(logits: Tensor) -> tuple[list[int], list[float]]:
        probabilities = torch.exp(logits - torch.logsumexp(logits, -1, keepdim=True))
        return logits.argmax(-1).tolist(), probabilities.max(-1).values.tolist()

    def _hidden(self, ids: list[int]) -> Tensor:
        """Final normed hidden states of a whole sequence under the block-causal mask."""
        config, weights = self.config, self.weights
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        dim, blocks = config["head_dim"], torch.arange(len(ids)) // config["block_size"]
        visible = blocks[None, :] <= blocks[:, None]
        x = weights["model.embed_tokens.weight"][torch.tensor(ids)]
        for index in range(config["num_hidden_layers"]):
            w = {
                name.removeprefix(f"model.layers.{index}."): tensor
                for name, tensor in weights.items()
                if name.startswith(f"model.layers.{index}.")
            }
            h = self._norm(x, w["input_layernorm.weight"])
            q = (h @ w["self_attn.q_proj.weight"].T).view(-1, heads, dim)
            k = (h @ w["self_attn.k_proj.weight"].T).view(-1, kv_heads, dim)
            v = (h @ w["self_attn.v_proj.weight"].T).view(-1, kv_heads, dim)
            q = self._rotate(self._norm(q, w["self_attn.q_norm.weight"]))
            k = self._rotate(self._norm(k, w["self_attn.k_norm.weight"]))
            mixed = []
            for head in range(heads):
                shared = head * kv_heads // heads
                scores = q[:, head] @ k[:, shared].T / math.sqrt(dim)
                scores = scores.masked_fill(~visible, -math.inf)
                mixed.append(torch.softmax(scores, -1) @ v[:, shared])
            x = x + torch.cat(mixed, -1) @ w["self_attn.o_proj.weight"].T
            h = self._norm(x, w["post_attention_layernorm.weight"])
            gate = h @ w["mlp.gate_proj.weight"].T
            up = h @ w["mlp.up_proj.weight"].T
            x = x + (gate * torch.sigmoid(gate) * up) @ w["mlp.down_proj.weight"].T
        return self._norm(x, weights["model.norm.weight"])

    def _norm(self, x: Tensor, gain: Tensor) -> Tensor:
        return (
            x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"]) * gain
        )

    def _rotate(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        rates = self.config["rope_theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(len(x), dtype=torch.float64)[:, None] * rates
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        left, right = x[..., :half], x[..., half:]
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
