"""A trained matcher as a model of MTEB, for its searches between texts and videos."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenreel.checkpoint import CorpusFeatures, Pretrained, checkpoint_folder, load_features_for, load_matcher
from evenreel.checkpoint.architecture import module
from evenreel.checkpoint.records import ENCODER
from evenreel.corpus import make_corpus
from evenreel.encoders import load_encoder
from evenreel.errors import MediaError, UsageError
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.saving import check_numbers, query_bands
from evenreel.features import FeatureSettings, compute_features
from evenreel.features.pool import SetAside
from evenreel.features.settings import DEFAULT_FRAMES, DEFAULT_WINDOWS
from evenreel.integrations.mteb.videos import video_files
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import Corpus, Encoder, ScoreBlocks

_logger = logging.getLogger(__name__)

Lists = dict[str, dict[str, float]]
"""Scores of the best items by query."""


class MtebMatcher:
    """Model of MTEB that searches by the scores of a trained matcher; implements `SearchProtocol`.

    Texts and videos get the features that `evenreel features` computes for the matcher, and the scores are those of
    `evenreel score`. Texts may ask for videos, and videos for texts; the sound of a video is not heard.

    Args:
        pretrained: matcher with its origin, as `evenreel.load_matcher` returns it.
        encoder: encoder of the features that the matcher takes.
        before: encoder as it was before it was trained with the matcher, where that uses it
            (`Pretrained.needs_pretrained_means`).
        folder: folder for the features, which another task or run with the same videos then has already; None for a
            temporary one.
        name: name in MTEB's files, `organisation/model`; empty for the kind of matcher.

    Raises:
        UsageError: the matcher takes the features of another encoder, or what no encoder makes of a video.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        encoder: Encoder,
        *,
        before: Encoder | None = None,
        folder: str | Path | None = None,
        name: str = "",
    ) -> None:
        _check(pretrained, encoder, before)
        self._pretrained, self._encoder, self._before = pretrained, encoder, before
        self._folder = None if folder is None else Path(folder)
        self._name = name or pretrained.spec.name
        self._indexed: Any = None

    @classmethod
    def from_checkpoint(
        cls, checkpoint: str | Path, *, device: str = "auto", folder: str | Path | None = None, name: str = ""
    ) -> MtebMatcher:
        """Load a matcher and its encoder.

        Args:
            checkpoint: folder or hub id of a checkpoint, such as `evenreel train` makes.
            device: device for both: `cpu`, `cuda`, `auto`, ...
            folder: folder for the features; None for a temporary one.
            name: name in MTEB's files; empty for that of the checkpoint's folder.

        Raises:
            CheckpointError: there is no such checkpoint, or it is damaged.
            EncoderError: the encoder cannot be had.
            UsageError: the matcher takes what no encoder makes of a video.
        """
        place = checkpoint_folder(checkpoint)
        pretrained = load_matcher(place, device=device)
        note = pretrained.about.encoder
        _check_stored(pretrained)
        encoder = load_encoder(str(place / ENCODER) if note.trained_further else note.id, device=device)
        before = load_encoder(note.id, device=device) if pretrained.needs_pretrained_means else None
        return cls(pretrained, encoder, before=before, folder=folder, name=name or place.name)

    @property
    def mteb_model_meta(self) -> Any:
        """Metadata for MTEB: the name, and the digest of the weights of encoder and matcher as revision."""
        from mteb.models import ModelMeta

        name = self._name if "/" in self._name else f"evenreel/{self._name}"
        digest = hashlib.sha256(self._encoder.weights_hash.encode())
        for word, weight in sorted(module(self._pretrained.matcher).state_dict().items()):
            digest.update(word.encode() + weight.cpu().numpy().tobytes())
        return ModelMeta.create_empty({"name": name, "revision": digest.hexdigest(), "modalities": ["text", "video"]})

    def index(self, corpus: Any, *, task_metadata: Any, **_task: Any) -> None:
        """Take what is to be searched; it is encoded with the queries.

        Raises:
            UsageError: the task is no search between texts and videos.
        """
        _direction(task_metadata)
        self._indexed = corpus

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        num_proc: int | None = None,
        **_task: Any,
    ) -> Lists:
        """Rank what was indexed for each query by the matcher's scores, which are computed in tiles.

        Args:
            queries: data set of texts or of videos.
            task_metadata: what MTEB says of the task.
            top_k: most items that are listed for a query.
            top_ranked: ids of the items that each query chooses from; None for all.
            num_proc: processes that read videos; None for one a core.

        Returns:
            The score of each listed item, by query.

        Raises:
            UsageError: nothing was indexed.
            MediaError: a video cannot be read; figures over the others would not be those of the task.
        """
        if self._indexed is None:
            raise UsageError("Nothing was indexed; call index with what is to be searched first.")
        direction = _direction(task_metadata)
        texts, videos = (queries, self._indexed) if direction == "t2v" else (self._indexed, queries)
        with tempfile.TemporaryDirectory() as temporary:
            corpus = _corpus(_texts(texts, task_metadata, direction), video_files(videos, Path(temporary) / "videos"))
            loaded = self._features(corpus, self._folder or Path(temporary) / "features", num_proc or 0)
        if uses := self._pretrained.about.uses:
            _logger.warning("The matcher was trained with %s, which MTEB's files do not say.", " and ".join(uses))
        scores = matcher_scores(self._pretrained.matcher, loaded.texts, loaded.videos)
        return dict(_ranked(scores, direction, top_k, top_ranked))

    def _features(self, corpus: Corpus, folder: Path, workers: int) -> CorpusFeatures:
        inputs = self._pretrained.about.inputs
        settings = FeatureSettings(
            rule=inputs.rule or f"{DEFAULT_FRAMES} midpoints",
            read_text=inputs.windows is not None,
            workers=workers,
            windows=inputs.windows or DEFAULT_WINDOWS,
        )
        _check_all(compute_features(corpus, folder / "features", self._encoder, settings).set_aside)
        if not self._pretrained.needs_pretrained_means or self._before is None:
            return load_features_for(self._pretrained, folder / "features", corpus)
        compute_features(corpus, folder / "before", self._before, replace(settings, read_text=False))
        return load_features_for(self._pretrained, folder / "features", corpus, pretrained_features=folder / "before")


