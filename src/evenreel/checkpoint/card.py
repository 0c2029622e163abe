"""The model card of a checkpoint: README.md, with the header that the Hugging Face hub reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from evenreel.checkpoint.architecture import encodings, reads_graphs
from evenreel.checkpoint.config_file import Config
from evenreel.checkpoint.records import ENCODER, About, EncoderNote, Inputs, MatcherSpec, RecordedMetric
from evenreel.extras import HUB_ID
from evenreel.features.windows import EMPTY
from evenreel.version import __version__

_ANSWERS = {
    "clip": "its own clip",
    "text": "every clip with a caption of the same text",
    "classes": "clips of its verb and nouns, by degrees",
    "classes-iou": "clips of its verbs and nouns, by degrees",
}
"""What answers a caption, by the word of `evenreel evaluate --relevance`."""

_LIMITS = (
    "It scores features of the encoder named above and of no other; with another encoder's its scores mean nothing, "
    "and evenreel refuses them by the hash of the weights.",
    "Its scores order the videos of one query. They are no probabilities, and scores of two queries or of two matchers "
    "cannot be compared.",
    "What its training data favour it may favour too.",
)


def model_card(config: Config, *, needs_pretrained: bool = False) -> str:
    """Return the text of a checkpoint's model card, README.md.

    Args:
        config: contents of config.json.
        needs_pretrained: whether the matcher needs features by its towers as they were before training, which no
            library has (`Pretrained.needs_pretrained_means`).
    """
    return "\n".join(_lines(config, needs_pretrained)) + "\n"


def _lines(config: Config, needs_pretrained: bool) -> Iterator[str]:
    about = config.about
    library = about.encoder.stored_name is None and not needs_pretrained
    yield from ("---", _head(about), "---", "")
    yield from (f"# {_title(config.spec)} for text-to-video retrieval", "")
    words = "the words as they stand" if reads_graphs(config.spec) else "the features of their words"
    yield f"A matcher of evenreel {__version__}: it scores a sentence against a video from {words}"
    yield from ("and the features of frames. It is no encoder: those features come from the one named below.", "")
    yield from _intended(about, library)
    yield from _encoder(about.encoder)
    yield from _matcher(config.spec, about.inputs)
    yield from _training(about)
    yield from _metrics(about.metrics)
    yield from _use(about, library, needs_pretrained)
    yield from ("## Limits", "", *(f"- {sentence}" for sentence in (*_LIMITS, *about.limits)))


def _head(about: About) -> str:
    from huggingface_hub import ModelCardData

    base = HUB_ID.fullmatch(about.encoder.id)
    data = ModelCardData(
        library_name="evenreel",
        tags=["text-to-video-retrieval", "video-retrieval", "matcher"],
        license=about.license or None,
        base_model=base["repository"] if base else None,
    )
    return str(data.to_yaml())


def _title(spec: MatcherSpec) -> str:
    inner = ", ".join(_times(count, _title(wrapped)) for wrapped, count in _alike(spec.wrapped))
    return f"{spec.name} ({inner})" if inner else spec.name


def _alike(specs: Sequence[MatcherSpec]) -> list[tuple[MatcherSpec, int]]:
    """Each spec once, with how many of it follow each other."""
    return [(spec, len(list(some))) for spec, some in groupby(specs)]


def _times(count: int, name: str) -> str:
    return name if count == 1 else f"{count} x {name}"


def _intended(about: About, library: bool) -> Iterator[str]:
    yield from ("## Intended use", "")
    if library:
        yield "- To put the first clips that a library finds for a sentence in a better order."
    yield "- To score the captions and clips of a corpus, and to compare it there with other systems."
    if about.corpus:
        yield f"- For sentences and videos like those of `{about.corpus}`. On others measure it before you rely on it."
    yield ""


def _encoder(note: EncoderNote) -> Iterator[str]:
    yield from ("## Encoder", "")
    yield f"- `{note.id}`, features of {note.dimension} numbers"
    yield f"- hash of its weights and settings: `{note.weights_hash}`"
    if note.trained_further:
        yield f"- trained further with the matcher: what it is now lies in `{ENCODER}/`, as transformers reads it"
    yield ""


def _matcher(spec: MatcherSpec, inputs: Inputs) -> Iterator[str]:
    yield from ("## Matcher", "", "| matcher | setting | value |", "|---|---|---|", *_settings(spec), "")
    frames = "any number of frames" if inputs.frames is None else f"at most {inputs.frames} frames a clip"
    words = "any number of words" if inputs.words is None else f"at most {inputs.words} word features a caption"
    yield f"Trained on {frames}" + (f" (`{inputs.rule}`)" if inputs.rule else "") + f", {words}"
    if inputs.streams:
        yield f"of the streams {', '.join(inputs.streams)} alone"
    yield from (f"and {inputs.on_screen}.", *_words(inputs), "")
    yield from _cost(encodings(spec))


def _words(inputs: Inputs) -> Iterator[str]:
    """What was done to the words on screen."""
    changes = inputs.word_changes
    if changes is None:
        return
    if changes.words_differ:
        where = "selected and is scored" if changes.splits == "evaluated" else "trained and is scored"
        yield f"It was {where} with {changes}."
    if changes.empty == "caption":
        yield f"A window without text says `{EMPTY}`"


def _settings(spec: MatcherSpec, count: int = 1) -> Iterator[str]:
    for name, value in spec.settings.items() or {"": ""}.items():
        yield f"| {_times(count, spec.name)} | {name} | {_value(value) if name else ''} |"
    for wrapped, alike in _alike(spec.wrapped):
        yield from _settings(wrapped, alike)


def _value(value: object) -> str:
    """A setting as config.json has it; of a vocabulary, which fills pages there, how long it is."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(word, str) for word in value):
        return f"{len(value):,} words"
    return json.dumps(value)


