"""Bias correction of TITAN (MM 2023, section 3.3): a network that chooses among a query's clips without source bias.

A confounder, such as a thing that is often on screen when something is done, affects both the query and the clip.
On the source, pairs are distinguished from non-pairs under the backdoor adjustment over a dictionary `c_s` of the
source's confounders (equations 8 to 11). On the target the same network, from the clip's vector with that adjustment,
learns from pseudo-labels, and what links it with the target's own confounders `c_t` is made stronger (equations 12 to
14).

It takes unit vectors (`evenreel.adaptation.stream`), not a matcher. Where the paper leaves room:

- Inside, vectors have entries of size one (the square root of D times those of unit length): attention by products and
  a network that starts at random are made for these, and products of two unit vectors are 1 / D in size.
- `w1`, `w2`, `w4`, `w5` start as the identity and `w3` at zero; the network starts as `COSINE_SCALE` times the cosine
  of query and clip, and nothing else in it counts. So the correction begins with the order of the cosine.
- The detectors' features "initialize" the confounders; here confounders stay as they were found, and only what maps
  them learns.
- `.` in equation 10 is the element-wise product of equation 9. The softmax of equation 11 is called scaled and has no
  scale; `scaled` says whether the square root of D divides. The products of equation 13 have the same scale.
- `S_t` of equation 12 lacks its sigmoid, without which the logarithms of equation 14 have no meaning.
- Equation 13 adds confounders up without a norm; `sigmoid_mean` divides by their number.
- Nothing of `c^c` enters `S_t`: what equation 14 asks of it changes the verdict through `v` alone, which it is made of;
  without `source_debias` not at all.
- Three pretrained detectors find the paper's confounders, things and actions; it says neither how many nor which. Here
  any table of vectors will do. Made from features alone are the phrases of a scene dictionary that the domain's clips
  are most like, which has things and actions too, and the centres of their frames. Both domains use one method, so that
  the two dictionaries differ by what is shown and not by how it was found.
- The matcher is frozen in both stages: it has made the vectors, and only the correction learns. The paper says neither
  where unmatched pairs of the source come from nor how many there are: here each pair brings one, its caption with a
  clip of the batch that it does not describe. On the target, the pseudo clip of each query is the match, and one of its
  other candidates, drawn anew each time, is none.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.arrays import Indices, slices
from evenreel.config import ABOVE_0, AT_LEAST_0, MOST_BITS, MOST_SIZE, Allowed, check_settings, whole
from evenreel.corpus.array_files import ArrayArchive, load_array
from evenreel.errors import UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, clip_means, top_of_means
from evenreel.losses.contrastive import gaussian_log_likelihood, info_nce_bound
from evenreel.progress import Progress
from evenreel.training.batches import Pairs
from evenreel.types import FloatArray, VideoFeatures

Decides = Literal["correction", "ranks"]
"""Who chooses among candidates, see `AdaptSettings.decides`."""

Aggregate = Literal["sigmoid_mean", "sigmoid"]

Mutual = Literal["vid", "info_nce", "none"]

COSINE_SCALE = 5.0
"""By what the network multiplies the cosine at its start."""

INFO_NCE_TEMPERATURE = 0.1

COUNT = 256
"""Confounders of a domain; the paper does not say how many it has."""

KAPPA = 20
"""Phrases of each kind that a clip has, as in BiMa."""

MOST_FRAMES = 65_536
"""Frames that centres are taken of; of more, so many are drawn."""

SUFFIXES = (".npy", ".npz", ".safetensors")

CHUNK_BYTES = 64 * 2**20
"""About what judging pairs takes at a time, beside the vectors."""

MEASURED_PAIRS = 4096
"""Pairs that what was learned is measured on."""


def or_null(allowed: Allowed, to_what: str = "") -> Allowed:
    """Allow no value too; `to_what` says what it stands for."""
    return Allowed(f"{allowed.words}, or null{to_what}", lambda value: value is None or allowed.holds(value))


@dataclass(frozen=True)
class CausalSettings:
    """Settings of TITAN's bias correction; each ablation is one of these."""

    eta: Annotated[int, whole(1)] = 10  # number of likeliest clips of a query that it chooses among
    scaled: bool = True  # divide the products of equations 11 and 13 by the square root of D; false is as printed
    # width of the network that judges pairs; None for D
    hidden: Annotated[int | None, or_null(whole(2, MOST_SIZE), " for D")] = None
    # how the target's confounders of a pair are combined: the mean of all, weighted by their sigmoids, or, as printed,
    # the sum, which grows with the dictionary
    aggregate: Aggregate = "sigmoid_mean"
    lambda_mi: Annotated[float, AT_LEAST_0] = 0.1  # weight of the two terms of mutual information; 1 is as printed
    mutual: Mutual = "vid"  # estimator of mutual information: `vid`, `info_nce`, or `none` for no such term
    source_debias: bool = True  # add the source's attended confounders to the clip; false leaves the clip as it is
    target_amplification: bool = True  # whether to use the terms of mutual information at all
    # pass no gradient to the vectors that the estimator predicts, so that these do not become trivial. False is as
    # printed
    detach: bool = True

    def __post_init__(self) -> None:
        check_settings("causal", self)


