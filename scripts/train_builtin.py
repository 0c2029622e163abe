"""Train the encoder inside the package: a small CLIP on rendered frames and captions of their parts.

    python scripts/train_builtin.py --steps 3000

Frames are rendered ahead into memory, shrunk exactly as the checkpoint's own preprocessing does it. The loss
is the symmetric InfoNCE of CLIP with soft targets: every frame of the batch that a caption truly describes
is a right answer to it. Because the truth of every frame is known, two helpers that are thrown away afterwards
speed the learning up: linear heads name colour, shape and background from the frame's vector, and from each
patch that the subject covers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPTokenizer

from evenreel.planted import Renderer, Scene, SceneRanges, Sign, caption, sample_scene, vocabulary
from evenreel.planted.motion import shake_offset, subject_pose

FOLDER = Path(__file__).parents[1] / "src/evenreel/encoders/builtin/checkpoint"
SIDE = 64
"""Side of the encoder's square input in pixels."""
PATCH = 8
STAGES = ((0.25, 32), (0.85, 48), (1.0, 64))
"""Until which share of the steps at which side: small frames teach colours and places at a fifth of the cost."""
PICTURE_SIZES = ((160, 120), (160, 120), (128, 128), (128, 128), (214, 120), (320, 240))
MEAN, DEVIATION = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
VISIBLE = ("colour", "shape", "size", "background")
"""Attributes that one frame shows; what the subject does needs several."""
NAMED = {
    "colour": tuple(vocabulary.colours()),
    "shape": vocabulary.shapes(),
    "size": tuple(vocabulary.sizes()),
    "background": tuple(vocabulary.backgrounds()),
}
JUDGED = ("colour", "shape", "background")


@dataclass(frozen=True)
class Recipe:
    """Every number of a run."""

    scenes: int = 12_000
    views: int = 3
    steps: int = 3_000
    batch: int = 128
    peak_rate: float = 1.5e-3
    weight_decay: float = 0.05
    warm_up: int = 60
    helper_weight: float = 0.5
    seed: int = 0
    processes: int = 2
    threads: int = 1


