"""The rows of the benchmark of domains: TITAN's settings, and what each row changes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from evenreel.adaptation.settings import AdaptSettings, Decides, FitSettings, SafetySettings, naive
from evenreel.adaptation.titan.causal import CausalSettings
from evenreel.adaptation.titan.counterfactuals import CounterfactualSettings
from evenreel.adaptation.titan.matching import MatchSettings

SOURCE, ORACLE, TITAN, NAIVE, SAFETY = "source", "oracle", "TITAN", "pseudo-labels", "with safety"
SAFE = f"{TITAN}, {SAFETY}"
BETAS = (2, 5, 10, 20, 30, 60)
BETA_SHARES = (0.005, 0.01, 0.02, 0.05)

Change = Callable[[AdaptSettings], AdaptSettings]


def _matched(match: Any) -> Change:
    return lambda plain: replace(naive(plain), matching=MatchSettings(match=match))


def _beta(beta: float) -> Change:
    return lambda plain: replace(plain, counterfactuals=CounterfactualSettings(beta=beta))


CHR: Change = lambda plain: replace(plain, causal=False)  # noqa: E731
T1: dict[str, Change] = {
    NAIVE: naive,
    "TTT++ style": lambda plain: replace(plain, objective="ttt"),
    "TTTFlow style": lambda plain: replace(plain, objective="ttt_flow"),
    TITAN: lambda plain: plain,
    SAFE: lambda plain: replace(plain, safety=SafetySettings()),
}
T2: dict[str, Change] = {
    "CHR": CHR,
    "CBC": lambda plain: replace(naive(plain), causal=True),
    "rematched": _matched("rank_sum"),
    "counterfactual": lambda plain: replace(naive(plain), counterfactuals=plain.counterfactuals),
    "mutual neighbours": _matched("mutual_nn"),
    "assigned": _matched("hungarian"),
    "transported": _matched("sinkhorn"),
}
HALVES = {
    "CBC, source debias alone": CausalSettings(target_amplification=False),
    "CBC, target amplification alone": CausalSettings(source_debias=False),
}
"""Of the bias correction, which is prepared anew for each."""
CHOICE: dict[str, Change] = {
    "CBC, ranks decide": lambda plain: replace(naive(plain), causal=True, decides="ranks"),
    "TITAN, ranks decide": lambda plain: replace(plain, decides="ranks"),
    f"TITAN, ranks decide, {SAFETY}": lambda plain: replace(plain, decides="ranks", safety=SafetySettings()),
}
FITS = ((0, 1e-3), (20, 1e-4), (20, 1e-3), (200, 1e-4), (200, 1e-3), (1000, 1e-4))
"""Steps and learning rates of the target stage where the correction decides, beside those of the row of TITAN."""
RANKS_FITS = ((0, 1e-3), (20, 1e-4), (200, 1e-3))
"""Those where its ranks and the model's do."""


def _fit(steps: int, lr: float, decides: Decides) -> Change:
    return lambda plain: replace(plain, causal_fit=FitSettings(steps, lr), decides=decides)


FIT: dict[str, Change] = {f"TITAN, {steps:,} steps of {lr:g}": _fit(steps, lr, "correction") for steps, lr in FITS}
FIT |= {f"TITAN, {steps:,} steps of {lr:g}, ranks decide": _fit(steps, lr, "ranks") for steps, lr in RANKS_FITS}
F4: dict[str, Change] = {f"beta {beta}": _beta(beta) for beta in BETAS}
F4 |= {f"beta {100 * share:g} % of the queries": _beta(share) for share in BETA_SHARES}
TABLES: dict[str, tuple[str, ...]] = {
    "t1": (*T1, "QB-Norm, own queries", "NNN, own queries"),
    "t2": (*T2, *HALVES),
    "f4": tuple(F4),
    "fit": tuple(FIT),
    "choice": tuple(CHOICE),
    "skewed": (),
    "default": (),
    "captions": (),
    "streams": (),
}
