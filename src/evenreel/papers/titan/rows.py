"""The rows of TITAN's tables (MM 2023, section 4): one stream that is learned from in one way or another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from evenreel.adaptation.titan import (
    UNSAFE,
    AdaptSettings,
    CounterfactualSettings,
    Learns,
    Match,
    SafetySettings,
    naive,
)
from evenreel.errors import UsageError

SOURCE, NAIVE, TITAN = "source only", "naive pseudo-labels", "TITAN"
SAFE, FIRST = "{} with safety", "{}, predicted first"
NO_CORRECTION = "TITAN without correction"
"""What the whole is called where settings leave the correction of bias out."""
TTT, FLOW = "TTT++", "TTTFlow"
NEITHER, CHR, CBC, BOTH = "neither", "CHR", "CBC", "CHR + CBC"
"""Rows of table 2: the rebalancing of labels (CHR) and the correction of bias (CBC)."""
NO_WORDS = "no counterfactual captions"
BETAS = (5, 10, 20, 30, 50, 100)
"""Figure 4, on both sides of the paper's 30."""
BETA_SHARES = (0.001, 0.005, 0.01, 0.05)
THETAS = (0.1, 0.25, 0.5, 0.75, 0.9)
MATCHES: tuple[Match, ...] = ("one_way", "mutual_nn", "hungarian", "sinkhorn")
"""Ways to match beside the paper's."""
LEARNERS: tuple[Learns, ...] = ("heads", "norms", "text")
TRAINING_CAPTIONS = "training captions"


class Norm(NamedTuple):
    """A correction of scores by those of other queries, without learning.

    The bank is of training captions (`trained`), or of the latest of the stream's own queries that it has room for:
    online of those that came before, offline of all.
    """

    method: Literal["qb-norm", "nnn"]
    trained: bool = False


NORMS: Mapping[Literal["qb-norm", "nnn"], str] = {"qb-norm": "QB-Norm", "nnn": "NNN"}


@dataclass(frozen=True)
class Row:
    """Method to answer a stream of queries, as a row of a table; without any field, the source model as it is.

    `settings` are those of test-time training, `correction` those of the bias correction in place of the checkpoint's,
    and `norm` corrects the source model's scores.
    """

    settings: AdaptSettings | None = None
    correction: Mapping[str, Any] = field(default_factory=dict)
    norm: Norm | None = None


Rows = dict[str, Row]
RowsOf = Callable[[AdaptSettings, bool], Rows]
"""From the settings of the study, and whether there are training captions for a bank."""


def online(settings: AdaptSettings, bank: bool) -> Rows:
    """Return the rows of table 1 of TITAN: methods that learn batch by batch."""
    return _methods(_of_protocol(settings, "online", "titan/t3"), bank)


def offline(settings: AdaptSettings, bank: bool) -> Rows:
    """Return the rows of table 3 of TITAN: methods that learn from all queries first."""
    return _methods(_of_protocol(settings, "offline", "titan/t1"), bank)


def parts(settings: AdaptSettings, bank: bool) -> Rows:
    """Return the rows of table 2 of TITAN: rebalancing of labels, correction of bias, both, and changes of these."""
    if not settings.causal or settings.counterfactuals is None or settings.matching.match == "one_way":
        raise UsageError(
            "This study switches the parts of TITAN off one by one, and the settings begin without one of them; leave "
            "causal, counterfactuals and matching.match as they are."
        )
    settings = by_labels(settings)
    bare = naive(settings)
    corrected = replace(bare, causal=True)
    rows = {
        SOURCE: Row(),
        NEITHER: Row(bare),
        CHR: Row(replace(settings, causal=False)),
        CBC: Row(corrected),
        BOTH: Row(settings),
        "rematching alone": Row(replace(bare, matching=settings.matching)),
        "counterfactual captions alone": Row(replace(bare, counterfactuals=settings.counterfactuals)),
        "source debias alone": Row(corrected, {"source_debias": True, "target_amplification": False}),
        "target amplification alone": Row(corrected, {"source_debias": False, "target_amplification": True}),
    }
    for match in MATCHES:
        matching = replace(settings.matching, match=match)
        rows[f"{BOTH}, {match.replace('_', ' ')}"] = Row(replace(settings, matching=matching))
    for name, row in ((CBC, corrected), (BOTH, settings)):
        rows[f"{name}, ranks decide"] = Row(replace(row, decides="ranks"))
    return rows | {f"{BOTH}, {learns} alone": Row(replace(settings, learns=learns)) for learns in LEARNERS}


