"""Features of a corpus for a matcher to score, made like those that it was trained on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evenreel.checkpoint.records import About, Inputs, Pretrained
from evenreel.encoders import load_encoder
from evenreel.errors import EncoderError, FeaturesError
from evenreel.features.load import (
    FoundClips,
    find_clips,
    load_text_features,
    with_graphs,
    with_pretrained_means,
)
from evenreel.features.manifest import FeatureSet, read_manifest
from evenreel.features.pool import SetAside
from evenreel.features.settings import FLOAT32, rule_text
from evenreel.features.stored import StoredClips
from evenreel.features.word_changes import WordChanges, changed_sentences, with_changed_words
from evenreel.matchers.batches import row_lengths
from evenreel.progress import Progress
from evenreel.types import Corpus, Encoder, Shown, TextFeatures, VideoFeatures


@dataclass(frozen=True, eq=False)
class CorpusFeatures(Shown):
    """Features of a corpus's captions and clips for a matcher to score.

    Attributes:
        texts: features of every caption, with role graphs where the matcher reads these.
        videos: features of the clips, without those that were set aside.
        set_aside: clips set aside, with the reason.
        found: stored features of the clips, in which no words are changed.
        notices: sentences on captions and clips longer than any that the matcher was trained on.
        uses: changes of on-screen words, in words, for the notes of scores.
    """

    texts: TextFeatures
    videos: VideoFeatures
    set_aside: tuple[SetAside, ...]
    found: FoundClips | StoredClips
    notices: tuple[str, ...]
    uses: tuple[str, ...] = ()


def load_features_for(
    pretrained: Pretrained,
    folder: str | Path,
    corpus: Corpus,
    progress: Progress = lambda share: None,
    *,
    pretrained_features: str | Path | None = None,
) -> CorpusFeatures:
    """Load the features of a corpus that a checkpoint's matcher can score (`evenreel.matchers.scoring.matcher_scores`).

    Args:
        pretrained: checkpoint of the matcher that will score.
        folder: folder made by `evenreel features`.
        corpus: captions and clips to score; select the split first.
        progress: called with the share of the captions that became role graphs, where the matcher reads these, or of
            the sentences on screen that were encoded because their words are changed.
        pretrained_features: folder of features of the same clips by its towers before training, where it uses these
            (`Limits.pretrained_mean`) and its towers were trained further.

    Raises:
        FeaturesError: the features are of another encoder than the matcher's, or of frames or windows that it was not
            trained on; one is missing; a file is damaged; `pretrained_features` is missing, or given and not needed.
        CorpusError: a role graph of the corpus is malformed.
    """
    folder = Path(folder)
    _check_pretrained(pretrained, pretrained_features)
    found, videos, aside = _videos(pretrained.about, folder, corpus)
    changes = pretrained.about.inputs.word_changes or WordChanges()
    videos = changed_words(found, videos, changes, progress)
    if pretrained_features is not None:
        videos = with_pretrained_means(videos, pretrained_features, corpus)
    texts = load_text_features(folder, corpus)
    if pretrained.matcher.limits.graphs:
        texts = with_graphs(texts, corpus, progress)
    notices = tuple(_longer(pretrained.about.inputs, texts, videos))
    return CorpusFeatures(texts, videos, aside, found, notices, changes.uses)


def _check_pretrained(pretrained: Pretrained, pretrained_features: str | Path | None) -> None:
    """Refuse to select scene elements by the features of another tower than training did."""
    note, asked = pretrained.about.encoder, pretrained.needs_pretrained_means
    if pretrained_features is None and asked:
        raise FeaturesError(
            f"The matcher selects scene elements by how {note.id} saw clips before it was trained further; compute "
            f"features of the corpus with {note.id}, and name their folder too (--pretrained-features)."
        )
    if pretrained_features is None:
        return
    if not asked:
        raise FeaturesError(
            "The matcher asks for no features of towers before their training; leave --pretrained-features out."
        )
    given = read_manifest(Path(pretrained_features))
    if given.weights_hash != note.before:
        weights = ", with other weights" if given.encoder_id == note.id else ""
        raise FeaturesError(
            f"The features in {pretrained_features} are of {given.encoder_id}, and the matcher's towers were {note.id} "
            f"before their training{weights}; compute them with the model that training began with."
        )


def _videos(
    about: About, folder: Path, corpus: Corpus
) -> tuple[FoundClips | StoredClips, VideoFeatures, tuple[SetAside, ...]]:
    """The latest fitting features that are there for all clips: later ones may be those of another corpus."""
    windows = about.inputs.windows is not None
    refusals: list[FeaturesError] = []
    for made in _made_for(about, folder):
        try:
            streams = about.inputs.streams
            found = find_clips(folder, corpus, rule=made.rule, words=made.words, windows=windows, streams=streams)
            return found, *found.load()
        except FeaturesError as error:
            refusals.append(error)
    raise refusals[0]


def _made_for(about: About, folder: Path) -> list[FeatureSet]:
    """Which of the features in a folder are as those that the matcher was trained on, the latest first."""
    manifest, note, inputs = read_manifest(folder), about.encoder, about.inputs
    if note.weights_hash != manifest.weights_hash:
        differ = "streams" if note.stored_name is not None and manifest.streams else "weights"
        raise FeaturesError(
            f"The matcher was trained on features of {note}, {folder} holds those of {manifest.title}, and their "
            f"{differ} differ; make others with `{about.features_command}`."
        )
    fitting = [made for made in reversed(manifest.sets) if _fits(made, inputs)]
    if not fitting:
        frames = "" if inputs.rule is None else f" by '{rule_text(inputs.rule)}'"
        text = "" if inputs.windows is None else f" and {inputs.on_screen}"
        precision = "" if manifest.precision == FLOAT32 else f" --precision {manifest.precision}"
        raise FeaturesError(
            f"The matcher was trained on frames{frames}{text}, and {folder} holds no such features; add them with "
            f"`{about.features_command}{precision} --out {shlex.quote(str(folder))}`."
        )
    return fitting


def _fits(made: FeatureSet, inputs: Inputs) -> bool:
    rule = None if inputs.rule is None else rule_text(inputs.rule)
    return (
        rule in (None, made.rule) and inputs.windows in (None, made.windows) and inputs.words_from in (None, made.words)
    )


def _longer(inputs: Inputs, texts: TextFeatures, videos: VideoFeatures) -> Iterator[str]:
    for mask, most, what, parts in (
        (texts.word_mask, inputs.words, "caption", "word features"),
        (videos.frame_mask, inputs.frames, "clip", "frames"),
    ):
        longer = 0 if most is None else int((row_lengths(mask) > most).sum())
        if longer:
            yield (
                f"{longer:,} of {len(mask):,} {what}s have more than the {most} {parts} that the matcher was trained "
                "on, and are scored whole"
            )


def changed_words(
    found: FoundClips | StoredClips,
    videos: VideoFeatures,
    changes: WordChanges | None,
    progress: Progress = lambda share: None,
    encoder: Callable[[], Encoder] | None = None,
) -> VideoFeatures:
    """Return features of clips whose on-screen words are changed and encoded anew.

    Args:
        found: stored features of clips with on-screen text.
        videos: those features, loaded by `found.load()`.
        changes: changes of the words; None for none.
        progress: called with the share of the sentences to encode that is done.
        encoder: function that loads the encoder of the features, to share one; None for `encoder_of(found)`.

    Raises:
        FeaturesError: a clip has no on-screen text that can be changed, or the encoder cannot be loaded.
        EncoderError: a feature is not finite.
    """
    if changes is None:
        return videos
    return with_changed_words(found, videos, changes, encoder or partial(encoder_of, found), progress)


def changed_texts(found: FoundClips, changes: WordChanges) -> dict[str, tuple[str, ...]]:
    """Return the on-screen sentences of clips' windows after changes of their words, by clip id."""
    said, _ = changed_sentences(found, changes, partial(encoder_of, found))
    return {clip_id: tuple(one.text for one in clip) for clip_id, clip in said.items()}


def encoder_of(found: FoundClips | StoredClips) -> Encoder:
    """Load the encoder that made stored features."""
    manifest = found.manifest
    try:
        return load_encoder(manifest.encoder_id, precision=manifest.precision)
    except EncoderError as error:
        raise FeaturesError(
            f"Changed words on screen have to be read by the encoder of the features in {found.folder}, "
            f"{manifest.title}, and it cannot be had: {error}"
        ) from error
