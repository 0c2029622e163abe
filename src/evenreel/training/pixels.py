"""Training through towers: which clips can be read, their pictures with random changes, and captions as tokens.

Before training, each clip is read once in a process that may crash or hang without harm; what was found is remembered
in the folder of the run, so that a resumed run reads only files that have changed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from pathlib import Path
from threading import local

import numpy as np
import torch
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.config import MediaLimits, usable_cores
from evenreel.encoders import loading
from evenreel.encoders.checkpoint import Preprocessing, open_checkpoint
from evenreel.encoders.towers import Towers, load_towers
from evenreel.encoders.trainable import TokenIds, TrainableTowers, shortened, takes_whole, tokenise
from evenreel.errors import CorpusError, MediaError
from evenreel.features.load import pretrained_means
from evenreel.features.on_screen import read_on_screen
from evenreel.features.pool import SetAside
from evenreel.features.word_changes import WordChanges
from evenreel.media.sampling import Part, parse_rule
from evenreel.media.video import open_video
from evenreel.media.workers import Worker, stamp
from evenreel.progress import Progress
from evenreel.training.batches import Draw, Pairs, PixelBatch, TokenBatch, TrainingInputs, WindowTokens, pairs_of
from evenreel.training.recipe import Backbone, Recipe, RecipeError
from evenreel.training.run_folder import ClipVerdict, Verdicts, locked, writing
from evenreel.training.splits import CorpusSplits, EncoderUsed, digest, usable_part
from evenreel.types import Corpus, FloatArray, Pixels

READER = "evenreel.onscreen.reader:FileReader"
NOTHING = ""
"""The sentence of a window without text. It is always the first, and the tower reads it with every batch: else a device
with no text in its part of a batch would have no gradients to send where the others wait for them."""
SMALLEST_AREA = 0.5
ASPECTS = (3 / 4, 4 / 3)
_TRIES = 10

# Which clips can be read ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClipVideo:
    """Video file of a clip, its part of it, and how many frames the sampling rule takes; None before it was read."""

    clip_id: str
    path: Path
    part: Part
    frames: int | None = None


def clip_files(corpus: Corpus, folder: Path) -> list[ClipVideo]:
    rows = corpus.clips.select("clip_id", "path", "start_s", "end_s")
    if rows["path"].null_count():
        nameless = rows.filter(rows["path"].is_null())["clip_id"][0]
        raise CorpusError(f"The clip {nameless!r} has no path; towers in training need the videos of all clips.")
    return [ClipVideo(clip_id, folder / path, Part(start, end)) for clip_id, path, start, end in rows.iter_rows()]


def readable(
    files: Sequence[ClipVideo], rule: str, progress: Progress = lambda share: None, verdicts: Path | None = None
) -> tuple[list[ClipVideo], list[SetAside]]:
    """Check which clips can be read, each once, as many at a time as there are cores."""
    keys = [_key(file, rule) for file in files]
    guarded = partial(nullcontext) if verdicts is None else partial(writing, verdicts.parent)
    limits, workers, opened = MediaLimits(), local(), list[Worker]()

    def check(clip: ClipVideo) -> ClipVerdict:
        if not hasattr(workers, "own"):
            workers.own = Worker(READER, {"rule": rule, "limits": asdict(limits), "threads": 1, "text": False}, limits)
            opened.append(workers.own)
        return _verdict(clip, workers.own)

    with ExitStack() as held:
        with guarded():
            held.enter_context(locked(verdicts))
            memory = Verdicts(verdicts)
        new = [place for place, key in enumerate(keys) if key not in memory.known]
        pool = ThreadPoolExecutor(usable_cores())
        try:
            for done, verdict in enumerate(pool.map(check, [files[place] for place in new]), start=1):
                with guarded():
                    memory.note(keys[new[done - 1]], verdict)
                progress(done / len(new))
        finally:
            pool.shutdown(cancel_futures=True)  # who interrupts does not wait for all that are left
            for worker in opened:
                worker.close()
        with guarded():
            memory.make_durable()
    found = [(file, memory.known[key]) for file, key in zip(files, keys, strict=True)]
    return [replace(file, frames=one.frames) for file, one in found if one.reason is None], [
        SetAside(file.clip_id, str(file.path), one.reason, one.sentence)
        for file, one in found
        if one.reason is not None
    ]


def _key(clip: ClipVideo, rule: str) -> str:
    """32 hex digits over what a verdict depends on; those of a file that has changed, or is gone, are others."""
    try:
        state = astuple(stamp(str(clip.path)))
    except MediaError:
        state = None
    named = [str(clip.path), clip.part.start_s, clip.part.end_s, rule, state]
    return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()


def _verdict(clip: ClipVideo, worker: Worker) -> ClipVerdict:
    task = {"path": str(clip.path), "part": [clip.part.start_s, clip.part.end_s], "frames": False, "text": False}
    try:
        frames = sum(message["kind"] == "tick" for message, _ in worker.run(task))
    except MediaError as error:
        return ClipVerdict(0, error.reason, str(error))
    return ClipVerdict(frames) if frames else ClipVerdict(0, "no_frames", "no frame of it could be decoded")


# Their pictures -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PixelExamples:
    """Training examples of tokens and pixels, for towers in training; all its clips were found to be readable."""

    pairs: Pairs  # pairs of rows of captions and clips
    tokens: TokenIds  # tokens of the captions
    files: tuple[ClipVideo, ...]  # video files of the clips
    rule: str  # sampling rule of the frames
    preprocessing: Preprocessing  # preparation of pictures for the tower
    full_length: bool = False  # whether the text tower takes captions of its full length only, as SigLIP does
    augment: str = "none"  # `none`, `crop` or `crop_and_flip`, see `evenreel.training.recipe.Backbone`
    # (V, D) means of the clips' frames before training; None where not needed
    pretrained_mean: FloatArray | None = None
    windows: WindowTokens | None = None  # tokens of on-screen text; None where not needed

    def texts(self, rows: Indices) -> TokenBatch:
        where = torch.from_numpy(rows)
        tokens = TokenIds(self.tokens.ids[where], self.tokens.mask[where])
        ids = tuple(self.pairs.caption_ids[row] for row in rows)
        return TokenBatch(ids, tokens if self.full_length else shortened(tokens))

    def videos(self, rows: Indices, draw: Draw | None = None) -> PixelBatch:
        drawn_as = rows if draw is None or draw.alike is None else draw.alike
        decoded = [self._clip(int(row), draw, int(alike)) for row, alike in zip(rows, drawn_as, strict=True)]
        longest = max(len(times) for _, times in decoded)
        mask = torch.zeros((len(rows), longest), dtype=torch.bool)
        times_s = torch.zeros((len(rows), longest))
        for place, (_, times) in enumerate(decoded):
            mask[place, : len(times)] = True
            times_s[place, : len(times)] = torch.tensor(times)
        ids = tuple(self.files[row].clip_id for row in rows)
        mean = None if self.pretrained_mean is None else torch.from_numpy(self.pretrained_mean[rows])
        windows = None if self.windows is None else self.windows.of(rows)
        return PixelBatch(ids, torch.cat([pixels for pixels, _ in decoded]), mask, times_s, mean, windows)

    def _clip(self, row: int, draw: Draw | None, alike: int) -> tuple[Tensor, list[float]]:
        pixels, times_s = read_frames(self.files[row], self.rule)
        if draw is None or self.augment == "none":
            return torch.from_numpy(np.concatenate([self.preprocessing.resize(one) for one in pixels])), times_s
        random = np.random.default_rng([draw.seed, draw.batch, alike])
        return augmented(pixels, self.preprocessing, random, flip=self.augment == "crop_and_flip"), times_s


def read_frames(clip: ClipVideo, rule: str) -> tuple[list[Pixels], list[float]]:
    """Read the frames of a clip, (1, 3, H, W) uint8 each, and their times from its start, in seconds."""
    try:
        with open_video(clip.path) as video:
            frames = list(video.frames(clip.part.rule(parse_rule(rule))))
    except MediaError as error:
        raise MediaError(
            error.reason,
            f"The clip {clip.clip_id} ({clip.path}) cannot be read: {error}. "
            "It could before training began: put it back as it was, and resume the run.",
        ) from error
    start_s = clip.part.start_s or 0.0
    pixels = [np.ascontiguousarray(frame.pixels.transpose(2, 0, 1))[None] for frame in frames]
    return pixels, [max(0.0, frame.time_s - start_s) for frame in frames]


def augmented(
    pixels: Sequence[Pixels], preprocessing: Preprocessing, random: np.random.Generator, *, flip: bool
) -> Tensor:
    """Crop one random part of all frames and resize it for the tower (Inception's crop, arXiv 1409.4842, section 6).

    N frames (1, 3, H, W) uint8 become (N, 3, h, w); the part replaces the resizing and cut of the preprocessing.
    """
    whole = preprocessing.uncropped
    top, left, height, width = crop_box(pixels[0].shape[-2], pixels[0].shape[-1], random)
    mirrored = flip and random.random() < 0.5
    parts = []
    for one in pixels:
        part = whole.resize(one[..., top : top + height, left : left + width])
        parts.append(part[..., ::-1] if mirrored else part)
    return torch.from_numpy(np.concatenate(parts))


def crop_box(height: int, width: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Draw a random crop of a picture: top, left, height and width in pixels.

    It has 0.5 to 1 of the area and an aspect of 3:4 to 4:3; where none is found, the middle of the picture is taken.
    """
    for _ in range(_TRIES):
        area = height * width * random.uniform(SMALLEST_AREA, 1.0)
        aspect = math.exp(random.uniform(math.log(ASPECTS[0]), math.log(ASPECTS[1])))
        across, down = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < across <= width and 0 < down <= height:
            return int(random.integers(height - down + 1)), int(random.integers(width - across + 1)), down, across
    across, down = min(width, round(height * ASPECTS[1])), min(height, round(width / ASPECTS[0]))
    return (height - down) // 2, (width - across) // 2, down, across


# Loading --------------------------------------------------------------------------------------------------------------


def load_pixels(
    recipe: Recipe, backbone: Backbone, splits: CorpusSplits, progress: Progress, verdicts: Path | None
) -> TrainingInputs:
    """Load the towers to train and their examples; each clip is read once, so that unreadable ones are left out."""
    encoder_id, folder = loading.locate(backbone.model)
    loading.read_first(folder, "cpu", "float32")
    checkpoint = open_checkpoint(folder)
    towers = load_towers(checkpoint, torch.device("cpu"), "float32")
    trainable = TrainableTowers(towers, train=backbone.train, frozen=backbone.frozen)
    if backbone.gradient_checkpointing:
        trainable.checkpoint_layers()
    videos = Path(recipe.data.videos or recipe.data.corpus)
    files = [file for part in splits.both for file in clip_files(part, videos)]
    readable_files, set_aside = readable(files, backbone.rule, progress, verdicts)
    there = {file.clip_id: file for file in readable_files}
    used = EncoderUsed(encoder_id, checkpoint.digest(), backbone.rule)
    selected = splits.selected and usable_part(splits.selected, there, set_aside, "; check data.videos")
    usable = [usable_part(splits.learned, there, set_aside, "; check data.videos"), *filter(None, [selected])]
    examples: list[PixelExamples] = []
    for part in usable:
        learns = not examples
        loaded = pixel_examples(recipe, towers, part, there, learned=learns)
        clip_ids = loaded.pairs.clip_ids
        if learns:
            pairs = pairs_of(part, loaded.pairs.caption_ids, clip_ids, splits.mirrors, splits.relevance)
            loaded = replace(loaded, pairs=pairs, augment=backbone.augment)
        examples.append(replace(loaded, pretrained_mean=_means_before(recipe, part, clip_ids, used)))
    if (windows := examples[0].windows) is not None:
        used = replace(used, windows=windows.rows.shape[1], words_from=windows.words_from)
    return TrainingInputs(
        examples[0],
        towers.dimension,
        examples[1] if examples[1:] else None,
        trainable,
        source={**_identity(readable_files, examples), **asdict(used)},
        weights_hash=used.weights_hash,
        selected=selected,
        encoder=used,
        set_aside=tuple(set_aside),
    )


def pixel_examples(
    recipe: Recipe, towers: Towers, part: Corpus, files: Mapping[str, ClipVideo], *, learned: bool = False
) -> PixelExamples:
    """Make examples of tokens and pixels from a part of a corpus, without random changes of pictures."""
    if (backbone := recipe.backbone) is None:
        raise RecipeError("Pictures are for towers, and the recipe has no backbone: give one.")
    own = tuple(files[clip_id] for clip_id in part.clips["clip_id"])
    clip_ids = tuple(file.clip_id for file in own)
    return PixelExamples(
        pairs_of(part, part.captions["caption_id"].to_list(), clip_ids),
        tokenise(towers, part.captions["text"].to_list(), backbone.max_words),
        own,
        backbone.rule,
        towers.preprocessing,
        full_length=towers.family.padded,
        windows=_on_screen_tokens(recipe, part, clip_ids, towers, learned=learned),
    )


def _on_screen_tokens(
    recipe: Recipe, corpus: Corpus, clip_ids: tuple[str, ...], towers: Towers, *, learned: bool
) -> WindowTokens | None:
    """On-screen text of clips from stored features of any encoder, as tokens; None where the recipe names none."""
    if recipe.data.on_screen is None or recipe.backbone is None:
        return None
    changes = recipe.changed_words or WordChanges()
    if learned:
        changes = changes.learned
    whole = partial(takes_whole, towers)
    written = read_on_screen(recipe.data.on_screen, corpus, clip_ids, recipe.backbone.rule, whole, changes)
    sentences = [text for windows in written.texts for text in windows]
    distinct = {text: row for row, text in enumerate(dict.fromkeys([NOTHING, *sentences]))}
    return WindowTokens(
        tokenise(towers, list(distinct), towers.longest_caption),
        torch.tensor([[distinct[text] for text in windows] for windows in written.texts]),
        torch.from_numpy(written.confidence),
        written.words_from,
        full_length=towers.family.padded,
    )


def _means_before(recipe: Recipe, corpus: Corpus, clip_ids: tuple[str, ...], used: EncoderUsed) -> FloatArray | None:
    folder = recipe.data.pretrained_features
    if folder is None:
        return None
    means = pretrained_means(folder, corpus, clip_ids)
    if means.weights_hash != used.weights_hash:
        raise RecipeError(
            f"data.pretrained_features ({folder}) holds features of {means.encoder_id}, and the backbone is "
            f"{used.encoder_id} with other weights; compute them with the backbone's model."
        )
    return means.means


def _identity(files: Sequence[ClipVideo], examples: Sequence[PixelExamples]) -> dict[str, str | int | None]:
    """Identify videos by name and size: to look at their content again would take as long as to check them."""
    found: dict[str, str | int | None] = {
        "videos": digest(f"{one.path.name} {one.part} {_size_bytes(one)}" for one in files)
    }
    if means := [one.pretrained_mean for one in examples if one.pretrained_mean is not None]:
        found["seen"] = hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in means)).hexdigest()
    if windows := [one.windows.digest() for one in examples if one.windows is not None]:
        found["on_screen"] = " ".join(windows)
    return found


def _size_bytes(file: ClipVideo) -> int:
    try:
        return stamp(str(file.path)).size
    except MediaError as error:
        raise CorpusError(
            f"The clip {file.clip_id} ({file.path}) could be read before, and now it cannot: {error}. Put it back as "
            "it was, and start again."
        ) from error
