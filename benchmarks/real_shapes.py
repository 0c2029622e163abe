"""What the models that people have cost: exports of their shapes with random weights, in each precision, side by side.

    python -m benchmarks.real_shapes CACHE [--model default] [--repeats 5] [--frames 8]

CACHE keeps the exports (8 GB), which are made once, in the layout of public ones: `default` is SigLIP 2 B/16 at 224
pixels (a ViT of 86 million weights; 12 layers over a table of 256,000 tokens), `fast` its B/32 at 256, `small` a tower
of convolutions as MobileCLIP-S2 has it beside CLIP's text tower. Random weights calculate as long as learnt ones. What
they cannot show is how much of what a model learnt a precision loses: the cosines here are of drawn scenes in random
towers, as they are and without the mean of all scenes, which random towers have in common. The only learnt weights at
hand are those of the built-in model: of it, recall is printed too.

Everything runs in this process with one thread, precisions taking turns; processor time is counted, medians printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch import Tensor, nn

from evenreel.encoders import load_encoder
from evenreel.planted.biases import caption
from evenreel.planted.draw import draw_frame
from evenreel.planted.scenes import SceneRanges, sample_scene
from evenreel.types import FloatArray, Pixels

TOKENS = 256_000  # of Gemma's tokenizer, which SigLIP 2 reads with
BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
CAPTIONS = ["a person in a red coat walks over a bridge in the rain", "two dogs run after a ball on the beach"]
SIGLIP = {"default": (224, 16), "fast": (256, 32)}  # sides of pictures and of patches


class Convolved(nn.Module):
    """Stages of depth-wise and point-wise convolutions, of the widths and depths of MobileCLIP-S2's tower."""

    def __init__(self) -> None:
        super().__init__()
        widths, depths = (80, 160, 320, 640), (4, 12, 24, 4)
        stages: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4)]
        for place, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            if place:
                stages.append(nn.Conv2d(widths[place - 1], width, 2, 2))
            stages += [_Mixed(width) for _ in range(depth)]
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(widths[-1], 512)

    def forward(self, pixel_values: Tensor) -> Tensor:
        pooled: Tensor = self.head(self.stages(pixel_values).mean((2, 3)))
        return pooled


