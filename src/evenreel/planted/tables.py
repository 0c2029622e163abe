"""Tables of a planned corpus: the columns that every corpus has, and those that only a plan knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import polars as pl

from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import OVERLAY_OF, VOICEOVER_OF
from evenreel.planted.plan import PlantedClip, PlantedCorpus
from evenreel.planted.shots import Sentence, Shot
from evenreel.planted.vocabulary import activities, backgrounds, colours, shapes, sizes
from evenreel.types import Corpus

CLIPS_FOLDER = "clips"
VERBS = ("activity", "shape", "background")


def corpus_of(plan: PlantedCorpus) -> Corpus:
    """Make the corpus of a planned corpus: clips and captions, with the planted truth in further columns.

    Classes are those of activity, shape, colour, background and the word on the sign that captions of the corpus name.
    The verb is the first of activity, shape and background among them, the others are nouns: so a clip always has one,
    and a degree of 1 (`evenreel.corpus.class_relevance`) means that a clip shows what the caption names and that the
    caption leaves nothing out. One that leaves something out reaches 1/2 where it is the verb (captions of `textual`
    without the shape) and 3/4 where it is one of two nouns (captions of `scene_text` without the word): there, a clip
    shows all that the caption names where its classes contain the caption's.

    A clip with several signs has the class of every word on them, a caption that of the one it names: such a clip too
    answers where its classes contain the caption's, and with N signs the degree of the best is (1 + 2 / (N + 1)) / 2.

    Columns after the standard ones: `follows` (the clip agrees with what is planted, empty where that has no meaning),
    the five attributes and the `word` of its sign, of several that which captions name; of captions, their `annotator`.
    Where words are spoken, `word_in` (`sign` or `speech`: where the word is), `spoken` (the sentence that is said) and
    `spoken_start_s`. After the edit `overlay`, `overlay_of`: the clip whose word is on the misleading sign; after
    `voiceover`, `voiceover_of`: the clip whose caption a voice says.
    """
    return make_corpus(
        pl.DataFrame(
            [_clip_row(clip, spoken=plan.settings.spoken > 0) for clip in plan.clips], infer_schema_length=None
        ),
        pl.DataFrame([row for clip in plan.clips for row in _caption_rows(clip)], infer_schema_length=None),
    )


def clip_path(clip: PlantedClip) -> str:
    """Return the path of a planted clip's file, relative to the folder of its corpus."""
    return f"{CLIPS_FOLDER}/{clip.clip_id}.mp4"


def _clip_row(clip: PlantedClip, *, spoken: bool) -> dict[str, object]:
    scene, shot = clip.scene, clip.shot
    verbs, nouns = _classes(clip, shot.names, shot.words)
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
        "word": shot.named_word,
        **(_spoken_cells(shot) if spoken else {}),
        **({OVERLAY_OF: clip.overlay_of} if clip.overlay_of else {}),
        **({VOICEOVER_OF: clip.voiceover_of} if clip.voiceover_of else {}),
    }


def _spoken_cells(shot: Shot) -> dict[str, object]:
    said = None if shot.said is None else shot.scene.spoken[0]
    return {
        "word_in": "sign" if said is None else "speech",
        "spoken": said and said.text,
        "spoken_start_s": said and said.start_s,
    }


def _caption_rows(clip: PlantedClip) -> list[dict[str, object]]:
    return [
        _caption_row(clip, name, sentence) for name, sentence in zip(clip.caption_ids, clip.shot.captions, strict=True)
    ]


def _caption_row(clip: PlantedClip, caption_id: str, sentence: Sentence) -> dict[str, object]:
    verbs, nouns = _classes(clip, sentence.names, [clip.shot.named_word])
    return {
        "caption_id": caption_id,
        "clip_id": clip.clip_id,
        "text": sentence.text,
        "verb_classes": verbs,
        "noun_classes": nouns,
        "annotator": sentence.annotator,
    }


def _classes(clip: PlantedClip, names: Sequence[str], words: Sequence[str | None]) -> tuple[list[int], list[int]]:
    """Numbers of the verb and of the nouns; `words` are those on signs or said, for the name `word`."""
    verb = next(name for name in VERBS if name in clip.shot.names)
    values, number = clip.scene.attributes, _class_numbers()
    numbers = {name: number[name, values[name]] for name in names if name != "word"}
    verbs = [numbers.pop(verb)] if verb in names else []
    return verbs, [*numbers.values(), *(number["word", word] for word in words if word and "word" in names)]


@cache
def _class_numbers() -> dict[tuple[str, str], int]:
    """A number for each value of each attribute."""
    values = {
        "activity": tuple(activities()),
        "shape": shapes(),
        "colour": tuple(colours()),
        "background": tuple(backgrounds()),
        "size": tuple(sizes()),
        "word": tuple(shape.upper() for shape in shapes()),
    }
    pairs = [(attribute, value) for attribute, names in values.items() for value in names]
    return {pair: number for number, pair in enumerate(pairs)}