def _check(pretrained: Pretrained, encoder: Encoder, before: Encoder | None) -> None:
    """Refuse a matcher whose features cannot be computed from the videos of a task by an encoder."""
    _check_stored(pretrained)
    note = pretrained.about.encoder
    if note.weights_hash != encoder.weights_hash:
        raise UsageError(
            f"The matcher was trained on features of {note}, and {encoder.encoder_id} has other weights; give the "
            "encoder that it was trained with."
        )
    if pretrained.needs_pretrained_means and (before is None or before.weights_hash != note.before):
        raise UsageError(
            f"The matcher selects scene elements by how {note.id} saw clips before it was trained further; give that "
            "encoder too (before=)."
        )
    if pretrained.about.inputs.words_from == "corpus":
        raise UsageError(
            "The matcher was trained on words on screen that a corpus ships, which tasks of MTEB do not have; give one "
            "that was trained on words that were read, or on none."
        )


def _check_stored(pretrained: Pretrained) -> None:
    if pretrained.about.encoder.stored_name is not None:
        raise UsageError(
            f"The matcher was trained on {pretrained.about.encoder}, features that others computed, and no encoder "
            "here makes these of the videos of a task; give one that was trained on features of an encoder."
        )


def _check_all(aside: Sequence[SetAside]) -> None:
    """Refuse to go on without some of the videos."""
    if aside:
        more = f" (and {len(aside) - 1:,} more)" if len(aside) > 1 else ""
        raise MediaError(
            "unreadable",
            f"The video {aside[0].clip_id} of the task{more} cannot be used ({aside[0].sentence}), and figures over "
            "the others would not be those of the task.",
        )


def _direction(task_metadata: Any) -> Direction:
    """Whether texts ask for videos or videos for texts."""
    from mteb.types import PromptType

    asking, found = (set(task_metadata.get_modalities(one)) for one in (PromptType.query, PromptType.document))
    for direction, (texts, videos) in (("t2v", (asking, found)), ("v2t", (found, asking))):
        if texts == {"text"} and "video" in videos and "text" not in videos:
            return direction  # type: ignore[return-value]
    raise UsageError(
        f"{task_metadata.name} searches {' and '.join(sorted(found))} by {' and '.join(sorted(asking))}; a matcher "
        "takes texts alone on one side and videos on the other."
    )


def _texts(data: Any, task_metadata: Any, direction: Direction) -> dict[str, str]:
    """Texts by their ids, as MTEB gives them to any model."""
    from mteb._create_dataloaders import create_dataloader
    from mteb.types import PromptType

    kind = PromptType.query if direction == "t2v" else PromptType.document
    batches = create_dataloader(data, task_metadata=task_metadata, prompt_type=kind)
    texts = [text for batch in batches for text in batch["text"]]
    return dict(zip(data["id"], texts, strict=True))


def _corpus(texts: Mapping[str, str], videos: Mapping[str, Path]) -> Corpus:
    """A corpus in which captions are of any clip, since scores do not ask whose they are."""
    clips = pl.DataFrame({"clip_id": list(videos), "path": [str(path) for path in videos.values()]})
    captions = {"caption_id": list(texts), "clip_id": [next(iter(videos))] * len(texts), "text": list(texts.values())}
    return make_corpus(clips, pl.DataFrame(captions))


def _ranked(
    scores: ScoreBlocks, direction: Direction, top_k: int, top_ranked: Mapping[str, Sequence[str]] | None
) -> Iterator[tuple[str, dict[str, float]]]:
    """The best items of each query, a band of queries at a time."""
    ahead = direction == "t2v"
    queries, gallery = (scores.caption_ids, scores.video_ids) if ahead else (scores.video_ids, scores.caption_ids)
    place = {name: column for column, name in enumerate(gallery)}
    for start, band in query_bands(scores.block, (len(queries), len(gallery)), direction):
        check_numbers(band, start, queries, gallery)
        for query, row in zip(queries[start : start + len(band)], band, strict=True):
            asked = None if top_ranked is None else np.array([place[one] for one in top_ranked.get(query, ())], int)
            columns = np.arange(len(row)) if asked is None else asked
            best = columns[np.argsort(-row[columns], kind="stable")[:top_k]]
            yield query, {gallery[column]: float(row[column]) for column in best}
