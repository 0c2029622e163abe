"""TITAN (MM 2023): pseudo-labels of a stream's queries, and the loss of one batch, from settings to a step.

The first clip by the source model's scores would label most queries with few clips (hubs). So

1. a query's clip is chosen by ranks in both directions (section 3.2.1, equation 5: `rank_sums`, `rematch`);
2. captions of clips that too many queries match, one-way and before rematching, lose the words that these have in
   common and are matched anew (3.2.2, equations 6 and 7: `over_attended`, `counterfactuals`);
3. among the `eta` likeliest clips of each query the one is taken that the bias correction prefers (3.3, equations 8 to
   14: `evenreel.adaptation.titan_correction`);
4. the model learns from these pairs as if they were labelled (`pseudo_pairs`, `Learner.learn`).

Where the paper leaves room:

- Equation 5 asks for the 'highest' match degree; with 1 for the best rank that is the least sum.
- The paper gives no theta (equation 7) and a beta that depends on how many queries and clips there are, so both may be
  shares here. Nor does it say what stands in a word's place, and CLIP's towers know no mask: the word is taken out,
  made general, or replaced by a rarer one. Words for nothing that can be seen (`be`, `have`, `something`), of which the
  paper does not speak, are never over-attended: half of all captions have `is`.
- The paper does not name its loss; symmetric InfoNCE is what most matchers are trained with.

Other ways to match, a rotation, and safeguards (`evenreel.adaptation.matching`, `safety`) are not from the paper.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn

from evenreel.adaptation.matching import Table, assignment, checked_scores, mutual_nn, one_way, transport_plan
from evenreel.adaptation.stream import EncodeTexts, caption_vectors, joined, taken
from evenreel.adaptation.titan_correction import Decides, FitSettings, TargetStage, chosen, judged, label_rank, or_null
from evenreel.arrays import Indices
from evenreel.config import ABOVE_0, ABOVE_0_TO_1, AT_LEAST_0, MOST_BITS, SHARE, Allowed, check_settings, whole
from evenreel.errors import UsageError
from evenreel.language.folding import Part
from evenreel.language.synonyms import stop_nouns, stop_verbs
from evenreel.language.tokens import Tagged, Tagger
from evenreel.language.wording import generic, rewritten, without
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch, text_batch, to_device, video_batch
from evenreel.matchers.matcher import Matcher, contrastive
from evenreel.matchers.scoring import encode_texts
from evenreel.similarity.tiles import Encoded, MatcherScores, device_of, evaluating
from evenreel.training.recipe import cannot_be_followed, named_file, read_changed, read_settings, yaml_files
from evenreel.types import FloatArray, TextFeatures, VideoFeatures

Match = Literal["one_way", "rank_sum", "mutual_nn", "hungarian", "sinkhorn"]
Mask = Literal["removed", "masked", "replaced"]
ContentPart = Literal["noun", "verb", "adjective"]
_PARTS = Allowed(
    "one or more of noun, verb, adjective", lambda value: bool(value) and set(value) <= set(get_args(ContentPart))
)
Objective = Literal["pseudo_labels", "rotation", "ttt", "ttt_flow"]
Learns = Literal["all", "heads", "norms", "text", "auto"]

_ROUNDING = 1e-9
"""Two rank sums nearer than this share of their size are equal."""


# settings; every ablation is one of them ---------------------------------------------------------------------------


@dataclass(frozen=True)
class MatchSettings:
    """Settings of matching queries with pseudo clips."""

    match: Match = "rank_sum"  # `rank_sum` (the paper), `one_way`, `mutual_nn`, `hungarian` or `sinkhorn`
    # for `rank_sum`, weight of the query's rank among all queries of a video, beside the video's rank for the query; 0
    # is `one_way`. (Equation 5, the paper's 1.)
    alpha: Annotated[float, AT_LEAST_0] = 1.0
    # for `hungarian`, greatest number of queries that a video is matched to; None: the least with which every query is
    # matched
    capacity: Annotated[int | None, or_null(whole(1))] = None
    # for `sinkhorn`, temperature of the transport in units of the scores; near 0 it is an assignment
    temperature: Annotated[float, ABOVE_0] = 0.05
    iterations: Annotated[int, whole(1)] = 100  # greatest number of rounds of the transport

    def __post_init__(self) -> None:
        check_settings("matching", self)


@dataclass(frozen=True)
class CounterfactualSettings:
    """Settings of counterfactual queries: which words are over-attended, and what replaces them."""

    # number of queries, beyond which a clip that they match is a hub; below 1 a share of all queries. The paper's is 30
    beta: Annotated[float, AT_LEAST_0] = 30
    # number of a hub's queries, beyond which a word that they share is over-attended; below 1 a share of these
    theta: Annotated[float, AT_LEAST_0] = 0.5
    # parts of speech of such words, `noun`, `verb`, `adjective`; the paper uses all three
    parts: Annotated[tuple[ContentPart, ...], _PARTS] = get_args(ContentPart)
    # how the word is masked: `removed`; `masked` by a word without content, see `evenreel.language.wording.generic`; or
    # `replaced` by a rarer word of the same form, drawn from those of all queries
    mask: Mask = "removed"
    seed: Annotated[int, whole(0, MOST_BITS)] = 0  # seed of the draw of these words

    def __post_init__(self) -> None:
        check_settings("counterfactuals", self)


@dataclass(frozen=True)
class SafetySettings:
    """Settings of the safeguards against harm by adaptation; none of them is in the paper."""

    # share of the pseudo-labels that is trained on: those whose query and clip rank each other highest, by the sum of
    # both ranks; `causal` may choose another clip for such a query. Above 0; 1 keeps all
    keep: Annotated[float, ABOVE_0_TO_1] = 0.7
    # share of the old average that stays in the moving average of the weights at each optimiser step (mean teacher,
    # arXiv 1703.01780); the average labels and predicts. 0 for none: the trained weights do
    teacher: Annotated[float, SHARE] = 0.9
    # offline, share of the queries that is never trained on, to measure quality on. Online, quality is measured on each
    # batch before it is trained on
    held_out: Annotated[float, SHARE] = 0.25
    # serve the source's ranking as long as label-free quality has not risen significantly. Online it is measured over
    # all batches so far, a model that gets worse after it was better is rolled back too, and training goes on from
    # where it is
    roll_back: bool = True
    # leave the model as it is where captions and clips do not differ significantly from the stored statistics of the
    # source
    drift: bool = True
    # confidence of the interval of quality's rise, and of the test for drift. Online both are repeated for each batch,
    # so that chance has more than one try
    confidence: Annotated[float, SHARE] = 0.95

    def __post_init__(self) -> None:
        check_settings("safety", self)
        if self.roll_back and not self.held_out:
            raise UsageError(
                "Whether quality rose is measured on queries that nothing was learned from, and held_out is 0; set it "
                "to a share above 0, or roll_back to false."
            )


UNSAFE = SafetySettings(keep=1.0, teacher=0.0, held_out=0.0, roll_back=False, drift=False)
"""Nothing, as in the paper."""


@dataclass(frozen=True)
class AdaptSettings:
    """Settings of test-time training on one stream."""

    # how to learn: `pseudo_labels`, symmetric InfoNCE on pseudo-labels (TITAN, and the naive baseline); `rotation`, a
    # rotation of all captions towards the clips that an optimal transport assigns to them, once an epoch; or a baseline
    # without labels of any kind, `ttt` (TTT++) or `ttt_flow` (TTTFlow)
    objective: Objective = "pseudo_labels"
    # `offline`: train on all queries, then predict all; `online`: train and predict batch by batch, in the order in
    # which queries came
    protocol: Literal["offline", "online"] = "offline"
    # for `online`, whether a batch is predicted `after` the model was trained on it, as in the paper, or `before`, as
    # for a user whose query is answered at once
    predict: Literal["after", "before"] = "after"
    # weights that may change: `all`; `heads`, the maps in front of the matcher; `norms`, scales and shifts of layer
    # norms; `text`, the map of captions alone, so that a gallery need not be encoded again (unless a matcher reads
    # on-screen text, which goes through this map too); `auto`, the heads where there are any, else all
    learns: Learns = "all"
    lr: Annotated[float, ABOVE_0] = 1e-5  # learning rate of Adam; the default is the paper's
    batch_size: Annotated[int, whole(2)] = 128  # number of queries a batch; the default is the paper's
    steps: Annotated[int, whole(1)] = 1  # number of optimiser steps for each batch, online
    # number of passes through all queries, offline, with new pseudo-labels each time
    epochs: Annotated[int, whole(1)] = 1
    # number of latest queries that ranks are counted among (more where a batch is larger); it bounds memory to a few
    # tables of `bank` x V
    bank: Annotated[int, whole(2)] = 4096
    # whether the rank of a query for a clip is counted among the latest queries (`bank`) or in its batch alone
    ranks: Literal["bank", "batch"] = "bank"
    # how a query gets its pseudo clip; `one_way` is the naive first clip. The objective `rotation` uses only its
    # temperature
    matching: MatchSettings = field(default_factory=MatchSettings)
    # for `rotation`, the least cosine of two queries, less the mean of all, that count as one
    alike: Annotated[float, ABOVE_0_TO_1] = 0.75
    # settings of training on captions without their over-attended words too; None for none
    counterfactuals: CounterfactualSettings | None = field(default_factory=CounterfactualSettings)
    causal: bool = True  # whether the bias correction of the source checkpoint chooses among the likeliest clips
    # for `causal`, settings of training the target stage of the correction
    causal_fit: FitSettings = field(default_factory=FitSettings)
    # for `causal`, what chooses: the `correction` alone, or the sum of its `ranks` and the matcher's
    decides: Decides = "correction"
    safety: SafetySettings = field(default_factory=SafetySettings)  # safeguards, see `SafetySettings`
    seed: Annotated[int, whole(0, MOST_BITS)] = 0  # seed of batches, of held-out queries, and of the views of `ttt`

    def __post_init__(self) -> None:
        check_settings("adaptation", self)

    @property
    def online(self) -> bool:
        """Whether queries are answered batch by batch as they come."""
        return self.protocol == "online"

    @property
    def reads_captions(self) -> bool:
        """Whether counterfactual captions are made, which a text tower has to encode."""
        return self.objective == "pseudo_labels" and self.counterfactuals is not None


def naive(settings: AdaptSettings) -> AdaptSettings:
    """Return the settings changed to naive pseudo-labels: each query's first clip, without rematching or correction."""
    return replace(settings, matching=MatchSettings(match="one_way"), counterfactuals=None, causal=False)


