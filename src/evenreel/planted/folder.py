"""A planned corpus as tables, statistics and a folder of files, and whether its bias was admitted as a benchmark.

`planted.json` says what was planted. Measurements that the package ships are made by `benchmarks/evidence`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.config import usable_cores
from evenreel.corpus import make_corpus, save_corpus, save_texts
from evenreel.corpus.counterparts import OVERLAY_OF, VOICEOVER_OF
from evenreel.corpus.on_screen import make_texts
from evenreel.documents import parse_json
from evenreel.errors import CorpusError
from evenreel.files import write_durably
from evenreel.media.workers import safe_path
from evenreel.planted.biases import LENGTHS, BiasName, Harder, PlantSettings
from evenreel.planted.draw import scene_bytes
from evenreel.planted.edits import described, edited
from evenreel.planted.features import reading, stretch_of
from evenreel.planted.plan import SPLITS, PlantedClip, PlantedCorpus, Split, plan_corpus
from evenreel.planted.scenes import Scene
from evenreel.planted.vocabulary import activities, annotators, backgrounds, colours, data_text, phrases, shapes, sizes
from evenreel.types import CAMERA, Corpus, Shown

if TYPE_CHECKING:
    from polars import DataFrame

    from evenreel.planted.voices import Recordings


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
    clips = [_clip_row(clip, spoken=plan.settings.spoken > 0) for clip in plan.clips]
    captions = []
    for clip in plan.clips:
        for name, sentence in zip(clip.caption_ids, clip.shot.captions, strict=True):
            verbs, nouns = _classes(clip, sentence.names, [clip.shot.named_word])
            row = {"caption_id": name, "clip_id": clip.clip_id, "text": sentence.text, "verb_classes": verbs}
            captions.append({**row, "noun_classes": nouns, "annotator": sentence.annotator})
    return make_corpus(pl.DataFrame(clips, infer_schema_length=None), pl.DataFrame(captions, infer_schema_length=None))


def clip_path(clip: PlantedClip) -> str:
    return f"{CLIPS_FOLDER}/{clip.clip_id}.mp4"


def _clip_row(clip: PlantedClip, *, spoken: bool) -> dict[str, object]:
    scene, shot = clip.scene, clip.shot
    verbs, nouns = _classes(clip, shot.names, shot.words)
    said = None if shot.said is None else scene.spoken[0]
    of_speech = {
        "word_in": "sign" if said is None else "speech",
        "spoken": said and said.text,
        "spoken_start_s": said and said.start_s,
    }
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
        **(of_speech if spoken else {}),
        **({OVERLAY_OF: clip.overlay_of} if clip.overlay_of else {}),
        **({VOICEOVER_OF: clip.voiceover_of} if clip.voiceover_of else {}),
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


@dataclass(frozen=True)
class PlantedStatistics(Shown):
    """Strength of a planted bias in one split of a corpus, as counted.

    Attributes:
        split: name of the split.
        count: number of clips, or of captions where the bias is in them.
        planted_share: share of `count`, 0 to 1, that shows what the bias plants. By bias, `visual` or `length`: clips
            with the background or length paired with their shape or activity; `textual`: captions by the annotator
            paired with the shape, or, where test captions are by new annotators, by any of those in training; `source`:
            generated clips; `domain`: clips of the source domain; else clips of a group that differs in its on-screen
            word alone. Where things are paired it is above 0 by chance.
        association: Cramer's V of the two things that the bias pairs, 0 for none to 1; None where it pairs nothing.
        information_bits: mutual information of the two things, in bits.
        chance_bits: mean mutual information of independent things in a sample of this size, in bits.
        mean_length_s: mean length of the clips, in seconds.
        lengths_s: mean length of clips by activity, in seconds, for `length`.
    """

    split: Split
    count: int
    planted_share: float
    association: float | None
    information_bits: float | None
    chance_bits: float | None
    mean_length_s: float
    lengths_s: dict[str, float]


def planted_statistics(plan: PlantedCorpus) -> tuple[PlantedStatistics, ...]:
    """Compute statistics of a planted bias in each split that has clips.

    >>> from evenreel.planted import plan_corpus
    >>> train, val, test = planted_statistics(plan_corpus("visual", 1.0, clips=400))
    >>> train.planted_share, train.association, round(test.planted_share, 1)
    (1.0, 1.0, 0.1)
    """
    return tuple(_of_split(plan, name) for name in SPLITS if plan.split(name))


def cramers_v(table: NDArray[np.int64]) -> float:
    """Compute Cramer's V, an association of 0 to 1, of a table of counts (1946): sqrt(chi2 / (n min(r - 1, c - 1))).

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[5, 5], [5, 5]]))
    (1.0, 0.0)
    """
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    chi_square = ((table - expected) ** 2 / expected).sum()
    freedom = min(table.shape) - 1
    return float(np.sqrt(chi_square / (table.sum() * freedom))) if freedom else 0.0


def mutual_information_bits(table: NDArray[np.int64]) -> float:
    """Compute the mutual information of a table's rows and columns: sum p(r, c) log2(p(r, c) / (p(r) p(c))), in bits.

    >>> mutual_information_bits(np.array([[5, 0], [0, 5]]))
    1.0
    """
    joint = table / table.sum()
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    there = joint > 0
    return float((joint[there] * np.log2(joint[there] / apart[there])).sum())


def chance_bits(table: NDArray[np.int64]) -> float:
    """Compute the mutual information that independent things have by chance, (r - 1)(c - 1) / (2 n ln 2), in bits.

    (Miller 1955; n is the sum of the table of counts, r and c its numbers of rows and columns.)
    """
    rows, columns = int(table.any(axis=1).sum()), int(table.any(axis=0).sum())
    return float((rows - 1) * (columns - 1) / (2 * table.sum() * np.log(2)))


def _of_split(plan: PlantedCorpus, split: Split) -> PlantedStatistics:
    clips = plan.split(split)
    pairs, new = [pair for clip in clips for pair in _pairs(plan, clip)], plan.settings.harder.new_annotators
    table, lengths = _table(pairs) if pairs else None, dict[str, list[float]]()
    if plan.bias == "source":
        agreeing = [clip.shot.source != CAMERA for clip in clips]
    elif plan.bias == "domain":
        agreeing = [clip.shot.domain == "source" for clip in clips]
    elif pairs:
        agreeing = [second in annotators() if new else plan.partners[first] == second for first, second in pairs]
    else:
        agreeing = [bool(clip.shot.follows) for clip in clips]
    for clip in clips if plan.bias == "length" else ():
        lengths.setdefault(clip.scene.activity, []).append(clip.scene.duration_s)
    return PlantedStatistics(
        split=split,
        count=len(agreeing),
        planted_share=float(np.mean(agreeing)),
        association=None if table is None else cramers_v(table),
        information_bits=None if table is None else mutual_information_bits(table),
        chance_bits=None if table is None else chance_bits(table),
        mean_length_s=float(np.mean([clip.scene.duration_s for clip in clips])),
        lengths_s={activity: float(np.mean(lengths[activity])) for activity in sorted(lengths)},
    )


def _pairs(plan: PlantedCorpus, clip: PlantedClip) -> list[tuple[str, str]]:
    """What the bias pairs, as a clip shows it: nothing for biases without partners."""
    scene = clip.scene
    if plan.bias == "visual":
        return [(scene.subject.shape, scene.background)]
    if plan.bias == "textual":
        return [(scene.subject.shape, caption.annotator or "") for caption in clip.shot.captions]
    if plan.bias == "length":
        short = scene.duration_s <= plan.settings.short_s[1]
        return [(scene.activity, LENGTHS[0 if short else 1])]
    return []


def _table(pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """How often each first goes with each second."""
    firsts, rows = np.unique([first for first, _ in pairs], return_inverse=True)
    seconds, columns = np.unique([second for _, second in pairs], return_inverse=True)
    table = np.zeros((len(firsts), len(seconds)), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    return table


PAGE = "planted.json"

CONTENT = ("clips.parquet", "captions.parquet", "texts.parquet", CLIPS_FOLDER)

RENDERER = 1
"""Version of the renderer: clips of another one are not mixed with these."""


def write_corpus(
    plan: PlantedCorpus,
    folder: str | Path,
    workers: int = 0,
    progress: Callable[[int, int], object] | None = None,
    edit: str | None = None,
    recordings: Recordings | None = None,
) -> int:
    """Render a planned corpus into a folder; a clip that is there already is not rendered again.

    The folder is a corpus (`evenreel.corpus.load_corpus`) whose clips lie in `clips`. `planted.json` says what was
    planted, `texts.parquet` has the words on signs as they are read. The bytes are the same in every run, with any
    number of workers. A run that was cut off goes on where it stopped.

    Args:
        plan: corpus to render.
        folder: folder to write; made where it is missing.
        workers: number of processes; 0 means one for each core.
        progress: called with the number of clips that are there, and of all clips.
        edit: write the test split after this edit (`evenreel.planted.edits`), under the same ids.
        recordings: what clips say, as (N,) samples at 16 kHz by sentence; others are spoken by espeak-ng.

    Returns:
        Number of clips that were rendered.

    Raises:
        CorpusError: the folder holds another corpus, or cannot be written; or a process that renders died.
        UsageError: there is no such edit of such a corpus; or a sentence can be spoken neither by espeak-ng, nor is
            there a recording of it.
    """
    folder, shown = Path(folder), plan
    if edit is not None:
        shown, plan = edited(plan, edit), described(plan, edit)
    if said := [sentence for clip in shown.clips for sentence in clip.scene.spoken]:
        from evenreel.planted.voices import check_voices

        check_voices(said, recordings)
    try:
        _claim(folder, page_of(plan, edit))
        missing = [clip for clip in shown.clips if not (folder / clip_path(clip)).is_file()]
        jobs = [partial(_render_clip, folder / clip_path(clip), clip.scene, recordings) for clip in missing]
        tell, there = progress or (lambda rendered, total: None), len(plan.clips) - len(missing)
        tell(there, len(plan.clips))
        _render(jobs, workers or usable_cores(), lambda rendered: tell(there + rendered, len(plan.clips)))
    except OSError as error:
        raise CorpusError(
            f"The planted corpus cannot be written to {folder} ({error.strerror or error}). Clips that were finished "
            "are kept: make room or choose another folder, and run it again."
        ) from error
    except BrokenProcessPool as error:
        raise CorpusError(
            f"A process that rendered clips into {folder} died. Either the system ended it, for want of memory (take "
            'fewer workers), or a script called this outside of `if __name__ == "__main__":`, which processes need. '
            "Clips that were finished are kept: run it again."
        ) from error
    save_corpus(corpus_of(plan), folder)
    save_texts(_texts(shown), folder)
    return len(missing)


def page_of(plan: PlantedCorpus, edit: str | None = None) -> dict[str, Any]:
    """Return the content of `planted.json`: what was planted, with the name of any edit."""
    harder, spoken = plan.settings.harder, plan.settings.spoken
    left_out = {"harder"} if spoken else {"harder", "spoken"}
    settings = {name: value for name, value in asdict(plan.settings).items() if name not in left_out}
    told = ", ".join(f"{one.name}={getattr(plan, one.name)!r}" for one in fields(plan))
    told_of = [phrases("biases")[plan.bias], *([phrases("spoken")["planted"]] if spoken else [])]
    told_of += [phrases("harder")[name] for name in harder.changed]
    said = "".join(f"{clip.clip_id}{clip.scene.spoken}" for clip in plan.clips if clip.scene.spoken)
    return {
        "renderer": RENDERER,
        "bias": plan.bias,
        "strength": plan.strength,
        "seed": plan.seed,
        "clips": len(plan.clips),
        "planted": " ".join(told_of),
        "partners": plan.partners,
        "settings": {**settings, **harder.changed},
        "statistics": [asdict(each) for each in planted_statistics(plan)],
        "digest": sha256(f"PlantedCorpus({told}){said}{edit or ''}{data_text()}".encode()).hexdigest(),
        **({"edit": edit} if edit else {}),
    }


def _claim(folder: Path, content: dict[str, Any]) -> None:
    """Write the page first, so that clips of two plans are never mixed."""
    page, found = folder / PAGE, None
    if page.exists():
        # Clips go together where plan, vocabulary and renderer are the same; the page's words may differ.
        with suppress(ValueError):
            found = parse_json(page.read_bytes())
        if not isinstance(found, dict) or any(found.get(key) != content[key] for key in ("renderer", "digest")):
            raise CorpusError(
                f"{folder} holds a planted corpus of another bias, strength, seed, size, edit or version; "
                "choose another folder, or delete this one first."
            )
    elif there := [name for name in CONTENT if (folder / name).exists()]:
        raise CorpusError(
            f"{folder} holds a corpus already ({', '.join(there)}), which is not a planted one; choose another folder."
        )
    write_durably(page, (json.dumps(content, indent=2) + "\n").encode())


def _render(renderings: Sequence[Callable[[], None]], workers: int, done: Callable[[int], object]) -> None:
    """Render clips in processes; the first that fails stops the rest."""
    if not renderings:
        return
    context = get_context("spawn")  # a fork would copy the locks of threads that are not there
    with safe_path(), ProcessPoolExecutor(min(workers, len(renderings)), context, initializer=_begin_worker) as pool:
        jobs = [pool.submit(rendering) for rendering in renderings]
        try:
            for rendered, job in enumerate(as_completed(jobs), start=1):
                job.result()
                done(rendered)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _render_clip(path: Path, scene: Scene, recordings: Recordings | None) -> None:
    write_durably(path, scene_bytes(scene, recordings))


def _begin_worker() -> None:
    """Ctrl-C is for the parent, which then stops the workers; where the parent is killed, they end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _texts(plan: PlantedCorpus) -> DataFrame | None:
    """The words that are read on signs, as a benchmark ships its own; None where no clip has a sign.

    A row for each reading of a sign, in its frames; none where it is up between two frames.
    """
    rows: list[dict[str, object]] = []
    for clip, sign in [(one, sign) for one in plan.clips for sign in one.scene.signs]:
        fps, read = clip.scene.fps, dict[int, str]()
        for number in range(clip.scene.frame_count):
            if sign.is_up(number / fps):
                read[number] = reading(clip, sign, stretch_of(clip.scene, number / fps))
        for text, frames in ((text, list(run)) for text, run in groupby(read, read.__getitem__)):
            if text:
                rows.append({"clip_id": clip.clip_id, "text": text, "start_frame": frames[0], "end_frame": frames[-1]})
    return make_texts(rows) if rows else None