class _Mixed(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        across = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.body = nn.Sequential(across, nn.Conv2d(width, 3 * width, 1), nn.GELU(), nn.Conv2d(3 * width, width, 1))

    def forward(self, given: Tensor) -> Tensor:
        return given + self.body(given)


class _Pooled(nn.Module):
    """A tower of transformers with its pooled vector alone, as public exports give it."""

    def __init__(self, tower: nn.Module, head: nn.Module | None = None) -> None:
        super().__init__()
        self.tower, self.head = tower, head or nn.Identity()

    def forward(self, given: Tensor) -> Tensor:
        return self.head(self.tower(given).pooler_output)


def make(name: str, folder: Path) -> None:
    """Write an export of a shape with random weights, in float32 and the precisions made of it."""
    from transformers import CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

    from evenreel.encoders.onnx_export import write_precision

    torch.manual_seed(0)
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "onnx").mkdir(parents=True)
    if name in SIGLIP:
        side, patch = SIGLIP[name]
        text = {**BASE, "vocab_size": TOKENS, "max_position_embeddings": 64, "projection_size": 768}
        config: Any = SiglipConfig(text_config=text, vision_config={**BASE, "image_size": side, "patch_size": patch})
        model: Any = SiglipModel(config)
        read: nn.Module = _Pooled(model.text_model)
        see: nn.Module = _Pooled(model.vision_model)
        save_tokenizer(part, TOKENS)
        settings = {"size": {"height": side, "width": side}, "resample": 2}
    else:
        text = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8}
        config = CLIPConfig(text_config={**text, "vocab_size": 49_408}, vision_config=BASE, projection_dim=512)
        model = CLIPModel(config)
        read, see = _Pooled(model.text_model, model.text_projection), Convolved()
        save_tokenizer(part, 49_408)
        settings = {"size": {"shortest_edge": 256}, "crop_size": 256, "resample": 2}
    (part / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    (part / "preprocessor_config.json").write_text(json.dumps(settings))
    ids = torch.full((2, config.text_config.max_position_embeddings), 5)
    pixels = torch.zeros(2, 3, *[next(iter(settings["size"].values()))] * 2)  # type: ignore[attr-defined]
    for tower, given, takes, gives, graph in (
        (read, ids, "input_ids", "text_embeds", "text_model"),
        (see, pixels, "pixel_values", "image_embeds", "vision_model"),
    ):
        names: dict[str, Any] = {"input_names": [takes], "output_names": [gives], "opset_version": 17, "dynamo": False}
        axes = {takes: {0: "rows"}, gives: {0: "rows"}}
        torch.onnx.export(tower.eval(), (given,), str(part / f"onnx/{graph}.onnx"), dynamic_axes=axes, **names)
    for precision in ("int8", "float16"):
        write_precision(part, precision)
    part.rename(folder)


def save_tokenizer(folder: Path, tokens: int) -> None:
    """Write byte pairs of made-up syllables, as many as a public model has; of 256,000 tokens 580,000 merges."""
    letters = ["<pad>", "<eos>", "<bos>", "<unk>", *"▁abcdefghijklmnopqrstuvwxyz!.,'", *map(chr, range(0x4E00, 0x4F00))]
    syllables = [one + other for one in "▁bcdfghklmnprst" for other in "aeio"]
    pieces, longer = dict.fromkeys((*letters, *syllables)), syllables
    while len(pieces) < tokens:
        longer = [one + other for one in longer for other in syllables]
        pieces |= dict.fromkeys(longer[: tokens - len(pieces)])
    merges = [
        (piece[:cut], piece[cut:])
        for piece in [*pieces][len(letters) :]
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]
    model = {"type": "BPE", "vocab": {piece: place for place, piece in enumerate(pieces)}, "unk_token": "<unk>"}
    rules: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {**model, "merges": merges},
    }
    (folder / "tokenizer.json").write_text(json.dumps(rules, indent=2, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "<pad>"}))


def spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return 1000 * (time.process_time() - begun)


def scenes(count: int) -> Pixels:
    """Drawn scenes (N, 1, 3, 1080, 1920) uint8, with the channels of a pixel side by side, as decoders give them."""
    random, ranges = np.random.default_rng(0), SceneRanges(sign_share=0.0, width=1920, height=1080)
    frames = [draw_frame(sample_scene(random, ranges), 1.0) for _ in range(count)]
    return np.stack(frames).transpose(0, 3, 1, 2)[:, None]


def cosine(one: FloatArray, other: FloatArray) -> float:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(1) / lengths).min())


