"""Loading of all that a recipe names: features, or a backbone with clips that can be decoded, weights, and the matcher.

`load_material` is what `evenreel train` learns from. `weighed` and `begun_with` put a recipe's weights, backgrounds,
lengths and first weights onto inputs that were made otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import fitted, kept_weights, reads_graphs, reads_windows, uses_in
from evenreel.checkpoint.corpus_features import changed_words, encoder_of
from evenreel.checkpoint.folder import load_matcher
from evenreel.checkpoint.records import Pretrained
from evenreel.corpus.folder import load_corpus
from evenreel.corpus.relevance import class_relevance
from evenreel.corpus.tables import select
from evenreel.debias.backgrounds import Backgrounds, estimated_backgrounds
from evenreel.debias.likeness import likeness_weights
from evenreel.errors import UsageError
from evenreel.features.load import find_clips, load_text_features, with_graphs
from evenreel.features.manifest import read_manifest
from evenreel.features.pool import SetAside
from evenreel.matchers.matcher import LearnedFrom
from evenreel.progress import Progress
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.pixels import load_pixels
from evenreel.training.recipe import BackgroundExchange, Data, GalleryLikeness, Recipe, RecipeError, uses_of
from evenreel.training.run_folder import Facts
from evenreel.training.splits import CorpusSplits, EncoderUsed, corpus_splits, digest, lengths_of, usable_part
from evenreel.types import Corpus, VideoFeatures


def load_material(
    recipe: Recipe, progress: Progress = lambda share: None, verdicts: Path | None = None
) -> TrainingInputs:
    """Load the training data that a recipe names.

    Where towers are trained, each clip is read once, so that unreadable ones are known before training.

    Args:
        recipe: recipe that names the data.
        progress: called with the share of the clips that were looked at, of the captions that became role graphs, or of
            the sentences on screen that were encoded because their words are changed.
        verdicts: a file that remembers which clips can be read, see `evenreel.training.pixels.readable`.

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
    splits = corpus_splits(load_corpus(recipe.data.corpus), recipe)
    if (selected := splits.selected) is not None and recipe.selection.relevance.startswith("classes"):
        class_relevance(selected, selected.captions["caption_id"].to_list(), selected.clips["clip_id"].to_list())
    if recipe.backbone is None:
        read = _load_features(recipe, splits, progress)
    else:
        read = load_pixels(recipe, recipe.backbone, splits, progress, verdicts)
    encoder = read.encoder
    assert encoder is not None  # both say so
    source = {"caption_texts": digest(text for part in splits.both for text in part.captions["text"]), **read.source}
    if (words := recipe.changed_words) is not None:
        source["words_changed"] = json.dumps(asdict(words))
    trimmed = () if splits.trimmed is None else (splits.trimmed.sentence,)
    read = replace(read, source=source, notes=trimmed)
    start = None if recipe.start is None else load_start(recipe.start, encoder, recipe.data.streams)
    known = () if start is None else start.about.uses
    uses = tuple(dict.fromkeys((*known, *uses_of(recipe), *uses_in(spec_of(recipe)))))
    return begun_with(replace(weighed(recipe, read, splits.learned), uses=uses), start)


def weighed(recipe: Recipe, read: TrainingInputs, learned: Corpus) -> TrainingInputs:
    """Apply a recipe's weights of training clips and its exchange of backgrounds, and add lengths that divide clips."""
    examples, notes = read.examples, read.notes
    if recipe.likeness is not None and isinstance(examples, FeatureExamples):
        examples, note = drawn_alike(examples, searched_clips(recipe.likeness, recipe.data))
        notes = (*notes, note)
    if recipe.backgrounds is not None and isinstance(examples, FeatureExamples):
        terms = 0 if recipe.without_length is None else recipe.without_length.terms
        examples = with_backgrounds(examples, recipe.backgrounds, recipe.loop.seed, terms)
    divides = recipe.members is not None and recipe.members.by == "length"
    lengths = lengths_of(learned, examples.pairs.clip_ids) if divides else None
    return replace(read, examples=examples, notes=notes, lengths=lengths)


def begun_with(material: TrainingInputs, start: Pretrained | None) -> TrainingInputs:
    return material if start is None else replace(material, start=kept_weights(start.matcher), start_spec=start.spec)


