"""Refinement latency: the ensemble as one batched product against three separate MLP calls.

    python benchmarks/bench_refinement.py [cpu|cuda]

Networks of the paper's size (3 members of 2 x 256, K = 279) with random weights. The baseline calls
three ordinary ``nn.Sequential`` MLPs one after the other, each with inputs, standardisation and
survival curve of its own, and averages their means. Both give the same numbers, which is checked.
On a CPU with one request, calls dominate; with many, the products do, and those are the same in
both: the last column says what share of the batched call its largest product alone takes, which is
what no batching can save. Prints microseconds per call and ratios; pass ``cuda`` for a GPU.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dwise_predict.predictors.network import MemberMLP
from dwise_predict.predictors.refiner import Normalisation, Refiner
from dwise_predict.predictors.survival import survival_from_logits

REPEATS, SECONDS = 7, 0.5
MEMBERS, WIDTH, HORIZON = 3, 256, 279


def main(device: str) -> None:
    """Time both at every hidden size and batch."""
    print(f"{device}, {torch.get_num_threads()} threads")
    for hidden in (2048, 4096):
        refiner, separate = build(hidden)
        separate = [network.to(device) for network in separate]
        for n in (1, 16, 128):
            compare(refiner.to(device), separate, hidden, n, device)


def build(hidden: int) -> tuple[Refiner, list[nn.Sequential]]:
    """An ensemble and the same networks one by one."""
    sizes = (hidden + 2, WIDTH, WIDTH, HORIZON)
    generators = [torch.Generator().manual_seed(seed) for seed in range(MEMBERS)]
    network = MemberMLP(MEMBERS, sizes, generators)
    separate = []
    for member in range(MEMBERS):
        layers: list[nn.Module] = []
        for i in range(len(sizes) - 1):
            linear = nn.Linear(sizes[i], sizes[i + 1])
            linear.weight.data = network.get_parameter(f"layer{i}_weight")[member].T.contiguous()
            linear.bias.data = network.get_parameter(f"layer{i}_bias")[member, 0]
            layers += [linear, nn.GELU()]
        separate.append(nn.Sequential(*layers[:-1]))
    normalisation = Normalisation(torch.zeros(hidden + 2), torch.ones(hidden + 2))
    return Refiner(network, normalisation), separate


def compare(
    refiner: Refiner, separate: list[nn.Sequential], hidden: int, n: int, device: str
) -> None:
    """Check that both agree, then print their times."""
    generator = torch.Generator().manual_seed(n)
    means = torch.randn(n, hidden, generator=generator).to(device)
    prompt = torch.randint(5, 900, (n,), generator=generator).to(device)
    budget = torch.full((n,), 256, device=device)
    weight = refiner.network.get_parameter("layer0_weight").detach()
    inputs = refiner.normalisation.apply(means, prompt, budget)

    def batched() -> Tensor:
        return refiner(means, prompt, budget).mean()

    @torch.no_grad()
    def one_by_one() -> Tensor:
        expected = [
            survival_from_logits(network(refiner.normalisation.apply(means, prompt, budget))).sum(
                -1
            )
            for network in separate
        ]
        return torch.stack(expected).mean(0)

    def product() -> Tensor:
        return torch.matmul(inputs, weight)

    torch.testing.assert_close(batched(), one_by_one(), rtol=1e-4, atol=1e-4)
    fast, slow, largest = microseconds(batched, one_by_one, product)
    print(
        f"hidden {hidden}  requests {n:4d}  batched {fast:8.0f} us  three calls {slow:8.0f} us  "
        f"{slow / fast:5.2f} times  product {largest / fast:4.0%}"
    )


def microseconds(*calls: Callable[[], Tensor]) -> list[float]:
    """Best of some repeats of the mean time of each call, in turn."""
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for index, call in enumerate(calls):
            done, start = 0, time.perf_counter()
            while (spent := time.perf_counter() - start) < SECONDS / REPEATS or done < 3:
                result = call()
                done += 1
            if result.is_cuda:
                torch.cuda.synchronize()
                spent = time.perf_counter() - start
            best[index] = min(best[index], spent / done * 1e6)
    return best


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cpu")
