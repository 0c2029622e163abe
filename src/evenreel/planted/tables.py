"""The tables of a planned corpus: what any other corpus says of its clips and captions, and what only a plan knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import polars as pl

from evenreel.corpus import make_corpus
from evenreel.planted import vocabulary
from evenreel.planted.plan import PlantedClip, PlantedCorpus
from evenreel.planted.shots import Sentence
from evenreel.types import Corpus

CLIPS_FOLDER = "clips"
VERBS = ("activity", "shape", "background")


def corpus_of(plan: PlantedCorpus) -> Corpus:
    """Clips and captions as a corpus, with the truth in columns of its own.

    Classes are those of activity, shape, colour, background and the word on the sign that captions of the corpus name.
    The verb is the first of activity, shape and background among them, the others are nouns: so a clip always has one,
    and a degree of 1 (`evenreel.corpus.class_relevance`) means that a clip shows what the caption names and that the
    caption leaves nothing out. One that leaves something out reaches 1/2 where it is the verb (captions of `textual`
    without the shape) and 3/4 where it is one of two nouns (captions of `scene_text` without the word): there, a clip
    shows all that the caption names where its classes contain the caption's.

    Columns after the standard ones: `follows` (the clip agrees with what is planted, empty where that has no meaning),
    the five attributes and the `word` of its sign; of captions, their `annotator`.
    """
    return make_corpus(
        pl.DataFrame([_clip_row(clip) for clip in plan.clips], infer_schema_length=None),
        pl.DataFrame([row for clip in plan.clips for row in _caption_rows(clip)], infer_schema_length=None),
    )


def clip_path(clip: PlantedClip) -> str:
    """Where the file of a clip lies in the folder of its corpus."""
    return f"{CLIPS_FOLDER}/{clip.clip_id}.mp4"


def _clip_row(clip: PlantedClip) -> dict[str, object]:
    scene, shot = clip.scene, clip.shot
    verbs, nouns = _classes(clip, shot.names)
    return {
        "clip_id": clip.clip_id,
        "path": clip_path(clip),
        "start_s": 0.0,
        "end_s": scene.frame_count / scene.fps,
        "frame_count": scene.frame_count,
        "fps": float(scene.fps),
        "split": clip.split,
        "domain": shot.domain,
        "source": shot.source,
        "pair_id": clip.pair_id,
        "verb_classes": verbs,
        "noun_classes": nouns,
        "follows": shot.follows,
        **scene.attributes,
        "word": _values(clip).get("word"),
    }


def _caption_rows(clip: PlantedClip) -> list[dict[str, object]]:
    return [
        _caption_row(clip, name, sentence) for name, sentence in zip(clip.caption_ids, clip.shot.captions, strict=True)
    ]


def _caption_row(clip: PlantedClip, caption_id: str, sentence: Sentence) -> dict[str, object]:
    verbs, nouns = _classes(clip, sentence.names)
    return {
        "caption_id": caption_id,
        "clip_id": clip.clip_id,
        "text": sentence.text,
        "verb_classes": verbs,
        "noun_classes": nouns,
        "annotator": sentence.annotator,
    }


def _classes(clip: PlantedClip, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """Numbers of the verb and of the nouns."""
    verb = next(name for name in VERBS if name in clip.shot.names)
    values, number = _values(clip), _class_numbers()
    numbers = {name: number[name, values[name]] for name in names}
    return [numbers.pop(verb)] if verb in names else [], list(numbers.values())


def _values(clip: PlantedClip) -> dict[str, str]:
    """All that captions may name: the attributes, and the word on the sign where there is one."""
    signs = clip.scene.signs
    return {**clip.scene.attributes, **({"word": signs[0].text} if signs else {})}


@cache
def _class_numbers() -> dict[tuple[str, str], int]:
    """A number for each value of each attribute."""
    values = {
        "activity": tuple(vocabulary.activities()),
        "shape": vocabulary.shapes(),
        "colour": tuple(vocabulary.colours()),
        "background": tuple(vocabulary.backgrounds()),
        "size": tuple(vocabulary.sizes()),
        "word": tuple(shape.upper() for shape in vocabulary.shapes()),
    }
    pairs = [(attribute, value) for attribute, names in values.items() for value in names]
    return {pair: number for number, pair in enumerate(pairs)}