def load_start(checkpoint: str, used: EncoderUsed, streams: Sequence[str]) -> Pretrained:
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


def _load_features(recipe: Recipe, splits: CorpusSplits, progress: Progress) -> TrainingInputs:
    """Features computed once, with changed words and role graphs where the recipe asks for them."""
    folder, words, graphs = Path(recipe.data.features or ""), recipe.changed_words, reads_graphs(spec_of(recipe))
    found = [find_clips(folder, part, streams=recipe.data.streams) for part in splits.both]
    encoder = cache(partial(encoder_of, found[0]))  # once for both splits, and only if one has a new sentence
    examples, usable, set_aside = list[FeatureExamples](), list[Corpus](), list[SetAside]()
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
    return TrainingInputs(
        examples[0],
        found[0].dimension,
        examples[1] if examples[1:] else None,
        source=source,
        weights_hash=manifest.weights_hash,
        selected=usable[1] if usable[1:] else None,
        encoder=EncoderUsed(manifest.encoder_id, manifest.weights_hash, made.rule, made.windows, words_from),
        set_aside=tuple(set_aside),
    )


# The matcher ----------------------------------------------------------------------------------------------------------


def spec_of(recipe: Recipe) -> MatcherSpec:
    """Return the specification of a recipe's matcher, with its adapter and the corrections of features before it."""
    spec = MatcherSpec(recipe.matcher.name, recipe.matcher.settings)
    wrappers = {
        "adapted": recipe.adapter,
        "without_length": recipe.without_length,
        "without_habits": recipe.without_habits,
    }
    for wrapper, settings in wrappers.items():
        spec = spec if settings is None else MatcherSpec(wrapper, asdict(settings), (spec,))
    return spec


def check_words(recipe: Recipe) -> None:
    """Check that a recipe changes on-screen words only for a matcher that uses them, before anything is read."""
    if recipe.changed_words is None or reads_windows(spec_of(recipe)):
        return
    raise RecipeError(
        f"data.words changes on-screen words, and the matcher {recipe.matcher.name} reads none; set it to null, or "
        "adapter.windows to true, with which on-screen text stands among the frames."
    )


def fitted_spec(recipe: Recipe, material: TrainingInputs) -> MatcherSpec:
    """Return the specification of a recipe's matcher with what is fitted to the training data, such as a vocabulary."""
    spec, learned = spec_of(recipe), learned_from(material)
    if reads_graphs(spec) and not learned.graphs:
        raise UsageError(
            f"The matcher {recipe.matcher.name} reads captions as role graphs and not as a text tower does; train it "
            "on features (data.features) without a backbone."
        )
    return fitted(spec, learned, material.start_spec)


def lists_in(spec: MatcherSpec) -> Facts:
    """Compute digests of the lists of words and phrases in the settings of a matcher, by their place in it.

    With the same recipe they differ only where their source has changed, such as a scene dictionary.
    """
    found = {name: value for inner in spec.wrapped for name, value in lists_in(inner).items()}
    own = {
        f"matcher.{name}": digest(words)
        for name, words in spec.settings.items()
        if isinstance(words, tuple) and words and all(isinstance(word, str) for word in words)
    }
    return {**own, **found}


def learned_from(material: TrainingInputs) -> LearnedFrom:
    """Return the captions of the training data that matchers may be fitted to, each once, and the encoder's hash."""
    examples = material.examples
    graphs = examples.text_features.graphs if isinstance(examples, FeatureExamples) else None
    own = () if graphs is None else [graphs[row] for row in np.unique(examples.pairs.captions)]
    return LearnedFrom(own, examples.pairs.sentences, material.weights_hash)


# Weights by likeness, and exchanged backgrounds -----------------------------------------------------------------------