def shipped_settings() -> dict[str, Path]:
    """Return the paths of the package's settings of adaptation by name, in order."""
    return yaml_files("evenreel.adaptation")


def load_settings(name: str | Path = "safe", changes: Sequence[str] = ()) -> AdaptSettings:
    """Load settings of adaptation from a YAML file, or those of the package by name.

    Args:
        name: a path, or a name such as `titan/offline`; the file may be `based_on` another, as recipes are.
        changes: settings that replace those of the file, each `place=value` with the value in YAML, for example
            `matching.alpha=0.5`.

    >>> load_settings("titan/naive", ["lr=0.001"]).matching.match
    'one_way'
    """
    what, shipped = "file of settings", shipped_settings()
    values = read_changed(named_file(name, shipped, what), changes, what, shipped)
    with cannot_be_followed(f"file of settings {name}", changes):
        return read_settings(AdaptSettings, values)


# rematching (3.2.1) ------------------------------------------------------------------------------------------------


def rank_sums(scores: NDArray[Any], alpha: float = 1.0) -> Table:
    """Compute TITAN's rank sums: rank of the video for the query + alpha x rank of the query for the video (eq. 5).

    The least sum is the best match. Ranks begin with 1 for the best; equal scores share their mean rank.

    Args:
        scores: (Q, V) scores, higher is better.
        alpha: weight of the rank of the query for the video.

    Returns:
        (Q, V) rank sums; infinity for a pair that cannot match.

    >>> rank_sums(np.array([[0.9, 0.8], [0.8, 0.1]])).tolist()
    [[2.0, 3.0], [3.0, 4.0]]
    >>> rank_sums(np.array([[0.9, 0.8], [0.85, 0.84]]), alpha=2.0).tolist()
    [[3.0, 6.0], [5.0, 4.0]]
    """
    MatchSettings(alpha=alpha)  # refuses what is none
    worse = -checked_scores(scores)
    sums = np.asarray(rankdata(worse, axis=0), dtype=np.float64)
    sums *= alpha
    sums += rankdata(worse, axis=1)
    sums[worse == np.inf] = np.inf
    return sums


