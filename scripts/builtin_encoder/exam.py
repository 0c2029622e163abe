"""The examination: captions of unseen clips, and what the first video of each shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from transformers import CLIPModel, CLIPTokenizer

from evenreel.planted import Scene, caption, sample_scene
from scripts.builtin_encoder.frames import SIDE, draw_views
from scripts.builtin_encoder.model import at_side, normalise

JUDGED = ("colour", "shape", "background")


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
        pixels = np.concatenate([draw_views(scene, middles * scene.duration_s)[0] for scene in scenes])
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