def thresholds(settings: AdaptSettings, bank: bool) -> Rows:
    """Return the rows of figure 4 of TITAN: when a clip is crowded, and which of its words are over-attended."""
    own = by_labels(settings).counterfactuals
    if own is None:
        raise UsageError("This study is about counterfactual captions, and they are set to null; leave that out.")
    rows = {SOURCE: Row(), NO_WORDS: Row(replace(settings, counterfactuals=None))}
    for changed in swept(own).values():
        rows |= {name: Row(replace(settings, counterfactuals=how)) for name, how in changed.values()}
    return rows


class Swept(NamedTuple):
    """One point of a sweep: the name of its row and the settings there."""

    row: str
    how: CounterfactualSettings


def swept(own: CounterfactualSettings) -> dict[str, dict[float, Swept]]:
    """Return the sweeps of figure 4: by the name of the threshold that is changed, its points by value.

    >>> swept(CounterfactualSettings())["theta, share of a clip's queries"][0.5].row
    'theta 0.5'
    """
    shares = {share: f"beta {100 * share:g} % of the queries" for share in BETA_SHARES}
    return {
        "beta, queries": {beta: Swept(f"beta {beta}", replace(own, beta=beta)) for beta in BETAS},
        "beta, share of the queries": {share: Swept(name, replace(own, beta=share)) for share, name in shares.items()},
        "theta, share of a clip's queries": {
            theta: Swept(f"theta {theta:g}", replace(own, theta=theta)) for theta in THETAS
        },
    }


def name_of_whole(settings: AdaptSettings) -> str:
    """Name the row that learns by the settings of a study unchanged.

    >>> name_of_whole(AdaptSettings(causal=False))
    'TITAN without correction'
    """
    return TITAN if settings.causal else NO_CORRECTION


def _methods(settings: AdaptSettings, bank: bool) -> Rows:
    """The source, what learns nothing, what the paper compares with, and TITAN with and without safety."""
    plain, whole = replace(settings, safety=UNSAFE), name_of_whole(settings)
    careful = replace(settings, safety=SafetySettings()) if settings.safety == UNSAFE else settings
    bare = replace(plain, counterfactuals=None, causal=False)
    own = "past queries" if settings.online else "own queries"
    rows = {SOURCE: Row()}
    for method, name in NORMS.items():
        rows[f"{name}, {own}"] = Row(norm=Norm(method))
        if bank:
            rows[f"{name}, {TRAINING_CAPTIONS}"] = Row(norm=Norm(method, trained=True))
    rows |= {
        NAIVE: Row(naive(plain)),
        TTT: Row(replace(bare, objective="ttt")),
        FLOW: Row(replace(bare, objective="ttt_flow")),
        whole: Row(plain),
        SAFE.format(whole): Row(careful),
    }
    if settings.online:
        rows[FIRST.format(whole)] = Row(replace(plain, predict="before"))
    return rows


def _of_protocol(settings: AdaptSettings, protocol: str, other: str) -> AdaptSettings:
    if settings.protocol != protocol:
        raise UsageError(
            f"This study is of the protocol {protocol}, and the settings say {settings.protocol}; make {other} for it."
        )
    return by_labels(settings)


def by_labels(settings: AdaptSettings) -> AdaptSettings:
    """Return the settings, if they learn from pseudo-labels."""
    if settings.objective != "pseudo_labels":
        raise UsageError(
            f"Studies of TITAN go out from pseudo-labels, and the objective is {settings.objective}; leave it out."
        )
    return settings