@dataclass(frozen=True)
class FitSettings:
    """Settings of training one stage of the bias correction (section 3.3); the paper gives none of these numbers."""

    # steps of Adam, in the target stage each time that pseudo-labels are made; 0 trains nothing
    steps: Annotated[int, whole(0)] = 1000
    lr: Annotated[float, ABOVE_0] = 1e-3  # learning rate of Adam
    batch_size: Annotated[int, whole(2)] = 128  # number of matching pairs a step; as many unmatched pairs are added
    # random seed of the stage, added to the seed of the settings that hold it
    seed: Annotated[int, whole(0, MOST_BITS)] = 0

    def __post_init__(self) -> None:
        check_settings("causal_fit", self)


# confounders of a domain ---------------------------------------------------------------------------------------------


def phrase_confounders(
    videos: VideoFeatures, embedded: EmbeddedDictionary, count: int = COUNT
) -> tuple[FloatArray, tuple[str, ...]]:
    """Select the dictionary phrases that most clips of a domain have among their nearest, the most frequent first.

    Half are entities and half activities, or more of one kind where there are too few of the other.

    Args:
        videos: features of clips of the domain.
        embedded: a scene dictionary by the encoder of the clips.
        count: number N of phrases; fewer where the clips are near fewer.

    Returns:
        (N, d) unit vectors of the phrases, and their names.
    """
    if count < 1:
        raise UsageError(f"The number of confounders is {count}; it must be 1 or more.")
    top = top_of_means(clip_means(videos), embedded, KAPPA, videos.ids)
    entities = _frequent(top.entities, embedded.entities, embedded.dictionary.entities)
    activities = _frequent(top.activities, embedded.activities, embedded.dictionary.activities)
    of_activities = min(len(activities), max(count // 2, count - len(entities)))
    rows = entities[: count - of_activities] + activities[:of_activities]
    rows.sort(key=lambda row: -row[0])
    return np.stack([row[1] for row in rows]), tuple(row[2] for row in rows)


def frame_confounders(videos: VideoFeatures, count: int = COUNT, seed: int = 0) -> FloatArray:
    """Compute confounders as cluster centres of a domain's frames, by k-means in mini-batches.

    Args:
        videos: features of clips of the domain.
        count: number N of centres; fewer where there are fewer distinct frames.
        seed: seed of the frames that are drawn where there are more than `MOST_FRAMES`, and of initial centres.

    Returns:
        (N, D) centres, float32, of unit length.
    """
    from sklearn.cluster import MiniBatchKMeans

    if count < 1:
        raise UsageError(f"The number of confounders is {count}; it must be 1 or more.")
    clips, places = np.nonzero(videos.frame_mask)
    if len(clips) > MOST_FRAMES:
        drawn = np.sort(np.random.default_rng(seed).choice(len(clips), MOST_FRAMES, replace=False))
        clips, places = clips[drawn], places[drawn]
    frames = _unit(videos.frames[clips, places], "of the frames")
    distinct = set[bytes]()
    for row in frames:
        distinct.add(row.tobytes())
        if len(distinct) == count:
            break
    fitted = MiniBatchKMeans(len(distinct), batch_size=1024, n_init=3, random_state=seed).fit(frames)
    return _unit(fitted.cluster_centers_, "of the centres")


def read_confounders(path: Path) -> FloatArray:
    """Read confounders (N, d) from a `.npy` file, or from the only table of an `.npz` or `.safetensors`.

    Pickled ones are not read; rows are brought to unit length.

    Raises:
        UsageError: the file cannot be read, holds no such table, or a row is zero or not finite.
    """
    table = _table(path)
    if table.ndim != 2 or not table.size or not np.issubdtype(table.dtype, np.number) or np.iscomplexobj(table):
        raise UsageError(
            f"{path} holds an array of {table.dtype} with the shape {table.shape}; confounders are N rows of d numbers."
        )
    return _unit(table, f"of {path}")


def _table(path: Path) -> NDArray[Any]:
    """The array of a file, whatever it is."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} ends in none of {', '.join(SUFFIXES)}, so nobody knows how to read it.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load

            tensors = load(path.read_bytes())  # numpy has no bfloat16
            held: dict[str, NDArray[Any]] = {
                name: (rows.float() if rows.dtype == torch.bfloat16 else rows).numpy() for name, rows in tensors.items()
            }
        else:
            if path.suffix == ".npy":
                return load_array(path)
            with ArrayArchive(path) as archive:
                held = archive.read_all()
    except Exception as error:  # a damaged header can fail in any way in the parser
        raise UsageError(f"The confounders in {path} cannot be read ({error}).") from error
    if len(held) != 1:
        raise UsageError(f"{path} holds {len(held)} arrays ({', '.join(sorted(held)[:5])}); give a file with one.")
    return next(iter(held.values()))


def _unit(rows: NDArray[Any], of: str) -> FloatArray:
    values = rows.astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    if len(bad := np.flatnonzero(~np.isfinite(lengths[:, 0]) | ~(lengths[:, 0] > 0))):
        raise UsageError(f"Row {bad[0]:,} {of} is zero or not all numbers; leave it out, or compute it again.")
    return np.asarray(values / lengths, np.float32)


def _frequent(
    places: NDArray[np.int32], vectors: FloatArray, names: Sequence[str]
) -> list[tuple[int, FloatArray, str]]:
    """Numbers of clips, vectors and names of the phrases that clips have, the most frequent first."""
    counts = np.bincount(places.ravel(), minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    return [(int(counts[place]), vectors[place], names[place]) for place in order if counts[place]]


# the network --------------------------------------------------------------------------------------------------------


class CausalCorrection(nn.Module):
    """Network of the bias correction (TITAN, section 3.3), with the source's confounders.

    Args:
        dimension: length D of the vectors of queries and clips.
        source: (N_cs, d) the source's confounders `c_s`, nonzero; where d is not D, they are mapped by a learned map.
        settings: terms and sizes of the correction.

    Raises:
        UsageError: the confounders are none, or not finite.
    """

    source: Tensor

    def __init__(self, dimension: int, source: Tensor, settings: CausalSettings = CausalSettings()) -> None:
        super().__init__()
        if source.dim() != 2 or not source.numel():
            raise UsageError(
                f"Confounders are a table of N rows of d numbers; these have the shape {tuple(source.shape)}."
            )
        usable = source.isfinite().all(1) & (source.abs().amax(1) > 0)
        if not usable.all():
            row = int((~usable).nonzero()[0])
            raise UsageError(f"Row {row} of the confounders is zero or not all numbers; leave it out.")
        self.dimension = dimension
        self.settings = settings
        self.register_buffer("source", F.normalize(source, dim=-1))
        width = source.shape[1]
        self.project = nn.Identity() if width == dimension else nn.Linear(width, dimension, bias=False)
        self.w1, self.w2, self.w3, self.w4, self.w5 = (nn.Linear(dimension, dimension, bias=False) for _ in range(5))
        for layer in (self.w1, self.w2, self.w4, self.w5):
            nn.init.eye_(layer.weight)
        nn.init.zeros_(self.w3.weight)
        self.hidden = settings.hidden or dimension
        self.judge = _judge(dimension, self.hidden)
        self.tell_video, self.tell_query = (_Teller(dimension) for _ in range(2))

    def attended(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute the source confounder of query-clip pairs (eq. 11): `E[g] = softmax((w1 q + w2 v) c_s^T) (w3 c_s)`.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.

        Returns:
            (B, D) with entries of size one.
        """
        confounders = self._entries(self.project(self.source))
        asked = self.w1(self._entries(q)) + self.w2(self._entries(v))
        weights = (asked @ confounders.T * self._scale).softmax(-1)
        found: Tensor = weights @ self.w3(confounders)
        return found

    def clips(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute clips with their source confounder, `v + E[g]` (B, D); without `source_debias`, `v` alone."""
        entries = self._entries(v)
        return entries + self.attended(q, v) if self.settings.source_debias else entries

    def logits(self, q: Tensor, v: Tensor) -> Tensor:
        """Compute the logits (B,) of pairs (B, D), `MLP((v + E[g]) * q)`: equation 10 on the source, 12 on the target.

        The stages have one formula and differ in labels and loss terms alone.
        """
        return self.verdict(q, self.clips(q, v))

    def verdict(self, q: Tensor, clips: Tensor) -> Tensor:
        """Compute the logits (B,) of pairs of unit queries (B, D) and clips (B, D) as `clips` returns them."""
        logits: Tensor = self.judge(clips * self._entries(q))
        return logits.squeeze(-1)

    def target_confounder(self, q: Tensor, clips: Tensor, confounders: Tensor) -> Tensor:
        """Compute the target confounder of query-clip pairs (eq. 13): `c^c = sigmoid((w4 v + w5 q) c_t^T) c_t`.

        Args:
            q: (B, D) unit vectors of queries.
            clips: (B, D) clips as `clips` returns them.
            confounders: (N_ct, d) the target's confounders `c_t`, of the length of the source's.

        Returns:
            (B, D) with entries of size one.
        """
        check_length(confounders, self.source)
        target = self._entries(self.project(F.normalize(confounders, dim=-1)))
        asked = self.w4(clips) + self.w5(self._entries(q))
        found: Tensor = (asked @ target.T * self._scale).sigmoid() @ target
        return found / len(target) if self.settings.aggregate == "sigmoid_mean" else found

    def target_terms(self, q: Tensor, v: Tensor, labels: Tensor, confounders: Tensor) -> dict[str, Tensor]:
        """Compute the loss terms of the target stage (equation 14), each with its weight.

        Args:
            q: (B, D) unit vectors of queries.
            v: (B, D) unit vectors of clips.
            labels: (B,) 1 where the clip is the query's pseudo clip, 0 elsewhere.
            confounders: (N_ct, d) the target's confounders `c_t`.

        Returns:
            `match`, the binary cross-entropy, and, unless it is switched off, `video_information` and
            `query_information`.
        """
        clips = self.clips(q, v)
        terms = {"match": F.binary_cross_entropy_with_logits(self.verdict(q, clips), labels)}
        settings = self.settings
        if settings.target_amplification and settings.mutual != "none" and settings.lambda_mi:
            found = self.target_confounder(q, clips, confounders)
            sides = (("video", self.tell_video, clips), ("query", self.tell_query, self._entries(q)))
            for name, teller, values in sides:
                told = values.detach() if settings.detach else values
                terms[f"{name}_information"] = -settings.lambda_mi * _information(told, found, teller, settings.mutual)
        return terms

    @property
    def _scale(self) -> float:
        return 1 / math.sqrt(self.dimension) if self.settings.scaled else 1.0

    def _entries(self, rows: Tensor) -> Tensor:
        """(..., D) of length sqrt(D)."""
        return math.sqrt(self.dimension) * F.normalize(rows, dim=-1)


class _Teller(nn.Module):
    """`q(t | c)`: a Gaussian with a mean made of `c` and a learned variance for each dimension, 1 at the start."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(dimension, dimension), nn.ReLU(), nn.Linear(dimension, dimension))
        self.raw_variance = nn.Parameter(torch.full((dimension,), math.log(math.e - 1)))


def _information(values: Tensor, found: Tensor, teller: _Teller, mutual: Mutual) -> Tensor:
    """A bound on `I(values; found)`, in nats a dimension (`vid`, without the entropy of the values) or in nats."""
    if mutual == "vid":
        return gaussian_log_likelihood(values, teller.mean(found), teller.raw_variance)
    cosines = F.normalize(values, dim=-1) @ F.normalize(found, dim=-1).T
    value = torch.unique(values.detach(), dim=0, return_inverse=True)[1]  # a query stands in a batch with two clips
    return info_nce_bound(cosines / INFO_NCE_TEMPERATURE, value[:, None] == value)


def _judge(dimension: int, hidden: int) -> nn.Sequential:
    """(B, D) -> (B, 1), a network with one layer between, which starts as `COSINE_SCALE` times the mean of its input.

    Two of its units have the mean and what it lacks of zero; the others start at random and count for nothing yet.
    """
    first, last = nn.Linear(dimension, hidden), nn.Linear(hidden, 1)
    with torch.no_grad():
        first.weight[:2] = torch.tensor([[1.0], [-1.0]]) / dimension
        first.bias[:2] = 0.0
        nn.init.zeros_(last.weight)
        last.weight[0, :2] = torch.tensor([COSINE_SCALE, -COSINE_SCALE])
        nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.ReLU(), last)


def check_length(target: Tensor | FloatArray, source: Tensor) -> None:
    """Check that the target's confounders (N_ct, d) are as long as the source's."""
    if target.shape[-1] != source.shape[1]:
        raise UsageError(
            f"The target's confounders have {target.shape[-1]:,} numbers each and the source's {source.shape[1]:,}; "
            "take both by one method and one encoder."
        )


# training in two stages (3.3.1), and the choice among candidates (3.3.2) ---------------------------------------------


class PairAccuracy(NamedTuple):
    """Binary cross-entropy and accuracy over pairs of a caption and its clip and as many others, weighing equally."""

    bce: float
    accuracy: float
    pairs: int


class CorrectionRecall(NamedTuple):
    """Shares of captions whose own clip is nearest by cosine, and whose own the correction prefers among `eta`."""

    cosine: float
    corrected: float
    captions: int


def new_correction(dimension: int, source: Tensor, settings: CausalSettings, seed: int) -> CausalCorrection:
    """Make an untrained bias correction, see `CausalCorrection`; equal seeds give equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CausalCorrection(dimension, source, settings)


def fit_source(
    correction: CausalCorrection,
    q: Tensor,
    v: Tensor,
    pairs: Pairs,
    settings: FitSettings,
    progress: Progress = lambda share: None,
) -> dict[str, float]:
    """Train the source stage of the bias correction in place: tell a caption's clip from others (equations 8 to 11).

    `q` (Q, D) and `v` (V, D) are unit vectors of captions and clips, and pairs are rows of both. Returned are the
    binary cross-entropies `bce_start` and `bce_end` on the same sample of pairs, and the number of `steps`.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    before = pair_accuracy(correction, q, v, pairs, settings.seed)
    optimiser = torch.optim.Adam(correction.parameters(), settings.lr)
    batches = _batches(len(pairs), settings.batch_size, generator)
    for step in range(settings.steps):
        queries, clips, labels = _source_batch(pairs, next(batches), generator)
        loss = F.binary_cross_entropy_with_logits(correction.logits(q[queries], v[clips]), labels.to(q))
        _descend(optimiser, loss)
        progress((step + 1) / settings.steps)
    after = pair_accuracy(correction, q, v, pairs, settings.seed)
    return {"bce_start": before.bce, "bce_end": after.bce, "steps": float(settings.steps)}


class TargetStage:
    """Target stage of the bias correction: a copy of the source's that is trained on a stream's pseudo-labels.

    Adam's moments and random numbers continue from call to call, so that a stream in batches is trained on as one.

    The source's stays as it is; the confounders (N_ct, d) are of the target's clips.
    """

    def __init__(self, source: CausalCorrection, confounders: Tensor, settings: FitSettings) -> None:
        self.correction = copy.deepcopy(source)
        self._confounders, self._settings = confounders, settings
        self._optimiser = torch.optim.Adam(self.correction.parameters(), settings.lr)
        self._generator = torch.Generator().manual_seed(settings.seed)

    def learn(self, q: Tensor, v: Tensor, candidates: Indices) -> None:
        """Train on pseudo-labels and the target's confounders (equations 12 to 14); nothing with one candidate each.

        Of unit vectors of queries `q` (N, D) and clips `v` (V, D), `candidates` (N, eta) are the likeliest clips of
        each query, each once, its pseudo clip first.
        """
        if not len(candidates) or candidates.shape[1] < 2:
            return
        places, confounders = torch.from_numpy(candidates), self._confounders.to(q)
        batches = _batches(len(candidates), self._settings.batch_size, self._generator)
        for _ in range(self._settings.steps):
            rows = next(batches)
            others = torch.randint(1, places.shape[1], rows.shape, generator=self._generator)
            clips = torch.cat([places[rows, 0], places[rows, others]])
            labels = torch.cat([torch.ones(len(rows)), torch.zeros(len(rows))]).to(q)
            terms = self.correction.target_terms(q[rows.repeat(2)], v[clips], labels, confounders)
            _descend(self._optimiser, torch.stack(list(terms.values())).sum())


def chosen(logits: NDArray[np.float64], candidates: Indices, decides: Decides = "correction") -> Indices:
    """Choose one (N,) of each query's candidate clips by the bias correction, the first of equal ones.

    Args:
        logits: (N, eta) logits of the candidates, see `judged`.
        candidates: (N, eta) clips of each query, the likeliest first.
        decides: `correction`, the one with the largest `S_t` (section 3.3.2); `ranks`, the one with the least sum of
            its rank by `S_t` and its place among the candidates, so that the matcher's ranking counts too.
    """
    if decides == "ranks":
        first = (rankdata(-logits, axis=1) + np.arange(candidates.shape[1])).argmin(1)
    else:
        first = logits.argmax(1)  # numpy's takes the first of equals
    columns: Indices = candidates[np.arange(len(candidates)), first]
    return columns


def label_rank(logits: NDArray[np.float64]) -> float:
    """Compute the mean rank of the first candidate of each row by logits (N, eta), from 1; ties share their rank.

    >>> label_rank(np.array([[0.1, 0.9, 0.1], [2.0, 1.0, 0.0]]))
    1.75
    """
    return float(rankdata(-logits, axis=1)[:, 0].mean())


def judged(correction: CausalCorrection, q: Tensor, v: Tensor, candidates: Indices) -> NDArray[np.float64]:
    """Compute the logits (N, eta) of queries (N, D) with their candidates among clips (V, D), some pairs at a time."""
    eta = candidates.shape[1]
    numbers = len(correction.source) + 8 * correction.dimension + correction.hidden
    size = max(1, CHUNK_BYTES // (q.element_size() * numbers))
    queries, clips = torch.arange(len(candidates)).repeat_interleave(eta), torch.from_numpy(candidates).flatten()
    with torch.no_grad():
        parts = [
            correction.logits(q[queries[rows]], v[clips[rows]]).cpu().double() for rows in slices(len(clips), size)
        ]
    logits = torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)
    return logits.reshape(len(candidates), eta).numpy()


def pair_accuracy(
    correction: CausalCorrection, q: Tensor, v: Tensor, pairs: Pairs, seed: int = 0, of: str = "source"
) -> PairAccuracy:
    """Measure how well the bias correction tells pairs of a caption and its clip from others, on a random sample.

    `q` (Q, D) and `v` (V, D) are unit vectors, and pairs are rows of both; `of` says in errors what they are from.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(pairs), generator=generator)[:MEASURED_PAIRS]
    logits, labels = [], []
    for part in torch.split(rows, 256):  # among so many, as in training, the other clip is drawn
        queries, clips, truth = _source_batch(pairs, part, generator)
        with torch.no_grad():
            logits.append(correction.logits(q[queries], v[clips]).cpu().double())
        labels.append(truth.double())
    found, truth = torch.cat(logits), torch.cat(labels)
    if not (truth == 0).any():
        raise UsageError(
            f"In the {of} every caption describes every clip, or there is one clip, so pairs cannot be told from "
            "others; take one of several clips."
        )
    weights = torch.where(truth > 0, 0.5 / (truth > 0).sum(), 0.5 / (truth == 0).sum())
    bce = (weights * F.binary_cross_entropy_with_logits(found, truth, reduction="none")).sum()
    right = (weights * ((found > 0) == (truth > 0))).sum()
    return PairAccuracy(bce.item(), right.item(), len(rows))


def correction_recall(correction: CausalCorrection, q: Tensor, v: Tensor, pairs: Pairs) -> CorrectionRecall:
    """Compute how often a caption's own clip is its nearest by cosine, and how often the bias correction chooses it."""
    rows = np.arange(len(pairs))[:MEASURED_PAIRS]
    asked, eta = q[torch.from_numpy(pairs.captions[rows])], min(correction.settings.eta, len(v))
    size = max(1, CHUNK_BYTES // (16 * len(v)))  # cosines, sorted cosines and 8 bytes for the place of each
    with torch.no_grad():  # of equal cosines the first clip; the clone lets go of what else was sorted
        ranked = ((some @ v.T).sort(dim=1, descending=True, stable=True).indices for some in torch.split(asked, size))
        candidates = torch.cat([columns[:, :eta].clone() for columns in ranked]).cpu().numpy()
    corrected = chosen(judged(correction, asked, v, candidates), candidates)
    own = pairs.clips[rows]
    return CorrectionRecall(float((candidates[:, 0] == own).mean()), float((corrected == own).mean()), len(rows))


def _source_batch(pairs: Pairs, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Captions, clips and labels (N,) of some pairs, then of as many others as can be drawn among them."""
    taken = rows.numpy()
    queries, clips = torch.from_numpy(pairs.captions[taken]), torch.from_numpy(pairs.clips[taken])
    others = ~pairs.same(taken)
    some = others.any(1)
    if not some.any():
        return queries, clips, torch.ones(len(rows))
    drawn = torch.multinomial(others[some].float(), 1, generator=generator).squeeze(1)
    labels = torch.cat([torch.ones(len(rows)), torch.zeros(len(drawn))])
    return torch.cat([queries, queries[some]]), torch.cat([clips, clips[drawn]]), labels


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows without end, each once before any comes again; what does not fill a batch is left out of its round."""
    size = min(size, count)
    while True:
        order = torch.randperm(count, generator=generator)
        yield from torch.split(order[: count // size * size], size)


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
