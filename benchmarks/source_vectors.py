"""What the p-vector of a debiased model does to a ranking, and what of that is only fine-tuning.

    python benchmarks/source_vectors.py [--seeds 5] [--clips 2400] [--steps 500] [--tint 0] [--processes 2] [--out FILE]
    python benchmarks/source_vectors.py --tint 0.1 --only-offset

On the corpora of `benchmarks/source.py`: a matcher with one vector a clip (`temporal`) is trained at planted strength
0.9 and so favours generated clips. From its weights two models are fine-tuned on real clips: one with the published
term against the preference (preset `release`), and a control without any. p is the mean of h^d - h over the test clips;
it is added to real clips as the paper prints it (`paper`: p of real clips, added) or as its code has it (`release`: p
of generated clips, subtracted), all captions and clips else being the first model's. p-random is p of clips whose
frames are in random order.

Intervals are 95 % over the seeds (Student's t), changes are taken seed by seed. Nothing is claimed beforehand: the last
lines say whether the debiased model's p does more than the control's.

`--tint` is the cast that all mirrors have in common (`evenreel.planted.Harder.mirror_tint`). What it moves in the space
of the encoder stands below the tables, and alone with `--only-offset`: the mean over mirrors of their mean frame less
that of the mirror without the tint, all of length 1. Its own length, how much every single offset goes that way, and
the lead that it gives mirrors with any caption.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from benchmarks.over_seeds import Gap, checked, gap_of, words
from benchmarks.planted import Sizes
from benchmarks.source import BIASED, RULE, parser_of, part
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.paired import measure_source
from evenreel.checkpoint.architecture import module
from evenreel.corpus.counterparts import counterparts
from evenreel.debias.source.contrast import PRESETS
from evenreel.debias.source.vector import PRESETS as P_PRESETS
from evenreel.debias.source.vector import (
    VectorScores,
    caption_vectors,
    diagnose,
    p_vectors,
    shifted_scores,
    video_vectors,
)
from evenreel.edits.frame_order import reordered
from evenreel.edits.settings import FrameOrder
from evenreel.encoders import load_encoder
from evenreel.matchers.matcher import Matcher
from evenreel.papers.engine.fine_tuning import fine_tuned, zero_shot
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.runs import TrainingRun
from evenreel.papers.engine.settings import study_recipe
from evenreel.planted import Harder, PlantedCorpus, PlantSettings, plan_corpus, text_features, video_features
from evenreel.planted.source import GENERATOR
from evenreel.training.recipe.recipe import Recipe
from evenreel.types import ScoreBlocks, VideoFeatures

AS_IT_IS = "as it is"
ORDERS: Mapping[FrameOrder, str] = {"original": "p", "random": "p-random"}
KINDS = ("debiased", "control")
PREFERENCE, WIN_RATE, REAL_R1 = "Normalized MixR", "win rate", "REAL R@1"
TOGETHER, ALIKE = "cosine of p real and p generated", "cosine of two p of real clips"
LEAD, SHARED = "lead of a caption's mirror", "lead of all mirrors"
"""Mean over captions: the score of its own mirror less that of its own real clip; of any mirror less any real clip."""
LENGTH, ALONG = "length of the mirrors' common offset", "cosine of one mirror's offset with it"
OFFSET_CLIPS = 600

Figures = dict[str, dict[str, float]]
"""By row, then by name."""


@dataclass(frozen=True, eq=False)
class Models:
    """The biased model, and the two that were fine-tuned from it."""

    biased: Matcher
    debiased: Matcher
    control: Matcher


def main() -> int:
    """The tables and what they say."""
    parser = parser_of(__doc__)
    parser.add_argument("--tint", type=float, default=0.0, help="of all mirrors, 0 to 1")
    parser.add_argument("--only-offset", action="store_true", help="train nothing")
    asked = checked(parser)
    if asked.only_offset:
        print(offset_table([look_offset(seed, asked.tint) for seed in range(asked.seeds)]))
        return 0
    sizes, tint = Sizes(asked.clips, asked.steps), asked.tint
    found = known_figures(asked.out, sizes, tint) if asked.out else {}
    missing = [one for one in range(asked.seeds) if one not in found]
    for seed, figures in measured(missing, sizes, tint, asked.processes):
        found[seed] = figures
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"seed": seed, "sizes": asdict(sizes), "tint": tint, "figures": figures}) + "\n")
    runs = [found[seed] for seed in range(asked.seeds)]
    offsets = offset_table([look_offset(seed, tint) for seed in range(asked.seeds)])
    print("\n".join([table(runs), "", offsets, "", *findings(runs)]))
    return 0


def known_figures(path: Path, sizes: Sizes, tint: float) -> dict[int, Figures]:
    """What was measured before, by the same sizes and with the same tint."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    alike = (one for one in lines if one["sizes"] == asdict(sizes) and one.get("tint", 0.0) == tint)
    return {one["seed"]: one["figures"] for one in alike}


