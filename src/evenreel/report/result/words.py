"""Results of audits in words, the same on a page and in a terminal; only JSON has the numbers unrounded."""

from __future__ import annotations

from math import isfinite

from evenreel.evaluation.results import Interval
from evenreel.report.result.record import AuditResult, AuditTable, Cell, Effect
from evenreel.report.words import p_value, percent

DASH = "–"


def cell(value: Cell, digits: int) -> str:
    """Format one cell of a table, a number with so many decimals.

    >>> [cell(one, 2) for one in ("a", 1234, 1234.567, -0.001, None, float("nan"))]
    ['a', '1,234', '1,234.57', '0.00', '–', '–']
    """
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return DASH
    if isinstance(value, float):
        return f"{round(value, digits) + 0.0:,.{digits}f}"
    return value if isinstance(value, str) else f"{value:,}"


def cells(table: AuditTable) -> list[list[str]]:
    """Format every cell of a table as text.

    >>> cells(AuditTable("t", ("group", "ratio", "p (Holm)"), (("a", 1.5, 0.00002), ("b", 2.0, None))))
    [['a', '1.50', '<0.001'], ['b', '2.00', '–']]
    """
    of_p = [column.split(" (")[0] == "p" for column in table.columns]
    return [
        [_p(value) if p else cell(value, table.digits) for value, p in zip(row, of_p, strict=True)]
        for row in table.rows
    ]


def _p(value: Cell) -> str:
    return p_value(value) if isinstance(value, float) and isfinite(value) else cell(value, 0)


def figure_words(figure: Interval | Effect, confidence: float, unit: str = "", digits: int = 1) -> str:
    """Format a figure with its interval for a sentence.

    >>> figure_words(Interval(61.04, 55.0, 67.0), 0.95, "%")
    '61.0% (95% interval 55.0 to 67.0)'
    """
    return f"{figure.value:.{digits}f}{unit}{interval_words(figure, confidence, digits)}"


def interval_words(figure: Interval | Effect, confidence: float, digits: int = 2) -> str:
    """Format the interval of a figure in brackets, after a space; empty where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f" ({percent(confidence)} interval {figure.low:.{digits}f} to {figure.high:.{digits}f})"


def effect_interval(effect: Effect) -> str:
    """Format the ends of an effect's interval; empty where there is none.

    >>> effect_interval(Effect("R", 1.0, 0.5, 1.5)), effect_interval(Effect("R", 1.0))
    ('0.50 to 1.50', '')
    """
    if effect.low is None or effect.high is None:
        return ""
    return f"{cell(effect.low, 2)} to {cell(effect.high, 2)}"


def by_certainty(effect: Effect, few: str, unsure: str, chance: str, found: str) -> str:
    """Choose the words for an effect by how much can be concluded of it.

    >>> by_certainty(Effect("R", 1.0, -0.5, 1.5), "too few", "no interval", "may be chance", "above 0")
    'may be chance'
    """
    if not effect.enough:
        return few
    if effect.low is None or effect.high is None:
        return unsure
    return found if effect.is_significant else chance


def verdict(effect: Effect) -> str:
    """Return the verdict on an effect in words: whether it differs significantly from the neutral value.

    >>> verdict(Effect("R", 1.0, 0.5, 1.5)), verdict(Effect("R", 1.0, -0.5, 1.5)), verdict(Effect("R", 60.0))
    ('above 0', 'cannot be told from 0', 'no interval')
    >>> verdict(Effect("R", 1.0, 0.5, 1.5, enough=False))
    'too few to conclude'
    """
    if not isfinite(effect.value):
        return "not measured"
    side = f"{'above' if effect.value > effect.neutral else 'below'} {effect.neutral:g}"
    return by_certainty(effect, "too few to conclude", "no interval", f"cannot be told from {effect.neutral:g}", side)


def effect_words(result: AuditResult) -> str:
    """Describe the effect of a result in one line: its name, value, interval, test and verdict.

    >>> effect_words(AuditResult("a", "", "", Effect("win rate, %", 61.0, 55.0, 67.0, 50.0, 0.0002)))
    'win rate, %: 61.00 (95% interval 55.00 to 67.00, p < 0.001): above 50'
    """
    effect = result.effect
    ends = effect_interval(effect)
    over = f" over {effect.over}" if effect.over else ""
    sure = [f"{percent(result.confidence)} interval {ends}{over}"] if ends else []
    if effect.p_value is not None and isfinite(effect.p_value):
        sure.append(f"p = {p_value(effect.p_value)}".replace("p = <", "p < "))
    inside = f" ({', '.join(sure)})" if sure else ""
    return f"{effect.name}: {cell(effect.value, 2)}{inside}: {verdict(effect)}"
