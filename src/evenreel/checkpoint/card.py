"""The model card of a checkpoint: README.md, made of `card.md`, with the header that the Hugging Face hub reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from evenreel.checkpoint.architecture import encodings, reads_graphs
from evenreel.checkpoint.records import Config, Inputs, MatcherSpec
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


def model_card(config: Config, *, needs_pretrained: bool = False) -> str:
    """Return the text of a checkpoint's model card, README.md.

    Args:
        config: contents of config.json.
        needs_pretrained: whether the matcher needs features by its towers as they were before training, which no
            library has (`Pretrained.needs_pretrained_means`).
    """
    from huggingface_hub import ModelCardData
    from jinja2 import Environment

    about, note = config.about, config.about.encoder
    base = HUB_ID.fullmatch(note.id)
    head = ModelCardData(
        library_name="evenreel",
        tags=["text-to-video-retrieval", "video-retrieval", "matcher"],
        license=about.license or None,
        base_model=base["repository"] if base else None,
    )
    before = replace(about, encoder=replace(note, before=None), inputs=Inputs(rule=about.inputs.rule))
    words = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)  # it is no HTML
    return words.from_string(Path(__file__).with_suffix(".md").read_text(encoding="utf-8")).render(
        about=about,
        note=note,
        inputs=about.inputs,
        head=head.to_yaml(),
        title=_title(config.spec),
        version=__version__,
        reads_graphs=reads_graphs(config.spec),
        library=note.stored_name is None and not needs_pretrained,
        settings=list(_settings(config.spec)),
        times=encodings(config.spec),
        before=before if needs_pretrained else None,
        empty=EMPTY,
        answers=_ANSWERS,
    )


def _title(spec: MatcherSpec) -> str:
    inner = ", ".join(_times(count, _title(wrapped)) for wrapped, count in _alike(spec.wrapped))
    return f"{spec.name} ({inner})" if inner else spec.name


def _alike(specs: Sequence[MatcherSpec]) -> list[tuple[MatcherSpec, int]]:
    """Each spec once, with how many of it follow each other."""
    return [(spec, len(list(some))) for spec, some in groupby(specs)]


def _times(count: int, name: str) -> str:
    return name if count == 1 else f"{count} x {name}"


def _settings(spec: MatcherSpec, count: int = 1) -> Iterator[tuple[str, str, str]]:
    for name, value in spec.settings.items() or {"": ""}.items():
        yield _times(count, spec.name), name, _value(value) if name else ""
    for wrapped, alike in _alike(spec.wrapped):
        yield from _settings(wrapped, alike)


def _value(value: object) -> str:
    """A setting as config.json has it; of a vocabulary, which fills pages there, how long it is."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(word, str) for word in value):
        return f"{len(value):,} words"
    return json.dumps(value)