def rematch(scores: NDArray[Any], settings: MatchSettings | None = None) -> Indices:
    """Match each query with its pseudo video.

    Of equal rank sums the one with the higher score wins, and of equal scores the earlier video; the latter holds for
    every method but `hungarian`, which may take either of two assignments with the same sum. Equal sums are frequent
    with alpha 1, and rank sums do not make sure that every video is matched.

    Args:
        scores: (Q, V) scores, higher is better.
        settings: method and its numbers; None for those of the paper.

    Returns:
        (Q,) index of each query's video; -1 for a query that can match no video, that is no video's best (`mutual_nn`),
            or for which no place is left (`hungarian` with a small capacity).

    Raises:
        ScoresError: the scores are no table of numbers below infinity, or too large for an assignment.

    >>> crowded = np.array([[0.9, 0.8], [0.8, 0.1]])
    >>> rematch(crowded).tolist(), rematch(crowded, MatchSettings("hungarian")).tolist()
    ([0, 0], [1, 0])
    >>> tied = np.array([[0.9, 0.8], [0.85, 0.84]])  # query 1 has the sums 3 and 3 with alpha 1, 5 and 4 with 2
    >>> rematch(tied).tolist(), rematch(tied, MatchSettings(alpha=2.0)).tolist()
    ([0, 0], [0, 1])
    >>> rematch(tied, MatchSettings("mutual_nn")).tolist()
    [0, -1]
    """
    settings, table = settings or MatchSettings(), checked_scores(scores)
    if settings.match == "rank_sum":
        sums = rank_sums(table, settings.alpha)
        near = sums <= sums.min(axis=1, keepdims=True) * (1 + _ROUNDING)
        return one_way(np.where(near, table, -np.inf))
    if settings.match == "mutual_nn":
        return mutual_nn(table)
    if settings.match == "hungarian":
        return assignment(table, settings.capacity)
    if settings.match == "sinkhorn":
        return one_way(transport_plan(table, settings.temperature, settings.iterations), least=0.0)
    return one_way(table)


