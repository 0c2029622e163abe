"""`evenreel score`: a matcher and the features of a corpus in, scores for `evenreel evaluate` and `audit` out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.files import check_place
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import CorpusArgument, DeviceOption, JsonOption, SeenOption
from evenreel.cli.progress import share_bar
from evenreel.cli.score.levels import SourceLevelling
from evenreel.cli.score.probes import Probe
from evenreel.cli.score.reading import CaptionReading
from evenreel.cli.score.show import Scored, check_name, check_table, show_scored
from evenreel.cli.score.word_probe import WordProbe
from evenreel.cli.score.words import WordOptions, asks_words, score_words
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.checkpoint import CorpusFeatures, Pretrained
    from evenreel.types import ScoreBlocks, VideoFeatures

CHECKPOINT_HELP = (
    "A matcher: a folder, a hub id, or mean_pool, which needs no training (zero-shot); or what compares words with "
    "those on screen and needs no training: bm25, by letters, or windows, by their features."
)
OUT_HELP = (
    "Where the scores go: .npz with their ids, or .npy, which `evenreel evaluate` need not read whole, for a table "
    "larger than memory."
)
PROBES = "Probes: what a preference is due to"


def score(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    corpus: CorpusArgument,
    features: Annotated[
        Path, typer.Option(help="Folder of the corpus's features, by the encoder that the matcher was trained with.")
    ],
    out: Annotated[Path, typer.Option(help=OUT_HELP)],
    split: Annotated[str | None, typer.Option(help="Part of the corpus to score, such as test.")] = None,
    seen: SeenOption = None,
    device: DeviceOption = "auto",
    options: WordOptions = from_settings(WordOptions, leave_out=("rule", "probe")),
    change: Probe = from_settings(Probe, panel=PROBES),
    levels: SourceLevelling = from_settings(SourceLevelling),
    word_probe: WordProbe = from_settings(WordProbe, panel=PROBES),
    reading: CaptionReading = from_settings(CaptionReading, panel=PROBES),
    as_json: JsonOption = False,
) -> None:
    """Score every caption with every clip by a matcher, or by words. Exit status 3 if clips had been set aside."""
    from evenreel.checkpoint import named_matcher
    from evenreel.corpus import load_corpus, select

    check_name(out)
    options = replace(options, rule=change.rule, probe=word_probe)
    options.check(checkpoint, change, seen, device)
    if not asks_words(checkpoint):
        change.check(out)
        reading.check(out)
        levels.check(out)
    elif reading != CaptionReading() or levels != SourceLevelling():
        raise UsageError(
            f"{checkpoint} reads the words of captions as they are; leave --reading, --alpha, --draws, "
            "--level-sources and --recognise-sources out."
        )
    check_place(out)
    whole = load_corpus(corpus)
    part = whole if split is None else select(whole, split=split)
    splits = [] if split is not None else whole.clips["split"].drop_nulls().unique().sort().to_list()
    if asks_words(checkpoint):
        scored = score_words(checkpoint, part, features, out, options)
    else:
        pretrained = named_matcher(checkpoint, features, device=device)
        if out.suffix == ".npy" and pretrained.about.uses:
            raise UsageError(
                f"The matcher was trained with {' and '.join(pretrained.about.uses)}, which an .npy cannot say; give "
                "--out a name that ends in .npz."
            )
        asked = word_probe.asking(pretrained, out)
        with share_bar("reading the captions") as progress:
            loaded = change.load(asked, features, part, progress, seen=seen)
        uses = (*pretrained.about.uses, *change.uses, *reading.uses, *loaded.uses)
        notices = (*word_probe.notices(pretrained), *(f"scored with {use}" for use in reading.uses))
        with reading.read(pretrained):
            load = partial(change.load, asked, features, progress=lambda share: None, seen=seen)
            level = partial(levels.apply, corpus=whole, pretrained=pretrained, load=load)
            scored = _score_by_matcher(pretrained, loaded, uses, notices, out, level)
    if len(splits) > 1:
        together = f"the splits {', '.join(splits)} are scored as one gallery; --split scores one alone"
        scored = replace(scored, notices=(*scored.notices, together))
    show_scored(out, scored, as_json)
    if scored.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _score_by_matcher(
    pretrained: Pretrained,
    loaded: CorpusFeatures,
    uses: tuple[str, ...],
    notices: tuple[str, ...],
    out: Path,
    level: Callable[[ScoreBlocks, VideoFeatures], ScoreBlocks],
) -> Scored:
    """Write the scores of all captions with all clips, which say what they use."""
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores
    from evenreel.types import ScoreNotes

    said = (*loaded.notices, *notices)
    scored = Scored(len(loaded.texts.ids), len(loaded.videos.ids), loaded.set_aside, said, pretrained.about.uses)
    check_table(out, scored)
    scores = matcher_scores(pretrained.matcher, loaded.texts, loaded.videos, about=ScoreNotes(uses=uses))
    with share_bar("scoring") as progress:
        save_scores(level(scores, loaded.videos), out, progress)
    return scored
