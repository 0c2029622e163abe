"""`evenreel score`: a matcher and the features of a corpus in, scores for `evenreel evaluate` and `audit` out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.files import check_place
from evenreel.cli.options import MOST, MOST_SEED, DeviceOption, JsonOption
from evenreel.cli.score.probes import Probe
from evenreel.cli.score.show import Scored, check_name, check_table, show_scored
from evenreel.cli.score.word_probe import WordProbe
from evenreel.cli.score.words import WordOptions, asks_bm25, score_words
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained
    from evenreel.cli.score.probes import Which
    from evenreel.edits.frame_order import FrameOrder, OneFrame, OrderStage
    from evenreel.types import Corpus

CHECKPOINT_HELP = (
    "A matcher: a folder, a hub id, or mean_pool, which needs no training (zero-shot); or bm25, which compares words "
    "with those on screen and needs no model."
)
OUT_HELP = (
    "Where the scores go: .npz with their ids, or .npy, which `evenreel evaluate` need not read whole, for a table "
    "larger than memory."
)
ORDER_HELP = "original, random or reversed: how the frames of each clip are given to the matcher."
STAGE_HELP = "sampled: move the frames that are taken; video: move all frames first, and take then."
FRAMES_HELP = "Take so many frames of each clip, in the middle of equal parts.  \\[default: all]"
RULE_HELP = "Take them of the features by this rule.  \\[default: as in training]"
PROBE_HELP = "all or generated: whose frames are moved."
SEEN_HELP = "Folder of features by the matcher's towers before their training, for one that selects scene elements."
WORDS_HELP = "Words on screen that bm25 looks for: corpus or ocr.  \\[default: those of the last run]"
BY_HELP = (
    "What bm25 compares: words, or trigrams, which survive misread letters and are the way for scripts without spaces, "
    "such as Chinese.  \\[default: words]"
)
RATIO_HELP = "Keep this share of the words on screen, 0 to 1.  \\[default: as in training]"
UNIT_HELP = "What is kept or left out as one: word, window or clip.  \\[default: as in training, or word]"
ERRORS_HELP = "Misread this share of the characters of words on screen, 0 to 1.  \\[default: as in training]"
WORDS_SEED_HELP = "Of which words are kept and which characters misread.  \\[default: as in training, or 0]"
PROBES = "Probes: what a preference is due to"


def score(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder of the corpus.")],
    features: Annotated[
        Path, typer.Option(help="Folder of the corpus's features, by the encoder that the matcher was trained with.")
    ],
    out: Annotated[Path, typer.Option(help=OUT_HELP)],
    split: Annotated[str | None, typer.Option(help="Part of the corpus to score, such as test.")] = None,
    seen: Annotated[Path | None, typer.Option(help=SEEN_HELP)] = None,
    device: DeviceOption = "auto",
    words: Annotated[str | None, typer.Option(help=WORDS_HELP)] = None,
    by: Annotated[str | None, typer.Option(help=BY_HELP)] = None,
    frame_order: Annotated[str, typer.Option(help=ORDER_HELP, rich_help_panel=PROBES)] = "original",
    probe: Annotated[str, typer.Option(help=PROBE_HELP, rich_help_panel=PROBES)] = "all",
    order_stage: Annotated[str, typer.Option(help=STAGE_HELP, rich_help_panel=PROBES)] = "sampled",
    frames: Annotated[int | None, typer.Option(min=1, max=MOST, help=FRAMES_HELP, rich_help_panel=PROBES)] = None,
    rule: Annotated[str | None, typer.Option(help=RULE_HELP, rich_help_panel=PROBES)] = None,
    single_frame: Annotated[
        str | None, typer.Option(help="Keep one frame: middle, first or random.", rich_help_panel=PROBES)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of what is random.", rich_help_panel=PROBES)] = 0,
    ocr_ratio: Annotated[float | None, typer.Option(min=0, max=1, help=RATIO_HELP, rich_help_panel=PROBES)] = None,
    words_unit: Annotated[str | None, typer.Option(help=UNIT_HELP, rich_help_panel=PROBES)] = None,
    char_errors: Annotated[float | None, typer.Option(min=0, max=1, help=ERRORS_HELP, rich_help_panel=PROBES)] = None,
    words_seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help=WORDS_SEED_HELP, rich_help_panel=PROBES)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score every caption with every clip by a matcher, or by words. Exit status 3 if clips had been set aside."""
    from evenreel.corpus import load_corpus, select

    check_name(out)
    change = Probe(
        order=cast("FrameOrder", frame_order),
        stage=cast("OrderStage", order_stage),
        frames=frames,
        rule=rule,
        one=cast("OneFrame | None", single_frame),
        which=cast("Which", probe),
        seed=seed,
    )
    word_probe = WordProbe(ocr_ratio, char_errors, words_seed, words_unit)
    options = WordOptions(words, by, rule, word_probe)
    options.check(checkpoint, change, seen, device)
    if not asks_bm25(checkpoint):
        change.check(out)
    check_place(out)
    whole = load_corpus(corpus)
    part = whole if split is None else select(whole, split=split)
    splits = [] if split is not None else whole.clips["split"].drop_nulls().unique().sort().to_list()
    if asks_bm25(checkpoint):
        scored = score_words(part, features, out, options)
    else:
        pretrained = _matcher(checkpoint, features, device)
        scored = _score_by_matcher(pretrained, (change, word_probe), (features, seen), part, out)
    if len(splits) > 1:
        together = f"the splits {', '.join(splits)} are scored as one gallery; --split scores one alone"
        scored = replace(scored, notices=(*scored.notices, together))
    show_scored(out, scored, as_json)
    if scored.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _score_by_matcher(
    pretrained: Pretrained,
    probes: tuple[Probe, WordProbe],
    folders: tuple[Path, Path | None],
    part: Corpus,
    out: Path,
) -> Scored:
    """Score a part of a corpus by features that lie in `folders`: those of the clips, and those of `--seen`."""
    from evenreel.cli.waiting import share_bar
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores
    from evenreel.types import ScoreNotes

    _check_label(out, pretrained)
    change, words = probes
    asked = words.asking(pretrained, out)
    with share_bar("reading the captions") as progress:
        loaded = change.load(asked, folders[0], part, progress, seen=folders[1])
    used = pretrained.about.uses
    notices = (*loaded.notices, *words.notices(pretrained))
    scored = Scored(len(loaded.texts.ids), len(loaded.videos.ids), loaded.set_aside, notices, used)
    check_table(out, scored)
    about = ScoreNotes(uses=(*pretrained.about.uses, *change.uses, *loaded.uses))
    scores = matcher_scores(pretrained.matcher, loaded.texts, loaded.videos, about=about)
    with share_bar("scoring") as progress:
        save_scores(scores, out, progress)
    return scored


def _matcher(name: str, features: Path, device: str) -> Pretrained:
    """A checkpoint, or one of our matchers by its name where no folder is called so."""
    from evenreel.checkpoint import load_matcher, untrained_matcher
    from evenreel.matchers import MATCHERS

    if name in MATCHERS and not Path(name).exists():
        return untrained_matcher(name, features, device=device)
    return load_matcher(name, device=device)


def _check_label(out: Path, pretrained: Pretrained) -> None:
    """Refuse, before anything is scored, a file that cannot say what the matcher knows of a test split."""
    if out.suffix == ".npy" and pretrained.about.uses:
        raise UsageError(
            f"The matcher was trained with {' and '.join(pretrained.about.uses)}, which an .npy cannot say; give --out "
            "a name that ends in .npz."
        )