SHIPPED = Path(str(files("evenreel.planted").joinpath("admission.json")))
"""File in the package that `python -m benchmarks.evidence --save-admissions` writes."""

FEW_CLIPS = 40
"""Clips of a plan that stands for its world."""


@dataclass(frozen=True)
class Admission(Shown):
    """Measurements of a planted bias at one strength, by which it is admitted or not.

    Attributes:
        bias: name of the bias.
        strength: strength of the bias in training, 0 to 1.
        world: renderer and digest of what was rendered, see `world_of`.
        seeds: seeds of the corpora and trainings.
        clips: number of clips of each corpus, in all splits.
        steps: number of steps of each training.
        means: mean R@1 of each row (baseline, oracle, ...), in percent.
        rules: figure of each rule of admission, in words, by its name.
        broken: names of the rules that are not met.
        harder: settings of a harder world that are not the default, by name.
    """

    bias: BiasName
    strength: float
    world: str
    seeds: tuple[int, ...]
    clips: int
    steps: int
    means: dict[str, float]
    rules: dict[str, str]
    broken: tuple[str, ...]
    harder: dict[str, float] = field(default_factory=dict)

    @property
    def admitted(self) -> bool:
        """Whether every rule of admission is met."""
        return not self.broken


def admission_of(plan: PlantedCorpus) -> Admission | None:
    """Return the measurements of a planned corpus's bias at its strength; None where there are none.

    There are none either where the plan has settings of its own, other than those of a harder world, or where the
    renderer has changed since.
    """
    harder = plan.settings.harder
    if plan.settings != PlantSettings(harder=harder):
        return None
    world, key = world_of(plan.bias, plan.strength, harder), (plan.bias, plan.strength, harder.changed)
    return next((one for one in read_admissions() if _key(one) == key and one.world == world), None)