@dataclass(frozen=True)
class Frames:
    """Rendered frames and their truth.

    Attributes:
        pixels: (N, 3, SIDE, SIDE) uint8.
        labels: (N, 4) index of the value of each of `VISIBLE`.
        discs: (N, 3) centre x, y and radius of the subject in pixels of the frame.
        scenes: the scene of each frame, N of them.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    discs: NDArray[np.float32]
    scenes: tuple[Scene, ...]


# Frames


def shrink(picture: Image.Image) -> NDArray[np.uint8]:
    """(3, SIDE, SIDE) from a picture of any size, as CLIPImageProcessor does: shortest edge, then the centre."""
    scale = SIDE / min(picture.size)
    small = picture.resize((int(picture.width * scale), int(picture.height * scale)), Image.Resampling.BICUBIC)
    left, top = (small.width - SIDE) // 2, (small.height - SIDE) // 2
    return np.asarray(small.crop((left, top, left + SIDE, top + SIDE))).transpose(2, 0, 1)


def training_scene(rng: np.random.Generator) -> Scene:
    """A scene at one of several picture sizes, whose sign, if any, says something unrelated or misleading."""
    width, height = PICTURE_SIZES[int(rng.integers(len(PICTURE_SIZES)))]
    scene = sample_scene(rng, SceneRanges(sign_share=0.35, width=width, height=height))
    signs = tuple(replace(sign, text=_sign_text(rng), start_s=0.0, end_s=np.inf) for sign in scene.signs)
    return replace(scene, signs=signs)


def _sign_text(rng: np.random.Generator) -> str:
    words = [*vocabulary.sign_words(), *NAMED["colour"], *NAMED["shape"], *NAMED["background"]]
    if rng.random() < 0.5:
        return words[int(rng.integers(len(words)))].upper()
    return _nonsense_word(rng).upper()


def _nonsense_word(rng: np.random.Generator) -> str:
    letters = "aabcdeeefghiijklmnooprsttuvwxyz"
    return "".join(letters[i] for i in rng.integers(len(letters), size=int(rng.integers(2, 10))))


def render(job: tuple[int, int, int]) -> Frames:
    """Frames of `count` scenes with `views` random moments each, from one seed."""
    seed, count, views = job
    rng = np.random.default_rng(seed)
    scenes = [training_scene(rng) for _ in range(count)]
    moments = rng.uniform(0, 1, (count, views))
    parts = [_views(s, m * s.duration_s) for s, m in zip(scenes, moments, strict=True)]
    return Frames(
        np.concatenate([pixels for pixels, _ in parts]),
        np.repeat([_labels(scene) for scene in scenes], views, axis=0),
        np.concatenate([discs for _, discs in parts]),
        tuple(scene for scene in scenes for _ in range(views)),
    )


def _views(scene: Scene, times_s: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    renderer = Renderer(scene)
    pixels = np.stack([shrink(renderer.picture(float(t))) for t in times_s])
    return pixels, np.array([_disc(scene, float(t)) for t in times_s], dtype=np.float32)


def _disc(scene: Scene, time_s: float) -> tuple[float, float, float]:
    pose = subject_pose(scene, time_s)
    dx, dy = (part / scene.height for part in shake_offset(scene, time_s))
    return SIDE * (0.5 + pose.x + dx), SIDE * (0.5 + pose.y + dy), SIDE * pose.radius


def _labels(scene: Scene) -> list[int]:
    return [NAMED[name].index(scene.attributes[name]) for name in VISIBLE]


def render_all(recipe: Recipe) -> Frames:
    """The training frames, rendered in several processes; their number does not change the frames."""
    jobs = [(recipe.seed * 1_000_003 + n, 500, recipe.views) for n in range(recipe.scenes // 500)]
    with get_context("spawn").Pool(recipe.processes) as pool:
        parts = pool.map(render, jobs, chunksize=1)
    return Frames(
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.discs for part in parts]),
        tuple(scene for part in parts for scene in part.scenes),
    )


# Captions


def training_caption(scene: Scene, rng: np.random.Generator) -> tuple[str, NDArray[np.bool_]]:
    """A caption of a part of a scene, and which of `VISIBLE` it names; sometimes words that name nothing."""
    junk = " ".join(_nonsense_word(rng) for _ in range(int(rng.integers(1, 4))))
    draw = rng.random()
    if draw < 0.05:
        return junk, np.zeros(len(VISIBLE), dtype=bool)
    names = _names(scene, rng)
    text = caption(scene, rng, names)
    if draw < 0.15:
        text = f"{junk} {text}" if rng.random() < 0.5 else f"{text} {junk}"
    return text, np.array([name in names for name in VISIBLE])


def _names(scene: Scene, rng: np.random.Generator) -> set[str]:
    names = {name for name, share in (("colour", 0.7), ("shape", 0.75), ("background", 0.6)) if rng.random() < share}
    scale = vocabulary.activities()[scene.activity].scale
    if rng.random() < 0.1 and scale == vocabulary.Track(1.0, 1.0):
        names.add("size")
    if not names:
        names.add("shape")
    if rng.random() < 0.2:
        names.add("activity")
    return names


def build_tokenizer() -> CLIPTokenizer:
    """A byte-level BPE in CLIP's form: each word of the grammar is one token, any other falls into pieces."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=4_000, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False
    )
    bpe.train_from_iterator(_grammar_words(), trainer)
    merges = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]]
    tokens = [*alphabet, *(f"{letter}</w>" for letter in alphabet)]
    tokens += list(dict.fromkeys("".join(pair) for pair in merges))
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    ids = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    return CLIPTokenizer(vocab=ids, merges=merges, model_max_length=64)


def _grammar_words() -> list[str]:
    phrases = [*vocabulary.sentences(), *vocabulary.unnamed_shapes(), "an", "something", "video", "film", "footage"]
    for attribute, values in NAMED.items():
        phrases += [word for value in values for word in vocabulary.words_for(attribute, value)]
    for activity in vocabulary.activities().values():
        phrases += [*activity.does, *activity.doing]
    words = " ".join(phrases).replace("{", " ").replace("}", " ").replace(",", " ").replace("-", " ").split()
    return sorted(set(words))


# Model