# counterfactual captions (3.2.2) -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The `text` of a query (its row) without an over-attended word (its base form) of the hub (`video`) it matches."""

    query: int
    video: int
    word: str
    text: str


@dataclass(frozen=True, slots=True)
class OverAttended:
    """Over-attended word, which `count` of the `matched` queries have whose first clip is the hub `video`."""

    video: int
    word: str
    count: int
    matched: int


def hub_queries(matches: NDArray[np.int64], queries: int, beta: float) -> dict[int, list[int]]:
    """Return the queries of each hub, a clip that more than `beta` queries match (below 1: a share of all).

    `matches` (Q,) are the indices of the clips that queries rank first; -1 for none.
    """
    if matches.shape != (queries,):
        raise UsageError(f"Matches of the shape {matches.shape} are not of {queries:,} queries; give one for each.")
    matched: dict[int, list[int]] = {}
    for query, video in enumerate(matches.tolist()):
        if video >= 0:
            matched.setdefault(video, []).append(query)
    return {video: matched[video] for video in sorted(matched) if _exceeds(len(matched[video]), queries, beta)}


def over_attended(
    tagged: Sequence[Tagged], matches: NDArray[np.int64], settings: CounterfactualSettings
) -> tuple[OverAttended, ...]:
    """Find the over-attended words of hubs (eq. 6), clip by clip, the most frequent first, ties by the alphabet.

    Args:
        tagged: the Q queries, tagged.
        matches: (Q,) index of the clip that each query ranks first; -1 for none.
        settings: beta, theta and the parts of speech.

    >>> from evenreel.language.tokens import Token
    >>> tagged = [(Token("dogs", "dog", "NNS"), Token("run", "run", "VBP")), (Token("dog", "dog", "NN"),)]
    >>> over_attended(tagged, np.array([4, 4]), CounterfactualSettings(beta=1))
    (OverAttended(video=4, word='dog', count=2, matched=2),)
    """
    words = [_words(tokens, settings.parts) for tokens in tagged]
    found: list[OverAttended] = []
    for video, queries in hub_queries(matches, len(tagged), settings.beta).items():
        counts = Counter(word for query in queries for word in words[query])
        above = ((word, count) for word, count in counts.items() if _exceeds(count, len(queries), settings.theta))
        ordered = sorted(above, key=lambda one: (-one[1], one[0]))
        found += [OverAttended(video, word, count, len(queries)) for word, count in ordered]
    return tuple(found)