def drawn_alike(examples: FeatureExamples, searched: VideoFeatures) -> tuple[FeatureExamples, str]:
    """Multiply the weights of training pairs by the likeness of their clips to the clips that will be searched.

    See `evenreel.debias.likeness`. The sentence on their effect has the effective number of clips: of how many equally
    weighted ones a mean is as precise (Kish 1965).
    """
    pairs = examples.pairs
    clips, places = np.unique(pairs.clips, return_inverse=True)
    known, asked = mean_frames(examples.video_features)[clips], mean_frames(searched)
    if known.shape[1] != asked.shape[1]:
        raise UsageError(
            f"Features of training clips have {known.shape[1]:,} numbers and those of `likeness` {asked.shape[1]:,}; "
            "make both with one encoder."
        )
    weights = likeness_weights(known, asked)
    drawn = weights[places] * (1.0 if pairs.weights is None else pairs.weights)
    effective, heaviest = float(weights.sum() ** 2 / (weights**2).sum()), float(weights.max())
    return replace(examples, pairs=replace(pairs, weights=drawn / drawn.mean())), (
        f"Clips are drawn up to {heaviest:.1f} times as often as on average, the more often the more they are like the "
        f"{len(asked):,} clips that will be searched; that is worth {effective:,.0f} clips drawn alike."
    )


def searched_clips(likeness: GalleryLikeness, data: Data) -> VideoFeatures:
    corpus, folder = load_corpus(likeness.corpus or data.corpus), likeness.features or data.features or ""
    part = corpus if likeness.split is None else select(corpus, split=likeness.split)
    found = find_clips(folder, part, windows=False, streams=data.streams)
    if found.manifest.weights_hash != read_manifest(Path(data.features or folder)).weights_hash:
        raise UsageError(f"The features in {folder} and in {data.features} are of different encoders; use one.")
    return found.load()[0]


def with_backgrounds(
    examples: FeatureExamples, exchange: BackgroundExchange, seed: int, length_terms: int = 0
) -> FeatureExamples:
    """Estimate the backgrounds of training clips, so that clips of every batch can exchange them.

    See `evenreel.debias.backgrounds`. Clips without a pair take no part in the estimate, and no batch has them.
    `length_terms` is the number of Chebyshev polynomials of the rank of a clip's length that are kept out of
    backgrounds. It is needed where the effect of length is removed from frames (`evenreel.debias.without_length`), or
    the background of another clip would bring its length along.
    """
    pairs = examples.pairs
    clips, places = np.unique(pairs.clips, return_inverse=True)
    sentences = examples.text_features.sentence.astype(np.float64)
    sentences = (sentences / np.linalg.norm(sentences, axis=1, keepdims=True))[pairs.captions]
    said = np.zeros((len(clips), sentences.shape[1]))
    np.add.at(said, places, sentences)
    lengths = length_polynomials(examples.video_features, clips, length_terms)
    known = np.concatenate([said / np.bincount(places)[:, None], lengths], axis=1)
    found = estimated_backgrounds(mean_frames(examples.video_features)[clips], known, exchange.clusters, seed)
    clusters = np.zeros(len(pairs.clip_ids), np.int64)
    clusters[clips] = found.clusters
    return replace(examples, backgrounds=Backgrounds(clusters, found.means), exchanged=exchange.share)


def length_polynomials(videos: VideoFeatures, clips: Indices, count: int) -> NDArray[np.float64]:
    """Compute the Chebyshev polynomials 1 to K (`count`) of the ranks of the lengths in seconds of N clips: (N, K)."""
    first, last = (np.where(videos.frame_mask, videos.times_s, fill) for fill in (np.inf, -np.inf))
    lengths = last.max(1)[clips] - first.min(1)[clips]
    ordered = np.sort(lengths)
    ranks = sum(np.searchsorted(ordered, lengths, side=side) for side in ("left", "right")) / (2 * len(ordered))
    polynomials: NDArray[np.float64] = np.cos(np.arccos(2 * ranks - 1)[:, None] * np.arange(1, count + 1))
    return polynomials


def mean_frames(videos: VideoFeatures) -> NDArray[np.float64]:
    """Compute the mean (V, D) of each clip's frames, which are scaled to unit length first."""
    means = np.empty((len(videos.ids), videos.frames.shape[2]))
    for row, (frames, mask) in enumerate(zip(videos.frames, videos.frame_mask, strict=True)):
        real = frames[mask].astype(np.float64)
        means[row] = (real / np.linalg.norm(real, axis=1, keepdims=True)).mean(0)
    return means