def admission_line(found: Admission | None) -> str:
    """Return a line that says whether a bias was admitted."""
    if found is None:
        return "Admitted as a benchmark: not measured for this bias, strength and settings."
    measured = f"at strength {found.strength:g}, seeds {', '.join(map(str, found.seeds))}"
    if found.admitted:
        return f"Admitted as a benchmark: yes ({measured})."
    failed = "; ".join(f"{rule} ({found.rules[rule]})" for rule in found.broken)
    return f"Admitted as a benchmark: no ({measured}); does not hold: {failed}."


def world_of(bias: BiasName, strength: float, harder: Harder | None = None) -> str:
    """Return an identifier of a planted world: the renderer's version, and a digest of what is planned by default."""
    settings = PlantSettings(harder=harder or Harder())
    return f"{RENDERER} {page_of(plan_corpus(bias, strength, FEW_CLIPS, settings=settings))['digest']}"


def read_admissions() -> list[Admission]:
    entries: list[dict[str, Any]] = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return [Admission(**{**one, "seeds": tuple(one["seeds"]), "broken": tuple(one["broken"])}) for one in entries]


def save_admission(found: Admission) -> None:
    """Save measurements of a planted bias, in place of earlier ones of the same bias, strength and settings."""
    kept = [one for one in read_admissions() if _key(one) != _key(found)]
    entries = sorted([*kept, found], key=lambda one: (one.bias, one.strength, sorted(one.harder.items())))
    write_durably(SHIPPED, (json.dumps([asdict(one) for one in entries], indent=2) + "\n").encode())


def _key(found: Admission) -> tuple[BiasName, float, dict[str, float]]:
    return found.bias, found.strength, found.harder