def counterfactuals(
    texts: Sequence[str], tagged: Sequence[Tagged], matches: NDArray[np.int64], settings: CounterfactualSettings
) -> tuple[Counterfactual, ...]:
    """Make counterfactual queries (eq. 7): one for each over-attended word of a query that matches a hub.

    None is made where no noun, verb or adjective would be left, or where there is no rarer word as a replacement.

    Args:
        texts: the Q queries.
        tagged: the Q queries, tagged.
        matches: (Q,) index of the clip that each query ranks first; -1 for none.
        settings: which words are over-attended, and what replaces them.

    >>> from evenreel.language.taggers import PatternTagger
    >>> texts = ["a brown dog runs", "two dogs sleep", "a dog"]
    >>> tagged = PatternTagger().tag(texts)
    >>> made = counterfactuals(texts, tagged, np.array([7, 7, 7]), CounterfactualSettings(beta=2))
    >>> [(one.query, one.word, one.text) for one in made]
    [(0, 'dog', 'a brown runs'), (1, 'dog', 'two sleep')]
    """
    if len(texts) != len(tagged):
        raise UsageError(f"{len(texts):,} queries came with the tokens of {len(tagged):,}; give the tokens of each.")
    above: dict[int, set[str]] = {}
    for one in over_attended(tagged, matches, settings):
        above.setdefault(one.video, set()).add(one.word)
    write = _Writer(tagged, settings)
    made: list[Counterfactual] = []
    for query, (text, tokens, video) in enumerate(zip(texts, tagged, matches.tolist(), strict=True)):
        for word, places in _words(tokens, settings.parts).items():
            if word in above.get(video, ()) and (new := write(text, tokens, places)):
                made.append(Counterfactual(query, video, word, new))
    return tuple(made)


class _Writer:
    """Writes a query without a word; None where that is nothing to learn from."""

    def __init__(self, tagged: Sequence[Tagged], settings: CounterfactualSettings) -> None:
        self._mask, self._random = settings.mask, np.random.default_rng(settings.seed)
        self._queries = Counter[str]()
        self._forms: dict[str, list[tuple[int, str, str]]] = {}
        if settings.mask == "replaced":
            self._queries.update(word for tokens in tagged for word in _words(tokens))
            forms: dict[str, set[tuple[int, str, str]]] = {}
            for token in (tokens[place] for tokens in tagged for held in _words(tokens).values() for place in held):
                form = token.text if token.tag.startswith("NNP") else token.text.lower()
                forms.setdefault(token.tag, set()).add((self._queries[token.lemma], token.lemma, form))
            self._forms = {tag: sorted(own) for tag, own in forms.items()}  # the rarest first

    def __call__(self, text: str, tokens: Tagged, places: Sequence[int]) -> str | None:
        """The query with the word at these places taken out, made general or replaced."""
        there = _words(tokens)
        if self._mask != "replaced":
            if {place for held in there.values() for place in held} <= set(places):
                return None
            return (without if self._mask == "removed" else generic)(text, tokens, places)
        words: dict[int, str] = {}
        for place in places:
            forms = self._forms[tokens[place].tag]
            rarer = forms[: bisect_left(forms, (self._queries[tokens[place].lemma],))]
            able = [form for _, lemma, form in rarer if lemma not in there]
            if not able:
                return None
            words[place] = able[int(self._random.integers(len(able)))]
        return rewritten(text, tokens, words)


def _exceeds(count: int, of: int, limit: float) -> bool:
    """Whether a count is above a limit, which below 1 is a share."""
    return (count / of if limit < 1 else count) > limit


