"""Train the encoder inside the package: a small CLIP on rendered frames and captions of their parts.

    python -m scripts.train_builtin

Frames are rendered ahead into memory, shrunk exactly as the checkpoint's own preprocessing does it. The loss
is the symmetric InfoNCE of CLIP with soft targets: every frame of the batch that a caption truly describes
is a right answer to it. Because the truth of every frame is known, two helpers that are thrown away afterwards
speed the learning up: linear heads name colour, shape and background from the frame's vector, and from each
patch that the subject covers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer

from evenreel.encoders.onnx_export import export_onnx
from scripts.builtin_encoder.exam import Exam
from scripts.builtin_encoder.frames import SIDE, Frames, render_all
from scripts.builtin_encoder.model import (
    DEVIATION,
    MEAN,
    Helpers,
    at_side,
    build_model,
    covered_patches,
    normalise,
    whiten_patches,
)
from scripts.builtin_encoder.wording import build_tokenizer, training_caption

FOLDER = Path(__file__).parents[1] / "src/evenreel/encoders/builtin/checkpoint"
CARD = Path(__file__).parent / "builtin_encoder/card.md"
STAGES = ((0.3, 32), (0.9, 48), (1.0, 64))
"""Until which share of the steps at which side: small frames teach colours and places at a fifth of the cost."""


@dataclass(frozen=True)
class Recipe:
    """Every number of a run."""

    scenes: int = 12_000
    views: int = 3
    steps: int = 2_400
    batch: int = 128
    peak_rate: float = 1.5e-3
    weight_decay: float = 0.05
    warm_up: int = 60
    helper_weight: float = 0.5
    seed: int = 0
    processes: int = 2
    threads: int = 1


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


def stage_side(step: int, steps: int) -> int:
    """Side of the frames at a step, see `STAGES`."""
    return next(side for share, side in STAGES if step < share * steps)


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
    whiten_patches(model, frames.pixels[:1_000], STAGES[1][1])
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


def save(model: CLIPModel, tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write the checkpoint as transformers reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor(
        size={"shortest_edge": SIDE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[MEAN] * 3,
        image_std=[DEVIATION] * 3,
    ).save_pretrained(folder)


def write_card(folder: Path, recipe: Recipe, shares: dict[str, float]) -> None:
    """Write the model card with the figures of this run."""
    figures = {name: f"{100 * share:.1f} %" for name, share in shares.items()}
    card = CARD.read_text(encoding="utf-8").format(**figures, **asdict(recipe), frames=recipe.scenes * recipe.views)
    (folder / "README.md").write_text(card, encoding="utf-8")


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
    frames = render_all(recipe.scenes, recipe.views, recipe.seed, recipe.processes)
    print(f"rendered {len(frames.pixels)} frames in {time.monotonic() - began:.0f} s", recipe, flush=True)
    model, tokenizer = train(frames, recipe)
    save(model, tokenizer, out)
    for graph in out.glob("*_model.onnx"):  # of the training before
        graph.unlink()
    export_onnx(str(out), out)  # the graphs take their weights from the safetensors file
    shares = Exam.of(500, recipe.seed + 2).shares(model, tokenizer)
    print("on 500 unseen clips:", shares)
    write_card(out, recipe, shares)


if __name__ == "__main__":
    main()
