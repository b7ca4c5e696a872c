"""DiffusionGemma on a CPU (SGLang 0.5.23): a small random checkpoint and what a CPU needs."""

import torch

from tests.e2e.sglang.checkpoints import EOS, VOCABULARY, _tokenizer

CANVAS = 16


def write_gemma(folder):
    """Write a random checkpoint with canvases of 16 tokens."""
    from transformers import (
        DiffusionGemmaConfig,
        DiffusionGemmaForBlockDiffusion,
        Gemma4VisionConfig,
    )

    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "global_head_dim": 16,
        "num_global_key_value_heads": 2,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 4096,
        "sliding_window": 4096,
        "layer_types": ["sliding_attention", "full_attention"],
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 32,
        "tie_word_embeddings": True,
        "eos_token_id": EOS,
        "pad_token_id": EOS,
        "bos_token_id": None,
    }
    vision = Gemma4VisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
    )
    config = DiffusionGemmaConfig(
        text_config=text,
        vision_config=vision,
        canvas_length=CANVAS,
        image_token_id=1,
        boi_token_id=2,
        eoi_token_id=3,
        tie_word_embeddings=True,
        architectures=["DiffusionGemmaForBlockDiffusion"],
        eos_token_id=EOS,
    )
    torch.manual_seed(0)
    model = DiffusionGemmaForBlockDiffusion(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    _tokenizer(folder)
    return folder


def serve_on_cpu():
    """Undo what ties DiffusionGemma to a GPU; rounds and phases stay SGLang's own."""
    from sglang.srt.arg_groups.overrides import declare_resolution
    from sglang.srt.dllm.algorithm import algo_name_to_cls
    from sglang.srt.layers.radix_attention import AttentionType
    from sglang.srt.models import gemma4_diffusion

    renoise = algo_name_to_cls["Gemma4Renoise"]
    renoise.required_attention_backend = None

    def configure(cls, server_args):
        declare_resolution(
            server_args,
            cls.__name__,
            disable_radix_cache=True,
            chunked_prefill_size=-1,
            # torch_native does not translate indices between the pools of hybrid attention.
            disable_hybrid_swa_memory=True,
        )

    renoise.configure_server_args = classmethod(configure)

    def after(cls, method, then):
        original = getattr(cls, method)

        def wrapped(self, *args, **kwargs):
            original(self, *args, **kwargs)
            then(self)

        setattr(cls, method, wrapped)

    def bidirectional(attention):
        # torch_native attends both ways for encoders only.
        attention.attn_bidir.attn_type = AttentionType.ENCODER_ONLY

    def scaled(router):
        # The native norm ignores the folded scale otherwise.
        router.norm.with_scale = True

    after(gemma4_diffusion.DiffusionGemmaAttention, "__init__", bidirectional)
    after(gemma4_diffusion.Gemma4Router, "fuse_scale", scaled)
    moe = gemma4_diffusion.Gemma4MoE.__init__

    def moe_init(self, *args, **kwargs):
        moe(self, *args, **{**kwargs, "activation": "gelu"})

    gemma4_diffusion.Gemma4MoE.__init__ = moe_init
