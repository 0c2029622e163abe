"""What scoring all pairs costs: seconds and memory beside the published formulas and beside bare matrix products.

    python -m benchmarks.similarity [--size 1000] [--matchers wti x_pool x_clip hgr tcd] [--budget 512] [--threads 2]
        [--json]

N captions of 32 words, of which `hgr` reads 2 verbs and 3 nouns, and N videos of 12 frames, D 512 (`hgr`: its vectors
256, so that plain fits into memory), random, nothing padded; `tcd` has 12 windows of on-screen text too. Each case is a
fresh process:

ours    features to the whole table by `evenreel.matchers.scoring`, encoding included.
plain   the published formula written for all pairs at once, as it is below, on the same features and parameters; left
        out past --plain-limit captions, where it needs more memory than machines have. Of `tcd`, which needs minutes
        for it, a caption at a time, and of PLAIN_CAPTIONS of them: the seconds are those times N / PLAIN_CAPTIONS.

`memory` is the most that the process held beyond the features; for `tiles` beyond the encoded captions and videos and
the table as well, which is what the budget is for. `floor` is the time of the products that no way around is known
for, at the rate that a matrix product reaches in the same process. Exit status 1 if a bound in `BOUNDS` is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers import TextBatch, VideoBatch, build_matcher
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.matchers.scoring import encode_texts, encode_videos
from evenreel.similarity.tiles import MatcherScores
from evenreel.types import OnScreen, RoleGraph, RoleNode, TextFeatures, VideoFeatures

WORDS, FRAMES, WINDOWS, DIMENSION = 32, 12, 12, 512
BOUNDS = {"difference": 1e-5, "faster": 3.0, "leaner": 10.0, "wti over floor": 2.0, "tcd faster": 5.0}
"""Between the two tables at most; plain over ours, in seconds or memory, at least; seconds over the floor at most."""

ROLES = ("V", "V", "ARG0", "ARG1", "ARGM-LOC")
KNOWN = tuple(f"word{number}" for number in range(100))
HGR_SIZE = 256
SETTINGS: dict[str, dict[str, Any]] = {
    "wti": {},
    "x_pool": {},
    "x_clip": {"temporal_layers": 0},
    "hgr": {"size": HGR_SIZE, "vocabulary": KNOWN, "max_words": WORDS},
    "tcd": {},
}
PLAIN_CAPTIONS = 16
BOTH = FRAMES + WINDOWS
PRODUCTS = {
    "wti": WORDS * FRAMES * DIMENSION,
    "x_pool": 2 * FRAMES * DIMENSION,
    "x_clip": WORDS * FRAMES * (DIMENSION + WORDS + FRAMES) + (WORDS + FRAMES + 1) * DIMENSION,
    "hgr": len(ROLES) * FRAMES * (HGR_SIZE + FRAMES) + HGR_SIZE,
    "tcd": 6 * DIMENSION**2 + (1 + 1 + 3) * BOTH * DIMENSION,
}
"""Multiplications of a pair. Of `tcd`: three maps behind a softmax for each clue; weights, both means, and what each
clue hears, looks at and takes."""


def main() -> int:
    """The table; 1 if a bound is missed."""
    asked = arguments()
    if asked.case:
        print(json.dumps(run_case(asked)))
        return 0
    rows = {name: compare(name, asked) for name in asked.matchers}
    missed = [sentence for name, row in rows.items() for sentence in check(name, row, asked)]
    if asked.json:
        print(
            json.dumps({"size": asked.size, "budget_mib": asked.budget, "matchers": rows, "missed": missed}, indent=1)
        )
    else:
        show(rows, asked)
        print("\n".join(f"MISSED: {sentence}" for sentence in missed) or "All bounds are kept.")
    return int(bool(missed))


def arguments() -> argparse.Namespace:
    """What was asked for; `--case` is how the script calls itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="captions, and videos")
    parser.add_argument("--matchers", nargs="+", choices=sorted(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--budget", type=int, default=512, help="MiB for the tiles of ours")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of PyTorch")
    parser.add_argument("--plain-limit", type=int, default=1500, help="largest size for the plain way")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One matcher both ways, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        ways = ["ours"] + ["plain"] * (asked.size <= asked.plain_limit)
        tables = {way: Path(folder) / f"{way}.npy" for way in ways}
        row: dict[str, Any] = {way: call(name, way, tables[way], asked) for way in ways}
        if "plain" in row:
            ours, plain = row["ours"], row["plain"]
            whole, part = np.load(tables["ours"]), np.load(tables["plain"])
            row["difference"] = float(np.abs(whole[: len(part)] - part).max())
            row["faster"] = plain["seconds"] / ours["seconds"]
            row["leaner"] = plain["memory_mib"] / ours["memory_mib"]
        row["over_floor"] = row["ours"]["scoring_seconds"] / row["ours"]["floor_seconds"]
    return row


def call(name: str, way: str, table: Path, asked: argparse.Namespace) -> dict[str, Any]:
    options = {"--case": f"{name}:{way}", "--out": table, "--size": asked.size, "--budget": asked.budget}
    words = [str(word) for pair in {**options, "--threads": asked.threads}.items() for word in pair]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}, {way}, ended with status {done.returncode}:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def run_case(asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory of one case, after a small one that warms up the libraries."""
    torch.set_num_threads(asked.threads)
    name, way = asked.case.split(":")
    run = run_ours if way == "ours" else run_plain
    torch.manual_seed(0)
    matcher = disturbed(build_matcher(name, DIMENSION, SETTINGS[name]))
    run(matcher, name, *features(8), asked.budget)
    table, figures = run(matcher, name, *features(asked.size), asked.budget)
    figures["floor_seconds"] = 2 * PRODUCTS[name] * asked.size**2 / product_rate()
    np.save(asked.out, table)
    return figures


Features = tuple[TextFeatures, VideoFeatures]


def features(count: int) -> Features:
    """Random captions and videos; words and frames share a direction, as those of real towers do."""
    rng = np.random.default_rng(0)

    def unit(*shape: int) -> Any:
        values = rng.standard_normal((*shape, DIMENSION), dtype=np.float32)
        values += 2 * rng.standard_normal(DIMENSION, dtype=np.float32)
        values /= np.linalg.norm(values, axis=-1, keepdims=True)
        return values

    ids = tuple(map(str, range(count)))
    graphs = tuple(graph(rng) for _ in ids)
    texts = TextFeatures(ids, unit(count, WORDS), np.ones((count, WORDS), np.bool_), unit(count), graphs)
    mask = np.ones((count, FRAMES), np.bool_)
    on_screen = OnScreen(unit(count, WINDOWS), np.ones((count, WINDOWS), np.bool_))
    return texts, VideoFeatures(ids, unit(count, FRAMES), mask, np.zeros((count, FRAMES)), on_screen)


def graph(rng: np.random.Generator) -> RoleGraph:
    """Random words, and phrases of two of them each; what is a noun belongs to the first verb."""
    words = tuple(KNOWN[number] for number in rng.integers(0, len(KNOWN), WORDS))
    nodes = tuple(RoleNode(role, (2 * place, 2 * place + 1)) for place, role in enumerate(ROLES))
    return RoleGraph(words, nodes, tuple((0, place) for place, role in enumerate(ROLES) if role != "V"))


def disturbed(matcher: Any) -> Any:
    """The matcher with noise on its parameters, which would else be zeros and identities."""
    with torch.no_grad():
        for parameter in matcher.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return matcher.eval()


def run_ours(
    matcher: Any, name: str, texts: TextFeatures, videos: VideoFeatures, budget: int
) -> tuple[Any, dict[str, Any]]:
    begin = time.perf_counter()
    with Peak() as whole:
        encoded = encode_texts(matcher, texts), encode_videos(matcher, videos)
        scores = MatcherScores(matcher, *encoded, budget_bytes=budget * 2**20)
        encoding = time.perf_counter() - begin
        with Peak() as tiles:
            table = scores.score_all().values
    seconds = time.perf_counter() - begin
    return table, {
        "seconds": seconds,
        "scoring_seconds": seconds - encoding,
        "memory_mib": whole.mib,
        "tiles_mib": tiles.mib - table.nbytes / 2**20,
    }


def run_plain(
    matcher: Any, name: str, texts: TextFeatures, videos: VideoFeatures, budget: int
) -> tuple[Any, dict[str, Any]]:
    text, video = text_batch(texts), video_batch(videos)
    begin = time.perf_counter()
    with Peak() as whole, torch.inference_mode():
        table = PLAIN[name](matcher, text, video).numpy()
    times = len(texts.ids) / len(table)
    return table, {"seconds": times * (time.perf_counter() - begin), "memory_mib": whole.mib}


def plain_wti(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    words, frames = F.normalize(text.words, dim=-1), F.normalize(video.frames, dim=-1)
    word_weights = matcher.word_weights(words * DIMENSION**0.5).squeeze(-1).softmax(-1)
    frame_weights = matcher.frame_weights(frames * DIMENSION**0.5).squeeze(-1).softmax(-1)
    products = torch.einsum("qwd,vfd->qvwf", words, frames)
    of_words = torch.einsum("qvw,qw->qv", products.max(dim=-1).values, word_weights)
    of_frames = torch.einsum("qvf,vf->qv", products.max(dim=-2).values, frame_weights)
    return (of_words + of_frames) / 2


def plain_x_pool(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    pooling, sentence, frames = matcher.pooling, text.sentence, video.frames
    query = pooling.to_query(pooling.norm_inputs(sentence * DIMENSION**0.5))
    seen = pooling.norm_inputs(frames * DIMENSION**0.5)
    attention = (torch.einsum("qd,vfd->qvf", query, pooling.to_key(seen)) / DIMENSION**0.5).softmax(-1)
    attended = pooling.norm_pooled(pooling.to_output(attention.transpose(0, 1) @ pooling.to_value(seen)))
    pooled = pooling.norm_output(attended + pooling.linear(attended))
    del attended
    return torch.einsum("qd,vqd->qv", F.normalize(sentence, dim=-1), F.normalize(pooled, dim=-1))


def plain_x_clip(matcher: Any, text: TextBatch, given: VideoBatch) -> Tensor:
    def attend(alike: Tensor, mix: Tensor) -> Tensor:
        return ((alike / matcher.settings.attention_temperature).softmax(-1) @ mix * alike).sum(-1)

    words, frames, sentence = F.normalize(text.words, dim=-1), F.normalize(given.frames, dim=-1), text.sentence
    video = F.normalize(frames.mean(1), dim=-1)
    coarse = sentence @ (video @ matcher.sentence_video.T).T
    video_word = attend(torch.einsum("qwd,vd->qvw", words, video), matcher.video_word_mix)
    sentence_frame = attend(torch.einsum("qd,vfd->qvf", sentence, frames), matcher.sentence_frame_mix)
    fine = torch.einsum("qwd,vfd->qvwf", words, frames @ matcher.word_frame.T)
    over_frames = attend(attend(fine.mT, matcher.word_mixes[0]), matcher.frame_mixes[1])
    over_words = attend(attend(fine, matcher.frame_mixes[0]), matcher.word_mixes[1])
    return (coarse + video_word + sentence_frame + (over_frames + over_words) / 2) / 4


def plain_hgr(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    """HGR, arXiv 2003.00392, section 3.3: every phrase has the frame vector that it attends to in every video."""

    def level(phrases: Tensor, frames: Tensor) -> Tensor:
        cosines = torch.einsum("vfd,qpd->vqfp", F.normalize(frames, dim=-1), phrases)
        attention = (matcher.settings.sharpness * F.normalize(cosines.relu(), dim=2)).softmax(2)
        attended = F.normalize(torch.einsum("vqfp,vfd->vqpd", attention, frames), dim=-1)
        return torch.einsum("vqpd,qpd->qvp", attended, phrases).mean(2)

    texts, own = matcher.encode_text(text), matcher.videos
    frames = F.normalize(video.frames, dim=-1) * own.scale
    event = own.event(frames)
    whole = F.normalize((own.attention(event).softmax(1) * event).sum(1), dim=-1)
    coarse = texts.sentence @ whole.T
    return (coarse + level(texts.verbs, own.verbs(frames)) + level(texts.nouns, own.nouns(frames))) / 3


def plain_tcd(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    """TCD, Zhao et al., equations 2 and 6 to 13, all of it for each pair: a caption with all videos at a time."""
    return torch.stack([plain_tcd_row(matcher, sentence, video) for sentence in text.sentence[:PLAIN_CAPTIONS]])


def plain_tcd_row(matcher: Any, sentence: Tensor, video: VideoBatch) -> Tensor:
    """(V,) scores of a caption."""
    root, tau = DIMENSION**0.5, matcher.settings.tau

    def weighed(rows: Tensor) -> Tensor:
        return root * rows * (rows.shape[1] * (rows @ sentence / tau).softmax(1))[..., None]

    def looked(module: Any, raw: Tensor, raw_keys: Tensor, keys: Tensor) -> Tensor:
        query, key = module.query(module.norm_query(root * raw)), module.key(module.norm_key(root * raw_keys))
        return (query @ key.mT / root).softmax(-1) @ module.value(keys)

    def attended(module: Any, queries: Tensor, keys: Tensor) -> Tensor:
        def heads(rows: Tensor) -> Tensor:
            return rows.view(*rows.shape[:2], module.heads, -1).transpose(1, 2)

        query, key, value = heads(module.query(queries)), heads(module.key(keys)), heads(module.value(keys))
        found = (query @ key.mT / module.root).softmax(-1) @ value
        return module.output(found.transpose(1, 2).flatten(2))

    def clue(side: str, own: Tensor, other: Tensor) -> Tensor:
        module = matcher.clues[side]
        token = (module.token + matcher.clue_type).expand(len(own), 1, -1)
        rows = torch.cat([token, own], dim=1)
        token = token + attended(module.inner, rows, rows)[:, :1]
        return (token + attended(module.cross, module.norm(token), other))[:, 0]

    assert video.on_screen is not None
    frames, windows = video.frames, video.on_screen.windows
    seen, read = weighed(frames), weighed(windows)
    ocr = looked(matcher.frames_look, frames, windows, read)
    of_video = looked(matcher.windows_look, windows, frames, seen)
    typed = of_video + matcher.video_types[: of_video.shape[1]], ocr + matcher.ocr_types[: ocr.shape[1]]
    hybrid = (clue("video", *typed) + clue("ocr", *typed[::-1])) / 2
    parts = torch.stack([of_video.mean(1), ocr.mean(1), hybrid])
    return (F.normalize(parts, dim=-1) @ sentence).mean(0)


PLAIN: dict[str, Callable[[Any, TextBatch, VideoBatch], Tensor]] = {
    "wti": plain_wti,
    "x_pool": plain_x_pool,
    "x_clip": plain_x_clip,
    "hgr": plain_hgr,
    "tcd": plain_tcd,
}


class Peak:
    """The most memory that the process holds meanwhile, beyond what it holds at the start, in `mib`."""

    def __enter__(self) -> Peak:
        self._process, self._done = psutil.Process(), threading.Event()
        self._start = self._most = self._process.memory_info().rss
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()
        self._look()
        self.mib = (self._most - self._start) / 2**20

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self._look()

    def _look(self) -> None:
        self._most = max(self._most, self._process.memory_info().rss)


def product_rate() -> float:
    """Operations a second of a matrix product, the best of some."""
    left, right = torch.randn(2048, DIMENSION), torch.randn(DIMENSION, 2048)
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - begin)
    return 2 * 2048 * DIMENSION * 2048 / best


def check(name: str, row: dict[str, Any], asked: argparse.Namespace) -> list[str]:
    missed = []
    if row.get("difference", 0) > BOUNDS["difference"]:
        missed.append(f"{name}: the two tables differ by {row['difference']:.1e}.")
    if "plain" in row and row["faster"] < BOUNDS["faster"] and row["leaner"] < BOUNDS["leaner"]:
        missed.append(f"{name} is {row['faster']:.1f} times faster and {row['leaner']:.1f} times leaner than plain.")
    if name == "wti" and row["over_floor"] > BOUNDS["wti over floor"]:
        missed.append(f"wti takes {row['over_floor']:.2f} times the floor.")
    if name == "tcd" and row.get("faster", BOUNDS["tcd faster"]) < BOUNDS["tcd faster"]:
        missed.append(f"tcd is {row['faster']:.1f} times faster than pair by pair.")
    if row["ours"]["tiles_mib"] > asked.budget:
        missed.append(f"{name}: tiles took {row['ours']['tiles_mib']:.0f} MiB of a budget of {asked.budget}.")
    return missed


def show(rows: dict[str, dict[str, Any]], asked: argparse.Namespace) -> None:
    print(f"{asked.size:,} x {asked.size:,}, {WORDS} words, {FRAMES} frames, D {DIMENSION}, {asked.threads} threads")
    print("matcher  way    seconds  memory MiB  tiles MiB  floor s  over floor  faster  leaner  difference")
    for name, row in rows.items():
        ours = row["ours"]
        line = f"{name:8} ours   {ours['seconds']:7.2f} {ours['memory_mib']:11.0f} {ours['tiles_mib']:10.0f}"
        line += f" {ours['floor_seconds']:8.2f} {row['over_floor']:11.2f}"
        if "plain" in row:
            line += f" {row['faster']:7.1f} {row['leaner']:7.1f} {row['difference']:11.1e}"
        print(line)
        if "plain" in row:
            print(f"{name:8} plain  {row['plain']['seconds']:7.2f} {row['plain']['memory_mib']:11.0f}")


if __name__ == "__main__":
    sys.exit(main())
