"""Training examples whose clips are decoded while training, with random changes of their pictures."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.encoders import loading
from evenreel.encoders.checkpoint import Preprocessing, open_checkpoint
from evenreel.encoders.loading import locate
from evenreel.encoders.towers import Towers, load_towers
from evenreel.encoders.trainable import TokenIds, TrainableTowers, shortened, tokenise
from evenreel.errors import CorpusError, MediaError
from evenreel.features.load import pretrained_means
from evenreel.media.sampling import parse_rule
from evenreel.media.video import open_video
from evenreel.media.workers import stamp
from evenreel.progress import Progress
from evenreel.training.data.clip_check import ClipVideo, clip_files, readable
from evenreel.training.data.examples import Draw, PixelBatch, TokenBatch
from evenreel.training.data.pairs import Pairs, pairs_of
from evenreel.training.data.splits import CorpusSplits, EncoderUsed, LoadedSplits, digest, usable_part
from evenreel.training.data.window_tokens import WindowTokens, on_screen_tokens
from evenreel.training.recipe.recipe import Recipe, RecipeError
from evenreel.training.recipe.sections import Backbone
from evenreel.types import Corpus, FloatArray, Pixels

SMALLEST_AREA = 0.5
ASPECTS = (3 / 4, 4 / 3)
_TRIES = 10


@dataclass(frozen=True, eq=False)
class PixelExamples:
    """Training examples of tokens and pixels, for towers in training; all its clips were found to be readable.

    Attributes:
        pairs: pairs of rows of captions and clips.
        tokens: tokens of the captions.
        files: video files of the clips.
        rule: sampling rule of the frames.
        preprocessing: preparation of pictures for the tower.
        full_length: whether the text tower takes captions of its full length only, as SigLIP does.
        augment: `none`, `crop` or `crop_and_flip`, see `evenreel.training.recipe.sections.Backbone`.
        pretrained_mean: (V, D) means of the clips' frames before training (`evenreel.features.load`); None where
            not needed.
        windows: tokens of on-screen text; None where not needed.
    """

    pairs: Pairs
    tokens: TokenIds
    files: tuple[ClipVideo, ...]
    rule: str
    preprocessing: Preprocessing
    full_length: bool = False
    augment: str = "none"
    pretrained_mean: FloatArray | None = None
    windows: WindowTokens | None = None

    def texts(self, rows: Indices) -> TokenBatch:
        """Load the tokens of captions by their rows."""
        where = torch.from_numpy(rows)
        tokens = TokenIds(self.tokens.ids[where], self.tokens.mask[where])
        ids = tuple(self.pairs.caption_ids[row] for row in rows)
        return TokenBatch(ids, tokens if self.full_length else shortened(tokens))

    def videos(self, rows: Indices, draw: Draw | None = None) -> PixelBatch:
        """Decode clips by their rows; pictures are changed at random only where a `draw` is given.

        Raises:
            MediaError: a clip that could be read before training cannot be any more.
        """
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
    """Read the frames of a clip, (1, 3, H, W) uint8 each, and their times from its start, in seconds.

    Raises:
        MediaError: it cannot be read; the message names the clip.
    """
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

    Args:
        pixels: frames of a clip, (1, 3, H, W) uint8.
        preprocessing: preparation of pictures for the tower; the random part replaces its resizing and cut.
        random: generator that draws the part.
        flip: whether to mirror half of the clips.

    Returns:
        (N, 3, h, w) uint8 pixels of the N frames.
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


def load_pixels(
    recipe: Recipe, backbone: Backbone, splits: CorpusSplits, progress: Progress, verdicts: Path | None
) -> LoadedSplits:
    """Load the towers to train and their examples; each clip is read once, so that unreadable ones are left out.

    Args:
        recipe: recipe that names the clips, and their features before training or on-screen text.
        backbone: its towers.
        splits: captions and clips.
        progress: called with the share of the clips that were looked at.
        verdicts: a file that remembers which clips can be read, see `evenreel.training.data.clip_check.readable`.
    """
    encoder_id, folder = locate(backbone.model)
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
    remedy = "; check data.videos"
    validation = None if splits.selected is None else usable_part(splits.selected, there, set_aside, remedy)
    usable = [usable_part(splits.learned, there, set_aside, remedy), *([] if validation is None else [validation])]
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
        used = replace(used, windows=windows.count, words_from=windows.words_from)
    return LoadedSplits(
        examples[0],
        examples[1] if examples[1:] else None,
        validation,
        used,
        towers.dimension,
        {**_identity(readable_files, examples), **asdict(used)},
        tuple(set_aside),
        trainable,
    )


def pixel_examples(
    recipe: Recipe, towers: Towers, part: Corpus, files: Mapping[str, ClipVideo], *, learned: bool = False
) -> PixelExamples:
    """Make examples of tokens and pixels from a part of a corpus, without random changes of pictures.

    Args:
        recipe: recipe with a backbone, and with on-screen text where its matcher reads some.
        towers: towers that have the tokenizer and the preparation of pictures.
        part: captions and clips.
        files: files of its clips, by their ids; each can be read.
        learned: whether the clips are trained on, and not only scored.

    Raises:
        RecipeError: the recipe has no backbone.
        FeaturesError: on-screen text of a clip is missing or damaged.
    """
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
        windows=on_screen_tokens(recipe, part, clip_ids, backbone.rule, towers, learned=learned),
    )


def _means_before(recipe: Recipe, corpus: Corpus, clip_ids: tuple[str, ...], used: EncoderUsed) -> FloatArray | None:
    """Load the pretrained frame means of clips, (V, D), where the recipe asks for them."""
    if recipe.data.pretrained_features is None:
        return None
    means = pretrained_means(recipe.data.pretrained_features, corpus, clip_ids)
    if means.weights_hash != used.weights_hash:
        raise RecipeError(
            f"data.pretrained_features ({recipe.data.pretrained_features}) holds features of {means.encoder_id}, and "
            f"the backbone is {used.encoder_id} with other weights; compute them with the backbone's model."
        )
    return means.means


def _identity(files: Sequence[ClipVideo], examples: Sequence[PixelExamples]) -> dict[str, str | int | None]:
    """Identify videos by name and size: to look at their content again would take as long as to check them."""
    found: dict[str, str | int | None] = {
        "videos": digest(f"{one.path.name} {one.part} {_size_bytes(one)}" for one in files)
    }
    means = [one.pretrained_mean for one in examples if one.pretrained_mean is not None]
    if means:
        found["seen"] = hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in means)).hexdigest()
    windows = [one.windows.digest() for one in examples if one.windows is not None]
    if windows:
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
