"""Loading of the data that a recipe names: features, or a backbone with clips that can be decoded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.checkpoint.architecture import kept_weights, reads_graphs, uses_in
from evenreel.checkpoint.loading import load_matcher
from evenreel.checkpoint.records import Pretrained
from evenreel.checkpoint.word_changes import changed_words, encoder_of
from evenreel.corpus.folder import load_corpus
from evenreel.corpus.relevance import class_relevance
from evenreel.errors import UsageError
from evenreel.features.graphs import with_graphs
from evenreel.features.load import find_clips, load_text_features
from evenreel.features.pool import SetAside
from evenreel.progress import Progress
from evenreel.training.data.backgrounds import with_backgrounds
from evenreel.training.data.examples import FeatureExamples, TrainingExamples, TrainingInputs
from evenreel.training.data.likeness import drawn_alike, searched_clips
from evenreel.training.data.pairs import pairs_of
from evenreel.training.data.pixels import load_pixels
from evenreel.training.data.splits import CorpusSplits, EncoderUsed, LoadedSplits, corpus_splits, digest, usable_part
from evenreel.training.ensemble.strata import lengths_of
from evenreel.training.recipe import Recipe, uses_of
from evenreel.training.specs import check_words, spec_of
from evenreel.types import Corpus

if TYPE_CHECKING:
    from evenreel.training.ensemble.trimmed import Trimmed


@dataclass(frozen=True, eq=False)
class LoadedData:
    """Training data that a recipe names, loaded.

    Attributes:
        material: inputs of the training.
        validation: part of the corpus that validation scores are of; None where there is none.
        encoder: encoder of the features.
        set_aside: clips that take no part, nor do their captions, nor, with `debias`, their pairs.
        trimmed: clips left out for their length; None without `trim`.
        drawn: sentences on how often clips are drawn; none where each is drawn once an epoch.
        uses: labels of what training uses of other splits, by `trim`, the matcher's files or the checkpoint it begins
            with.
    """

    material: TrainingInputs
    validation: Corpus | None
    encoder: EncoderUsed
    set_aside: tuple[SetAside, ...]
    trimmed: Trimmed | None = None
    drawn: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


def load_material(recipe: Recipe, progress: Progress = lambda share: None, verdicts: Path | None = None) -> LoadedData:
    """Load the training data that a recipe names.

    Where towers are trained, each clip is read once, so that unreadable ones are known before training.

    Args:
        recipe: recipe that names the data.
        progress: called with the share of the clips that were looked at, of the captions that became role graphs, or of
            the sentences on screen that were encoded because their words are changed.
        verdicts: a file that remembers which clips can be read, see `evenreel.training.data.clip_check.readable`.

    Raises:
        CorpusError: the corpus or a split of it is not there, nothing of it can be used, it has no classes and
            `selection.relevance` or the matcher's mining asks for them, or no generated clips where the recipe does; a
            role graph of it is malformed.
        FeaturesError: features, or the on-screen text of clips, are missing or damaged.
        EncoderError: the backbone cannot be loaded or trusted.
        CheckpointError: the checkpoint that training is to begin with cannot be loaded.
        UsageError: a pattern of `backbone.frozen` fits nothing, or that checkpoint takes features of another encoder or
            selects scene elements by towers that were trained since.
    """
    check_words(recipe)
    corpus = load_corpus(recipe.data.corpus)
    splits = corpus_splits(corpus, recipe)
    selected = splits.selected
    if selected is not None and recipe.selection.relevance.startswith("classes"):
        class_relevance(selected, selected.captions["caption_id"].to_list(), selected.clips["clip_id"].to_list())
    read = (
        _load_features(recipe, splits, progress)
        if recipe.backbone is None
        else load_pixels(recipe, recipe.backbone, splits, progress, verdicts)
    )
    source = {"caption_texts": digest(text for part in splits.both for text in part.captions["text"]), **read.source}
    if (words := recipe.changed_words) is not None:
        source["words_changed"] = json.dumps(asdict(words))
    learned, drawn = weighted_examples(recipe, read.learned)
    by_length = recipe.members is not None and recipe.members.by == "length"
    start = None if recipe.start is None else load_start(recipe.start, read.encoder, recipe.data.streams)
    known = () if start is None else start.about.uses
    material = TrainingInputs(
        learned,
        read.dimension,
        read.selected,
        read.towers,
        start={} if start is None else kept_weights(start.matcher),
        start_spec=None if start is None else start.spec,
        source=source,
        lengths=lengths_of(splits.learned, learned.pairs.clip_ids) if by_length else None,
        weights_hash=read.encoder.weights_hash,
    )
    uses = dict.fromkeys((*known, *uses_of(recipe), *uses_in(spec_of(recipe))))
    return LoadedData(material, read.validation, read.encoder, read.set_aside, splits.trimmed, drawn, tuple(uses))


def weighted_examples(recipe: Recipe, learned: TrainingExamples) -> tuple[TrainingExamples, tuple[str, ...]]:
    """Apply a recipe's weights of training clips and its exchange of backgrounds.

    Returns:
        The changed examples, and a sentence on the effect of each weighting.

    Raises:
        CorpusError: there are no clips that will be searched.
        FeaturesError: features of the clips that will be searched are missing or damaged.
        UsageError: there are too few clips, or encoders differ.
    """
    said: list[str] = []
    if recipe.likeness is not None and isinstance(learned, FeatureExamples):
        learned, alike = drawn_alike(learned, searched_clips(recipe.likeness, recipe.data))
        said.append(alike.sentence)
    if recipe.backgrounds is not None and isinstance(learned, FeatureExamples):
        terms = 0 if recipe.without_length is None else recipe.without_length.terms
        learned = with_backgrounds(learned, recipe.backgrounds, recipe.loop.seed, terms)
    return learned, tuple(said)


def load_start(checkpoint: str, used: EncoderUsed, streams: Sequence[str]) -> Pretrained:
    """Load the checkpoint whose weights training begins with.

    Args:
        checkpoint: a folder or a hub id.
        used: encoder of the training features.
        streams: names of the streams of stored features that are used; empty for all.

    Raises:
        CheckpointError: the checkpoint cannot be loaded.
        UsageError: its matcher takes features of another encoder or other streams, or selects scene elements by towers
            that were trained since.
    """
    pretrained = load_matcher(checkpoint)
    note = pretrained.about.encoder
    if note.weights_hash != used.weights_hash:
        raise UsageError(
            f"The matcher of {checkpoint} takes features of {note}, and these are of {used.encoder_id} with other "
            "weights; train it on features of its own encoder, which its model card says how to make."
        )
    if pretrained.matcher.limits.pretrained_mean and note.trained_further:
        raise UsageError(
            f"The matcher of {checkpoint} selects scene elements by how {note.id} saw clips before it was trained "
            "further, and training that begins with it would select them by the towers as they are now; begin with "
            f"one that was trained on features (data.features), or train anew from {note.id}."
        )
    trained_on = pretrained.about.inputs.streams
    if trained_on and streams and set(trained_on) != set(streams):  # other columns, perhaps as many
        raise UsageError(
            f"The matcher of {checkpoint} takes the streams {', '.join(trained_on)}, and data.streams is "
            f"{', '.join(streams)}; make them the same."
        )
    return pretrained


def _load_features(recipe: Recipe, splits: CorpusSplits, progress: Progress) -> LoadedSplits:
    """Load features computed once, with changed words and role graphs where the recipe asks for them."""
    folder, words, graphs = Path(recipe.data.features or ""), recipe.changed_words, reads_graphs(spec_of(recipe))
    found = [find_clips(folder, part, streams=recipe.data.streams) for part in splits.both]
    encoder = cache(partial(encoder_of, found[0]))  # once for both splits, and only if one has a new sentence
    examples: list[FeatureExamples] = []
    usable: list[Corpus] = []
    set_aside: list[SetAside] = []
    for whole, clips in zip(splits.both, found, strict=True):
        learns = not examples
        videos, aside = clips.load()
        part = usable_part(whole, videos.ids, aside)
        texts = load_text_features(folder, part)
        compared = (splits.mirrors, splits.relevance) if learns else (None, False)
        pairs = pairs_of(part, texts.ids, videos.ids, *compared)
        if words is not None:
            videos = changed_words(clips, videos, words.learned if learns else words, progress, encoder)
        if graphs:
            texts = with_graphs(texts, part, progress if learns else lambda share: None)
        examples.append(FeatureExamples(pairs, texts, videos))
        usable.append(part)
        set_aside.extend(aside)
    manifest, made, source = found[0].manifest, found[0].made, found[0].fingerprint()
    source["train_videos"] = source.pop("clips")
    source["validation_videos"] = found[1].fingerprint()["clips"] if found[1:] else None
    if graphs:  # they change with the rules that make them
        source["caption_graphs"] = digest(repr(one.text_features.graphs) for one in examples)
    words_from = None if made.windows is None else made.words
    return LoadedSplits(
        examples[0],
        examples[1] if examples[1:] else None,
        usable[1] if usable[1:] else None,
        EncoderUsed(manifest.encoder_id, manifest.weights_hash, made.rule, made.windows, words_from),
        found[0].dimension,
        source,
        tuple(set_aside),
    )
