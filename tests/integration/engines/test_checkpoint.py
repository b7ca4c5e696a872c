from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dwise_predict.engines.torch_engine.checkpoint import Checkpoint, load_checkpoint, locate
from dwise_predict.errors import EngineError
from dwise_predict.recipe import ModelSettings
from dwise_predict.workload.schema import Message
from tests.checkpoints import write_checkpoint

CHAT = [Message(role="system", content="Bé brief."), Message(role="user", content="Hi\n{{ 1 }}")]


def load(folder: Path, block_size: int = 4, architecture: str = "SDARForCausalLM") -> Checkpoint:
    return load_checkpoint(folder, architecture, block_size, torch.float32, torch.device("cpu"))


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        if value is ...:
            del config[key]
        else:
            config[key] = value
    path.write_text(json.dumps(config))


def test_loads_weights_and_tokens(tmp_path: Path) -> None:
    checkpoint = load(write_checkpoint(tmp_path / "m", eos_token_id=[257, 3]))
    assert (checkpoint.mask_id, checkpoint.eos_ids) == (256, {257, 3})
    saved = load_file(tmp_path / "m" / "model.safetensors")
    state = checkpoint.model.state_dict()
    assert state.keys() == saved.keys()
    assert all(torch.equal(state[name], saved[name]) for name in saved)


def test_shards_are_joined(tmp_path: Path) -> None:
    whole = load(write_checkpoint(tmp_path / "whole")).model.state_dict()
    parts = load(write_checkpoint(tmp_path / "parts", shards=3)).model.state_dict()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_tied_output_layer_is_the_embedding(tmp_path: Path) -> None:
    model = load(write_checkpoint(tmp_path / "m", tie_word_embeddings=True)).model
    assert model.lm_head.weight is model.model.embed_tokens.weight or torch.equal(
        model.lm_head.weight, model.model.embed_tokens.weight
    )


