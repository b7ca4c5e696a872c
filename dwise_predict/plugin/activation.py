"""What was decided of a server: whether DWISE acts, and how that is said."""

from __future__ import annotations

from dataclasses import dataclass

from dwise_predict.bundle import PredictorBundle
from dwise_predict.fingerprint import Fingerprint
from dwise_predict.plugin.settings import Settings


@dataclass(frozen=True)
class Activation:
    """What was decided. ``reason`` is why stock scheduling serves, empty when the plugin acts."""

    settings: Settings | None
    reason: str = ""
    slots: int = 0
    fingerprint: Fingerprint | None = None
    bundle: PredictorBundle | None = None
    verdict: str = "no bundle"

    @property
    def mode(self) -> str:
        """What the scheduler processes do."""
        return "off" if self.reason or self.settings is None else self.settings.mode

    def describe(self) -> dict[str, object]:
        """For ``/server_info``."""
        scheduling = self.settings if self.mode == "schedule" else None
        return {
            "mode": self.mode,
            "policy": scheduling.policy if scheduling else "stock fcfs",
            "slots": self.slots,
            "resident_multiplier": scheduling.resident_multiplier if scheduling else 1,
            "bundle": self.bundle.source if self.bundle else None,
            "bundle_digest": self.bundle.config.digest if self.bundle else None,
            "fingerprint": self.verdict,
            "reason": self.reason,
        }

    def line(self) -> str:
        """The one line at start."""
        if self.reason or self.settings is None:
            return f"DWISE IS NOT ACTIVE, stock FCFS serves: {self.reason}"
        if self.mode == "profile":
            return f"DWISE records a profile into {self.settings.profile}; stock FCFS serves"
        told = {key: value for key, value in self.describe().items() if key != "reason"}
        if self.settings.profile is not None:
            told["recording"] = str(self.settings.profile)
        return "DWISE is active: " + ", ".join(f"{k} {v}" for k, v in told.items() if v is not None)
