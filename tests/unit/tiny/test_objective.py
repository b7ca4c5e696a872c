"""The training layout equals what decoding sees, position by position."""

from __future__ import annotations

import numpy as np
import torch

from dwise_predict.engines.torch_engine.model import SdarConfig, SdarModel
from dwise_predict.tiny.objective import (
    PADDING_WEIGHT,
    Tokens,
    attention_mask,
    lay_out,
    padded_length,
    weighted_loss,
)

BLOCK, MASK, EOS = 4, 1, 0
CONFIG = SdarConfig(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=128,
)  # fmt: skip


def tokens(prompt: int, answer: int, seed: int = 0) -> Tokens:
    rng = np.random.default_rng(seed)
    body = rng.integers(5, 64, prompt + answer).astype(np.int16)
    body[-1] = EOS
    return Tokens(body[:prompt], body[prompt:])


def test_padded_length_counts_whole_blocks_from_the_partial_prompt_block() -> None:
    # 6 prompt tokens fill block 0 and half of block 1; 5 answer tokens end in block 2.
    assert padded_length(tokens(6, 5), BLOCK) == (12, 8)
    assert padded_length(tokens(8, 4), BLOCK) == (12, 4)


def test_attention_mask_by_brute_force() -> None:
    block = torch.tensor([[0, 0, 1, 1, 1, 2, 1, 2, -1]])
    copy = torch.tensor([[0, 0, 0, 0, 1, 1, 2, 2, 0]])
    got = attention_mask(block, copy)[0, 0]
    for q in range(9):
        for k in range(9):
            bq, bk, cq, ck = block[0, q], block[0, k], copy[0, q], copy[0, k]
            if bq < 0 or bk < 0:
                expected = q == k
            elif cq == 0:
                expected = ck == 0 and bk <= bq
            else:
                expected = (ck == 0 and bk < bq) or (ck == cq and bk == bq)
            assert bool(got[q, k]) == bool(expected), (q, k)


def test_every_answer_token_is_a_target_and_no_prompt_token_is() -> None:
    batch = [tokens(6, 5, 1), tokens(3, 9, 2)]
    layout = lay_out(batch, BLOCK, MASK, EOS, np.random.default_rng(0))
    clean = max(padded_length(t, BLOCK)[0] for t in batch)
    assert bool((layout.input_ids[layout.masked] == MASK).all())
    assert not bool(layout.masked[:, :clean].any())
    for row, example in enumerate(batch):
        scored = set(layout.positions[row][layout.masked[row]].tolist())
        start, end = len(example.prompt), padded_length(example, BLOCK)[0]
        assert scored == set(range(start, end))


def test_padding_weighs_less() -> None:
    example = tokens(4, 1)  # the answer is one token, three positions are padding
    layout = lay_out([example], BLOCK, MASK, EOS, np.random.default_rng(3))
    positions = layout.positions[layout.masked]
    by_position = {int(p): float(w) for p, w in zip(positions, layout.weights, strict=True)}
    same_copy = layout.weights[:1]
    assert min(by_position.values()) < float(same_copy.max())
    assert PADDING_WEIGHT < 1


def test_noisy_copy_gives_the_logits_of_decoding() -> None:
    torch.manual_seed(0)
    model = SdarModel(CONFIG).eval()
    example = tokens(6, 9)
    layout = lay_out([example], BLOCK, MASK, EOS, np.random.default_rng(5))
    with torch.no_grad():
        hidden, _ = model(layout.input_ids, layout.positions, layout.attention)
        clean, noisy = padded_length(example, BLOCK)
        for copy in range(2):
            for start in range(clean - noisy, clean, BLOCK):
                at = clean + copy * noisy + start - (clean - noisy)
                # Decoding: earlier blocks clean and block-causal, then this block as it is now.
                ids = torch.cat([layout.input_ids[0, :start], layout.input_ids[0, at : at + BLOCK]])
                index = torch.arange(start + BLOCK)
                causal = index[:, None] // BLOCK >= index[None] // BLOCK
                alone, _ = model(ids[None], index[None], causal[None, None])
                torch.testing.assert_close(
                    alone[0, start:], hidden[0, at : at + BLOCK], rtol=1e-4, atol=1e-5
                )


def test_loss_is_the_weighted_mean_of_cross_entropies() -> None:
    logits, targets = torch.randn(5, 7), torch.tensor([0, 1, 2, 3, 4])
    weights = torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0])
    losses = [-torch.log_softmax(logits[i], 0)[targets[i]] for i in range(5)]
    expected = sum(w * x for w, x in zip(weights, losses, strict=True)) / weights.sum()
    torch.testing.assert_close(weighted_loss(logits, targets, weights), expected)