def _cost(times: int) -> Iterator[str]:
    """What a matcher of several takes beside one of them."""
    if times > 1:
        yield f"Each video is encoded {times} times and a gallery keeps {times} states of it: {times}"
        yield from ("times the time and the memory of one of these matchers.", "")


def _training(about: About) -> Iterator[str]:
    yield from ("## Training", "")
    if about.corpus:
        yield from (f"On `{about.corpus}`" + (f", split `{about.split}`." if about.split else "."), "")
    else:
        yield from ("It was not trained on pairs of captions and clips." if about.uses else "It was not trained.", "")
    if about.uses:
        yield f"**It was trained with {' and '.join(about.uses)}**: what it finds there is not to be compared with what"
        yield from ("a matcher finds that was not.", "")
    if about.clips_note:
        yield from (*(f"- {sentence}" for sentence in about.clips_note), "")
    if about.recipe_note or about.recipe:
        yield from ("## Recipe", "")
    if about.recipe_note:
        yield from (about.recipe_note, "")
    if about.recipe:
        yield from ("```yaml", about.recipe.rstrip("\n"), "```", "")


def _metrics(metrics: tuple[RecordedMetric, ...]) -> Iterator[str]:
    yield from ("## Measured", "")
    if not metrics:
        yield from ("Nothing was measured.", "")
        return
    yield from ("| metric | value | 95 % interval | on | what answers a caption | uses |", "|---|---|---|---|---|---|")
    for metric in metrics:
        known = metric.low is not None and metric.high is not None
        interval = f"{metric.low:.2f} to {metric.high:.2f}" if known else "not measured"
        uses = ", ".join(metric.uses) or "caption and video alone"
        answers = _ANSWERS.get(metric.relevance, metric.relevance)
        yield f"| {metric.name} | {metric.value:.2f} | {interval} | {metric.data} | {answers} | {uses} |"
    yield ""


def _use(about: About, library: bool, needs_pretrained: bool) -> Iterator[str]:
    yield from ("## Use", "")
    if library:
        yield from ("In a library of videos:", "", "```console")
        yield f"evenreel index VIDEOS --library LIBRARY --model {about.encoder.model}"
        yield from ('evenreel search "a sentence" --library LIBRARY --rerank CHECKPOINT', "```", "")
    yield from ("On a corpus:", "", "```console", about.features_command + " --out FEATURES")
    if needs_pretrained:
        before = replace(about, encoder=replace(about.encoder, before=None), inputs=Inputs(rule=about.inputs.rule))
        yield before.features_command + " --out PRETRAINED"
    pretrained = " --pretrained-features PRETRAINED" if needs_pretrained else ""
    yield f"evenreel score CHECKPOINT CORPUS --features FEATURES{pretrained} --out scores.npz"
    yield from ("evenreel evaluate scores.npz --corpus CORPUS", "```", "", "In Python:", "", "```python")
    yield from ("import evenreel", "", 'pretrained = evenreel.load_matcher("CHECKPOINT")')
    if library:
        yield 'with evenreel.open_library("LIBRARY") as library:'
        yield '    result = library.search("a sentence", rerank=pretrained)'
    yield from ("```", "")
    if about.encoder.trained_further:
        yield f"`CHECKPOINT/{ENCODER}` has to be a folder; of a checkpoint on the hub make it one first:"
        yield from ("`hf download org/name --local-dir CHECKPOINT`.", "")
