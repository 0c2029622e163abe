"""What on-screen words are, cost and answer: figure 1, table 8 and figure 4 of TCD (Zhao et al., AAAI 2026).

Figure 1 counts tokens: words one by one, as earlier work gives them to attention, against one caption for each window;
nothing is trained. Figure 4 shows each clip by its middle frame and the words on its signs, beside its similarity to
what is seen (S_TV), to what is read (S_TO) and to the clue of both (S_TH); the words are those that the system was
given, which need not be all.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from evenreel.audits.exchange import ratio_intervals
from evenreel.checkpoint.architecture import build, module
from evenreel.encoders.towers import usable_device
from evenreel.errors import UsageError
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.matchers.scoring import encode_texts, encode_videos, score_with_parts
from evenreel.papers.engine import (
    Cells,
    SeededRuns,
    batch_shape,
    by_row,
    each_seed,
    effect_of,
    few_seeds,
    finding,
    learning_of,
    shown,
    splits_of,
)
from evenreel.papers.shown import (
    FramedClip,
    alike,
    answer,
    asked,
    beside_each_other,
    chosen,
    shares_first,
    shown_notices,
)
from evenreel.papers.study import StudySettings, changed, paragraph, paragraphs
from evenreel.papers.tcd.tables import BASES, WHOLE, WINDOWS, check_text, tcd_of, with_windows
from evenreel.papers.workspace import ClipText, CorpusPart, Looking, Model, Workspace, texts_of, videos_of, words_said
from evenreel.progress import Progress
from evenreel.report.figures import Line, Panel, sweep
from evenreel.report.result import AuditFigure, AuditResult, AuditTable
from evenreel.similarity.tiles import evaluating, move
from evenreel.training.batches import TrainingInputs
from evenreel.training.cost import Cost, Shape, measured_times, recipe_cost
from evenreel.training.material import learned_from, spec_of
from evenreel.training.recipe import Recipe
from evenreel.types import ScoreBlocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

FRAMES, WITH_TEXT = "frames", "windows with text"
IN_FRAMES, ON_SIGNS, DISTINCT = "words in frames", "words on signs", "different words"
MANY = 20
"""Words of a clip that is full of them; the paper: more than 20 in 80 % of TextVR's clips."""
PAPER_TOKENS = {"StarVR": 201, "TCD": 24}
"""Table 8: N of attention over N tokens."""
Counts = Mapping[str, NDArray[np.int64]]
"""(V,) tokens of each clip, by their kind."""


# tokens: figure 1 -----------------------------------------------------------------------------------------------------