def build_model(tokenizer: CLIPTokenizer) -> CLIPModel:
    """CLIP with two small transformers; the patch positions start as waves, which they learn slowly."""
    config = CLIPConfig(
        projection_dim=128,
        vision_config={
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": SIDE,
            "patch_size": PATCH,
        },
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
    )
    model = CLIPModel(config)
    with torch.no_grad():
        model.vision_model.embeddings.position_embedding.weight[1:] = _waves(SIDE // PATCH, 128)
    return model


def whiten_patches(model: CLIPModel, pixels: NDArray[np.uint8]) -> None:
    """Start the patch embedding as the whitened principal components of real patches.

    All directions in which patches vary, faint edges as well as broad colour, then reach the first layer
    equally loud, and the tower need not spend its first thousand steps on that.
    """
    frames = normalise(at_side(torch.from_numpy(pixels).float(), STAGES[1][1]))
    patches = F.unfold(frames, PATCH, stride=PATCH).transpose(1, 2).flatten(0, 1)
    variances, directions = torch.linalg.eigh((patches - patches.mean(0)).T.cov())
    weight = model.vision_model.embeddings.patch_embedding.weight
    loudest = (directions / (variances + 0.01).sqrt()).flip(1)[:, : len(weight)]
    with torch.no_grad():
        weight.copy_(0.3 * loudest.T.reshape(weight.shape))


def _waves(side: int, width: int) -> Tensor:
    """(side * side, width) sine and cosine of row and column at several wavelengths."""
    rates = torch.pi / side * 2.0 ** torch.linspace(-1, 2.5, width // 4)
    angles = torch.arange(side)[:, None] * rates
    line = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = line[:, None].expand(-1, side, -1), line[None].expand(side, -1, -1)
    return 0.3 * torch.cat([rows, columns], dim=2).reshape(side * side, width)


class Helpers(nn.Module):
    """Linear heads that name what a frame, and a patch that the subject covers, shows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [len(NAMED[name]) for name in VISIBLE]
        self.sizes = sizes
        self.frame = nn.Linear(width, sum(sizes))
        self.patch = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1 + sum(sizes)))

    def forward(self, pooled: Tensor, patches: Tensor, labels: Tensor, covered: Tensor) -> Tensor:
        """Sum of cross entropies.

        Args:
            pooled: (B, D) the frames' states.
            patches: (B, P, D) the patches' states.
            labels: (B, 4) true values of `VISIBLE`.
            covered: (B, P) True where the subject lies over a patch.
        """
        found = self.patch(patches)
        loss = F.binary_cross_entropy_with_logits(found[..., 0], covered.float())
        loss = loss + self._name(self.frame(pooled), labels)
        rows = labels[:, None].expand(-1, covered.shape[1], -1)[covered]
        return loss + self._name(found[covered][:, 1:], rows)

    def _name(self, logits: Tensor, labels: Tensor) -> Tensor:
        parts = logits.split(self.sizes, dim=1)
        return torch.stack([F.cross_entropy(part, labels[:, n]) for n, part in enumerate(parts)]).sum()


def covered_patches(discs: Tensor, side: int) -> Tensor:
    """(B, P) which patches of frames shrunk to `side` have their middle inside the subject's disc."""
    middles = (torch.arange(side // PATCH) + 0.5) * PATCH * SIDE / side
    dy, dx = middles[:, None] - discs[:, 1, None, None], middles[None] - discs[:, 0, None, None]
    return (dx**2 + dy**2 < discs[:, 2, None, None] ** 2).flatten(1)


# Training


def truth(labels: Tensor, named: Tensor) -> Tensor:
    """(captions, frames) True where a caption truly describes a frame: all that it names is there.

    Args:
        labels: (B, A) values of the frame at the same place as each caption.
        named: (B, A) True where the caption names the attribute.
    """
    equal = labels[:, None] == labels[None]
    return (equal | ~named[:, None]).all(dim=2)


def contrastive_loss(logits: Tensor, right: Tensor, named: Tensor) -> Tensor:
    """InfoNCE both ways, the target spread evenly over all right answers.

    A caption that names nothing has to like all frames alike, and is no right answer to any frame: so a
    nonsense query ends far from everything.

    Args:
        logits: (captions, frames).
        right: (captions, frames) what `truth` says.
        named: (captions, A) True where the caption names the attribute.
    """
    by_caption = right.float() / right.sum(dim=1, keepdim=True)
    answers = (right & named.any(dim=1, keepdim=True)).float()
    by_frame = answers / answers.sum(dim=0, keepdim=True).clamp(min=1)
    return -(by_caption * logits.log_softmax(1)).sum(1).mean() - (by_frame * logits.log_softmax(0)).sum(0).mean()


def normalise(pixels: Tensor) -> Tensor:
    """uint8 pixels to what the vision tower takes."""
    return (pixels.float() / 255 - MEAN[0]) / DEVIATION[0]


def stage_side(step: int, steps: int) -> int:
    """Side of the frames at a step, see `STAGES`."""
    return next(side for share, side in STAGES if step < share * steps)


def at_side(pixels: Tensor, side: int) -> Tensor:
    """Frames shrunk to `side`; (B, 3, side, side)."""
    if side == pixels.shape[-1]:
        return pixels
    return F.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True)


def vary(pixels: Tensor, discs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Shift the batch by up to 3 pixels and change each frame's brightness and contrast a little."""
    dx, dy = (int(n) for n in torch.randint(-3, 4, (2,), generator=generator))
    padded = F.pad(pixels.float(), (3, 3, 3, 3), mode="replicate")[..., 3 - dy : 3 - dy + SIDE, 3 - dx : 3 - dx + SIDE]
    gain, lift = torch.rand(2, len(pixels), 1, 1, 1, generator=generator)
    varied = (padded * (0.9 + 0.2 * gain) + 20 * (lift - 0.5)).clamp(0, 255)
    return varied, discs + torch.tensor([dx, dy, 0.0])


def rate(step: int, recipe: Recipe) -> float:
    """Learning rate: linear warm-up, then a cosine to zero."""
    if step < recipe.warm_up:
        return recipe.peak_rate * (step + 1) / recipe.warm_up
    done = (step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up)
    return recipe.peak_rate * 0.5 * (1 + float(np.cos(np.pi * done)))


def row_numbers(count: int, recipe: Recipe, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Row numbers for each step; every frame once a round."""
    rounds, each = 0, count // recipe.batch
    while rounds * each < recipe.steps:
        order = rng.permutation(count)[: each * recipe.batch].reshape(each, recipe.batch)
        yield from order[: recipe.steps - rounds * each]
        rounds += 1


@dataclass(frozen=True)
class Batch:
    """What one step learns from: frames, their truth, captions of them, and what the captions name."""

    pixels: Tensor
    discs: Tensor
    labels: Tensor
    tokens: dict[str, Tensor]
    named: Tensor


def draw_batches(frames: Frames, tokenizer: CLIPTokenizer, recipe: Recipe) -> Iterator[Batch]:
    """A batch for each step, with fresh captions and fresh variations of the frames."""
    rng, generator = np.random.default_rng(recipe.seed), torch.Generator().manual_seed(recipe.seed)
    for step, rows in enumerate(row_numbers(len(frames.pixels), recipe, rng)):
        texts, named = zip(*(training_caption(frames.scenes[row], rng) for row in rows), strict=True)
        pixels, discs = torch.from_numpy(frames.pixels[rows]), torch.from_numpy(frames.discs[rows])
        pixels, discs = vary(pixels, discs, generator)
        yield Batch(
            at_side(pixels, stage_side(step, recipe.steps)),
            discs,
            torch.from_numpy(frames.labels[rows]),
            dict(tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")),
            torch.from_numpy(np.stack(named)),
        )


def losses(model: CLIPModel, helpers: Helpers, batch: Batch) -> tuple[Tensor, Tensor]:
    """The contrastive loss and the helpers' loss of a batch."""
    seen = model.vision_model(normalise(batch.pixels), output_hidden_states=True, interpolate_pos_encoding=True)
    image = F.normalize(model.visual_projection(seen.pooler_output), dim=1)
    text = F.normalize(model.text_projection(model.text_model(**batch.tokens).pooler_output), dim=1)
    logits = model.logit_scale.exp() * text @ image.T
    covered = covered_patches(batch.discs, batch.pixels.shape[-1])
    contrast = contrastive_loss(logits, truth(batch.labels, batch.named), batch.named)
    return contrast, helpers(seen.pooler_output, seen.hidden_states[-2][:, 1:], batch.labels, covered)


def train(frames: Frames, recipe: Recipe) -> tuple[CLIPModel, CLIPTokenizer]:
    """Train from scratch; the seed decides everything but the rounding of the machine."""
    torch.manual_seed(recipe.seed)
    tokenizer = build_tokenizer()
    model, helpers = build_model(tokenizer), Helpers(128)
    whiten_patches(model, frames.pixels[:1_000])
    parameters = [*model.parameters(), *helpers.parameters()]
    optimiser = torch.optim.AdamW(parameters, weight_decay=recipe.weight_decay, betas=(0.9, 0.98))
    exam, began = Exam.of(200, recipe.seed + 1), time.monotonic()
    for step, batch in enumerate(draw_batches(frames, tokenizer, recipe)):
        for group in optimiser.param_groups:
            group["lr"] = rate(step, recipe)
        contrast, helper = losses(model, helpers, batch)
        optimiser.zero_grad()
        (contrast + recipe.helper_weight * helper).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=float(np.log(50)))
        if (step + 1) % 50 == 0:
            print(f"{step + 1:5d} {time.monotonic() - began:6.0f} s  {contrast:.3f} {helper:.3f}", flush=True)
        if (step + 1) % 250 == 0:
            print(exam.shares(model, tokenizer, stage_side(step, recipe.steps)), flush=True)
    return model, tokenizer


# Examination


@dataclass(frozen=True)
class Exam:
    """Unseen clips of real length, and a caption of each that names colour, shape and background."""

    scenes: tuple[Scene, ...]
    pixels: NDArray[np.uint8]
    captions: tuple[str, ...]

    @classmethod
    def of(cls, count: int, seed: int, frames: int = 5) -> Exam:
        """Render `count` clips with `frames` moments each: the middles of equal stretches."""
        rng = np.random.default_rng([seed, 77])
        scenes = tuple(sample_scene(rng) for _ in range(count))
        middles = (np.arange(frames) + 0.5) / frames
        pixels = np.concatenate([_views(scene, middles * scene.duration_s)[0] for scene in scenes])
        return cls(scenes, pixels, tuple(caption(scene, rng, JUDGED) for scene in scenes))

    @torch.no_grad()
    def shares(self, model: CLIPModel, tokenizer: CLIPTokenizer, side: int = SIDE) -> dict[str, float]:
        """Share of captions whose first video has the right colour, shape, background, and is the right one."""
        model.eval()
        tokens = tokenizer(list(self.captions), padding=True, truncation=True, return_tensors="pt")
        text = F.normalize(model.text_projection(model.text_model(**tokens).pooler_output), dim=1)
        image = torch.cat([_encode(model, part, side) for part in torch.from_numpy(self.pixels).split(256)])
        scores = (text @ image.T).reshape(len(text), len(self.scenes), -1).mean(2)
        first = scores.argmax(1).tolist()
        model.train()
        pairs = [(scene.attributes, self.scenes[n].attributes) for scene, n in zip(self.scenes, first, strict=True)]
        right = {name: float(np.mean([a[name] == b[name] for a, b in pairs])) for name in JUDGED}
        right["all"] = float(np.mean([all(a[name] == b[name] for name in JUDGED) for a, b in pairs]))
        return {name: round(share, 3) for name, share in right.items()}


def _encode(model: CLIPModel, pixels: Tensor, side: int) -> Tensor:
    frames = normalise(at_side(pixels.float(), side))
    state = model.vision_model(frames, interpolate_pos_encoding=True).pooler_output
    return F.normalize(model.visual_projection(state), dim=1)


def save(model: CLIPModel, tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write the checkpoint as transformers reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=list(MEAN),
        image_std=list(DEVIATION),
    ).save_pretrained(folder)


def main() -> None:
    """Render, train, examine, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the checkpoint")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = vars(parser.parse_args())
    out = options.pop("out")
    recipe = Recipe(**options)
    torch.set_num_threads(recipe.threads)
    began = time.monotonic()
    frames = render_all(recipe)
    print(f"rendered {len(frames.pixels)} frames in {time.monotonic() - began:.0f} s", recipe, flush=True)
    model, tokenizer = train(frames, recipe)
    save(model, tokenizer, out)
    print("on 500 unseen clips:", Exam.of(500, recipe.seed + 2).shares(model, tokenizer))


if __name__ == "__main__":
    main()