def test_weights_are_converted(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    model = load_checkpoint(folder, "SDARForCausalLM", 4, torch.bfloat16, torch.device("cpu")).model
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_rope_base_of_transformers_5(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    edit_config(folder, rope_theta=..., rope_parameters={"rope_theta": 5e5, "rope_type": "default"})
    assert load(folder).model.config.rope_theta == 5e5


def test_chat_template_gives_what_transformers_gives(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = write_checkpoint(tmp_path / "m")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    expected = theirs.apply_chat_template(
        [m.model_dump() for m in CHAT],
        chat_template=template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
    )
    tokenizer = load(folder).tokenizer
    assert tokenizer.encode(CHAT) == expected
    assert tokenizer.decode(tokenizer.encode(CHAT)) == "Bé brief.Hi\n{{ 1 }}"


def test_template_cannot_leave_its_sandbox(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    attack = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": attack}))
    with pytest.raises(EngineError, match="chat template refuses"):
        load(folder).tokenizer.encode(CHAT)


def test_template_can_refuse_a_prompt(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    template = "{{ raise_exception('no system turns') }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    with pytest.raises(EngineError, match="no system turns"):
        load(folder).tokenizer.encode(CHAT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "begins with LlamaForCausalLM"),
        ({"architectures": ...}, "begins with \\(none\\)"),
        ({"hidden_size": ...}, "'hidden_size' is missing"),
        ({"mask_token_id": ...}, "mask_token_id is None"),
        ({"mask_token_id": 9999}, "beyond vocab_size"),
        ({"block_size": ...}, "block_size is None"),
        ({"block_size": 8}, "decoding.block_size is 4, but .*config.json says 8"),
        ({"eos_token_id": ...}, "eos_token_id is missing"),
        ({"eos_token_id": "<|eos|>"}, "eos_token_id is '<|eos|>', expected a token id"),
        ({"eos_token_id": ["x"]}, "eos_token_id is \\['x'\\]"),
        ({"eos_token_id": [257, True]}, "eos_token_id is"),
        ({"eos_token_id": -1}, "eos_token_id is -1"),
        ({"eos_token_id": [257, 261]}, "from 0 to 260"),
        ({"eos_token_id": []}, "eos_token_id is missing"),
        ({"architectures": 3}, "architectures is 3, expected a list"),
        ({"architectures": {"a": 1}}, "architectures is {'a': 1}"),
        ({"rope_parameters": [1]}, "rope_parameters is \\[1\\], expected an object"),
        ({"intermediate_size": 63}, "has shape"),
        ({"num_hidden_layers": 3}, "lack model.layers.2"),
        ({"num_hidden_layers": 1}, "does not have: model.layers.1"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling is"),
        ({"num_key_value_heads": 3}, "num_attention_heads must be a multiple"),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"rms_norm_eps": 0}, "rms_norm_eps"),
    ],
)
def test_names_what_is_wrong_in_the_configuration(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = write_checkpoint(tmp_path / "m")
    edit_config(folder, **changes)
    with pytest.raises(EngineError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, "config.json is missing"),
        ("config.json", b"{", "cannot read .*config.json"),
        ("config.json", b"[]", "no JSON object"),
        ("model.safetensors", None, "neither model.safetensors nor"),
        ("model.safetensors", b"junk" * 9, "cannot read weights"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("tokenizer.json", b"{}", "tokenizer.json is no tokenizer"),
        ("tokenizer_config.json", b"{}", "no chat_template"),
        ("config.json", b"[" * 100_000, "cannot read .*config.json"),
        ("tokenizer_config.json", b'{"chat_template": "{% if %}"}', "syntax error"),
        ("tokenizer_config.json", b'{"chat_template": ["x"]}', "no chat_template"),
        ("tokenizer_config.json", b'{"chat_template": [{"name": "default"}]}', "no chat_template"),
    ],
)
def test_names_a_missing_or_damaged_file(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    folder = write_checkpoint(tmp_path / "m")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(EngineError, match=message):
        load(folder)


def test_eos_of_the_generation_configuration_counts_and_is_checked(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    (folder / "generation_config.json").write_text('{"eos_token_id": [3]}')
    assert load(folder).eos_ids == {257, 3}
    (folder / "generation_config.json").write_text('{"eos_token_id": 99999}')
    with pytest.raises(EngineError, match=r"generation_config\.json: eos_token_id is 99999"):
        load(folder)


def test_the_default_of_several_templates_is_used(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    path = folder / "tokenizer_config.json"
    expected = load(folder).tokenizer.encode(CHAT)
    template = json.loads(path.read_text())["chat_template"]
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": template}]
    path.write_text(json.dumps({"chat_template": named}))
    assert load(folder).tokenizer.encode(CHAT) == expected


@pytest.mark.parametrize(
    "template", ["{{ 1 + 'a' }}", "{{ 1 // 0 }}", "{{ range(10 ** 9) }}", "{{ 2.0 ** 9999 }}"]
)
def test_a_template_that_fails_is_no_traceback(tmp_path: Path, template: str) -> None:
    folder = write_checkpoint(tmp_path / "m")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    with pytest.raises(EngineError, match="chat template"):
        load(folder).tokenizer.encode(CHAT)


@pytest.mark.parametrize(
    "weight_map", [[1], None, {"model.norm.weight": 1}, {"model.norm.weight": "../m.safetensors"}]
)
def test_an_index_names_files_of_its_own_folder_only(tmp_path: Path, weight_map: Any) -> None:
    folder = write_checkpoint(tmp_path / "m")
    (folder / "model.safetensors").rename(tmp_path / "m.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(EngineError, match=r"index\.json: weight_map is .* same folder"):
        load(folder)


def test_names_a_missing_shard(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m", shards=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(EngineError, match="model-00002-of-00002"):
        load(folder)


def test_recipe_and_checkpoint_must_agree_on_the_architecture(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"model\.architecture is LLaDA2MoeModelLM"):
        load(write_checkpoint(tmp_path / "m"), architecture="LLaDA2MoeModelLM")


def test_revision_of_a_folder_follows_its_content_and_hides_its_path(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m")
    settings = ModelSettings(repo=str(folder), architecture="SDARForCausalLM")
    first = locate(settings)
    assert first.model == "local:m"
    assert locate(settings) == first
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] += 1
    save_file(weights, folder / "model.safetensors")
    second = locate(settings)
    assert second.revision != first.revision
    pinned = settings.model_copy(update={"revision": first.revision})
    with pytest.raises(EngineError, match=r"model\.revision is"):
        locate(pinned)


def test_an_unknown_home_folder_is_refused() -> None:
    settings = ModelSettings(repo="~no-such-user/x", architecture="SDARForCausalLM")
    with pytest.raises(EngineError, match=r"model\.repo is '~no-such-user/x'.*home folder"):
        locate(settings)


def test_an_unknown_repository_is_refused(tmp_path: Path) -> None:
    settings = ModelSettings(repo=str(tmp_path / "absent"), architecture="SDARForCausalLM")
    with pytest.raises(EngineError, match="no checkpoint folder and cannot be fetched"):
        locate(settings)