def _words(tokens: Tagged, parts: Sequence[Part] = get_args(ContentPart)) -> dict[str, list[int]]:
    """Places of the words of a query, by their base forms in the order in which they come."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(tokens):
        empty = stop_verbs() if token.part == "verb" else stop_nouns()
        if token.part in parts and token.lemma not in empty and any(map(str.isalnum, token.text)):
            places.setdefault(token.lemma, []).append(place)
    return places


# pseudo-labels (3.1.2) ---------------------------------------------------------------------------------------------


UnpairedLoss = Callable[[Matcher, TextBatch, VideoBatch], dict[str, Tensor]]
"""Loss of captions and clips that needs no pairs (TTT++, TTTFlow): named terms, each with its weight."""


class StreamResources(NamedTuple):
    """What reads and tags counterfactual captions of one stream, and what learns with it: correction, or baseline."""

    encode: EncodeTexts | None
    tagger: Tagger | None
    target: TargetStage | None
    unpaired: UnpairedLoss | None


class QueryWindow(NamedTuple):
    """Latest queries of a stream, among which ranks are counted: their features and sentences."""

    texts: TextFeatures
    sentences: tuple[str, ...]


class ClipGallery(NamedTuple):
    """Clips of a gallery as a model encodes them, and, for the correction and the drift test, their vectors (V, D)."""

    encoded: Encoded
    vectors: Tensor | None


class LabelRank(NamedTuple):
    """Mean rank, from 1, of pseudo clips among the candidates of their captions, by the bias correction."""

    before: float  # before its target stage trained on them; ties share their mean rank
    after: float  # after that; 1 where every label has been learned
    candidates: int  # number n of candidates of each caption; by chance the mean rank is (n + 1) / 2
    relabelled: float  # share of the captions that got another clip than the one rematching gave them

    @property
    def sentence(self) -> str:
        """Sentence on the mean ranks before and after training.

        >>> LabelRank(5.5, 1.25, 10, 0.04).sentence.split("; ")
        ['pseudo clips rank 5.50 of 10 before it trained on them, 1.25 after (chance 5.5)', '4.0 % got another clip']
        """
        return (
            f"pseudo clips rank {self.before:.2f} of {self.candidates} before it trained on them, {self.after:.2f} "
            f"after (chance {(self.candidates + 1) / 2:g}); {100 * self.relabelled:.1f} % got another clip"
        )


class PseudoPairs(NamedTuple):
    """Captions with pseudo clips, to be trained on as if they were labelled pairs."""

    texts: TextFeatures  # features of N captions: queries, then counterfactual queries
    columns: Indices  # (N,) index of each caption's clip in the gallery
    # (N,) rank of the rematched clip for the caption plus rank of the caption for it; 2 where each is the other's
    # first. It stays where the bias correction chooses another clip
    doubt: NDArray[np.float64]
    queries: int  # number of queries; the others are counterfactual
    counterfactual: tuple[Counterfactual, ...] = ()
    rank: LabelRank | None = None  # by the target stage of the correction; None without it

    def kept(self, share: float) -> PseudoPairs:
        """Select the share of pseudo-labelled pairs with the least `doubt`, the first of ties; at least two pairs."""
        if share >= 1:
            return self
        count = max(2, round(share * len(self.columns)))
        rows = np.sort(np.argsort(self.doubt, kind="stable")[:count])
        queries = int((rows < self.queries).sum())
        texts, columns, doubt = taken(self.texts, rows), self.columns[rows], self.doubt[rows]
        return PseudoPairs(texts, columns, doubt, queries, self.counterfactual, self.rank)


def pseudo_pairs(
    matcher: Matcher,
    window: QueryWindow,
    own: Indices,
    gallery: ClipGallery,
    settings: AdaptSettings,
    resources: StreamResources,
) -> PseudoPairs:
    """Label queries with pseudo clips, by rematching, counterfactual captions and the bias correction.

    Queries to label are the rows `own` of the window among whose queries ranks are counted. The correction is trained.
    """
    # 3.2.1: the clip of each query, by ranks among all queries of the window
    scores = scored(matcher, window.texts, gallery.encoded)
    columns = _labels(scores, own, settings)
    texts, own_scores, doubt = taken(window.texts, own), scores[own], _doubt(scores, own, columns)
    # 3.2.2: queries of hubs without the words that these share, matched anew; hubs are counted among all queries
    made: tuple[Counterfactual, ...] = ()
    if settings.counterfactuals is not None and resources.tagger is not None:
        tagged, among = resources.tagger.tag(window.sentences), set(own.tolist())
        every = counterfactuals(window.sentences, tagged, one_way(scores), settings.counterfactuals)
        made = tuple(one for one in every if one.query in among)
    if made:
        assert resources.encode is not None
        ids = tuple(f"{one.query} without {one.word}" for one in made)
        more = replace(resources.encode([one.text for one in made]), ids=ids)
        stacked = np.concatenate([scores, scored(matcher, more, gallery.encoded)])
        places = np.arange(len(scores), len(stacked))
        extra = _labels(stacked, places, settings)
        texts, columns = joined(texts, more), np.concatenate([columns, extra])
        own_scores = np.concatenate([own_scores, stacked[places]])
        doubt = np.concatenate([doubt, _doubt(stacked, places, extra)])
    there = np.flatnonzero(columns >= 0)
    queries = int((there < len(own)).sum())
    texts, columns, doubt, own_scores = taken(texts, there), columns[there], doubt[there], own_scores[there]
    # 3.3.2: the correction learns from the labels as they are now, and then chooses among the likeliest clips
    rank = None
    if settings.causal and len(there):
        assert resources.target is not None and gallery.vectors is not None
        stage, q, v = resources.target, caption_vectors(matcher, texts), gallery.vectors
        candidates = likeliest(own_scores, columns, stage.correction.settings.eta)
        before = label_rank(judged(stage.correction, q, v, candidates))
        stage.learn(q, v, candidates)
        logits = judged(stage.correction, q, v, candidates)
        columns = chosen(logits, candidates, settings.decides)
        relabelled = float((columns != candidates[:, 0]).mean())
        rank = LabelRank(before, label_rank(logits), candidates.shape[1], relabelled)
    return PseudoPairs(texts, columns, doubt, queries, made, rank)


def scored(matcher: Matcher, texts: TextFeatures, videos: Encoded) -> FloatArray:
    """Compute similarities (Q, V) of captions' features and encoded clips."""
    return MatcherScores(matcher, encode_texts(matcher, texts), videos).block(slice(None), slice(None))


