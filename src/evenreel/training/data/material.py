"""What a recipe names, read from disk: features, or a backbone with clips that can be decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from evenreel.checkpoint import load_matcher
from evenreel.checkpoint.architecture import kept_weights, reads_graphs, uses_in
from evenreel.checkpoint.word_changes import encoder_of
from evenreel.corpus import load_corpus, select
from evenreel.corpus.relevance import class_relevance
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.sources import locate
from evenreel.encoders.towers import Towers, load_towers
from evenreel.encoders.trainable import TrainableTowers, tokenise
from evenreel.errors import CorpusError, MediaError, UsageError
from evenreel.features import ClipAside, FoundClips, StoredClips, find_clips, load_text_features
from evenreel.features.graphs import with_graphs
from evenreel.features.pretrained import pretrained_means
from evenreel.media.content import stamp
from evenreel.progress import Progress
from evenreel.training.data.changed_words import changes_of, check_words, with_words, words_used
from evenreel.training.data.clip_check import readable
from evenreel.training.data.examples import FeatureExamples, TrainingInputs
from evenreel.training.data.mirrors import mirrors_of, with_other_clips
from evenreel.training.data.pairs import needs_relevance, pairs_of, parts_of
from evenreel.training.data.pixels import ClipVideo, PixelExamples, clip_files
from evenreel.training.data.tower_windows import with_on_screen, written_used
from evenreel.training.ensemble.strata import lengths_of
from evenreel.training.ensemble.trimmed import Trimmed, trimmed_corpus, uses_of
from evenreel.training.recipe.recipe import Recipe, RecipeError
from evenreel.training.recipe.sections import Backbone
from evenreel.training.specs import spec_of
from evenreel.types import Corpus


class CorpusSplits(NamedTuple):
    """Splits of a corpus that a recipe learns from and selects on.

    Attributes:
        learned: what is learned from; with `debias` the other clips of all pairs are among its clips.
        selected: what the model is selected on; None for nothing.
        mirrors: real clips and their mirrors; None without `debias`.
        relevance: True where learning needs the degrees to which clips answer captions.
        trimmed: what was left out of the former for its length; None without `trim`.
    """

    learned: Corpus
    selected: Corpus | None
    mirrors: Mapping[str, str] | None = None
    relevance: bool = False
    trimmed: Trimmed | None = None

    @property
    def both(self) -> tuple[Corpus, ...]:
        """Both splits, or the one that there is."""
        return (self.learned,) if self.selected is None else (self.learned, self.selected)


@dataclass(frozen=True)
class EncoderUsed:
    """Encoder whose features a run learns from.

    Attributes:
        encoder_id: the name it can be loaded by.
        weights_hash: digest of its weights and settings, before any training.
        rule: rule by which frames are sampled.
        windows: stretches of a clip whose on-screen text is given to the matcher; None for none.
        words_from: where that text is from, `ocr` or `corpus`; None for none.
    """

    encoder_id: str
    weights_hash: str
    rule: str
    windows: int | None = None
    words_from: str | None = None


@dataclass(frozen=True, eq=False)
class LoadedData:
    """Data that a recipe names, loaded.

    Attributes:
        material: inputs of the training.
        validation: the part of the corpus that validation scores are of; None where there is none.
        encoder: whose features it is about.
        set_aside: clips that take no part, and neither do their captions; nor, in `debias`, the pairs that they are of.
        trimmed: what was left out for its length; None without `trim`.
        uses: what training knows of other splits, from `trim`, from the matcher's files or from the checkpoint that it
            begins with.
    """

    material: TrainingInputs
    validation: Corpus | None
    encoder: EncoderUsed
    set_aside: tuple[ClipAside, ...]
    trimmed: Trimmed | None = None
    uses: tuple[str, ...] = ()


def load_material(recipe: Recipe, progress: Progress = lambda share: None, verdicts: Path | None = None) -> LoadedData:
    """Read what a recipe names; a backbone's clips are each read once, so that none is found out in training.

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
        EncoderError: the backbone cannot be had or trusted.
        CheckpointError: the checkpoint that training is to begin with cannot be had or read.
        UsageError: a pattern of `backbone.frozen` fits nothing, or that checkpoint takes features of another encoder or
            selects scene elements by towers that were trained since.
    """
    check_words(recipe)
    corpus = load_corpus(recipe.data.corpus)
    parts = _parts(corpus, recipe)
    selected = parts.selected
    if selected is not None and recipe.selection.relevance.startswith("classes"):
        class_relevance(selected, selected.captions["caption_id"].to_list(), selected.clips["clip_id"].to_list())
    loaded = (
        _with_features(recipe, parts, progress)
        if recipe.backbone is None
        else _with_backbone(recipe, recipe.backbone, parts, progress, verdicts)
    )
    loaded = replace(_with_lengths(loaded, parts, recipe), trimmed=parts.trimmed)
    loaded = replace(loaded, uses=(*uses_of(recipe), *uses_in(spec_of(recipe))))
    return loaded if recipe.start is None else _with_start_weights(loaded, recipe.start, recipe.data.streams)


def _with_start_weights(loaded: LoadedData, checkpoint: str, streams: Sequence[str]) -> LoadedData:
    """The material with the weights of a checkpoint to begin with."""
    pretrained = load_matcher(checkpoint)
    note, used = pretrained.about.encoder, loaded.encoder
    if note.weights_hash != used.weights_hash:
        raise UsageError(
            f"The matcher of {checkpoint} takes features of {note}, and these are of {used.encoder_id} with other "
            "weights; train it on features of its own encoder, which its model card says how to make."
        )
    if pretrained.matcher.limits.seen and note.trained_further:
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
    material = replace(loaded.material, start=kept_weights(pretrained.matcher), start_spec=pretrained.spec)
    uses = tuple(dict.fromkeys((*pretrained.about.uses, *loaded.uses)))
    return replace(loaded, material=material, uses=uses)


def _with_lengths(loaded: LoadedData, parts: CorpusSplits, recipe: Recipe) -> LoadedData:
    """The lengths of the clips, where they are divided by these."""
    if recipe.members is None or recipe.members.by != "length":
        return loaded
    lengths = lengths_of(parts.learned, loaded.material.examples.pairs.clip_ids)
    return replace(loaded, material=replace(loaded.material, lengths=lengths))


def _parts(corpus: Corpus, recipe: Recipe) -> CorpusSplits:
    parts = CorpusSplits(*parts_of(corpus, recipe.data, recipe.loop.seed), relevance=needs_relevance(recipe))
    if recipe.trim is not None:
        trimmed = trimmed_corpus(parts.learned, _target(corpus, recipe, parts), recipe.trim, recipe.loop.seed)
        parts = parts._replace(learned=trimmed.corpus, trimmed=trimmed)
    if recipe.debias is None:
        return parts
    whole = select(corpus, split=recipe.data.train)
    mirrors = mirrors_of(whole, recipe.data.generated_group)
    return parts._replace(learned=with_other_clips(parts.learned, whole, mirrors), mirrors=mirrors)


def _target(corpus: Corpus, recipe: Recipe, parts: CorpusSplits) -> Corpus:
    """Return the part whose classes are the measure of `trim`: what is selected on, or another split as it would be."""
    named = None if recipe.trim is None else recipe.trim.target
    if named is None and parts.selected is not None:
        return parts.selected
    _, target = parts_of(corpus, replace(recipe.data, validation=named, held_out=0.0), recipe.loop.seed)
    if target is None:
        raise RecipeError("trim has no split to compare lengths with: give data.validation or trim.target.")
    return target


class _SplitFeatures(NamedTuple):
    """A part of the corpus with its features: what was found, what can be used of it, and what was set aside."""

    found: FoundClips | StoredClips
    examples: FeatureExamples
    usable: Corpus
    set_aside: tuple[ClipAside, ...]


def _with_features(recipe: Recipe, parts: CorpusSplits, progress: Progress) -> LoadedData:
    folder, streams = Path(recipe.data.features or ""), recipe.data.streams
    learned = _features(folder, parts.learned, streams, parts.mirrors, parts.relevance)
    selected = None if parts.selected is None else _features(folder, parts.selected, streams)
    if (words := changes_of(recipe)) is not None:
        encoder = cache(partial(encoder_of, learned.found))  # once for both parts, and only if one has a new sentence
        change = partial(with_words, encoder=encoder, progress=progress)
        learned = learned._replace(examples=change(learned.examples, learned.found, words.learned))
        if selected is not None:
            selected = selected._replace(examples=change(selected.examples, selected.found, words))
    if reads_graphs(spec_of(recipe)):
        learned = _with_graphs(learned, progress)
        selected = None if selected is None else _with_graphs(selected)
    manifest, made = learned.found.manifest, learned.found.made
    words_from = None if made.windows is None else made.words
    return LoadedData(
        TrainingInputs(
            learned.examples,
            learned.found.dimension,
            None if selected is None else selected.examples,
            source=_texts(parts)
            | _features_used(learned, selected)
            | _graphs_used(learned, selected)
            | words_used(recipe),
            weights_hash=manifest.weights_hash,
        ),
        None if selected is None else selected.usable,
        EncoderUsed(manifest.encoder_id, manifest.weights_hash, made.rule, made.windows, words_from),
        learned.set_aside + (() if selected is None else selected.set_aside),
    )


def _features(
    folder: Path,
    part: Corpus,
    streams: Sequence[str],
    mirrors: Mapping[str, str] | None = None,
    relevance: bool = False,
) -> _SplitFeatures:
    found = find_clips(folder, part, streams=streams)
    videos, set_aside = found.load()
    usable = _only(part, videos.ids, set_aside)
    texts = load_text_features(folder, usable)
    pairs = pairs_of(usable, texts.ids, videos.ids, mirrors, relevance)
    return _SplitFeatures(found, FeatureExamples(pairs, texts, videos), usable, set_aside)


def _features_used(learned: _SplitFeatures, selected: _SplitFeatures | None) -> dict[str, str | int | None]:
    """Which features they are, of which videos."""
    used = learned.found.fingerprint()
    train_videos = used.pop("clips")
    validation_videos = None if selected is None else selected.found.fingerprint()["clips"]
    return used | {"train_videos": train_videos, "validation_videos": validation_videos}


def _with_graphs(part: _SplitFeatures, progress: Progress = lambda share: None) -> _SplitFeatures:
    """The part with the role graphs of its captions, for a matcher that reads these."""
    texts = with_graphs(part.examples.text_features, part.usable, progress)
    return part._replace(examples=replace(part.examples, text_features=texts))


def _graphs_used(learned: _SplitFeatures, selected: _SplitFeatures | None) -> dict[str, str | int | None]:
    """Which role graphs they are: they change with the rules that make them; nothing where there are none."""
    graphs = [part.examples.text_features.graphs for part in (learned, selected) if part is not None]
    return {"caption_graphs": _digest(map(repr, graphs))} if learned.examples.text_features.graphs else {}


def _texts(parts: CorpusSplits) -> dict[str, str | int | None]:
    return {"caption_texts": _digest(text for part in parts.both for text in part.captions["text"])}


def _videos(files: Sequence[ClipVideo]) -> dict[str, str | int | None]:
    """Which videos they are; their content would take as long to look at again as it took to check them."""
    return {"videos": _digest(f"{file.path.name} {file.part} {_size_bytes(file)}" for file in files)}


def _size_bytes(file: ClipVideo) -> int:
    try:
        return stamp(str(file.path)).size
    except MediaError as error:
        raise CorpusError(
            f"The clip {file.clip_id} ({file.path}) could be read before, and now it cannot: {error}. Put it back as "
            "it was, and start again."
        ) from error


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def _with_backbone(
    recipe: Recipe, backbone: Backbone, parts: CorpusSplits, progress: Progress, verdicts: Path | None
) -> LoadedData:
    encoder_id, folder = locate(backbone.model)
    checkpoint = open_checkpoint(folder)
    towers = load_towers(checkpoint, torch.device("cpu"), "float32")
    trainable = TrainableTowers(towers, train=backbone.train, frozen=backbone.frozen)
    if backbone.gradient_checkpointing:
        trainable.checkpoint_layers()
    videos = Path(recipe.data.videos or recipe.data.corpus)
    files = [file for part in parts.both for file in clip_files(part, videos)]
    readable_files, set_aside = readable(files, backbone.rule, progress, verdicts)
    there = {file.clip_id: file for file in readable_files}
    remedy = "; check data.videos"
    kept = None if parts.selected is None else _only(parts.selected, there, set_aside, remedy)
    used = EncoderUsed(encoder_id, checkpoint.digest(), backbone.rule)
    usable = _only(parts.learned, there, set_aside, remedy)
    learned = _pixels(usable, there, towers, backbone, parts.mirrors, parts.relevance)
    learned = with_on_screen(recipe, _with_seen(recipe, learned, usable, used), usable, towers, learned=True)
    selected = None if kept is None else _pixels(kept, there, towers, replace(backbone, augment="none"))
    if kept is not None and selected is not None:
        selected = with_on_screen(recipe, _with_seen(recipe, selected, kept, used), kept, towers, learned=False)
    if learned.windows is not None:
        used = replace(used, windows=learned.windows.count, words_from=learned.windows.words_from)
    read = written_used(learned, selected) | words_used(recipe)
    material = TrainingInputs(
        learned,
        towers.dimension,
        selected,
        trainable,
        source=_texts(parts) | _videos(readable_files) | _seen_used(learned, selected) | read | asdict(used),
        weights_hash=used.weights_hash,
    )
    return LoadedData(material, kept, used, tuple(set_aside))


def _pixels(
    part: Corpus,
    there: Mapping[str, ClipVideo],
    towers: Towers,
    backbone: Backbone,
    mirrors: Mapping[str, str] | None = None,
    relevance: bool = False,
) -> PixelExamples:
    files = [there[clip_id] for clip_id in part.clips["clip_id"]]
    return PixelExamples(
        pairs_of(part, part.captions["caption_id"].to_list(), [file.clip_id for file in files], mirrors, relevance),
        tokenise(towers, part.captions["text"].to_list(), backbone.max_words),
        tuple(files),
        backbone.rule,
        towers.checkpoint.preprocessing,
        full_length=towers.checkpoint.family != "clip",
        augment=backbone.augment,
    )


def _with_seen(recipe: Recipe, examples: PixelExamples, corpus: Corpus, used: EncoderUsed) -> PixelExamples:
    """The examples with how the towers see their clips before training, where the recipe asks for that."""
    if recipe.data.seen is None:
        return examples
    seen = pretrained_means(recipe.data.seen, corpus, examples.pairs.clip_ids)
    if seen.weights_hash != used.weights_hash:
        raise RecipeError(
            f"data.seen ({recipe.data.seen}) holds features of {seen.encoder_id}, and the backbone is "
            f"{used.encoder_id} with other weights; compute them with the backbone's model."
        )
    return replace(examples, pretrained_mean=seen.means)


def _seen_used(learned: PixelExamples, selected: PixelExamples | None) -> dict[str, str | int | None]:
    """Return a digest of the pretrained frame means; empty where none are used."""
    parts = [part.pretrained_mean for part in (learned, selected) if part is not None]
    given = [means for means in parts if means is not None]
    digest = hashlib.sha256()
    for means in given:
        digest.update(np.ascontiguousarray(means).tobytes())
    return {"seen": digest.hexdigest()} if given else {}


def _only(part: Corpus, clip_ids: Collection[str], set_aside: Sequence[ClipAside], remedy: str = "") -> Corpus:
    """The clips that can be used, with their captions."""
    usable = pl.col("clip_id").is_in(list(clip_ids))
    if part.clips.filter(usable).height == 0:
        raise CorpusError(_none_left(part, set_aside) + remedy + ".")
    return select(part, where=usable)


def _none_left(part: Corpus, set_aside: Sequence[ClipAside]) -> str:
    """Word that no clip can be used, and why the first of them cannot."""
    sentence = f"Not one of the {part.clips.height:,} clips of a split can be used"
    own = set(part.clips["clip_id"])
    first = next((one for one in set_aside if one.clip_id in own), None)
    return sentence if first is None else f"{sentence}: {first.clip_id} ({first.path}): {first.sentence.rstrip('.')}"
