"""Small random checkpoints of the architectures that SGLang decodes by diffusion.

A vocabulary of bytes with an end token (256) and a mask (257), whose row of the output layer is
zero so that it never wins.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

EOS, MASK, VOCABULARY = 256, 257, 258
HIDDEN, HEADS, KV_HEADS, LAYERS, EXPERTS = 64, 4, 2, 2, 4
HEAD = HIDDEN // HEADS

_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 2 * HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "eos_token_id": EOS,
    "mask_token_id": MASK,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": HIDDEN // 2,
    "norm_topk_prob": True,
    "dtype": "float32",
}
_SPECIFIC = {
    "SDARForCausalLM": {"model_type": "qwen3", "attention_bias": False},
    "SDARMoeForCausalLM": {
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "LLaDA2MoeModelLM": {
        "model_type": "llada2_moe",
        "auto_map": {"AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig"},
        "num_shared_experts": 1,
        "n_group": 2,
        "topk_group": 1,
        "score_function": "sigmoid",
        "moe_router_enable_expert_bias": True,
        "routed_scaling_factor": 2.5,
        "router_dtype": "fp32",
        "first_k_dense_replace": 1,
        "use_bias": False,
        "use_qkv_bias": False,
        "use_qk_norm": True,
        "partial_rotary_factor": 0.5,
        "embedding_dropout": 0.0,
        "norm_head": False,
    },
}


def write_checkpoint(folder, architecture, seed=0, certainty=6.0):
    """Write a checkpoint folder; ``certainty`` scales logits and so the tokens of a round."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": [architecture], **_COMMON, **_SPECIFIC[architecture]}
    (folder / "config.json").write_text(json.dumps(config))
    if "auto_map" in config:
        (folder / "configuration_llada2_moe.py").write_text(
            "from transformers import PretrainedConfig\n\n\n"
            "class LLaDA2MoeConfig(PretrainedConfig):\n"
            '    model_type = "llada2_moe"\n'
        )
    generator = torch.Generator().manual_seed(seed)
    shapes = _llada2() if architecture.startswith("LLaDA2") else _sdar("Moe" in architecture)
    weights = {name: _random(name, shape, generator) for name, shape in shapes.items()}
    weights["lm_head.weight"] *= certainty
    weights["lm_head.weight"][MASK] = 0
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(folder)
    return folder


def _random(name, shape, generator):
    if len(shape) == 1:
        return torch.zeros(shape) if "bias" in name else torch.ones(shape)
    # Attention must matter: its values and outputs are twice as large as the rest.
    gain = 2.0 if "_proj" in name and ("v_" in name or "o_" in name) else 1.0
    scale = 1.0 if "embed" in name else gain / shape[1] ** 0.5
    return torch.randn(shape, generator=generator) * scale


def _mlp(prefix, width):
    return {
        f"{prefix}gate_proj.weight": (width, HIDDEN),
        f"{prefix}up_proj.weight": (width, HIDDEN),
        f"{prefix}down_proj.weight": (HIDDEN, width),
    }


def _sdar(moe):
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        shapes |= {
            f"{layer}input_layernorm.weight": (HIDDEN,),
            f"{layer}post_attention_layernorm.weight": (HIDDEN,),
            f"{layer}self_attn.q_proj.weight": (HEADS * HEAD, HIDDEN),
            f"{layer}self_attn.k_proj.weight": (KV_HEADS * HEAD, HIDDEN),
            f"{layer}self_attn.v_proj.weight": (KV_HEADS * HEAD, HIDDEN),
            f"{layer}self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD),
            f"{layer}self_attn.q_norm.weight": (HEAD,),
            f"{layer}self_attn.k_norm.weight": (HEAD,),
        }
        if moe:
            shapes[f"{layer}mlp.gate.weight"] = (EXPERTS, HIDDEN)
            for expert in range(EXPERTS):
                shapes |= _mlp(f"{layer}mlp.experts.{expert}.", HIDDEN // 2)
        else:
            shapes |= _mlp(f"{layer}mlp.", 2 * HIDDEN)
    return shapes | {"lm_head.weight": (VOCABULARY, HIDDEN)}


def _llada2():
    shapes = {"model.word_embeddings.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        shapes |= {
            f"{layer}input_layernorm.weight": (HIDDEN,),
            f"{layer}post_attention_layernorm.weight": (HIDDEN,),
            f"{layer}attention.query_key_value.weight": ((HEADS + 2 * KV_HEADS) * HEAD, HIDDEN),
            f"{layer}attention.dense.weight": (HIDDEN, HEADS * HEAD),
            f"{layer}attention.query_layernorm.weight": (HEAD,),
            f"{layer}attention.key_layernorm.weight": (HEAD,),
        }
        if i == 0:
            shapes |= _mlp(f"{layer}mlp.", 2 * HIDDEN)
            continue
        shapes[f"{layer}mlp.gate.weight"] = (EXPERTS, HIDDEN)
        shapes[f"{layer}mlp.gate.expert_bias"] = (EXPERTS,)
        for part in [*(f"experts.{expert}" for expert in range(EXPERTS)), "shared_experts"]:
            shapes |= _mlp(f"{layer}mlp.{part}.", HIDDEN // 2)
    return shapes | {"lm_head.weight": (VOCABULARY, HIDDEN)}


def _tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|mask|>"]
    vocabulary = {token: i for i, token in enumerate([*alphabet, *special])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": special[0],
                "mask_token": special[1],
            }
        )
    )