def _labels(scores: FloatArray, own: Indices, settings: AdaptSettings) -> Indices:
    """(own,) columns, ranked among all, or among themselves."""
    if settings.ranks == "batch":
        return rematch(scores[own], settings.matching)
    return rematch(scores, settings.matching)[own]


def _doubt(scores: FloatArray, own: Indices, columns: Indices) -> NDArray[np.float64]:
    sums = rank_sums(scores, 1.0)[own]
    doubt: NDArray[np.float64] = sums[np.arange(len(own)), columns]
    return doubt


def likeliest(scores: FloatArray, columns: Indices, count: int) -> Indices:
    """Return candidate clips (N, count) of captions: the pseudo clip, then others by score, the first of ties.

    >>> likeliest(np.array([[0.9, 0.5, 0.7]], np.float32), np.array([1]), 2).tolist()
    [[1, 0]]
    """
    count = min(count, scores.shape[1])
    raised = scores.astype(np.float64)
    raised[np.arange(len(columns)), columns] = np.inf
    order: Indices = np.argsort(-raised, axis=1, kind="stable")[:, :count]
    return order


# learning ----------------------------------------------------------------------------------------------------------


_NO_WEIGHTS = "The matcher has no weights that could learn; put an adapter in front of it."
_NOTHING: dict[Learns, str] = {
    "all": _NO_WEIGHTS,
    "auto": _NO_WEIGHTS,
    "heads": "The matcher has no adapter, whose maps are to learn; choose all, or train one with an adapter.",
    "norms": "The matcher has no layer norm that could learn; choose all or heads.",
    "text": (
        "The matcher has no map of captions apart from that of frames; only with an adapter that is not shared can a "
        "gallery stay as it is encoded."
    ),
}


