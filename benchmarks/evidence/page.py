"""The page of the evidence, from the files of figures alone, and the verdicts that the package ships."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from benchmarks.evidence.engine import (
    ADMISSION,
    AGAIN,
    BASELINE,
    HALF,
    NO_ADAPTER,
    ORACLE,
    REFERENCE,
    SEARCH_S,
    TRAINING_S,
    TWICE,
    WORLD,
    Cell,
    Evidence,
    Row,
    cells_of,
    variant,
)
from benchmarks.evidence.rules import BIASED, FRAMES_ALONE, METRIC, Verdict, best_untrained, broken, verdicts
from benchmarks.over_seeds import difference, differences, ends, markdown, mean, words
from evenreel.errors import EvenreelError
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import ratio_over_seeds
from evenreel.papers.cells import Seeds, by_row, known_runs
from evenreel.planted import BiasName
from evenreel.planted.biases import Harder
from evenreel.planted.folder import Admission, save_admission, world_of

WORDS = Path(__file__).parent / "words"
"""What a person wrote below the tables of each bias: when to use what."""
CLOSED, LEAST_CLOSED, HARM = 50.0, 25.0, -1.0
"""What a correction has to reach: percent of the gap, the lower end of its interval, and that of its harm in points."""
ZERO = "change at strength 0"
KINDS = {"untrained": "no training", "control": "control", "published": "published", "ours": "ours"}


class Measured(NamedTuple):
    """A bias with the figures of each row, seed by seed, where it is planted and where nothing is."""

    evidence: Evidence
    biased: Seeds
    free: Seeds

    @property
    def oracle(self) -> list[dict[str, float]]:
        """The figures that the baseline would have without the bias."""
        return self.biased[self.evidence.oracle] if self.evidence.oracle else self.free[BASELINE]

    @property
    def complete(self) -> bool:
        return BASELINE in self.free and (self.evidence.oracle or BASELINE) in self.biased

    def closed(self, row: str) -> Interval:
        """Percent of the gap that a row closes, with its interval."""
        return self._of_gap(self.biased[row], self.biased[BASELINE])

    def _of_gap(self, figures: list[dict[str, float]], others: list[dict[str, float]]) -> Interval:
        """A difference in percent of the gap between baseline and oracle, with the interval of Fieller."""
        gap = differences(self.oracle, self.biased[BASELINE], METRIC)
        ratio = ratio_over_seeds(differences(figures, others, METRIC), gap, 0.95)
        low, high = ends(ratio)
        return Interval(100 * ratio.value, 100 * low, 100 * high)

    def harm(self, row: str) -> Interval:
        return difference(self.free[row], self.free[BASELINE], METRIC)

    def left(self, row: str) -> Interval | None:
        """Percent of the gap that is left between a row without and with the bias; None for a task."""
        return None if self.evidence.oracle else self._of_gap(self.free[row], self.biased[row])

    def rules(self) -> list[Verdict] | None:
        """The five rules of admission; None where figures are missing."""
        rows = self.as_admission()
        return None if rows is None else verdicts(rows)

    def as_admission(self) -> Seeds | None:
        """The rows of the rules of admission by the names that these have; None where some are missing."""
        evidence = self.evidence
        needed = {BASELINE, *ADMISSION, *evidence.untrained}
        if evidence.oracle:
            needed |= {evidence.oracle, *(variant(evidence.oracle, change) for change in (HALF, TWICE, NO_ADAPTER))}
        if not needed <= set(self.biased) or not needed <= set(self.free) or not evidence.untrained:
            return None
        rows = {BIASED: self.biased[BASELINE], ORACLE: self.oracle}
        for change in (HALF, TWICE, NO_ADAPTER):
            rows[variant(BIASED, change)] = self.biased[change]
            rows[variant(ORACLE, change)] = (
                self.biased[variant(evidence.oracle, change)] if evidence.oracle else self.free[change]
            )
        rows |= {name: self.biased[name] for name in evidence.untrained}
        rows |= {REFERENCE: self.biased[REFERENCE], AGAIN: self.free[AGAIN]}
        return rows | ({FRAMES_ALONE: self.free[BASELINE]} if evidence.oracle else {})


def evidence_page(every: Sequence[Evidence], folder: Path, seeds: Sequence[int], strength: float) -> str:
    """The whole page in Markdown.

    Args:
        every: biases, in the order of the page; those without figures are named as such.
        folder: of the figures.
        seeds: that are reported.
        strength: of the biases.
    """
    found = [read(one, folder, seeds, strength) for one in every]
    head = (WORDS / "head.md").read_text(encoding="utf-8").rstrip()
    parts = [head.replace("SEEDS", f"{seeds[0]} to {seeds[-1]}").replace("STRENGTH", f"{strength:g}"), summary(found)]
    parts += [section(one) for one in found]
    return "\n\n".join(parts) + "\n"


def read(evidence: Evidence, folder: Path, seeds: Sequence[int], strength: float) -> Measured:
    """The figures of a bias.

    Raises:
        EvenreelError: the rows of a seed and strength are of different worlds.
    """
    known = known_runs(folder / f"{evidence.name}.jsonl", Cell)
    for seed in seeds:
        for one in (strength, 0.0):
            own = [rows for cell, rows in known.items() if (cell.seed, cell.strength) == (seed, one)]
            if len({figures[WORLD] for rows in own for figures in rows.values()}) > 1:
                raise EvenreelError(
                    f"{evidence.name}.jsonl has rows of different worlds for seed {seed} and strength {one:g}: measure "
                    "them again in an empty folder."
                )
    sides = []
    for one in (strength, 0.0):
        cells = [[cell for cell in cells_of(evidence, [seed], strength) if cell.strength == one] for seed in seeds]
        complete = [[cell for cell in own if cell in known] for own in cells]
        shared = set.intersection(*({cell.row for cell in own} for own in complete))
        sides.append(by_row([[cell for cell in own if cell.row in shared] for own in complete], known))
    return Measured(evidence, *sides)


def summary(found: Iterable[Measured]) -> str:
    """A line of each bias: the gap, whether it is admitted, and what closes it."""
    names = ("bias", "world", "gap in R@1", "admitted", "best published", "recommended", "closes, %", ZERO, "left, %")
    head = f"| {' | '.join(names)} |"
    lines = []
    for one in found:
        name = f"[`{one.evidence.bias}`](#{one.evidence.bias.replace('+', '')}-{one.evidence.world}-world)"
        if not one.complete:
            lines.append([name, one.evidence.world, *["not measured"] * 2, *[""] * 5])
            continue
        rules = one.rules()
        admitted = "not measured" if rules is None else "**no**" if broken(rules) else "yes"
        gap = words(difference(one.oracle, one.biased[BASELINE], METRIC))
        lines.append([name, one.evidence.world, gap, admitted, best_published(one), *recommended(one)])
    return markdown(head, lines)


def best_published(one: Measured) -> str:
    """The published row that finds the most under the bias, of those that are given what users have."""
    published = {name: one.evidence.rows[name] for name in shown(one) if one.evidence.rows[name].kind == "published"}
    rows = [name for name, row in published.items() if not row.unavailable]
    if not rows:
        return "none"
    name = max(rows, key=lambda row: mean(one.biased[row], METRIC))
    left = one.left(name)
    return f"`{name}`: closes {share(one, name)}{'' if left is None else f', left {words(left)}'}"


def recommended(one: Measured) -> list[str]:
    """The row that was chosen on other seeds, and whether it reaches what is asked of a correction."""
    chosen = [name for name in shown(one) if one.evidence.rows[name].chosen]
    if not chosen:
        return ["none", "", "", ""]
    name, left = chosen[0], one.left(chosen[0])
    label = f"`{name}`{'' if reaches(one, name) else ' (falls short)'}"
    return [label, share(one, name), words(one.harm(name)), words(left) if left else ""]


def reaches(one: Measured, row: str) -> bool:
    """Whether a row closes half of the gap, surely a quarter, and does no harm to speak of."""
    closed = one.closed(row)
    return closed.value >= CLOSED and ends(closed)[0] > LEAST_CLOSED and ends(one.harm(row))[0] > HARM


def share(one: Measured, row: str) -> str:
    """The share of the gap that a row closes, in words."""
    closed = one.closed(row)
    return words(closed) if np.isfinite(ends(closed)[0]) else "no sure gap"


def shown(one: Measured) -> list[str]:
    return [name for name in one.evidence.methods if name in one.biased and name in one.free]


def section(one: Measured) -> str:
    evidence = one.evidence
    parts = [f"## {evidence.bias}, {evidence.world} world"]
    source = " --annotations DIR" if evidence.world == "drawn" else ""
    command = f"python -m benchmarks.evidence{source} --worlds {evidence.world} --biases {evidence.bias}"
    parts.append(f"```console\n{command}\n```")
    if not one.complete:
        return "\n\n".join([*parts, "Not measured."])
    parts += [gap_words(one), rules_words(one), table(one)]
    advice = WORDS / f"{evidence.name}.md"
    return "\n\n".join([*parts, *([advice.read_text(encoding="utf-8").strip()] if advice.exists() else [])])


def gap_words(one: Measured) -> str:
    baseline, oracle = one.biased[BASELINE], one.oracle
    gaps = (f"{name} {words(difference(oracle, baseline, name))}" for name in ("R@1", "mAP"))
    told = "told" if one.evidence.oracle else "without"
    beside = "".join(
        f" {name[0].upper()}{name[1:]}: {mean(baseline, name):.1f} with the bias, {mean(oracle, name):.1f} {told}, "
        f"{', '.join(f'{mean(one.biased[row], name):.1f} {row}' for row in one.evidence.untrained)}."
        for name in one.evidence.beside
    )
    return (
        f"R@1 {mean(baseline, METRIC):.1f} with the bias and {mean(oracle, METRIC):.1f} {told}; "
        f"gap: {', '.join(gaps)}.{beside}"
    )


def rules_words(one: Measured) -> str:
    rules = one.rules()
    if rules is None:
        return "The rules of admission are not measured."
    lines = [[rule.rule, rule.figure, "yes" if rule.holds else "**no**"] for rule in rules]
    untrained = np.mean(best_untrained({name: one.biased[name] for name in one.evidence.untrained}))
    admitted = "Not admitted" if broken(rules) else "Admitted"
    return (
        f"{markdown('| rule | figure | holds |', lines)}\n\n{admitted}; best reading without training: {untrained:.1f}."
    )


def table(one: Measured) -> str:
    """A line of each row; nothing where the rules alone are measured."""
    if not shown(one):
        return ""
    beside = "".join(f" {name}, at strength 0 |" for name in one.evidence.beside)
    found = f"R@1 | gap closed, % | {ZERO} | gap left, %"
    head = f"| row | kind | {found} |{beside} steps | models | training, s | search, s |"
    rows = {name: one.evidence.rows[name] for name in shown(one)}
    best = [name for name, row in rows.items() if row.chosen]
    lines = [cells(one, name, row, name in best) for name, row in rows.items()]
    notes = [f"- `{name}`: {row.words}{uses(row)}" for name, row in rows.items()]
    return f"{markdown(head, lines)}\n\n" + "\n".join(notes)


def cells(one: Measured, name: str, row: Row, best: bool) -> list[str]:
    figures = one.biased[name]
    label = f"**`{name}`**" if best else f"`{name}`"
    costs = (cost(figures, TRAINING_S), cost(figures, SEARCH_S))
    beside = [f"{mean(figures, other):.1f}, {mean(one.free[name], other):.1f}" for other in one.evidence.beside]
    left = one.left(name)
    rest = words(left) if left and np.isfinite(ends(left)[0]) else ""
    found = (f"{mean(figures, METRIC):.1f}", share(one, name), words(one.harm(name)), rest, *beside)
    return [label, KINDS[row.kind], *found, f"×{row.steps:.3g}", str(row.models), *costs]


def cost(figures: Sequence[Mapping[str, float]], name: str) -> str:
    return f"{np.mean([one[name] for one in figures]):.1f}" if all(name in one for one in figures) else ""


def uses(row: Row) -> str:
    """What a row is given, and whether users have it."""
    bound = " (users do not have that: a bound)" if row.unavailable else ""
    return f"; uses {row.uses}{bound}" if row.uses else ""


def save_admissions(found: Sequence[Measured], seeds: Sequence[int], strength: float) -> list[str]:
    """Write the verdict on each rendered world that has all figures into the package.

    Args:
        found: figures of biases; drawn ones are left out, since nobody plants them in videos.
        seeds: they are of.
        strength: of the biases.

    Returns:
        Names of what was written.
    """
    written = []
    for one in found:
        rules, rows = one.rules(), one.as_admission()
        if one.evidence.world == "drawn" or rules is None or rows is None:
            continue
        bias, harder = cast("BiasName", one.evidence.bias), Harder(**one.evidence.settings)  # type: ignore[arg-type]
        verdict = Admission(
            bias=bias,
            strength=strength,
            world=world_of(bias, strength, harder),
            seeds=tuple(seeds),
            clips=one.evidence.size.clips,
            steps=one.evidence.size.steps,
            means={name: round(mean(own, METRIC), 2) for name, own in rows.items()},
            rules={rule.rule: rule.figure for rule in rules},
            broken=tuple(rule.rule for rule in rules if not rule.holds),
            harder=dict(one.evidence.settings),
        )
        save_admission(verdict)
        written.append(one.evidence.name)
    return written
