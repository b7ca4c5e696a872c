"""A bundle in memory: both predictors with their configuration, metrics and provenance."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from dwise_predict.bundle.card import model_card
from dwise_predict.bundle.compatibility import Verdict, compare_fingerprints
from dwise_predict.bundle.metrics import Metrics
from dwise_predict.bundle.privacy import private_finding
from dwise_predict.bundle.reading import Model, parse_json, parse_record
from dwise_predict.bundle.schema import (
    ADMISSION_FILE,
    CONFIG_FILE,
    FORMAT_VERSION,
    METRICS_FILE,
    MINOR,
    PROVENANCE_FILE,
    README_FILE,
    REFINER_FILE,
    SMOKE_FILE,
    AdmissionShape,
    BundleConfig,
    CalibrationKnots,
    Normalisation,
    Provenance,
    RefinerShape,
    SmokePrediction,
)
from dwise_predict.bundle.store import entry, read_bundle_folder, write_bundle_folder
from dwise_predict.bundle.tensors import read_tensors, tensor_bytes
from dwise_predict.errors import BundleError, BundleVersionError, IncompatibleBundleError
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.predictors.features import FEATURES
from dwise_predict.predictors.limits import check_knots, check_tensors
from dwise_predict.predictors.trees import TreeText, TreeTextError, check_tree_text
from dwise_predict.recipe import PredictorSettings
from dwise_predict.validation import shortened

if TYPE_CHECKING:
    from dwise_predict.hub.address import Address
    from dwise_predict.hub.client import Access, Commit
    from dwise_predict.predictors.admission import AdmissionPredictor
    from dwise_predict.predictors.refiner import Refiner

_log = logging.getLogger(__name__)
_MOST_LOG_ROUNDS = 700
"""exp() of more is no finite number."""


class PredictorBundle:
    """Both predictors of one model and decoding setting.

    The predictors are built when first used: a scheduler that only calls :attr:`admission` never
    imports torch. Everything was checked before, when the bundle was loaded.

    Attributes:
        config: what the bundle is valid for, and its shapes.
        metrics: what it reached on unseen prompts.
        provenance: how it was made.
        smoke: what it predicted for fixed requests when it was made; None in format 1.0.
        source: where it was loaded from: a folder, or ``ORG/NAME@commit``; None when just made.
    """

    def __init__(
        self,
        config: BundleConfig,
        minor: int,
        files: Mapping[str, bytes],
        source: str | None = None,
    ) -> None:
        self.config = config
        self.source = source
        self._files = dict(files)
        self._minor = minor
        self.metrics = self._record(METRICS_FILE, Metrics)
        self.provenance = self._record(PROVENANCE_FILE, Provenance)
        self.smoke = self._record(SMOKE_FILE, SmokePrediction) if SMOKE_FILE in files else None
        self._trees = self._check_admission()
        self._tensors = read_tensors(
            files[REFINER_FILE], config.refiner.tensors(), f"bundle file {REFINER_FILE}"
        )
        self._check_limits()
        if minor > MINOR:
            _log.warning(
                "the bundle has format_version %s, this library knows %s: what came later is "
                "ignored; upgrade with: pip install --upgrade dwise-predict",
                config.format_version,
                FORMAT_VERSION,
            )

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
        from dwise_predict.bundle.smoke import predict_smoke
        from dwise_predict.predictors.refiner import SCALAR_LIMIT

        trees, leaves = admission.size()
        knots = refiner.calibration
        tensors = refiner.tensors()
        config = BundleConfig(
            library_version=metadata.version("dwise-predict"),
            fingerprint=fingerprint,
            settings=settings,
            seed=seed,
            admission=AdmissionShape(
                features=FEATURES[admission.features], trees=trees, leaves=leaves
            ),
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
        files = {
            ADMISSION_FILE: admission.text.encode(),
            REFINER_FILE: tensor_bytes(tensors),
            METRICS_FILE: _json(metrics),
            PROVENANCE_FILE: _json(provenance),
            SMOKE_FILE: _json(predict_smoke(admission, refiner, tensors)),
            README_FILE: model_card(config, metrics, provenance).encode(),
        }
        config = config.sealed({name: entry(content) for name, content in files.items()})
        return cls(config, MINOR, {**files, CONFIG_FILE: config.to_bytes()})

    @classmethod
    def load(cls, folder: Path | str, target: Fingerprint | None = None) -> PredictorBundle:
        """Read and check a bundle folder.

        Args:
            folder: of the bundle.
            target: what is going to be served; None when the bundle is only to be looked at.

        Raises:
            BundleError: a file is missing, damaged, unsafe or of another format version.
            IncompatibleBundleError: its predictions mean nothing for ``target``.
        """
        bundle = cls(*read_bundle_folder(Path(folder)), source=str(folder))
        if target is not None:
            bundle.require(target)
        return bundle

    @classmethod
    def from_pretrained(
        cls,
        repo_or_dir: Path | str,
        revision: str | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        cache_dir: Path | str | None = None,
        target: Fingerprint | None = None,
    ) -> PredictorBundle:
        """Load a bundle by the name of the zoo, from the Hugging Face Hub or from a folder.

        A bare name that the zoo knows (``tiny``) is the zoo's, whatever folders there are: write
        ``./tiny`` for a folder. Otherwise an existing folder is loaded, and ``ORG/NAME`` is looked
        up on the Hub. Files come through the Hub's cache; finished ones are not downloaded again,
        and what was downloaded once loads without a network.

        Args:
            repo_or_dir: name, ``ORG/NAME`` or folder.
            revision: branch, tag or commit of the Hub repository; None: main, or what the zoo pins.
            local_files_only: use the cache alone.
            token: of the Hub; None: the one of ``hf auth login`` or HF_TOKEN.
            cache_dir: of the Hub; None: its default.
            target: as in :meth:`load`.

        Raises:
            HubError: the repository cannot be had, or is no bundle.
            BundleError: as in :meth:`load`.
            IncompatibleBundleError: as in :meth:`load`.
        """
        from dwise_predict.bundle.remote import locate_bundle
        from dwise_predict.hub.client import Access

        access = Access(token, cache_dir, local_files_only)
        place = locate_bundle(repo_or_dir, revision, access)
        try:
            bundle = cls(*read_bundle_folder(place.folder), source=place.source)
        except BundleError as error:
            if place.remote is None:
                raise
            if local_files_only and isinstance(error, BundleVersionError):
                raise
            if local_files_only:
                raise BundleError(
                    f"{place.source} is damaged in the cache ({error}); get it again without "
                    "local_files_only"
                ) from error
            # The Hub's client compares sizes only, so the cache may hold a wrong file for good.
            bundle = cls._fetched_again(place.remote, access)
        if target is not None:
            bundle.require(target)
        return bundle

    @classmethod
    def _fetched_again(cls, remote: Address, access: Access) -> PredictorBundle:
        from dwise_predict.bundle.remote import locate_bundle

        place = locate_bundle(remote.repo, remote.revision, access, force=True)
        remedy = f"downloaded twice, so {place.source} itself is damaged: tell its owner"
        return cls(*read_bundle_folder(place.folder, remedy), source=place.source)

    def save(self, folder: Path | str) -> None:
        """Write the bundle folder in one step, replacing a bundle that is there.

        Raises:
            BundleError: it would publish a local path, host or user name, or cannot be written.
        """
        self.check_private()
        write_bundle_folder(Path(folder), self.files)

    def push_to_hub(
        self,
        repo: str,
        private: bool | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
        token: str | bool | None = None,
    ) -> Commit:
        """Publish all files in one commit; the repository and branch are made where missing.

        Args:
            repo: ``ORG/dwise-<model>``.
            private: visibility of a new repository; None: the organisation's default.
            revision: branch; None: main.
            commit_message: None: says which library version wrote the bundle.
            token: of the Hub; None: the one of ``hf auth login`` or HF_TOKEN.

        Returns:
            URL and hash of the commit: what users should pin.

        Raises:
            HubError: the name is not a bundle's, or the Hub refuses or cannot be reached.
            BundleError: it would publish a local path, host or user name.
        """
        from dwise_predict.bundle.remote import publish_bundle

        self.check_private()
        message = commit_message or f"Bundle of dwise-predict {self.config.library_version}"
        return publish_bundle(self.files, repo, message, private, revision, token)

    def check(self, target: Fingerprint) -> Verdict:
        """Say whether the predictions hold for ``target``, and what each difference does."""
        return compare_fingerprints(self.config.fingerprint, target)

    def require(self, target: Fingerprint) -> None:
        """Refuse an incompatible target; warn about differences that make predictions worse.

        Raises:
            IncompatibleBundleError: with the verdict.
        """
        verdict = self.check(target)
        if not verdict.usable:
            raise IncompatibleBundleError(f"the bundle does not fit the target: {verdict}")
        if verdict.differences:
            _log.warning("bundle and target differ: %s", verdict)

    def verify(self) -> list[str]:
        """Predict the stored smoke requests again, and say what differs; empty: nothing does.

        Everything else was verified when the bundle was loaded.

        Raises:
            BundleError: the bundle is of format 1.0, which stores no expected predictions.
        """
        from dwise_predict.bundle.smoke import predict_smoke, smoke_differences

        if self.smoke is None:
            raise BundleError(
                f"the bundle has format_version {self.config.format_version}, which stores no "
                "expected predictions; its files are intact"
            )
        found = predict_smoke(self.admission, self.refiner, self._tensors)
        return smoke_differences(self.smoke, found)

    def check_private(self) -> None:
        """Raise BundleError when a file names a local path, or this host or user."""
        texts = {
            name: content.decode(errors="replace")
            for name, content in self._files.items()
            if not name.endswith(".safetensors")
        }
        finding = private_finding(texts, self.provenance.command)
        if finding is not None:
            raise BundleError(finding)

    @property
    def files(self) -> Mapping[str, bytes]:
        """Content of every file of the folder, by name.

        Raises:
            BundleError: the format is of a later minor version, whose files are not all known.
        """
        if self._minor > MINOR:
            raise BundleError(
                f"the bundle has format_version {self.config.format_version}, so this library "
                "cannot copy all of it; upgrade with: pip install --upgrade dwise-predict"
            )
        return dict(self._files)

    @property
    def card(self) -> str:
        """The model card."""
        return self._files[README_FILE].decode(errors="replace")

    @cached_property
    def admission(self) -> AdmissionPredictor:
        """Rounds from prompt features; see AdmissionPredictor."""
        from dwise_predict.predictors.admission import AdmissionPredictor

        return AdmissionPredictor(self._files[ADMISSION_FILE].decode(), self._trees)

    @cached_property
    def refiner(self) -> Refiner:
        """Remaining rounds from first-round hidden means, on the CPU; see Refiner."""
        from dwise_predict.predictors.calibration import CalibrationMap
        from dwise_predict.predictors.refiner import Refiner

        knots = self.config.calibration
        calibration = None if knots is None else CalibrationMap(knots.raw, knots.calibrated)
        return Refiner.from_tensors(self._tensors, self.config.refiner.layers, calibration)

    def _record(self, name: str, kind: type[Model]) -> Model:
        source = f"bundle file {name}"
        return parse_record(kind, parse_json(self._files[name], source), self._minor, source)

    def _check_admission(self) -> TreeText:
        shape = self.config.admission
        features = next((name for name, own in FEATURES.items() if own == shape.features), None)
        if features is None:
            raise BundleError(
                f"the admission predictor expects the features {shortened(list(shape.features))}; "
                f"this library computes {' or '.join(str(list(own)) for own in FEATURES.values())}"
            )
        try:
            text = self._files[ADMISSION_FILE].decode("ascii")
            found = check_tree_text(text, shape.trees, shape.leaves, features)
        except (TreeTextError, UnicodeDecodeError) as error:
            raise BundleError(f"bundle file {ADMISSION_FILE} is unsafe to load: {error}") from error
        if (found.trees, found.leaves) != (shape.trees, shape.leaves):
            raise BundleError(
                f"bundle file {ADMISSION_FILE} holds {found.trees} trees of at most "
                f"{found.leaves} leaves; config.json says {shape.trees} and {shape.leaves}"
            )
        if found.largest > _MOST_LOG_ROUNDS:
            raise BundleError(
                f"bundle file {ADMISSION_FILE}: its trees can predict exp({found.largest:g}) rounds"
            )
        return found

    def _check_limits(self) -> None:
        """Refuse numbers from which something else than finite estimates could follow."""
        try:
            check_tensors(self._tensors, self.config.refiner.layers)
        except ValueError as error:
            raise BundleError(f"bundle file {REFINER_FILE}: {error}") from error
        knots = self.config.calibration
        try:
            if knots is not None:
                check_knots(knots.raw, knots.calibrated)
        except ValueError as error:
            raise BundleError(f"config.json: key 'calibration': {error}") from error


def _json(model: BaseModel) -> bytes:
    return (model.model_dump_json(indent=1) + "\n").encode()
