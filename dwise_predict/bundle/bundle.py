"""A bundle in memory: both predictors with their configuration, metrics and provenance."""

from __future__ import annotations

import itertools
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from dwise_predict.bundle.card import model_card
from dwise_predict.bundle.metrics import Metrics
from dwise_predict.bundle.privacy import check_private
from dwise_predict.bundle.schema import (
    ADMISSION_FILE,
    CONFIG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    README_FILE,
    REFINER_FILE,
    AdmissionShape,
    BundleConfig,
    CalibrationKnots,
    Normalisation,
    Provenance,
    RefinerShape,
)
from dwise_predict.bundle.store import entry, read_bundle_folder, write_bundle_folder
from dwise_predict.bundle.tensors import read_tensors, tensor_bytes
from dwise_predict.errors import BundleError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.predictors.features import FEATURES
from dwise_predict.predictors.trees import TreeTextError, check_tree_text
from dwise_predict.recipe import PredictorSettings

if TYPE_CHECKING:
    from dwise_predict.predictors.admission import AdmissionPredictor
    from dwise_predict.predictors.refiner import Refiner

Model = TypeVar("Model", bound=BaseModel)


class PredictorBundle:
    """Both predictors of one model and decoding setting.

    The predictors are built when first used: a scheduler that only calls :attr:`admission` never
    imports torch. Everything was checked before, when the bundle was loaded.

    Attributes:
        config: what the bundle is valid for, and its shapes.
        metrics: what it reached on unseen prompts.
        provenance: how it was made.
    """

    def __init__(self, config: BundleConfig, files: dict[str, bytes]) -> None:
        self.config = config
        self._files = files
        self.metrics = self._model(METRICS_FILE, Metrics)
        self.provenance = self._model(PROVENANCE_FILE, Provenance)
        self._check_admission()
        self._tensors = read_tensors(
            files[REFINER_FILE], config.refiner.tensors(), f"bundle file {REFINER_FILE}"
        )
        if (self._tensors["scale"] < 0).any():
            raise BundleError(f"bundle file {REFINER_FILE}: tensor scale holds negative numbers")
        self._check_calibration()

    @classmethod
    def create(
        cls,
        fingerprint: Fingerprint,
        settings: PredictorSettings,
        seed: int,
        admission: AdmissionPredictor,
        refiner: Refiner,
        metrics: Metrics,
        provenance: Provenance,
    ) -> PredictorBundle:
        """Put trained predictors together; nothing is written yet."""
        from dwise_predict.predictors.refiner import SCALAR_LIMIT

        trees, leaves = admission.size()
        knots = refiner.calibration
        files = {
            ADMISSION_FILE: admission.text.encode(),
            REFINER_FILE: tensor_bytes(refiner.tensors()),
            METRICS_FILE: _json(metrics),
            PROVENANCE_FILE: _json(provenance),
        }
        config = BundleConfig(
            library_version=metadata.version("dwise-predict"),
            fingerprint=fingerprint,
            settings=settings,
            seed=seed,
            admission=AdmissionShape(trees=trees, leaves=leaves),
            refiner=RefinerShape(
                hidden_size=refiner.hidden_size,
                members=refiner.members,
                width=settings.refiner.width,
                layers=settings.refiner.layers,
                horizon=refiner.horizon,
                duration=settings.refiner.duration,
            ),
            normalisation=Normalisation(count_limit=SCALAR_LIMIT),
            calibration=None
            if knots is None
            else CalibrationKnots(raw=knots.raw, calibrated=knots.calibrated),
            files={},
        )
        files[README_FILE] = model_card(config, metrics).encode()
        entries = {name: entry(content) for name, content in files.items()}
        config = config.model_copy(update={"files": entries})
        return cls(config.model_copy(update={"digest": config.content_digest()}), files)

    @classmethod
    def load(cls, folder: Path | str) -> PredictorBundle:
        """Read and check a bundle folder.

        Raises:
            BundleError: a file is missing, damaged, unsafe or of another format version.
        """
        return cls(*read_bundle_folder(Path(folder)))

    def save(self, folder: Path | str) -> None:
        """Write the bundle folder in one step, replacing a bundle that is there.

        Raises:
            BundleError: it would publish a local path, host or user name, or cannot be written.
        """
        texts = {name: self._files[name].decode() for name in self._files if name != REFINER_FILE}
        texts[CONFIG_FILE] = self.config.model_dump_json()
        check_private(texts, self.provenance.command)
        write_bundle_folder(Path(folder), self.config, self._files)

    @cached_property
    def admission(self) -> AdmissionPredictor:
        """Rounds from prompt features; see AdmissionPredictor."""
        from dwise_predict.predictors.admission import AdmissionPredictor

        return AdmissionPredictor(self._files[ADMISSION_FILE].decode())

    @cached_property
    def refiner(self) -> Refiner:
        """Remaining rounds from first-round hidden means, on the CPU; see Refiner."""
        from dwise_predict.predictors.calibration import CalibrationMap
        from dwise_predict.predictors.refiner import Refiner

        knots = self.config.calibration
        calibration = None if knots is None else CalibrationMap(knots.raw, knots.calibrated)
        return Refiner.from_tensors(self._tensors, self.config.refiner.layers, calibration)

    def _model(self, name: str, kind: type[Model]) -> Model:
        try:
            return kind.model_validate_json(self._files[name])
        except ValidationError as error:
            finding = error.errors()[0]
            key = ".".join(str(part) for part in finding["loc"])
            raise BundleError(f"bundle file {name}: key {key!r}: {finding['msg']}") from error

    def _check_admission(self) -> None:
        shape = self.config.admission
        if shape.features != FEATURES:
            raise BundleError(
                f"the admission predictor expects the features {list(shape.features)}; this "
                f"library computes {list(FEATURES)}"
            )
        try:
            text = self._files[ADMISSION_FILE].decode("ascii")
            found = check_tree_text(text, shape.trees, shape.leaves)
        except (TreeTextError, UnicodeDecodeError) as error:
            raise BundleError(f"bundle file {ADMISSION_FILE} is unsafe to load: {error}") from error
        if (found.trees, found.leaves) != (shape.trees, shape.leaves):
            raise BundleError(
                f"bundle file {ADMISSION_FILE} holds {found.trees} trees of at most "
                f"{found.leaves} leaves; config.json says {shape.trees} and {shape.leaves}"
            )

    def _check_calibration(self) -> None:
        knots = self.config.calibration
        if knots is None:
            return
        if len(knots.raw) != len(knots.calibrated):
            raise BundleError("config.json: calibration.raw and .calibrated differ in length")
        for name, values in (("raw", knots.raw), ("calibrated", knots.calibrated)):
            if values[0] != 1 or any(b <= a for a, b in itertools.pairwise(values)):
                raise BundleError(f"config.json: calibration.{name} must increase from 1")


def _json(model: BaseModel) -> bytes:
    return (model.model_dump_json(indent=1) + "\n").encode()
