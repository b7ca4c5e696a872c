"""A dense SDAR/Qwen3-style transformer in plain PyTorch, named like its Hugging Face checkpoint.

The same module trains the embedded model (``dwise_predict.tiny``) and serves any
``SDARForCausalLM`` checkpoint in the built-in engine. Reference: SDAR (JetAI, 2025) keeps the
Qwen3 architecture: pre-norm, grouped-query attention with QK-norm, rotary positions, SwiGLU.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

KeyValue = tuple[Tensor, Tensor]


class SdarConfig(BaseModel):
    """The keys of a checkpoint's ``config.json`` that shape the network; others are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    vocab_size: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    num_key_value_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    rms_norm_eps: float = Field(default=1e-6, gt=0, allow_inf_nan=False)
    rope_theta: float = Field(default=10000.0, gt=0, allow_inf_nan=False)
    max_position_embeddings: int = Field(gt=0)
    tie_word_embeddings: bool = False

    @model_validator(mode="after")
    def _fits(self) -> SdarConfig:
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError("num_attention_heads must be a multiple of num_key_value_heads")
        if self.head_dim % 2:
            raise ValueError("head_dim must be even: rotary positions turn pairs of numbers")
        return self


class RMSNorm(nn.Module):
    """Root-mean-square normalisation over the last axis with a learned gain."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalised ``x``, same shape."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rotary_tables(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines for ``positions`` [N, T], each float32 [N, 1, T, head_dim / 2]."""
    half = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None].float() / theta ** (half / head_dim)
    return angles.cos()[:, None], angles.sin()[:, None]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, half-split layout (Qwen3); ``x`` is [N, heads, T, head_dim]."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Masked attention of ``q`` [N, heads, T, head_dim] over ``k`` and ``v`` [N, heads, S, ...].

    ``mask`` is bool and broadcastable to [N, heads, T, S]. Written out because the fused CPU
    kernel takes half of a training step at these lengths, two plain products a quarter.
    """
    scores = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1).to(v.dtype) @ v


class Attention(nn.Module):
    """Grouped-query attention with QK-norm over cached and current positions."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.head_dim = config.head_dim
        size = config.hidden_size
        self.q_proj = nn.Linear(size, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(size, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(size, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [N, heads, T, head_dim], rotated keys and values [N, kv_heads, ...]."""
        n, t, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(n, t, self.heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(n, t, self.kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(n, t, self.kv_heads, self.head_dim).transpose(1, 2)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        """Attend to ``past`` and ``x`` [N, T, hidden]; returns the output and x's keys, values."""
        n, t, _ = x.shape
        q, k, v = self.project(x, cos, sin)
        present = (k, v)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        repeats = self.heads // self.kv_heads
        if repeats > 1:
            k, v = k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
        out = attend(q, k.to(q.dtype), v.to(q.dtype), mask)
        return self.o_proj(out.transpose(1, 2).reshape(n, t, -1)), present


class MLP(nn.Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Feed-forward output, same shape as ``x``."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        """Layer output, same shape as ``x`` [N, T, hidden], and the keys and values of ``x``."""
        attended, present = self.self_attn(self.input_layernorm(x), cos, sin, mask, past)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), present


class Decoder(nn.Module):
    """Embedding, layers and final norm (the ``model.`` part of a checkpoint)."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class SdarModel(nn.Module):
    """Block-diffusion language model with the parameter names of ``SDARForCausalLM``."""

    def __init__(self, config: SdarConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        mask: Tensor | None = None,
        past: Sequence[KeyValue] | None = None,
    ) -> tuple[Tensor, list[KeyValue]]:
        """Run the network over one span per row.

        Args:
            input_ids: int64 [N, T].
            positions: int64 [N, T], absolute positions of the tokens.
            mask: bool, broadcastable to [N, heads, T, S + T]; None attends everywhere.
            past: per layer, keys and values of S earlier positions, [N, kv_heads, S, head_dim].

        Returns:
            The final normed hidden states [N, T, hidden] and, per layer, the keys (rotated) and
            values of the T current positions, [N, kv_heads, T, head_dim].
        """
        cos, sin = rotary_tables(positions, self.config.head_dim, self.config.rope_theta)
        x = self.model.embed_tokens(input_ids)
        presents: list[KeyValue] = []
        for index, layer in enumerate(self.model.layers):
            x, present = layer(x, cos, sin, mask, None if past is None else past[index])
            presents.append(present)
        return self.model.norm(x), presents

    def logits(self, hidden: Tensor) -> Tensor:
        """Vocabulary logits [..., vocab] of normed hidden states [..., hidden]."""
        out: Tensor = self.lm_head(hidden)
        return out