def learnable(matcher: Any, learns: Learns, objective: Objective = "pseudo_labels") -> list[nn.Parameter]:
    """Return the weights of a matcher that may change at test time, in a fixed order, without the temperature."""
    named = {name: weight for name, weight in matcher.named_parameters() if name.split(".")[-1] != "logit_scale"}
    kept = _names(matcher, learns, set(named))
    if not kept:
        raise UsageError(_NOTHING[learns])
    if objective != "pseudo_labels" and not kept & _names(matcher, "heads", set(named)):
        raise UsageError(
            f"The objective {objective} moves nothing but the adapter in front of the matcher, and here that is not "
            "there or may not learn; train the matcher with an adapter, let that learn (learns: heads), or adapt by "
            "pseudo-labels."
        )
    return [weight for name, weight in named.items() if name in kept]


def _names(matcher: Any, learns: Learns, names: set[str]) -> set[str]:
    if learns == "auto":
        return _names(matcher, "heads", names) or names
    if learns == "all":
        return names
    if learns == "norms":
        norms = [name for name, part in matcher.named_modules() if isinstance(part, nn.LayerNorm)]
        return {name for name in names if name.rpartition(".")[0] in norms}
    if not isinstance(matcher, Adapted):
        return set()
    shared = matcher.text_map is matcher.frame_map
    maps = ("text_map.",) if learns == "text" else ("text_map.", "frame_map.")
    return set() if learns == "text" and shared else {name for name in names if name.startswith(maps)}


class Learner:
    """Adam for the weights of a matcher, which is trained in evaluation mode, without dropout.

    `unpaired` is the loss of a baseline, for the objectives `ttt` and `ttt_flow`; `stepped` is called after each step.
    """

    def __init__(
        self,
        matcher: Any,
        settings: AdaptSettings,
        unpaired: UnpairedLoss | None = None,
        stepped: Callable[[], None] = lambda: None,
    ) -> None:
        self._matcher, self._settings, self._unpaired, self._after = matcher, settings, unpaired, stepped
        self._weights = learnable(matcher, settings.learns, settings.objective)
        matcher.requires_grad_(False)
        for weight in self._weights:
            weight.requires_grad_(True)
        self._optimiser = torch.optim.Adam(self._weights, lr=settings.lr)
        self._rng = np.random.default_rng(settings.seed)

    def learn(self, texts: TextFeatures, videos: VideoFeatures, columns: Indices | None = None) -> dict[str, float]:
        """Train on N captions with their pseudo clips, columns (N,) of the gallery, by symmetric InfoNCE.

        Captions of one clip are no negatives of each other. Without columns the loss is that of a baseline, of captions
        with as many clips drawn at random. Returned is the mean over batches, by the name of the term.
        """
        device, terms = device_of(self._matcher), list[dict[str, float]]()
        for rows in self._rounds(len(texts.ids)):
            if columns is None:
                size = min(len(rows), len(videos.ids))
                clips = np.sort(self._rng.choice(len(videos.ids), size, replace=False))
            else:
                clips = columns[rows]
            text, video = to_device(text_batch(texts, rows), device), to_device(video_batch(videos, clips), device)
            with evaluating(self._matcher):
                if columns is None:
                    assert self._unpaired is not None
                    terms.append(self._step(self._unpaired(self._matcher, text, video)))
                else:
                    same = torch.from_numpy(clips[:, None] == clips).to(device)
                    terms.append(self._step(contrastive(self._matcher, PairBatch(text, video, same))))
        return {name: float(np.mean([one[name] for one in terms])) for name in (terms[0] if terms else {})}

    def _rounds(self, count: int) -> Iterator[Indices]:
        """Rows of batches, `steps` times all of them in another order."""
        size = self._settings.batch_size
        for _ in range(self._settings.steps):
            order = self._rng.permutation(count)
            for start in range(0, count, size):
                if len(rows := order[start : start + size]) > 1:
                    yield rows

    def _step(self, terms: dict[str, Tensor]) -> dict[str, float]:
        self._optimiser.zero_grad()
        torch.stack([term.float() for term in terms.values()]).sum().backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        if not all(bool(weight.isfinite().all()) for weight in self._weights):
            raise UsageError(
                f"Some weights are no finite numbers after a step with the learning rate {self._settings.lr:g}; choose "
                "a smaller one (lr)."
            )
        self._after()
        return {name: float(term.detach()) for name, term in terms.items()}
