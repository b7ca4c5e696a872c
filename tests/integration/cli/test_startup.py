"""What may be loaded when nothing has been asked for yet."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "lightgbm", "sklearn", "pyarrow", "matplotlib", "numpy", "transformers"}


@pytest.mark.parametrize(
    "code",
    [
        "import dwise_predict",
        "from dwise_predict.cli.main import cli\ncli.main(['--help'], standalone_mode=False)",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    printing = f"{code}\nimport sys; print('MODULES', *sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", printing], check=True, capture_output=True, text=True
    ).stdout
    loaded = set(output.split("MODULES", 1)[1].split())
    assert "dwise_predict" in loaded
    assert not loaded & HEAVY