def token_balance(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 1 of TCD: count on-screen words, frames and windows of the clips that are searched."""
    counts = token_counts(searched_text(material))
    written = counts[WITH_TEXT] > 0
    above, below = (counts[name][None].astype(np.float64) for name in (IN_FRAMES, WITH_TEXT))
    (ratio,) = ratio_intervals(above, below, np.arange(len(written)), settings.audit)
    words, frames = float(counts[IN_FRAMES].mean()), float(counts[FRAMES].mean())
    many = 100 * float((counts[ON_SIGNS] > MANY).mean())
    rows: Iterable[Cells] = (
        {
            "tokens": name,
            "mean of a clip": float(own.mean()),
            "median": float(np.median(own)),
            "90 % have at most": float(np.quantile(own, 0.9)),
            "most": int(own.max()),
        }
        for name, own in counts.items()
    )
    return finding(
        f"A clip has {frames:.1f} frames and {words:.1f} words in them on average, and {counts[WITH_TEXT].mean():.1f} "
        f"windows with text; {100 * written.mean():.0f} % of the clips show any text, {many:.0f} % more than {MANY} "
        "words on their signs.",
        replace(effect_of(ratio, "Words in frames for each window with text"), neutral=1.0),
        (AuditTable.of("Tokens of a clip", rows, f"{len(counts[FRAMES]):,} clips."), pairs_of_tokens(counts)),
        (AuditFigure("Tokens of a clip", partial(_spread, counts)),),
        method=paragraphs("tcd", "Words and windows", "Figure 1 in the paper"),
    )


def searched_text(material: Workspace) -> CorpusPart:
    """Return the clips that are searched, with their on-screen text."""
    if material.features is None:
        raise UsageError("This study reads on-screen text; give it features of the test split.")
    check_text(material.features, "test")
    return material.features


def read_texts(part: CorpusPart) -> Mapping[str, ClipText]:
    """Read the on-screen text of each clip of a part, by its id."""
    if part.on_screen is None:
        raise UsageError("This study reads words on screen; give it parts that know them (on_screen).")
    return part.on_screen.read()


def token_counts(part: CorpusPart) -> Counts:
    """Count the tokens of each kind that every clip has, (V,) by their kind."""
    texts, videos = read_texts(part), part.videos
    said = [texts[name] for name in videos.ids]
    signs = [[word for sign in text.signs for word in sign.text.split()] for text in said]
    times_s = [own[mask] for own, mask in zip(videos.times_s, videos.frame_mask, strict=True)]
    in_frames = [  # words of all signs, each as often as a frame shows it
        sum(len(one.text.split()) * int(((one.start_s <= own_s) & (own_s <= one.end_s)).sum()) for one in text.signs)
        for text, own_s in zip(said, times_s, strict=True)
    ]
    return {
        FRAMES: videos.frame_mask.sum(axis=1),
        WITH_TEXT: np.array([sum(map(bool, text.windows)) for text in said]),
        IN_FRAMES: np.array(in_frames),
        ON_SIGNS: np.array([*map(len, signs)]),
        DISTINCT: np.array([len({word.casefold() for word in words}) for words in signs]),
    }


def pairs_of_tokens(counts: Counts) -> AuditTable:
    """Make a table of the pairs of tokens that attention compares: frames with windows, or with words one by one."""
    frames, whole = counts[FRAMES], counts[FRAMES] + counts[WITH_TEXT]
    kinds = {"windows (tcd)": whole} | {
        f"{name}, one by one": frames + counts[name] for name in (DISTINCT, ON_SIGNS, IN_FRAMES)
    }
    own = {name: (float(tokens.mean()), float((tokens**2).mean())) for name, tokens in kinds.items()}
    paper = {f"the paper: {name}": (float(count), float(count**2)) for name, count in PAPER_TOKENS.items()}
    rows: Iterable[Cells] = (
        {
            "frames and": name,
            "tokens of a clip": tokens,
            "pairs of tokens": pairs,
            "times those of windows": pairs / (own["windows (tcd)"][1] if name in own else PAPER_TOKENS["TCD"] ** 2),
        }
        for name, (tokens, pairs) in (own | paper).items()
    )
    return AuditTable.of("What attention over all of them takes", rows, "Means over clips.")


def _spread(counts: Counts) -> go.Figure:
    """Which share of the clips has at most so many tokens of a kind."""
    lines: dict[str, Line] = {}
    for name, own in counts.items():
        values, times = np.unique(own, return_counts=True)
        shares = 100 * times.cumsum() / len(own)
        lines[name] = [(float(at), Interval(float(share))) for at, share in zip(values, shares, strict=True)]
    figure = sweep([Panel("", "clips with at most so many, %", lines)], "tokens of a clip")
    return figure.update_traces(line_shape="hv").update_yaxes(range=[0, 101])


# costs: table 8 -------------------------------------------------------------------------------------------------------

LONG = 200
"""What the paper says that earlier work gives to attention of a clip."""
ONE_BY_ONE = f"{WHOLE}, {LONG} words one by one"
BESIDE = WINDOWS.format(BASES[0])
_STEP, _PAIR = "milliseconds a training step", "microseconds a pair"
_PAIRS, _TIMED = 64, 5
"""Captions, and clips, whose pairs are scored at a time; how often."""


def reading_costs(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 8 of TCD: tokens, parameters, multiply-adds and times."""
    _, test = material.learning()
    recipe = tcd_of(material, settings)
    learning = learning_of(recipe, splits_of(recipe, material), material)
    shape, learned = batch_shape(recipe, learning, material), learned_from(learning)
    rows = with_windows(material, settings)
    kinds = {name: kind.recipe for name, kind in rows.items() if name not in BASES}
    costs = {name: recipe_cost(one, shape, learned).whole for name, one in kinds.items()}
    places = {"max_frames": max(LONG, shape.frames, recipe.matcher.settings["max_frames"])}
    costs[ONE_BY_ONE] = recipe_cost(changed(recipe, places), replace(shape, windows=LONG), learned).whole
    runs = each_seed(kinds, range(settings.seeds), progress)
    times = by_row((name, _timed(kinds[name], learning, test)) for name, _, _ in runs)
    pairs = zip(times[WHOLE], times[BESIDE], strict=True)
    change = over_seeds([100 * (own[_STEP] / other[_STEP] - 1) for own, other in pairs], settings.audit.confidence)
    times_more = costs[ONE_BY_ONE].pair_multiply_adds / costs[WHOLE].pair_multiply_adds
    timed = SeededRuns(times, settings.audit.confidence, dict.fromkeys((_STEP, _PAIR), (0.0, float("inf"))))
    return finding(
        f"A training step of tcd takes {shown(change)} % beside one of {BESIDE}, and a pair "
        f"{costs[WHOLE].pair_multiply_adds:,} multiply-adds; with {LONG} words one by one a pair would take "
        f"{times_more:.1f} times as many.",
        effect_of(change, f"Time of a training step: {WHOLE} less {BESIDE}, % of {BESIDE}"),
        (
            _cost_table(costs, shape),
            AuditTable.of("What it takes here", ({"matcher": name, **timed.means(name)} for name in timed.rows)),
            *(() if test.on_screen is None else (pairs_of_tokens(token_counts(test)),)),
        ),
        notices=few_seeds(settings),
        method=(paragraph("tcd", "Costs", timed=_TIMED, pairs=_PAIRS), paragraph("tcd", "Table 8 in the paper")),
    )


def _timed(recipe: Recipe, learning: TrainingInputs, test: CorpusPart) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        epoch = measured_times(recipe, learning, Path(folder)).alone
    return {_STEP: 1e3 * epoch.seconds / epoch.steps, _PAIR: 1e6 * _pair_s(recipe, learning.dimension, test)}


def _pair_s(recipe: Recipe, dimension: int, test: CorpusPart) -> float:
    """Seconds of a pair in a table of pairs; what weights there are changes nothing."""
    device = torch.device(usable_device(recipe.loop.device, "float32"))
    matcher = build(spec_of(recipe), dimension)
    module(matcher).to(device)
    captions, clips = (
        tuple(ids[:_PAIRS]) for ids in (test.corpus.captions["caption_id"], test.corpus.clips["clip_id"])
    )
    text = move(encode_texts(matcher, texts_of(test.texts, captions)).state, device)
    video = move(encode_videos(matcher, videos_of(test.videos, clips)).state, device)

    def seconds() -> float:
        began = time.perf_counter()
        matcher.score(text, video)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    with torch.no_grad(), evaluating(matcher):
        seconds()  # the first time costs more
        return median(seconds() for _ in range(_TIMED)) / (len(captions) * len(clips))


def _cost_table(costs: Mapping[str, Cost], shape: Shape) -> AuditTable:
    rows: Iterable[Cells] = (
        {
            "matcher": name,
            "parameters": cost.parameters + cost.embeddings,
            "multiply-adds of a caption": cost.captions.multiply_adds // shape.batch,
            "of a clip": cost.videos.multiply_adds // shape.batch,
            "of a pair": cost.pair_multiply_adds,
            "of a batch with its pairs": cost.captions.multiply_adds
            + cost.videos.multiply_adds
            + shape.batch**2 * cost.pair_multiply_adds,
            "bytes kept of a clip": cost.videos.row_bytes,
        }
        for name, cost in costs.items()
    )
    note = (
        f"A caption of {shape.words} words, a clip of {shape.frames} frames and {shape.windows} windows of "
        f"{shape.dimension:,} numbers, a batch of {shape.batch} captions and clips."
    )
    return AuditTable.of("What a matcher costs", rows, note)


# answers: figure 4 ----------------------------------------------------------------------------------------------------

FIRST = 3
SCORES = {"video": "S_TV", "ocr": "S_TO", "hybrid": "S_TH"}
"""What parts of a score are called, there and in the paper."""


def first_answers(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 4 of TCD: the first clips of some captions, with the parts of their scores and their words."""
    models, looking = alike(material.encoders()), material.pictures()
    # what a model was given of each clip; beside one that reads nothing, what the features have
    texts = {
        one.name: read_texts(one.part if one.part.on_screen is not None else searched_text(material)) for one in models
    }
    rankings = {model.name: model.part.scores(model.matcher) for model in models}
    captions = asked(models[0].part.corpus, settings.queries) or chosen(models, rankings)
    rows: list[Cells] = []
    figures: list[AuditFigure] = []
    ranks: dict[str, list[int]] = {model.name: [] for model in models}
    for caption in captions:
        for model in models:
            rank, own, pictures = _answered(model, rankings[model.name], caption, texts[model.name], looking)
            rows += own
            ranks[model.name].append(rank)
            title = f"{model.name}: {own[0]['caption']!r}"
            figures.append(AuditFigure(title, partial(beside_each_other, pictures), paragraph("tcd", "Middle frames")))
            progress(len(figures) / (len(captions) * len(models)))
    told, effect = shares_first(ranks)
    telling = {row["system"] for row in rows if any(row[head] is not None for head in SCORES.values())}
    silent = [model.name for model in models if model.name not in telling]
    return finding(
        told,
        effect,
        (AuditTable.of("The first clips", rows, digits=3),),
        tuple(figures),
        shown_notices(chosen=not settings.queries and len(models) > 1),
        (
            paragraph("tcd", "Parts of a score"),
            *(f"{name} does not tell what its score is made of." for name in silent),
        ),
    )


def _answered(
    model: Model, scores: ScoreBlocks, row: int, texts: Mapping[str, ClipText], looking: Looking
) -> tuple[int, list[Cells], list[FramedClip]]:
    """The rank of a caption's own clip, and the clips that a system ranks first for it: as rows, and as pictures."""
    part = model.part
    said = answer(model, scores, row, FIRST)
    values = scores.block(slice(row, row + 1), slice(0, len(scores.video_ids)))[0]
    rows: list[Cells] = []
    pictures = []
    for place, (column, own) in enumerate(zip(said.first, part_scores(model, row, said.first), strict=True), start=1):
        clip, right, words = part.videos.ids[column], column == said.own, words_of(texts[part.videos.ids[column]])
        times_s = part.videos.times_s[column][part.videos.frame_mask[column]]
        picture = looking.frames(clip, [float(times_s[len(times_s) // 2])])[0]
        rows.append(
            {
                "system": model.name, "caption": part.corpus.captions["text"][row], "place": place, "clip": clip,
                "it is": "right" if right else "wrong", "score": float(values[column]),
                **{head: own.get(name) for name, head in SCORES.items()}, "words on screen": words or None,
            }
        )  # fmt: skip
        parts = ", ".join(f"{head} {own[name]:.3f}" for name, head in SCORES.items() if name in own)
        pictures.append(FramedClip(f"{place}. {clip}", picture, right, (f"{values[column]:.3f}", parts, words)))
    return said.rank, rows, pictures


def part_scores(model: Model, row: int, columns: tuple[int, ...]) -> list[dict[str, float]]:
    """Return the parts of a caption's scores with some clips, by the matcher's names; empty where it has none."""
    matcher, part = model.matcher, model.part
    caption = encode_texts(matcher, texts_of(part.texts, (part.texts.ids[row],)))
    clips = encode_videos(matcher, videos_of(part.videos, tuple(part.videos.ids[column] for column in columns)))
    found = score_with_parts(matcher, caption, clips).parts
    return [{name: float(values[place]) for name, values in found.items()} for place in range(len(columns))]


def words_of(text: ClipText) -> str:
    """Return the words in the windows of a clip, each once whatever its case, in the order they appear.

    >>> words_of(ClipText((), ("There are scene texts: Gate 12 in this frame.", "", "GATE 9")))
    'Gate 12 9'
    """
    words: dict[str, str] = {}
    for sentence in text.windows:
        for word in words_said(sentence):
            words.setdefault(word.casefold(), word)
    return " ".join(words.values())
