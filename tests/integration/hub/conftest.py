from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from dwise_predict.recipe import PredictorSettings, RefinerSettings
from dwise_predict.training import train_bundle
from tests.hub import Hub, User, serve_hub
from tests.synthetic import synthetic_examples, write_profile

SETTINGS = PredictorSettings(refiner=RefinerSettings(width=16, epochs=5, members=2))


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    return write_profile(
        folder / "profile", synthetic_examples(80, 1, 8), synthetic_examples(40, 2, 8)
    )


@pytest.fixture(scope="session")
def made(profile: Path) -> Path:
    """A bundle of a made-up model."""
    folder = profile.parent / "bundle"
    train_bundle(profile, folder, SETTINGS, seed=0, command="dwise train --model x")
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """An empty hub with three users; ``ann``, who may write in ``acme``, is logged in."""
    with serve_hub() as served:
        served.users = {
            "ann-token": User("ann", ("ann", "acme")),
            "bob-token": User("bob", ("bob",)),
        }
        # What HF_ENDPOINT, HF_HUB_CACHE and HF_HUB_DISABLE_XET set in a new process.
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)
        monkeypatch.setenv("HF_TOKEN", "ann-token")
        yield served
