"""How far do misleading spoken words lead a library's search astray, and one that does not hear?

    python -m benchmarks.voiceover [--seeds 3] [--first-seed 10] [--clips 120] [--model FOLDER]

Planted clips of `visual` at strength 0, whose captions name the colour and the shape of a small thing, are indexed with
the built-in model, without words on screen. Over each test clip a voice says the first caption of another one
(`voiceover`) or, as the control, as many syllables. What is scored is the product's own search, for every caption:

- `deaf`: by what is seen alone, of the same clips;
- `subtitles`: with what is said as subtitles, every word right;
- `heard`: with what Whisper tiny.en hears of it, where its weights are at hand;
- `heard, null`: that search again, with other syllables in the place of the caption: an audit that speaks is wrong;
- `bm25`: captions and what is said, compared without any picture.

Of `evenreel audit overlay`, as means over the seeds with their interval of 95 %: by how many standard deviations and by
how many places a wrong clip that says the words of the caption's clip rises beyond the control, how many points oftener
it is the first, and how far the caption's own clip falls beyond it when it says another's. Beside these R@1 of own
clips where none says anything, where all mislead, and where all say syllables. Before a caption is searched for in a
library of the clips with a voice, the words that are heard right and the clips with syllables of which anything is
heard are counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.planted import found_in
from evenreel.audits import AuditSettings, measure_overlay
from evenreel.audits.edits import CONTROL
from evenreel.audits.overlay import OWN, WRONG
from evenreel.cli.score.search_scores import search_scores
from evenreel.config import IndexSettings
from evenreel.corpus.counterparts import VOICEOVER, VOICEOVER_CONTROL
from evenreel.evaluation.intervals import Interval
from evenreel.language.bm25 import bm25_scores
from evenreel.language.folding import words
from evenreel.language.wording import babbled
from evenreel.library import Library, index_folders, open_library
from evenreel.planted import PlantedCorpus, corpus_of, described, edited, plan_corpus, write_corpus
from evenreel.speech import Utterance, can_speak
from evenreel.speech.subtitles import as_srt
from evenreel.types import Corpus, ScoreBlocks

DATA = Path(os.environ.get("EVENREEL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CLEAN, OTHER = "none", "other syllables"
DEAF, SUBTITLES, HEARD, NULL, BM25 = "deaf", "subtitles", "heard", "heard, null", "bm25"
ROWS = (DEAF, SUBTITLES, HEARD, NULL, BM25)
_SEED = 3_000
"""Sets the other syllables apart from those of the control."""

Scored = dict[str, dict[str, ScoreBlocks]]
"""Scores by the row, and by what is said over the clips."""


class Figure(NamedTuple):
    """What is measured of one row and seed; the first four by the audit and beyond the control."""

    rises_sd: Interval
    places: Interval
    first: Interval
    falls_sd: Interval
    found: float
    misled: float
    babble: float


class Ear(NamedTuple):
    """What was heard of the voices of one seed, in percent: words that were right, clips with syllables."""

    words: float
    babble: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--clips", type=int, default=120, help="of all splits together; three of ten are searched")
    parser.add_argument("--model", type=Path, default=DATA / "whisper_tiny_en")
    asked = parser.parse_args()
    if not can_speak():
        print("espeak-ng is wanted (pip install espeakng-loader).")
        return 0
    model = asked.model if asked.model.is_dir() else None
    seeds, ears = [], []
    for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
        with tempfile.TemporaryDirectory() as folder:
            figures, ear = of_seed(seed, asked.clips, Path(folder), model)
        seeds.append(figures)
        ears += [ear] if ear else []
    print(table({row: [one[row] for one in seeds] for row in ROWS if row in seeds[0]}))
    if ears:
        right, babble = np.mean(ears, axis=0)
        print(f"heard right: {right:.0f} % of the words that are said; something: in {babble:.0f} % of the syllables")
    return 0


def of_seed(seed: int, clips: int, folder: Path, model: Path | None) -> tuple[dict[str, Figure], Ear | None]:
    """Figures by row of one corpus, whose clips are indexed once for each voice and each way to know what is said."""
    plan = plan_corpus("visual", 0.0, clips, seed)
    corpus = corpus_of(described(plan, VOICEOVER))
    scores: Scored = {row: {} for row in ROWS}
    heard: dict[str, list[str]] = {}
    for name, one in voiced(plan).items():
        begun_s, place = time.perf_counter(), folder / name
        write_corpus(one, place)
        library = Searched(place, corpus)
        scores[DEAF][name] = library.scores()
        library.subtitle(one)
        scores[SUBTITLES][name] = library.scores()
        scores[BM25][name] = bm25_scores(dict(corpus.captions.select("caption_id", "text").iter_rows()), said_in(one))
        if model is not None:
            scores[HEARD][name] = library.hear(model)
            heard[name] = library.transcripts(one)
        print(f"seed {seed}, {name}: {time.perf_counter() - begun_s:.0f} s", file=sys.stderr, flush=True)
    figures = {row: figure_of(scores[row], corpus) for row in (DEAF, SUBTITLES, BM25)}
    if model is None:
        return figures, None
    figures[HEARD] = figure_of(scores[HEARD], corpus)
    figures[NULL] = figure_of({**scores[HEARD], VOICEOVER: scores[HEARD][OTHER]}, corpus)
    return figures, ear_of(plan, heard)


def voiced(plan: PlantedCorpus) -> dict[str, PlantedCorpus]:
    control = edited(plan, VOICEOVER_CONTROL)
    random = np.random.default_rng([plan.seed, _SEED])
    others = []
    for clip, voice in zip(control.clips, edited(plan, VOICEOVER).clips, strict=True):
        (said,) = voice.scene.spoken
        scene = replace(clip.scene, spoken=(replace(said, text=babbled(said.text, random)),))
        others.append(replace(clip, shot=replace(clip.shot, scene=scene)))
    clean = replace(plan, clips=plan.split("test"))
    voices = {VOICEOVER: edited(plan, VOICEOVER), CONTROL: control, OTHER: replace(plan, clips=tuple(others))}
    return {CLEAN: clean, **voices}


def said_in(plan: PlantedCorpus) -> dict[str, list[str]]:
    return {clip.clip_id: [sentence.text for sentence in clip.scene.spoken] for clip in plan.clips}


class Searched:
    """A library of the clips in a corpus's folder, searched for all captions."""

    def __init__(self, place: Path, corpus: Corpus) -> None:
        self._clips, self._library, self._corpus = place / "clips", place / "library", corpus
        self._settings = IndexSettings("builtin", read_text=False, device="cpu", keep_stills=False)

    def scores(self) -> ScoreBlocks:
        index_folders(self._clips, self._library, self._settings)
        with self._open() as opened:
            return search_scores(opened, self._corpus).scores

    def subtitle(self, plan: PlantedCorpus) -> None:
        """Put what is said beside each clip, as subtitles over all of it."""
        for clip in plan.clips:
            end_s = clip.scene.frame_count / clip.scene.fps - 0.1
            lines = [Utterance(sentence.text, 0.0, end_s, "sidecar") for sentence in clip.scene.spoken]
            if lines:
                (self._clips / f"{clip.clip_id}.srt").write_text(as_srt(lines), encoding="utf-8")

    def hear(self, model: Path) -> ScoreBlocks:
        """Take the subtitles away, and have a model hear what is said."""
        for path in self._clips.glob("*.srt"):
            path.unlink()
        self._settings = replace(self._settings, speech=str(model), language="en")
        return self.scores()

    def transcripts(self, plan: PlantedCorpus) -> list[str]:
        with self._open() as opened:
            paths = [str(self._clips / f"{clip.clip_id}.mp4") for clip in plan.clips]
            found = [[one for one in opened.transcripts(path) if one.source == "recognised"] for path in paths]
        return [" ".join(line.text for one in some for line in one.utterances) for some in found]

    def _open(self) -> Library:
        return open_library(self._library, device="cpu")