def measured(seeds: Sequence[int], sizes: Sizes, tint: float, processes: int) -> Iterator[tuple[int, Figures]]:
    """The figures of each seed as they come, on one thread each."""
    with ProcessPoolExecutor(processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        jobs = {pool.submit(of_seed, seed, sizes, tint): seed for seed in seeds}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


def of_seed(seed: int, sizes: Sizes, tint: float = 0.0) -> Figures:
    """Everything on one planted corpus."""
    begun_s, encoder = time.perf_counter(), load_encoder("builtin")
    plan = plan_of(sizes.clips, seed, tint)
    learnt, test = part(plan, "train", encoder), part(plan, "test", encoder)
    models = trained(learnt, seed, sizes)
    found = {name: ranked(scores, test) for name, scores in variants(models, test)} | dict(likeness(models, test))
    found["before training"] = leads(zero_shot(study_recipe(), test.videos.frames.shape[-1]), test)
    found["at strength 0.9"] = leads(models.biased, test)
    shown = "  ".join(f"{name} {one[PREFERENCE]:.1f}" for name, one in found.items() if PREFERENCE in one)
    print(f"seed {seed}: {shown}  ({time.perf_counter() - begun_s:.0f} s)", file=sys.stderr, flush=True)
    return found


def plan_of(clips: int, seed: int, tint: float) -> PlantedCorpus:
    """Every real clip beside its mirror."""
    return plan_corpus("source", 0.0, clips, seed, PlantSettings(mirrors=True, harder=Harder(mirror_tint=tint)))


def look_offset(seed: int, tint: float) -> dict[str, float]:
    """What a tint does to the features of mirrors, as far as it is the same for all of them."""
    encoder, plan = load_encoder("builtin"), plan_of(OFFSET_CLIPS, seed, tint)
    clips = {
        each: [clip for clip in plan_of(OFFSET_CLIPS, seed, each).split("test") if clip.shot.source == GENERATOR]
        for each in (tint, 0.0)
    }
    means = {each: mean_frames(video_features(some, encoder, RULE)) for each, some in clips.items()}
    moved = means[tint] - means[0.0]
    common = moved.mean(axis=0)
    length = float(np.linalg.norm(common))
    apart = np.linalg.norm(moved, axis=1) * length
    texts = text_features([clip for clip in plan.split("test") if clip.caption_ids], encoder)
    return {
        LENGTH: length,
        ALONG: float((moved @ common / np.maximum(apart, 1e-12)).mean()),
        SHARED: float((texts.sentence @ common).mean()),
    }


def mean_frames(videos: VideoFeatures) -> np.ndarray:
    """(V, D) mean of the frames of each clip, of length 1."""
    means = (videos.frames.astype(np.float64) * videos.frame_mask[..., None]).sum(axis=1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def offset_table(offsets: Sequence[Mapping[str, float]]) -> str:
    """A line for each figure of the offset, over the seeds."""
    gaps = {name: gap_of(np.array([one[name] for one in offsets])) for name in (LENGTH, ALONG, SHARED)}
    return "\n".join(f"{name:40}{g.mean:8.3f} [{g.low:.3f}, {g.high:.3f}]" for name, g in gaps.items())


def trained(learnt: CorpusPart, seed: int, sizes: Sizes) -> Models:
    """The three models."""
    recipe = study_recipe(None, [f"loop.steps={sizes.steps}", f"loop.seed={seed}", "loop.device=cpu"])
    biased = one_trained(replace(recipe, data=replace(recipe.data, generated_share=BIASED)), learnt, None)
    debiased = one_trained(replace(recipe, debias=PRESETS["release"]), learnt, biased)
    return Models(biased, debiased, one_trained(recipe, learnt, biased))


def one_trained(recipe: Recipe, learnt: CorpusPart, start: Matcher | None) -> Matcher:
    """A model, fresh or fine-tuned from another one."""
    weights = None if start is None else module(start).state_dict()
    with tempfile.TemporaryDirectory() as folder:
        return fine_tuned(recipe, learnt, TrainingRun("model", 0, Path(folder)), weights).matcher


def variants(models: Models, test: CorpusPart) -> Iterator[tuple[str, ScoreBlocks]]:
    """The biased model's scores as they are and with real clips moved in every way."""
    captions, clips = caption_vectors(models.biased, test.texts), video_vectors(models.biased, test.videos)
    real, generated = (clips.of(ids) for ids in paired(test))
    yield AS_IT_IS, VectorScores(captions, clips)
    for order, name in ORDERS.items():
        for kind in KINDS:
            for preset, form in P_PRESETS.items():
                p = moves(models, test, order, kind)[form.source].mean(axis=0)
                yield label(name, preset, kind), shifted_scores(captions, real, generated, p, form)


def label(name: str, preset: str, kind: str) -> str:
    """The name of a row."""
    return f"{name} {preset}, {kind}"


def paired(test: CorpusPart) -> tuple[list[str], list[str]]:
    """Real clips and their mirrors."""
    pairs = counterparts(test.corpus)
    return pairs["clip_id"].to_list(), pairs["generated_id"].to_list()


def moves(models: Models, test: CorpusPart, order: FrameOrder, kind: str) -> dict[str, np.ndarray]:
    """(n, D) p_i of real clips and of their mirrors, from the biased model to one of the others."""
    videos = reordered(test.videos, order)
    before, after = (video_vectors(one, videos) for one in (models.biased, getattr(models, kind)))
    sides = dict(zip(("real", "generated"), paired(test), strict=True))
    return {side: p_vectors(before.of(ids).values, after.of(ids).values) for side, ids in sides.items()}


def ranked(scores: ScoreBlocks, test: CorpusPart) -> dict[str, float]:
    """Figures of one ranking."""
    found = measure_source(scores, test.corpus, GENERATOR, AuditSettings(resamples=0))
    return {
        PREFERENCE: found.deltas["normalized"]["MixR"].value,
        WIN_RATE: found.win_rate.value,
        REAL_R1: found.figures["real"]["R@1"].value,
    }


def likeness(models: Models, test: CorpusPart) -> Iterator[tuple[str, dict[str, float]]]:
    """How alike the p_i are, and whether real clips and mirrors move apart."""
    for order, name in ORDERS.items():
        for kind in KINDS:
            found = diagnose(moves(models, test, order, kind))
            yield (
                f"{name}, {kind}",
                {
                    TOGETHER: found.cosine("real", "generated"),
                    ALIKE: found.alike["real"].cosine,
                },
            )


def leads(matcher: Matcher, test: CorpusPart) -> dict[str, float]:
    """What of the preference is the same for all clips of a source."""
    captions, clips = caption_vectors(matcher, test.texts), video_vectors(matcher, test.videos)
    real, generated = (clips.of(ids).values for ids in paired(test))
    place = {clip_id: row for row, clip_id in enumerate(paired(test)[0])}
    clip_of = dict(test.corpus.captions.select("caption_id", "clip_id").iter_rows())
    own = [place[clip_of[caption_id]] for caption_id in captions.ids]
    apart = generated - real
    return {
        LEAD: float((captions.values * apart[own]).sum(axis=1).mean()),
        SHARED: float((captions.values @ apart.mean(axis=0)).mean()),
    }


def over(runs: Sequence[Figures], row: str, name: str) -> Gap:
    """A figure over the seeds."""
    return gap_of(np.array([one[row][name] for one in runs]))


def change(runs: Sequence[Figures], row: str, other: str) -> Gap:
    """How much the preference of a row is above that of another, seed by seed."""
    return gap_of(np.array([one[row][PREFERENCE] - one[other][PREFERENCE] for one in runs]))


def table(runs: Sequence[Figures]) -> str:
    """A row for each ranking, then one for each set of p-vectors."""
    rankings = [row for row, figures in runs[0].items() if PREFERENCE in figures]
    lines = [f"{'':32}" + "".join(f"{name:>26}" for name in (PREFERENCE, "change", WIN_RATE, REAL_R1))]
    for row in rankings:
        gaps = (over(runs, row, PREFERENCE), change(runs, row, AS_IT_IS), over(runs, row, WIN_RATE))
        lines.append(f"{row:32}" + "".join(f"{words(gap):>26}" for gap in (*gaps, over(runs, row, REAL_R1))))
    for names in ((TOGETHER, ALIKE), (LEAD, SHARED)):
        lines += ["", f"{'':32}" + "".join(f"{name:>38}" for name in names)]
        for row in (row for row, figures in runs[0].items() if names[0] in figures):
            means = [over(runs, row, name) for name in names]
            lines.append(f"{row:32}" + "".join(f"{f'{g.mean:.3f} [{g.low:.3f}, {g.high:.3f}]':>38}" for g in means))
    return "\n".join(lines)


def findings(runs: Sequence[Figures]) -> Iterator[str]:
    """Whether p is more than fine-tuning."""
    for name in ORDERS.values():
        for preset in P_PRESETS:
            more = change(runs, *(label(name, preset, kind) for kind in KINDS))
            yield f"{name} {preset}: the debiased model's does {words(more)} more than the control's"


if __name__ == "__main__":
    raise SystemExit(main())
