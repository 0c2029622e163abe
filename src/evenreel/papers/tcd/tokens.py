"""Figure 1 of TCD (Zhao et al., AAAI 2026): how many tokens on-screen words are beside the frames of a clip.

Words one by one, as earlier work gives them to attention, against one caption for each window. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.exchange import ratio_intervals
from evenreel.errors import UsageError
from evenreel.papers.engine.findings import Findings, effect_of
from evenreel.papers.engine.inputs import FeatureInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.on_screen import ClipText
from evenreel.papers.engine.settings import StudySettings
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.tcd.variants import check_text
from evenreel.progress import Progress
from evenreel.report.result import AuditFigure, AuditTable, Cell

if TYPE_CHECKING:
    import plotly.graph_objects as go

FRAMES, WINDOWS = "frames", "windows with text"
IN_FRAMES, ON_SIGNS, DISTINCT = "words in frames", "words on signs", "different words"
MANY = 20
"""Words of a clip that is full of them; the paper: more than 20 in 80 % of TextVR's clips."""
PAPER_TOKENS = {"StarVR": 201, "TCD": 24}
"""Table 8: N of attention over N tokens."""

_EFFECT = "Words in frames for each window with text"

Counts = Mapping[str, NDArray[np.int64]]
"""(V,) tokens of each clip, by their kind."""


def token_balance(material: FeatureInputs, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 1 of TCD: count on-screen words, frames and windows of the clips that are searched."""
    counts = token_counts(searched_text(material))
    written = counts[WINDOWS] > 0
    above, below = (counts[name][None].astype(np.float64) for name in (IN_FRAMES, WINDOWS))
    (ratio,) = ratio_intervals(above, below, np.arange(len(written)), settings.audit)
    words, frames = float(counts[IN_FRAMES].mean()), float(counts[FRAMES].mean())
    many = 100 * float((counts[ON_SIGNS] > MANY).mean())
    return Findings(
        f"A clip has {frames:.1f} frames and {words:.1f} words in them on average, and {counts[WINDOWS].mean():.1f} "
        f"windows with text; {100 * written.mean():.0f} % of the clips show any text, {many:.0f} % more than {MANY} "
        "words on their signs.",
        replace(effect_of(ratio, _EFFECT), neutral=1.0),
        (_table(counts), pairs_of_tokens(counts)),
        (AuditFigure("Tokens of a clip", partial(_spread, counts)),),
        method=paragraphs("tcd", "Words and windows", "Figure 1 in the paper"),
    )


def searched_text(material: FeatureInputs) -> CorpusPart:
    """Return the clips that are searched, with their on-screen text."""
    if material.features is None:
        raise UsageError("This study reads on-screen text; give it features of the test split.")
    check_text(material.features, "test")
    return material.features


def read_texts(part: CorpusPart) -> Mapping[str, ClipText]:
    """Read the on-screen text of each clip, by its id."""
    if part.on_screen is None:
        raise UsageError("This study reads words on screen; give it parts that know them (on_screen).")
    return part.on_screen.read()


def token_counts(part: CorpusPart) -> Counts:
    """Count the tokens of each kind that every clip has, (V,) by their kind."""
    texts, videos = read_texts(part), part.videos
    times_s = [own[mask] for own, mask in zip(videos.times_s, videos.frame_mask, strict=True)]
    rows = [(texts[name], own_s) for name, own_s in zip(videos.ids, times_s, strict=True)]
    return {
        FRAMES: videos.frame_mask.sum(axis=1),
        WINDOWS: np.array([sum(map(bool, text.windows)) for text, _ in rows]),
        IN_FRAMES: np.array([_in_frames(text, own_s) for text, own_s in rows]),
        ON_SIGNS: np.array([sum(len(sign.text.split()) for sign in text.signs) for text, _ in rows]),
        DISTINCT: np.array(
            [len({word.casefold() for sign in text.signs for word in sign.text.split()}) for text, _ in rows]
        ),
    }


def _in_frames(text: ClipText, times_s: NDArray[np.float64]) -> int:
    """Words of all signs, each as often as a frame shows it."""
    return sum(
        len(sign.text.split()) * int(((sign.start_s <= times_s) & (times_s <= sign.end_s)).sum()) for sign in text.signs
    )


def _table(counts: Counts) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, float(own.mean()), float(np.median(own)), float(np.quantile(own, 0.9)), int(own.max()))
        for name, own in counts.items()
    )
    columns = ("tokens", "mean of a clip", "median", "90 % have at most", "most")
    return AuditTable("Tokens of a clip", columns, rows, f"{len(counts[FRAMES]):,} clips.")


def pairs_of_tokens(counts: Counts) -> AuditTable:
    """Make a table of the pairs of tokens that attention compares: frames with windows, or with words one by one."""
    frames, whole = counts[FRAMES], counts[FRAMES] + counts[WINDOWS]
    kinds = {"windows (tcd)": whole} | {
        f"{name}, one by one": frames + counts[name] for name in (DISTINCT, ON_SIGNS, IN_FRAMES)
    }
    own: dict[str, tuple[float, float]] = {
        name: (float(tokens.mean()), float((tokens**2).mean())) for name, tokens in kinds.items()
    }
    paper = {f"the paper: {name}": (float(count), float(count**2)) for name, count in PAPER_TOKENS.items()}
    least = own["windows (tcd)"][1]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, tokens, pairs, pairs / least if name in own else pairs / PAPER_TOKENS["TCD"] ** 2)
        for name, (tokens, pairs) in (own | paper).items()
    )
    columns = ("frames and", "tokens of a clip", "pairs of tokens", "times those of windows")
    return AuditTable("What attention over all of them takes", columns, rows, "Means over clips.")


def _spread(counts: Counts) -> go.Figure:
    """Which share of the clips has at most so many tokens of a kind."""
    import plotly.graph_objects as go

    from evenreel.report.figures import COLOURS, axes

    figure = go.Figure(layout=axes("tokens of a clip", "clips with at most so many, %"))
    for number, (name, own) in enumerate(counts.items()):
        values, times = np.unique(own, return_counts=True)
        figure.add_scatter(
            x=values, y=100 * times.cumsum() / len(own), name=name, mode="lines+markers", line_shape="hv",
            line_color=COLOURS[number % len(COLOURS)], marker_size=4,
            hovertemplate="at most %{x}: %{y:.1f} % of the clips",
        )  # fmt: skip
    return figure.update_yaxes(range=[0, 101])
