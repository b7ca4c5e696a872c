"""What the hidden-state tap costs a round on a GPU, with and without CUDA graphs.

Needs a CUDA device and no SGLang: a stand-in for the end of a forward pass (a matrix product that
gives the final hidden rows) runs with and without the tap behind it, eagerly and as a captured
graph, and the refined estimates of a replay are compared with the bundle's own.

    python benchmarks/gpu_tap.py --rows 128 --block 32 --hidden 2048
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch

from dwise_predict.engines.hidden_tap import HiddenTap
from dwise_predict.predictors.calibration import CalibrationMap
from dwise_predict.predictors.network import MemberMLP
from dwise_predict.predictors.refiner import Normalisation, Refiner


def microseconds(act: Callable[[], None], rounds: int) -> float:
    """Median time of ``act`` on the device's clock."""
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        act()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def captured(act: Callable[[], None]) -> Callable[[], None]:
    """``act`` as the replay of a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            act()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph.replay


def main() -> None:
    """Print microseconds a round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--horizon", type=int, default=288)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    rows, block, hidden = arguments.rows, arguments.block, arguments.hidden
    generators = [torch.Generator().manual_seed(i) for i in range(3)]
    network = MemberMLP(3, (hidden + 2, 256, 256, arguments.horizon), generators).eval()
    normalisation = Normalisation(torch.zeros(hidden + 2), torch.ones(hidden + 2))
    refiner = Refiner(network, normalisation, CalibrationMap((1.0, 50.0), (1.0, 40.0)))
    device = torch.device("cuda")
    states = torch.randn(rows * block, hidden, device=device, dtype=torch.bfloat16)
    weight = torch.randn(hidden, hidden, device=device, dtype=torch.bfloat16) / hidden**0.5
    tap = HiddenTap(block, rows, refiner)
    tap.begin_round([(i, 50 + i, 256) for i in range(rows)])

    def forward() -> None:
        states @ weight

    def forward_and_tap() -> None:
        tap.after_logits(states @ weight)

    with torch.inference_mode():
        forward_and_tap()
        results = {}
        for name, make in (("eager", lambda act: act), ("CUDA graph", captured)):
            plain = microseconds(make(forward), arguments.rounds)
            tapped = microseconds(make(forward_and_tap), arguments.rounds)
            results[name] = tapped - plain
            print(f"{name}: {plain:.1f} us without the tap, {tapped:.1f} us with it")
        # A replay with other inputs must give the estimates of these inputs.
        replay = captured(forward_and_tap)
        states.normal_()
        tap.begin_round([(i, 500 + i, 128) for i in range(rows)])
        replay()
        torch.cuda.synchronize()
        found = torch.tensor(tap.estimates(range(rows)))[:, 0]
        means = (states @ weight).view(rows, block, hidden).float().mean(1)
        prompts = torch.arange(rows, device=device) + 500.0
        expected = refiner.to(device)(means, prompts, torch.full_like(prompts, 128.0)).mean()
        torch.testing.assert_close(found, expected.cpu(), rtol=1e-3, atol=1e-2)
        print("estimates of a replay are those of its inputs")
    print(
        f"ratio of the tap's cost, graph to eager: {results['CUDA graph'] / results['eager']:.3f}"
    )


if __name__ == "__main__":
    main()
