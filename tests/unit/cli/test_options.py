import pytest

from dwise_predict.cli import options
from dwise_predict.errors import DwiseError


def test_flags_become_a_recipe_and_a_command_that_can_be_typed_again() -> None:
    run = options.resolve("tiny", "it's.jsonl", None, 3, ("engine.slots=4",))
    assert run.recipe.workload.path == "it's.jsonl"
    assert (run.recipe.seed, run.recipe.engine.slots) == (3, 4)
    assert str(run.out) == "runs/tiny"
    assert run.flags == (
        *("--model", "tiny", "--workload", "it's.jsonl", "--seed", "3"),
        *("--set", "engine.slots=4"),
    )


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options.require_train_extra()
    monkeypatch.setattr(options, "_TRAIN_EXTRA", ("jinja2", "not_installed_anywhere"))
    with pytest.raises(
        DwiseError, match=r"needs not_installed_anywhere; .* 'dwise-predict\[train]'"
    ):
        options.require_train_extra()