def measure(folder: Path, frames: Pixels, repeats: int) -> None:
    """Print a row a precision: size, milliseconds a frame and caption, cosines to float32."""
    encoders: Mapping[str, Any] = {
        name: load_encoder(str(folder), device="cpu", precision=name) for name in ("float32", "int8", "float16")
    }
    text = CAPTIONS * 4
    made = {name: (one.encode_windows(frames), one.encode_text(text).sentence) for name, one in encoders.items()}
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for name, one in encoders.items():
            ready = one._preprocessing.prepare(frames[:, 0])
            for what, work, count in (
                ("prepare", lambda one=one: one._preprocessing.prepare(frames[:, 0]), len(frames)),
                ("picture", lambda one=one, ready=ready: one._pictures.run({"pixel_values": ready}), len(frames)),
                ("text", lambda one=one: one.encode_text(text), len(text)),
            ):
                times.setdefault((name, what), []).append(spent(work) / count)
    print(
        f"\n{folder.name:9}{'MiB: pictures, text':>20}{'ms to prepare':>15}{'ms a picture':>14}{'ratio':>7}"
        f"{'pictures/s':>12}"
        f"{'ms a caption':>14}{'cosine: pictures, centred, text':>34}{'batch changes':>15}"
    )
    exact = made["float32"]
    for name, one in encoders.items():
        graphs = (folder.glob(f"onnx/{graph.stem}.onnx*") for graph in reversed(one._model.weights))
        sizes = ", ".join(f"{sum(file.stat().st_size for file in files) / 2**20:.0f}" for files in graphs)
        prepare, picture, text_ms = (statistics.median(times[name, what]) for what in ("prepare", "picture", "text"))
        ratio, mean = statistics.median(times["float32", "picture"]) / picture, exact[0].mean(0)
        cosines = (
            f"{cosine(made[name][0], exact[0]):.6f}",
            f"{cosine(made[name][0] - mean, exact[0] - mean):.4f}",
            f"{cosine(made[name][1], exact[1]):.6f}",
        )
        alone = np.concatenate([one.encode_windows(frame[None]) for frame in frames])
        one.batch_size = len(frames)  # which in int8 is 1, for what this changes
        changed = abs(alone - one.encode_windows(frames)).max()
        print(
            f"{name:9}{sizes:>20}{prepare:15.1f}{picture:14.1f}{ratio:7.2f}{1000 / (prepare + picture):12.1f}"
            f"{text_ms:14.1f}{', '.join(cosines):>34}{changed:15.1e}"
        )


def show_recall(cache: Path, count: int = 400) -> None:
    """Print how often the built-in model finds a scene by its caption, by precision."""
    from evenreel.encoders.onnx_export import export_onnx

    if not (cache / "builtin").is_dir():
        export_onnx("builtin", cache / "builtin", precision="int8")
    random = np.random.default_rng(1)
    drawn = [sample_scene(random, SceneRanges(sign_share=0.0)) for _ in range(count)]
    frames = np.stack([draw_frame(scene, 1.0) for scene in drawn]).transpose(0, 3, 1, 2)[:, None]
    captions = [caption(scene, random) for scene in drawn]
    print(f"\nbuiltin, learnt weights, {count} drawn scenes by their captions")
    vectors = {}
    for name in ("float32", "int8"):
        encoder = load_encoder(str(cache / "builtin"), device="cpu", precision=name)
        vectors[name] = encoder.encode_windows(frames), encoder.encode_text(captions).sentence
        scores = vectors[name][1] @ vectors[name][0].T
        ranks = (scores > scores.diagonal()[:, None]).sum(1)
        near = [cosine(one, exact) for one, exact in zip(vectors[name], vectors["float32"], strict=True)]
        found = ", ".join(f"R@{most} {100 * (ranks < most).mean():.1f}" for most in (1, 5, 10))
        print(f"{name:9}{found}; lowest cosine of pictures {near[0]:.4f}, of captions {near[1]:.4f}")


def show_threads() -> None:
    """Print how many cores preparing takes where nothing holds the number of threads down."""
    code = (
        "import time, numpy as np; from evenreel.encoders.checkpoint import Preprocessing\n"
        "how = Preprocessing(None, (224, 224), None, 2, 1 / 255, (0.5,) * 3, (0.5,) * 3)\n"
        "frames = np.zeros((16, 1080, 1920, 3), np.uint8).transpose(0, 3, 1, 2)\n"
        "wall, spent = time.perf_counter(), time.process_time()\n"
        "for _ in range(5): how.prepare(frames)\n"
        "print((time.process_time() - spent) / (time.perf_counter() - wall))"
    )
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True)
    print(f"preparing frames without a limit of threads keeps {float(done.stdout):.2f} cores busy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--model", choices=(*SIGLIP, "small"), nargs="*", default=(*SIGLIP, "small"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--frames", type=int, default=8)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.model:
        if not (given.cache / name).is_dir():
            make(name, given.cache / name)
        measure(given.cache / name, scenes(given.frames), given.repeats)
    show_recall(given.cache)
    show_threads()


if __name__ == "__main__":
    main()
