"""Policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

from pydantic import TypeAdapter, ValidationError

from dwise_predict.scheduling.policies.base import Policy
from dwise_predict.scheduling.policies.dwise import Dwise
from dwise_predict.scheduling.policies.fcfs import Fcfs
from dwise_predict.scheduling.policies.hrrn import Hrrn
from dwise_predict.scheduling.policies.ltr import Ltr
from dwise_predict.scheduling.policies.mlfq import Mlfq
from dwise_predict.scheduling.policies.s3 import S3
from dwise_predict.scheduling.policies.ssjf import Ssjf
from dwise_predict.scheduling.policies.trail import Trail
from dwise_predict.validation import unknown_name

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {
        "fcfs": Fcfs,
        "hrrn": Hrrn,
        "mlfq": Mlfq,
        "ssjf": Ssjf,
        "s3": S3,
        "ltr": Ltr,
        "trail": Trail,
        "dwise": Dwise,
        "oracle": Dwise,
        "noisy_oracle": Dwise,
    }
)
"""``oracle`` and ``noisy_oracle`` are ``dwise`` given true or disturbed rounds as estimates."""


def make_policy(name: str, options: Mapping[str, object] | None = None) -> Policy:
    """The policy ``name`` with ``options`` instead of its defaults.

    Options may be plain values, as YAML gives them. Raises ValueError when there is no such policy
    or option, or an option's value is impossible.
    """
    if name not in POLICIES:
        raise ValueError(unknown_name("policy", name, POLICIES))
    kind, options = POLICIES[name], options or {}
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for option in options:
        if option not in known:
            raise ValueError(unknown_name(f"option of policy {name}", option, known))
    try:
        return TypeAdapter(kind).validate_python(options)
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"policy {name}: {option + ': ' if option else ''}{message}") from error
