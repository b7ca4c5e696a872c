"""What the environment variables ask for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dwise_predict.errors import EngineError
from dwise_predict.validation import unknown_name

Mode = Literal["schedule", "profile"]
PolicyName = Literal["dwise", "dwise-residual", "fcfs", "hrrn", "mlfq"]

VARIABLES = (
    "DWISE_BUNDLE",
    "DWISE_MODE",
    "DWISE_SLOTS",
    "DWISE_RESIDENT_MULTIPLIER",
    "DWISE_POLICY",
    "DWISE_STRICT",
    "DWISE_PROFILE",
    "DWISE_SAMPLE",
    "DWISE_KEEP_PROMPTS",
    "DWISE_CHECK_RANKS",
)


_SERVICE_LINK = re.compile(
    r"DWISE(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
"""What Kubernetes tells every pod of a service whose name is or begins with dwise."""


def _own(environment: Mapping[str, str]) -> list[str]:
    return [
        name
        for name in environment
        if name.startswith("DWISE_") and not _SERVICE_LINK.fullmatch(name)
    ]


def asked(environment: Mapping[str, str]) -> bool:
    """Whether any variable asks for the plugin."""
    return bool(_own(environment)) and environment.get("DWISE_MODE") != "off"


@dataclass(frozen=True)
class Settings:
    """One field per variable; see docs/sglang.md.

    ``slots`` None takes ``--max-running-requests``.
    """

    mode: Mode
    bundle: str | None = None
    slots: int | None = None
    resident_multiplier: int = 8
    policy: PolicyName = "dwise"
    strict: bool = False
    profile: Path | None = None
    sample: float = 1.0
    keep_prompts: bool = False
    check_ranks: bool = False

    @property
    def needs_bundle(self) -> bool:
        """Whether the policy ranks by predictions."""
        return self.policy.startswith("dwise")

    @property
    def curves(self) -> bool:
        """Whether the policy follows the whole predicted distribution."""
        return self.policy == "dwise-residual"

    @property
    def records_tokens(self) -> bool:
        """Whether records hold what prompts could be rebuilt from.

        Of a campaign, which serves prompts of its own to a server that only profiles, they do.
        Of live traffic, which is served by DWISE or recorded in part, only where that is asked for.
        """
        return self.keep_prompts or (self.mode == "profile" and self.sample == 1)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read and check all variables.

        Raises EngineError, naming the variable, when one is unknown, out of range or missing.
        """
        for name in _own(environment):
            if name not in VARIABLES:
                raise EngineError(unknown_name("variable", name, VARIABLES))
            if not environment[name]:
                raise EngineError(f"{name} is empty: give it a value, or unset it")
        bundle = environment.get("DWISE_BUNDLE")
        profile = environment.get("DWISE_PROFILE")
        if bundle is not None and profile is not None and "DWISE_MODE" not in environment:
            raise EngineError(
                "DWISE_BUNDLE and DWISE_PROFILE are set and DWISE_MODE is not: say whether to "
                "schedule by the bundle and record beside it (schedule), or to record stock FCFS "
                "(profile)"
            )
        default = "schedule" if profile is None else "profile"
        settings = cls(
            mode=_choice(environment, "DWISE_MODE", (*get_args(Mode), "off"), default),
            bundle=bundle,
            slots=_count(environment, "DWISE_SLOTS"),
            resident_multiplier=_count(environment, "DWISE_RESIDENT_MULTIPLIER") or 8,
            policy=_choice(environment, "DWISE_POLICY", get_args(PolicyName), "dwise"),
            strict=_flag(environment, "DWISE_STRICT"),
            profile=None if profile is None else Path(profile),
            sample=_share(environment, "DWISE_SAMPLE"),
            keep_prompts=_flag(environment, "DWISE_KEEP_PROMPTS"),
            check_ranks=_flag(environment, "DWISE_CHECK_RANKS"),
        )
        if settings.mode == "schedule" and settings.needs_bundle and bundle is None:
            raise EngineError(
                f"DWISE_POLICY={settings.policy} needs predictions: set DWISE_BUNDLE to a bundle "
                "(Hub repository or folder), or DWISE_POLICY=fcfs"
            )
        recording = settings.mode == "profile" or settings.sample < 1 or settings.keep_prompts
        if recording and profile is None:
            raise EngineError(
                "DWISE_MODE=profile, DWISE_SAMPLE and DWISE_KEEP_PROMPTS need DWISE_PROFILE, the "
                "folder to record into"
            )
        return settings


def _choice(environment: Mapping[str, str], name: str, valid: tuple[str, ...], default: str) -> Any:
    value = environment.get(name, default)
    if value not in valid:
        raise EngineError(unknown_name(name, value, valid))
    return value


def _count(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= 65_536:
        raise EngineError(f"{name} is {text!r}, expected a whole number from 1 to 65536")
    return int(text)


def _share(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "1")
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise EngineError(f"{name} is {text!r}, expected a number above 0 and at most 1")
    return share


def _flag(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "0")
    if value not in ("0", "1"):
        raise EngineError(f"{name} is {value!r}, expected 0 or 1")
    return value == "1"
