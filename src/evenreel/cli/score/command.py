"""`evenreel score`: a matcher, words on screen or a library's search in, scores for `evenreel evaluate` out."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.command import check_place
from evenreel.cli.options import MOST, MOST_SEED, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.config import OptionForm
from evenreel.edits.settings import FrameOrder, OneFrame, OrderStage
from evenreel.errors import CorpusError, FeaturesError, OutputError, UsageError
from evenreel.progress import Progress
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.checkpoint import CorpusFeatures, Pretrained
    from evenreel.features import SetAside
    from evenreel.features.load import FoundClips
    from evenreel.features.settings import Words
    from evenreel.features.stored import StoredClips
    from evenreel.features.word_changes import WordChanges
    from evenreel.language.bm25 import Bm25Scores, By
    from evenreel.matchers import Matcher
    from evenreel.types import Corpus, ScoreBlocks, Scores, TextFeatures, VideoFeatures


LARGE_BYTES = 2**30
SCORE_BYTES = 4
MANY = 10


@dataclass(frozen=True)
class Scored:
    captions: int  # number of captions
    clips: int  # number of clips
    set_aside: tuple[SetAside, ...] = ()  # clips that were left out, with the reasons
    notices: tuple[str, ...] = ()  # sentences on what a reader should know
    uses: tuple[str, ...] = ()  # what went into the scores, see `evenreel.types.ScoreNotes.uses`
    use: str = "the matcher was trained with"  # words before each of `uses` where it is shown


def check_said(out: Path, said: object, what: str) -> None:
    """Refuse an .npy where there is something that it cannot say."""
    if said and out.suffix == ".npy":
        raise UsageError(f"An .npy cannot say {what}; let --out end in .npz.")


def _check_words(*asked: tuple[str, str | None, Sequence[str]]) -> None:
    """Refuse what an option says if it is none of its words."""
    for option, word, known in asked:
        if word is not None and word not in known:
            raise UsageError(f"{option} is {word!r}; it must be {', '.join(known[:-1])} or {known[-1]}.")


def check_table(out: Path, scored: Scored) -> None:
    """Check, before hours are spent, that a table can be written, and say how large a large one will be."""
    if out.suffix == ".npy" and scored.set_aside:
        raise UsageError(
            f"The features leave {count(len(scored.set_aside), 'clip')} out that had been skipped, and an .npy does "
            "not say which clips it is about; give --out a name that ends in .npz."
        )
    needed, free = SCORE_BYTES * scored.captions * scored.clips, shutil.disk_usage(out.parent).free
    size = f"The scores of {scored.captions:,} captions and {scored.clips:,} clips take {needed / 2**30:.1f} GiB"
    if needed > free:
        raise OutputError(f"{size}, and {out.parent} has {free / 2**30:.1f} GiB left; choose another place.")
    if needed > LARGE_BYTES:
        typer.echo(f"{size} in {out}.", err=True)


def show_scored(out: Path, scored: Scored, as_json: bool) -> None:
    aside = scored.set_aside
    if as_json:
        result = {"scores": out, "captions": scored.captions, "clips": scored.clips}
        print_json(result | {"notices": scored.notices, "uses": scored.uses, "set_aside": aside})
        return
    terminal = console()
    written = f"Scored {count(scored.captions, 'caption')} with {count(scored.clips, 'clip')} each into"
    terminal.print(f"{written} {safe(out)}.")
    for use in scored.uses:
        terminal.print(f"  [yellow]{scored.use} {safe(use)}[/]: its scores say so, wherever they are shown")
    for notice in scored.notices:
        terminal.print(f"  note: {safe(notice)}")
    list_aside(aside, WITHOUT, ": evaluate with --partial.", MANY)
    if len(aside) > MANY:
        terminal.print(f"  and {len(aside) - MANY:,} more (--json lists them all)")


Which = Literal["all", "generated"]

SOME = 64  # captions and clips that tell whether a matcher sees the order of frames

BLIND = (
    "the matcher gives the same scores whatever the order of frames, so that this says nothing of what is due to motion"
)


@dataclass(frozen=True)
class Probe:
    """Changes of the frames of clips before they are scored; by default none.

    Attributes:
        order: how the frames of each clip are given to the matcher: original, random or reversed.
        stage: `sampled`: move the frames that are taken; `video`: move all frames first, and take then.
        frames: take so many frames of each clip, in the middle of equal parts; None for all.
        rule: take frames of the features by this rule, as `evenreel features --rule` has it; None for that in training.
        one: keep one frame of each clip: middle, first or random.
        which: `all` or `generated`: whose frames are moved.
        seed: seed of what is random.
    """

    order: Annotated[FrameOrder, OptionForm("--frame-order")] = "original"
    stage: Annotated[OrderStage, OptionForm("--order-stage")] = "sampled"
    frames: Annotated[int | None, OptionForm(least=1, most=MOST)] = None
    rule: str | None = None
    one: Annotated[OneFrame | None, OptionForm("--single-frame")] = None
    which: Annotated[Which, OptionForm("--probe")] = "all"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_words(
            ("--frame-order", self.order, get_args(FrameOrder)),
            ("--order-stage", self.stage, get_args(OrderStage)),
            ("--single-frame", self.one, get_args(OneFrame)),
            ("--probe", self.which, get_args(Which)),
        )

    def check(self, out: Path) -> None:
        """Check, before anything is loaded, that the options go together."""
        alone = "--single-frame leaves nothing to move or to take; give it alone"
        for wrong, sentence in (
            (self.one and (self.moves or self.frames), alone),
            (self.which == "generated" and not self.moves, "--probe says whose frames --frame-order moves; give both"),
            (self.stage == "video" and not self.moves, "--order-stage says when --frame-order moves frames; give both"),
            (self.stage == "video" and not self.frames, "--order-stage video needs --frames, how many are taken then"),
            (self.rule and not self.frames, "--rule needs --frames, how many of its frames the matcher is given"),
        ):
            if wrong:
                raise UsageError(f"{sentence}.")
        check_said(out, self.uses, "what was done to frames")

    @property
    def moves(self) -> bool:
        return self.order != "original"

    @property
    def uses(self) -> tuple[str, ...]:
        """Notes for scores of changed frames, see `evenreel.types.ScoreNotes.uses`."""
        seed = f" (seed {self.seed})"
        if self.one:
            return (f"the {self.one} frame of each clip alone{seed if self.one == 'random' else ''}",)
        if not self.moves:
            return ()
        whose = "frames of generated clips" if self.which == "generated" else "frames"
        late = f", moved before {self.frames} were taken" if self.stage == "video" else ""
        return (f"{whose} in {self.order} order{seed if self.order == 'random' else ''}{late}",)

    def load(
        self,
        pretrained: Pretrained,
        features: Path,
        corpus: Corpus,
        progress: Progress,
        pretrained_features: Path | None = None,
    ) -> CorpusFeatures:
        from evenreel.checkpoint import load_features_for

        asked = self._asking(pretrained, features)
        loaded = load_features_for(asked, features, corpus, progress, pretrained_features=pretrained_features)
        changed = replace(loaded, videos=self._changed(loaded.videos, corpus))
        most, notices = pretrained.about.inputs.frames, [f"scored with {use}" for use in self.uses]
        if self.frames:
            notices.append(f"{self.frames} frames are taken of a clip that has more")
        if self.frames and most and self.frames > most:
            notices.append(f"the matcher was trained on {most} frames at most")
        if self.moves and not _sees_order(pretrained.matcher, changed):
            notices.append(BLIND)
        return replace(changed, notices=(*loaded.notices, *notices))

    def _asking(self, pretrained: Pretrained, features: Path) -> Pretrained:
        """The matcher as if it had been trained on the features that are wanted."""
        from evenreel.features import read_manifest
        from evenreel.media import parse_rule

        if self.frames is None:
            return pretrained
        inputs = replace(pretrained.about.inputs, frames=None)
        if self.rule is None:
            return replace(pretrained, about=replace(pretrained.about, inputs=inputs))
        rule = str(parse_rule(self.rule))
        about = replace(pretrained.about, inputs=replace(inputs, rule=rule))
        if rule not in {made.rule for made in read_manifest(features).sets}:
            command = f"{about.features_command} --out {shlex.quote(str(features))}"
            raise FeaturesError(f"{features} holds no frames by '{rule}'; add them with `{command}`.")
        return replace(pretrained, about=about)

    def _changed(self, videos: VideoFeatures, corpus: Corpus) -> VideoFeatures:
        from evenreel.corpus.counterparts import groups_of
        from evenreel.edits.frame_order import reordered, single_frame

        if self.one:
            return single_frame(videos, self.one, seed=self.seed)
        only = None if self.which == "all" else groups_of(corpus)
        if only is not None and not only:
            raise CorpusError("No clip of the corpus is generated; say so in its column source, or leave --probe out.")
        return reordered(videos, self.order, stage=self.stage, take=self.frames, seed=self.seed, only=only)


def _sees_order(matcher: Matcher, loaded: CorpusFeatures) -> bool:
    import numpy as np

    from evenreel.adaptation.stream import taken
    from evenreel.edits.frame_order import sees_order
    from evenreel.matchers.scoring import matcher_scores

    texts = taken(loaded.texts, np.arange(min(SOME, len(loaded.texts.ids))))
    some = loaded.videos.taken(slice(SOME))
    return sees_order(lambda videos: matcher_scores(matcher, texts, videos).score_all().values, some)


Share = Annotated[float | None, typer.Option(min=0, max=1)]


@dataclass(frozen=True)
class WordProbe:
    """Changes of on-screen words in place of those in training; see `WordChanges`.

    Attributes:
        ocr_ratio: keep this share of the words on screen, 0 to 1; None for that in training.
        words_unit: what is kept or left out as one: word, window or clip; None for that in training, or word.
        char_errors: misread this share of the characters of words on screen, 0 to 1; None for that in training.
        words_seed: seed of which words are kept and which characters misread; None for that in training, or 0.
    """

    ocr_ratio: Share = None
    words_unit: str | None = None
    char_errors: Share = None
    words_seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED)] = None

    def __post_init__(self) -> None:
        _check_words(("--words-unit", self.words_unit, ("word", "window", "clip")))

    def changes(self, trained: WordChanges | None) -> WordChanges | None:
        """Return the changes of words for a matcher that was trained with others; None for no changes."""
        from evenreel.features.word_changes import WordChanges

        asked = {
            "ratio": self.ocr_ratio, "char_errors": self.char_errors, "seed": self.words_seed, "unit": self.words_unit,
        }  # fmt: skip
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        if not given:
            return trained
        changes = replace(trained or WordChanges(), **given)
        if not changes.words_differ and (self.words_seed is not None or self.words_unit is not None):
            raise UsageError(
                "--words-seed and --words-unit say which words --ocr-ratio and --char-errors change; give one of these."
            )
        return changes

    def asking(self, pretrained: Pretrained, out: Path) -> Pretrained:
        """Return the matcher as if it had been trained with these changes."""
        inputs = pretrained.about.inputs
        if inputs.windows is None and self != WordProbe():
            raise UsageError(
                "The matcher reads no words on screen, so there are none to change: leave --ocr-ratio, --char-errors, "
                "--words-seed and --words-unit out."
            )
        changes = self.changes(inputs.word_changes)
        check_said(out, changes and changes.uses, f"that scores are with {changes}")
        about = replace(pretrained.about, inputs=replace(inputs, word_changes=changes))
        return replace(pretrained, about=about)

    def notices(self, pretrained: Pretrained) -> tuple[str, ...]:
        """List sentences on how words are changed, and that the matcher was trained with other changes."""
        from evenreel.features.word_changes import WordChanges

        trained = pretrained.about.inputs.word_changes or WordChanges()
        changes = self.changes(trained) or trained
        told = [f"scored with {use}" for use in changes.uses]
        if trained.words_differ and changes != trained:
            told.append(f"the matcher was made for {trained}")
        return tuple(told)


@dataclass(frozen=True)
class CaptionReading:
    """Parts that captions are encoded by, of a matcher that splits them in content and bias (BiMa, section 3.3).

    Attributes:
        reading: what captions are encoded by, of a matcher with both (BiMa, table 5): content or bias.
        alpha: add this share of the bias to the content (BiMa, figure 4).
        draws: the mean of so many draws of the bias; 0 for its mean.
        draws_seed: seed of these draws.
    """

    reading: str = "content"
    alpha: Annotated[float, typer.Option(min=-1000, max=1000)] = 0.0
    draws: Annotated[int, typer.Option(min=0, max=MOST)] = 0
    draws_seed: Annotated[int, typer.Option(min=0, max=MOST_SEED)] = 0

    def __post_init__(self) -> None:
        _check_words(("--reading", self.reading, ("content", "bias")))
        if self.reading == "bias" and self.alpha:
            raise UsageError("--alpha adds bias to content, and --reading bias has the bias alone; give one of them.")
        if not self._has_bias and (self.draws or self.draws_seed):
            raise UsageError("--draws and --draws-seed draw the bias; give --reading bias or --alpha with them.")
        if self.draws_seed and not self.draws:
            raise UsageError("--draws-seed is of --draws, and none are drawn; say how many.")

    @property
    def _has_bias(self) -> bool:
        return self.reading == "bias" or self.alpha != 0

    @property
    def uses(self) -> tuple[str, ...]:
        """Notes for scores of captions that are read so, see `evenreel.types.ScoreNotes.uses`."""
        if not self._has_bias:
            return ()
        drawn = f"the mean of {self.draws} draws (seed {self.draws_seed})" if self.draws else "its mean"
        if self.reading == "bias":
            return (f"the bias of captions in place of their content, {drawn}",)
        return (f"the content of captions and {self.alpha:g} times their bias, {drawn}",)

    def read(self, pretrained: Pretrained) -> AbstractContextManager[None]:
        """Return a context in which the matcher encodes captions by these parts of them."""
        if not self._has_bias:
            return nullcontext()
        from evenreel.checkpoint.architecture import module
        from evenreel.matchers.bima import Bima, Reading, captions_read

        network = module(pretrained.matcher)
        if not any(isinstance(part, Bima) and part.bias is not None for part in network.modules()):
            raise UsageError(
                "The matcher has no bias of captions to read: --reading, --alpha and --draws are for bima."
            )
        part = cast("Literal['content', 'bias']", self.reading)
        return captions_read(network, Reading(part, self.alpha, self.draws, self.draws_seed))


@dataclass(frozen=True)
class SourceLevelling:
    """Held-out split by which scores of generated clips are lowered (`evenreel.debias.source`).

    Attributes:
        level_sources: held-out split, such as val: score the clips of each generator lower by as much as its right
            answers score above those of real clips there; None for scores as they are.
        recognise_sources: split whose clips say what made them, such as train: tell it of the clips that are scored by
            their mean frames instead of the corpus; None to take it from the corpus.
    """

    level_sources: str | None = None
    recognise_sources: str | None = None

    def check(self, out: Path) -> None:
        """Refuse a file of scores that cannot say that they are levelled, and sources that nothing is levelled by."""
        if self.recognise_sources and not self.level_sources:
            raise UsageError(
                "--recognise-sources tells whose scores are lowered; name a held-out split by --level-sources."
            )
        check_said(out, self.level_sources, "that its scores are levelled")

    def apply(
        self,
        scores: ScoreBlocks,
        videos: VideoFeatures,
        *,
        corpus: Corpus,
        pretrained: Pretrained,
        load: Callable[[Corpus], CorpusFeatures],
    ) -> ScoreBlocks:
        """Level scores, or return them unchanged where no split is named."""
        if self.level_sources is None:
            return scores
        from evenreel.corpus import select
        from evenreel.corpus.counterparts import sources_of
        from evenreel.debias.source import levelled, recognised_sources, source_levels
        from evenreel.features.scene_elements import clip_means
        from evenreel.matchers.scoring import matcher_scores

        held, sources = select(corpus, split=self.level_sources), sources_of(corpus)
        loaded = load(held)
        levels = source_levels(matcher_scores(pretrained.matcher, loaded.texts, loaded.videos), held, sources)
        if self.recognise_sources is not None:
            known = load(select(corpus, split=self.recognise_sources)).videos
            named = [sources[clip_id] for clip_id in known.ids]
            found = recognised_sources(clip_means(known), named, clip_means(videos))
            sources = dict(zip(videos.ids, found, strict=True))
        return levelled(scores, levels, sources)


def score_library(library: str, corpus: Corpus, out: Path, device: str) -> Scored:
    from evenreel.cli.score.search_scores import search_scores
    from evenreel.evaluation import save_scores
    from evenreel.features import SetAside
    from evenreel.library import open_library

    check_said(out, library, "that a search uses word counts of the library")
    with open_library(library, device=device) as opened, share_bar("searching") as progress:
        found = search_scores(opened, corpus, progress)
    paths = dict(corpus.clips.select("clip_id", "path").iter_rows())
    aside = tuple(
        SetAside(clip, paths[clip] or "", "unreadable", "the library does not have its file") for clip in found.missing
    )
    scores, uses = found.scores, found.scores.about.uses
    scored = Scored(len(scores.caption_ids), len(scores.video_ids), aside, (), uses, "words are weighed by")
    check_table(out, scored)
    with share_bar("writing") as progress:
        save_scores(scores, out, progress)
    return scored


BM25, WINDOWS = "bm25", "windows"


@dataclass(frozen=True)
class WordOptions:
    """Options of `evenreel score` that are about words.

    Attributes:
        words: words on screen that bm25 and windows look for: corpus or ocr; None for those of the last run.
        by: what bm25 compares: words, or trigrams, which survive misread letters and are the way for scripts without
            spaces, such as Chinese; None for words.
    """

    words: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        _check_words(("--words", self.words, ("corpus", "ocr")), ("--by", self.by, ("words", "trigrams")))

    def check(self, checkpoint: str, changes: ScoreChanges, source: ScoredClips) -> None:
        """Refuse options of words for a matcher, and those of frames and models for words."""
        if not asks_words(checkpoint):
            if self.words or self.by:
                raise UsageError(
                    "--words is for bm25 and windows, --by for bm25; a matcher reads what it was trained on."
                )
        elif source.pretrained_features or replace(changes.frames, rule=None, seed=0) != Probe():
            raise UsageError(
                f"{checkpoint} reads the words on screen and no frame; leave the options about frames out."
            )
        elif changes.frames.seed:
            raise UsageError(
                f"--seed draws frames, and {checkpoint} reads none; --words-seed says which words are kept or misread."
            )
        elif source.device != "auto":
            raise UsageError(f"{checkpoint} has no model that could run on a device; leave --device out.")
        elif checkpoint == WINDOWS and self.by:
            raise UsageError("--by says what bm25 compares; windows compares features of words, so leave it out.")
        elif checkpoint == BM25 and changes.words.words_unit == "window":
            raise UsageError(
                "bm25 reads the words of whole clips and knows no windows; let --words-unit be word or clip."
            )


def asks_words(checkpoint: str) -> bool:
    """Check whether the name of a checkpoint means bm25 or windows, and no folder is called so."""
    return checkpoint in (BM25, WINDOWS) and not Path(checkpoint).exists()


def score_words(
    name: str, corpus: Corpus, features: Path, out: Path, options: WordOptions, asked: ScoreChanges
) -> Scored:
    from evenreel.evaluation import save_scores
    from evenreel.features import find_clips, load_text_features
    from evenreel.features.word_changes import WordChanges

    if out.suffix == ".npy":
        use = "word counts" if name == BM25 else "scores of other clips"
        raise UsageError(f"{name} uses {use} of the gallery, which an .npy cannot say; let --out end in .npz.")
    changes = asked.words.changes(None) or WordChanges()
    words = cast("Words | None", options.words)
    clips = find_clips(features, corpus, rule=asked.frames.rule, words=words, windows=name == WINDOWS or None)
    scores: Bm25Scores | Scores
    if name == BM25:
        scores, scored = _by_bm25(clips, corpus, cast("By", options.by or "words"), changes)
    else:
        scores, scored = _by_windows(clips, load_text_features(features, corpus), changes)
    check_table(out, scored)
    with share_bar("scoring") as progress:
        save_scores(replace(scores, about=scores.about.using(*changes.uses)), out, progress)
    return scored


def _by_bm25(
    clips: FoundClips | StoredClips, corpus: Corpus, by: By, changes: WordChanges
) -> tuple[Bm25Scores, Scored]:
    from evenreel.features.on_screen import sign_texts
    from evenreel.language.bm25 import bm25_scores

    signs, aside = sign_texts(clips, changes)
    captions = dict(corpus.captions.select("caption_id", "text").iter_rows())
    scores = bm25_scores(captions, signs, by=by)
    notices = _words_notices(changes, sum(not any(texts) for texts in signs.values()), len(signs))
    if silent := scores.silent:
        notices.append(
            f"{silent:,} of {count(len(captions), 'caption')} share nothing with any screen: they score 0 with all "
            "clips, whose order is left open"
        )
    uses, use = scores.about.uses, "words are weighed by"
    return scores, Scored(len(captions), len(signs), aside, tuple(notices), uses, use)


def _by_windows(clips: FoundClips | StoredClips, texts: TextFeatures, changes: WordChanges) -> tuple[Scores, Scored]:
    from evenreel.checkpoint.corpus_features import changed_words
    from evenreel.features.windows import window_scores

    videos, aside = clips.load()
    with share_bar("reading the windows") as progress:
        videos = changed_words(clips, videos, changes, progress)
    scores = window_scores(texts, videos)
    bare = 0 if videos.on_screen is None else int((~videos.on_screen.mask.any(1)).sum())
    notices, use = _words_notices(changes, bare, len(videos.ids)), "clips without text are given the"
    return scores, Scored(len(scores.caption_ids), len(videos.ids), aside, tuple(notices), scores.about.uses, use)


def _words_notices(changes: WordChanges, bare: int, clips: int) -> list[str]:
    unwritten = [f"nothing is written in {bare:,} of {count(clips, 'clip')}"] if bare else []
    return [f"scored with {use}" for use in changes.uses] + unwritten


CHECKPOINT_HELP = (
    "A matcher: a folder, a hub id, or mean_pool, which needs no training (zero-shot); what compares words with those "
    "on screen and needs no training: bm25, by letters, or windows, by their features; or a folder of a library, whose "
    "whole search is scored."
)
OUT_HELP = (
    "Where the scores go: .npz with their ids, or .npy, which `evenreel evaluate` need not read whole, for a table "
    "larger than memory."
)
PROBES = "Probes: what a preference is due to"


@dataclass(frozen=True)
class ScoredClips:
    """Captions and clips that are scored, and the features by which a matcher sees them.

    Attributes:
        corpus: folder of the corpus.
        features: folder of the corpus's features, by the encoder that the matcher was trained with; a library has its
            own.
        split: part of the corpus to score, such as test.
        pretrained_features: folder of features by the matcher's towers before their training, for one that selects
            scene elements.
        device: where the model runs: auto, cpu, cuda, cuda:1, mps.
    """

    corpus: Annotated[Path, typer.Argument(metavar="CORPUS")]
    features: Path | None = None
    split: str | None = None
    pretrained_features: Path | None = None
    device: str = "auto"


@dataclass(frozen=True)
class ScoreChanges:
    """What is changed before clips are scored, or of the scores; nothing unless an option says so.

    Attributes:
        frames: changes of the frames of clips.
        words: changes of the words on screen.
        reading: parts that captions are encoded by.
        levels: what is taken off scores of generated clips.
    """

    frames: Probe
    words: WordProbe
    reading: CaptionReading
    levels: SourceLevelling

    def check(self, checkpoint: str, out: Path) -> None:
        """Check, before anything is loaded, that a matcher, or words, can be scored so."""
        if not asks_words(checkpoint):
            self.frames.check(out)
            check_said(out, self.reading.uses, "what captions were read by")
            self.levels.check(out)
        elif self.reading != CaptionReading() or self.levels != SourceLevelling():
            raise UsageError(
                f"{checkpoint} reads the words of captions as they are; leave --reading, --alpha, --draws, "
                "--level-sources and --recognise-sources out."
            )


def score(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    out: Annotated[Path, typer.Option(help=OUT_HELP)],
    source: ScoredClips = from_settings(ScoredClips),
    options: WordOptions = from_settings(WordOptions),
    changes: ScoreChanges = from_settings(
        ScoreChanges,
        frames=from_settings(Probe, panel=PROBES),
        words=from_settings(WordProbe, panel=PROBES),
        reading=from_settings(CaptionReading, panel=PROBES),
        levels=from_settings(SourceLevelling),
    ),
    as_json: JsonOption = False,
) -> None:
    """Score every caption with every clip by a matcher, words, or a search. Exit status 3: clips had been skipped."""
    from evenreel.corpus import load_corpus, select

    if out.suffix not in (".npz", ".npy"):
        raise UsageError(f"{out} ends neither in .npz nor in .npy; give --out one of these names.")
    of_library = (Path(checkpoint) / "catalog.sqlite").is_file()
    if of_library and (source.features or source.pretrained_features):
        raise UsageError("A library has its own vectors; leave --features and --pretrained-features out.")
    if of_library and changes != ScoreChanges(Probe(), WordProbe(), CaptionReading(), SourceLevelling()):
        raise UsageError("The search of a library is scored as it is; leave options that change what is seen out.")
    if not of_library and source.features is None:
        raise UsageError("A matcher, and what compares words, reads features; name their folder with --features.")
    options.check(checkpoint, changes, source)
    changes.check(checkpoint, out)
    check_place(out)
    whole = load_corpus(source.corpus)
    part = whole if source.split is None else select(whole, split=source.split)
    if of_library:
        scored = score_library(checkpoint, part, out, source.device)
    elif asks_words(checkpoint):
        scored = score_words(checkpoint, part, cast("Path", source.features), out, options, changes)
    else:
        scored = _score_by_matcher(checkpoint, source, whole, part, out, changes)
    splits = [] if source.split is not None else whole.clips["split"].drop_nulls().unique().sort().to_list()
    if len(splits) > 1:
        together = f"the splits {', '.join(splits)} are scored as one gallery; --split scores one alone"
        scored = replace(scored, notices=(*scored.notices, together))
    show_scored(out, scored, as_json)
    if scored.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _score_by_matcher(
    checkpoint: str, source: ScoredClips, whole: Corpus, part: Corpus, out: Path, changes: ScoreChanges
) -> Scored:
    from evenreel.checkpoint import named_matcher
    from evenreel.evaluation import save_scores
    from evenreel.matchers.scoring import matcher_scores
    from evenreel.types import ScoreNotes

    frames, reading, features = changes.frames, changes.reading, cast("Path", source.features)
    pretrained = named_matcher(checkpoint, features, device=source.device)
    trained_with = pretrained.about.uses
    if out.suffix == ".npy" and trained_with:
        raise UsageError(
            f"The matcher was trained with {' and '.join(trained_with)}, which an .npy cannot say; give --out a name "
            "that ends in .npz."
        )
    asking = changes.words.asking(pretrained, out)
    load = partial(frames.load, asking, features, pretrained_features=source.pretrained_features)
    with share_bar("reading the captions") as progress:
        loaded = load(part, progress)
    uses = (*trained_with, *frames.uses, *reading.uses, *loaded.uses)
    read = (f"scored with {use}" for use in reading.uses)
    notices = (*loaded.notices, *changes.words.notices(pretrained), *read)
    scored = Scored(len(loaded.texts.ids), len(loaded.videos.ids), loaded.set_aside, notices, trained_with)
    with reading.read(pretrained):
        check_table(out, scored)
        scores = matcher_scores(pretrained.matcher, loaded.texts, loaded.videos, about=ScoreNotes(uses=uses))
        again = partial(load, progress=lambda share: None)
        with share_bar("scoring") as progress:
            levelled = changes.levels.apply(scores, loaded.videos, corpus=whole, pretrained=pretrained, load=again)
            save_scores(levelled, out, progress)
    return scored
