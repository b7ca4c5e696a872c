"""Which prompts a bundle was fitted on, as far as the profiles it was fitted on can be found.

A bundle names these profiles by their hash and holds no prompts, not even their hashes: whoever has
a prompt could otherwise tell whether it was among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dwise_predict.assembly import LIVE
from dwise_predict.bundle import PredictorBundle
from dwise_predict.profile import Profile, read_profile
from dwise_predict.run_folder import RunFolder
from dwise_predict.training import profile_sha256


@dataclass(frozen=True)
class Lineage:
    """Prompts that a bundle or one of its parents was fitted on.

    Attributes:
        prompts: hashes of those that are known.
        unknown: hashes of profiles that were not found; their prompts are not in ``prompts``.
    """

    prompts: frozenset[str]
    unknown: tuple[str, ...]

    def fresh(self, prompt: NDArray[np.str_]) -> NDArray[np.bool_]:
        """Which requests have a prompt that is not known to have been fitted on, ``[n]``."""
        return ~np.isin(prompt, list(self.prompts)) if self.prompts else np.ones(len(prompt), bool)


def trained_on(bundle: PredictorBundle) -> tuple[str, ...]:
    """Hashes of the profiles that a bundle and its parents were fitted on, its own first."""
    provenance = bundle.provenance
    earlier = () if provenance.parent is None else provenance.parent.trained_on
    return tuple(dict.fromkeys([provenance.profile_sha256, *earlier]))


def lineage_of(bundle: PredictorBundle, profile: Profile, given: Sequence[Profile] = ()) -> Lineage:
    """Find the profiles of a bundle's lineage and collect the prompts of their training split.

    Looked at are the profile that is evaluated, those that are ``given``, and the one beside the
    bundle where it lies in a run folder. A profile of the very workload that the bundle was trained
    on counts as its own, because it has the same split. Live traffic identifies a prompt by its
    tokens and a workload by its text, so neither says anything of the other.

    Args:
        bundle: from a folder or the Hub.
        profile: what the bundle is going to be evaluated on.
        given: profiles that a person says it was fitted on; all of them count.

    Raises:
        ProfileError: the profile beside the bundle is damaged.
    """
    wanted = set(trained_on(bundle))
    prompts: set[str] = set()
    comparable = [each for each in given if _is_live(each) == _is_live(profile)]
    for each in comparable:
        prompts |= _fitted_prompts(each)
        wanted.discard(profile_sha256(each.run))
    beside = [each for each in _beside(bundle) if _is_live(each) == _is_live(profile)]
    for each in (profile, *beside):
        digest = profile_sha256(each.run)
        same_workload = each.run.workload.sha256 == bundle.provenance.workload_sha256
        if digest in wanted or same_workload:
            prompts |= _fitted_prompts(each)
            wanted.discard(digest)
            if same_workload:
                wanted.discard(bundle.provenance.profile_sha256)
    return Lineage(frozenset(prompts), tuple(sorted(wanted)))


def _fitted_prompts(profile: Profile) -> set[str]:
    columns = profile.requests.select(["prompt_sha256", "split"]).to_pydict()
    pairs = zip(columns["prompt_sha256"], columns["split"], strict=True)
    return {digest for digest, split in pairs if split == "train"}


def _is_live(profile: Profile) -> bool:
    return profile.run.workload.name == LIVE


def _beside(bundle: PredictorBundle) -> list[Profile]:
    """The profile of the run folder that the bundle lies in, if it does."""
    if bundle.source is None:
        return []
    run = RunFolder(Path(bundle.source).resolve().parent)
    return [read_profile(run.profile)] if run.profiled else []