def ear_of(plan: PlantedCorpus, heard: Mapping[str, Sequence[str]]) -> Ear:
    right = total = 0
    for clip, text in zip(edited(plan, VOICEOVER).clips, heard[VOICEOVER], strict=True):
        said, found = words(clip.scene.spoken[0].text), set(words(text))
        right, total = right + sum(word in found for word in said), total + len(said)
    return Ear(100 * right / total, 100 * float(np.mean([bool(text) for text in heard[CONTROL]])))


def figure_of(scores: Mapping[str, ScoreBlocks], corpus: Corpus) -> Figure:
    versions = {VOICEOVER: scores[VOICEOVER], CONTROL: scores[CONTROL]}
    measured = measure_overlay(scores[CLEAN], corpus, versions, AuditSettings())
    rise, fall = (measured.shifts[whose, VOICEOVER].beyond for whose in (WRONG, OWN))
    found = (found_in(scores[name], corpus, ["R@1"])["R@1"] for name in (CLEAN, VOICEOVER, CONTROL))
    return Figure(rise["sd"], rise["places"], rise["first"], fall["sd"], *found)


def table(rows: Mapping[str, Sequence[Figure]]) -> str:
    """For people: a line for each row."""
    heads = ("rises, SD", "by places", "first, points", "own falls, SD", "R@1", "misled", "syllables")
    lines = [" " * 12 + "".join(f"{head:>24}" for head in heads[:4]) + "".join(f"{head:>11}" for head in heads[4:])]
    for row, seeds in rows.items():
        cells = [f"{pooled([one[place] for one in seeds]):>24}" for place in range(4)]  # type: ignore[misc]
        cells += [f"{np.mean([one[place] for one in seeds]):>11.1f}" for place in range(4, 7)]
        lines.append(f"{row:12}" + "".join(cells))
    return "\n".join(lines)


def pooled(seeds: Sequence[Interval]) -> str:
    """Mean over independent seeds, with an interval as wide as theirs together make it."""
    values = np.array([one.value for one in seeds])
    half = np.array([np.nan if one.low is None or one.high is None else (one.high - one.low) / 2 for one in seeds])
    wide = float(np.sqrt(np.square(half).sum())) / len(seeds)
    mean = float(values.mean())
    if np.isnan(mean):
        return "-"
    return f"{mean:.2f} [{mean - wide:.2f}, {mean + wide:.2f}]"


if __name__ == "__main__":
    raise SystemExit(main())
