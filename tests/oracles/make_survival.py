"""Writes survival.json: what pycox, scikit-survival and SurvivalEVAL say on seeded inputs.

They are not development dependencies: pycox brings some twenty packages and SurvivalEVAL needs
pandas < 3. To write the file again, anywhere:

    python -m venv /tmp/oracle
    /tmp/oracle/bin/pip install pycox==0.3.0 scikit-survival==0.28.0 SurvivalEVAL==0.9.0 torch
    /tmp/oracle/bin/python tests/oracles/make_survival.py
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from pycox.evaluation import EvalSurv
from pycox.models.loss import nll_logistic_hazard
from sksurv.metrics import brier_score, concordance_index_censored, integrated_brier_score
from SurvivalEVAL.evaluations.calibration.distributional.distribution_calibration import (
    d_calibration,
)

HORIZON = 12


def case(seed: int, censored: float) -> dict[str, object]:
    """One seeded problem of 60 requests and every oracle's answer."""
    rng = np.random.default_rng(seed)
    n = 60
    logits = rng.normal(-1.5, 1.0, size=(n, HORIZON)).astype(np.float32)
    durations = rng.integers(1, HORIZON + 1, n)
    events = rng.random(n) >= censored
    durations[:2], events[:2] = HORIZON, True  # someone is at risk to the end
    predicted = np.round(durations + rng.normal(0, 4, n), 0)  # rounded: ties
    survival = np.cumprod(1 - 1 / (1 + np.exp(-logits.astype(np.float64))), axis=1)
    full = np.column_stack([np.ones(n), survival])
    times = np.arange(1, HORIZON)
    observed = np.array(list(zip(events, durations, strict=True)), dtype=[("e", "?"), ("t", "f8")])
    at_end = rng.beta(1.2, 1.0, n)  # nearly uniform: a p-value that is neither 0 nor 1
    nll = nll_logistic_hazard(
        torch.from_numpy(logits),
        torch.from_numpy(durations - 1),
        torch.from_numpy(events.astype(np.float32)),
        reduction="none",
    )
    ev = EvalSurv(
        pd.DataFrame(full.T, index=np.arange(HORIZON + 1)), durations, events, censor_surv="km"
    )
    return {
        "logits": logits.tolist(),
        "durations": durations.tolist(),
        "events": events.tolist(),
        "predicted": predicted.tolist(),
        "survival_at_end": at_end.tolist(),
        "pycox_nll": nll.tolist(),
        "pycox_brier": [float(x) for x in ev.brier_score(times)],
        "sksurv_concordance": float(concordance_index_censored(events, durations, -predicted)[0]),
        "sksurv_brier": brier_score(observed, observed, full[:, 1:HORIZON], times)[1].tolist(),
        "sksurv_integrated_brier": float(
            integrated_brier_score(observed, observed, full[:, 1:HORIZON], times)
        ),
        "survivaleval_d_calibration_p": float(d_calibration(at_end, events, num_bins=10)[1]),
    }


def main() -> None:
    """Write the file beside this script."""
    result = {
        "versions": {p: version(p) for p in ("pycox", "scikit-survival", "SurvivalEVAL")},
        "cases": [case(0, 0.0), case(1, 0.3), case(2, 0.6)],
    }
    path = Path(__file__).with_name("survival.json")
    path.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
