"""Encoders and trained matchers as models of MTEB; its tasks as corpora; its predictions and results read."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenreel.checkpoint import CorpusFeatures, Pretrained, checkpoint_folder, load_features_for, load_matcher
from evenreel.checkpoint.architecture import module
from evenreel.checkpoint.records import CONFIG, ENCODER
from evenreel.corpus import make_corpus
from evenreel.corpus.relevance import OTHER_CLIPS
from evenreel.encoders import load_encoder
from evenreel.errors import MediaError, ScoresError, UsageError
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.saving import check_numbers, query_bands
from evenreel.evaluation.scores import ListedScores, read_document, read_predictions
from evenreel.extras import named_folder
from evenreel.features import FeatureSettings, compute_features
from evenreel.features.settings import DEFAULT_FRAMES, DEFAULT_WINDOWS
from evenreel.matchers.scoring import matcher_scores
from evenreel.media import open_video, parse_rule
from evenreel.types import Corpus, Encoder, FloatArray, Pixels, ScoreBlocks

_logger = logging.getLogger(__name__)


class MtebModel:
    """Model of MTEB that encodes texts, pictures and videos by an encoder of evenreel; implements `EncoderProtocol`.

    A video is the mean of the vectors of its windows, of unit length. Its frames are the middles of equal intervals; an
    encoder of moving pictures takes them in windows of as many as it needs. Its sound is not heard.

    Args:
        encoder: what `evenreel.encoders.load_encoder` returns, or any `Encoder`.
        frames: number of frames of a video, at least those of one window.
        name: name in MTEB's files, `organisation/model`; empty for the encoder's own.

    Raises:
        UsageError: `frames` is below 1.
    """

    def __init__(self, encoder: Encoder, frames: int = 12, name: str = "") -> None:
        if frames < 1:
            raise UsageError(f"A video of {frames} frames has no vector; give 1 or more.")
        self._encoder = encoder
        self._window = encoder.window.frames
        self._frames = max(1, frames // self._window) * self._window
        self._name = name or encoder.encoder_id

    @property
    def mteb_model_meta(self) -> Any:
        """Metadata for MTEB: the name, and the digest of weights and preprocessing as revision."""
        from mteb.models import ModelMeta

        name = self._name if "/" in self._name else f"evenreel/{self._name}"
        told = {"name": name, "revision": self._encoder.weights_hash, "embed_dim": self._encoder.dimension}
        return ModelMeta.create_empty(told | {"modalities": ["text", "image", "video"]})

    def encode(self, inputs: Iterable[Mapping[str, Any]], **_task: Any) -> FloatArray:
        """Encode batches of texts, pictures or videos to (N, D), rows of unit length.

        Args:
            inputs: batches of MTEB, with the column `video`, `image` or `text`.

        Raises:
            UsageError: a batch has several of these columns or none, or a video is of an unknown kind.
            MediaError: a video cannot be read; figures over the others would not be those of the task.
        """
        return np.concatenate([self._batch(batch) for batch in inputs])

    def similarity(self, first: Any, second: Any) -> Any:
        """Compute the cosines (N, M) of rows (N, D) and (M, D) of unit length, as a tensor."""
        import torch

        return torch.as_tensor(first) @ torch.as_tensor(second).T

    def similarity_pairwise(self, first: Any, second: Any) -> Any:
        """Compute the cosines (N,) of the rows (N, D) of two arrays, pair by pair, as a tensor."""
        import torch

        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(dim=-1)

    def _batch(self, batch: Mapping[str, Any]) -> FloatArray:
        columns = [name for name in ("text", "image", "video") if name in batch]
        if columns == ["text"]:
            return self._encoder.encode_text(list(batch["text"])).sentence
        if columns == ["image"]:
            return np.concatenate([self._window_of(one) for one in batch["image"]])
        if columns == ["video"]:
            return np.stack([self._video(one) for one in batch["video"]])
        raise UsageError(
            f"A batch of MTEB has the columns {', '.join(columns) or 'none'}; an encoder takes text, image or video "
            "alone."
        )

    def _window_of(self, image: Any) -> FloatArray:
        """A picture of Pillow as one window (1, 1, 3, H, W)."""
        return self._encoder.encode_windows(np.asarray(image.convert("RGB")).transpose(2, 0, 1)[None, None])

    def _video(self, video: Any) -> FloatArray:
        pixels = _frames_of(video, self._frames)
        vectors = self._encoder.encode_windows(pixels.reshape(-1, self._window, *pixels.shape[1:]))
        mean = vectors.mean(axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def _frames_of(video: Any, count: int) -> Pixels:
    """Frames (count, 3, H, W) at the middles of equal intervals of a video in any form that MTEB's tasks have."""
    if isinstance(video, Mapping) and "path" in video:  # undecoded, as datasets keeps it
        if not video.get("bytes"):
            return _of_file(video["path"], count)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "video"
            path.write_bytes(video["bytes"])
            return _of_file(path, count)
    if isinstance(video, (str, Path)):
        return _of_file(video, count)
    if hasattr(video, "get_frames_at"):  # a decoder of torchcodec
        return np.asarray(video.get_frames_at(indices=_middles(len(video), count)).data.cpu())
    frames = np.asarray(video.cpu() if hasattr(video, "cpu") else video)
    if frames.ndim != 4 or frames.shape[1] != 3 or frames.dtype != np.uint8 or not len(frames):
        raise UsageError(
            f"A video of MTEB is {frames.dtype} of the shape {frames.shape}; give a file, a decoder of torchcodec, or "
            "frames (T, 3, H, W) of uint8."
        )
    return np.asarray(frames[_middles(len(frames), count)])


def _middles(length: int, count: int) -> list[int]:
    return [(2 * place + 1) * length // (2 * count) for place in range(count)]


def _of_file(path: str | Path, count: int) -> Pixels:
    with open_video(path) as video:
        found = [frame.pixels for frame in video.frames(parse_rule(f"{count} midpoints"))]
    chosen = [found[place] for place in _middles(len(found), count)]
    return np.stack(chosen).transpose(0, 3, 1, 2)


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
    ) -> dict[str, dict[str, float]]:
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
        if aside := compute_features(corpus, folder / "features", self._encoder, settings).set_aside:
            more = f" (and {len(aside) - 1:,} more)" if len(aside) > 1 else ""
            raise MediaError(
                "unreadable",
                f"The video {aside[0].clip_id} of the task{more} cannot be used ({aside[0].sentence}), and figures "
                "over the others would not be those of the task.",
            )
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


def video_files(data: Any, folder: Path) -> dict[str, Path]:
    """Return the file of each video of a data set, by id; what the data set holds as bytes is written to files first.

    Nothing is decoded, so it needs no torchcodec.
    """
    import datasets

    if isinstance(data.features["video"], datasets.Video):
        data = data.cast_column("video", datasets.Video(decode=False))
    folder.mkdir(parents=True, exist_ok=True)
    return {row["id"]: _file(row, folder / f"{number}.video") for number, row in enumerate(data)}


def _file(row: Mapping[str, Any], place: Path) -> Path:
    video = row["video"]
    if isinstance(video, Mapping) and video.get("bytes"):
        place.write_bytes(video["bytes"])
        return place
    path = video.get("path") if isinstance(video, Mapping) else video
    if not isinstance(path, (str, Path)):
        raise UsageError(
            f"The video {row['id']} of the task is {type(path).__name__}; a matcher reads files or the bytes of files."
        )
    return Path(path).resolve()


def load_model(
    name: str | Path, *, device: str = "auto", frames: int = 12, folder: str | Path | None = None
) -> MtebModel | MtebMatcher:
    """Load a model of MTEB by what a name stands for: a matcher's checkpoint, or an encoder.

    Args:
        name: folder of a matcher's checkpoint, or what `evenreel.encoders.load_encoder` takes. A matcher on the hub is
            loaded by `MtebMatcher.from_checkpoint`.
        device: device of the model: `cpu`, `cuda`, `auto`, ...
        frames: number of frames of a video for an encoder; a matcher has its own.
        folder: folder in which a matcher keeps features; None for a temporary one.

    Raises:
        CheckpointError: the checkpoint is damaged.
        EncoderError: the encoder cannot be had.
        UsageError: the device cannot be used, or the matcher takes what no encoder makes of a video.
    """
    if _is_matcher(str(name)):
        return MtebMatcher.from_checkpoint(name, device=device, folder=folder)
    return MtebModel(load_encoder(str(name), device=device), frames)


def _is_matcher(name: str) -> bool:
    place = named_folder(name)
    if place is None or not (place / CONFIG).is_file():
        return False
    try:
        config = json.loads((place / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "matcher" in config


def task_corpus(task: Any, split: str = "test", subset: str = "default") -> Corpus:
    """Make a corpus of a loaded retrieval task between texts and videos (or pictures): its ids are those of the task.

    Where a text answers several videos, these beside the first are in the captions' column `other_clips`.

    Args:
        task: retrieval task of MTEB, after `load_data`.
        split: split of the task.
        subset: subset of the task.

    Raises:
        UsageError: the task has no texts on one side alone, or is not loaded, or has no such part.
    """
    data = _part(task, split, subset)
    asked_in_words = "text" in data["queries"].column_names
    if asked_in_words == ("text" in data["corpus"].column_names):
        raise UsageError(
            f"{task.metadata.name} is no retrieval between texts and videos; one side alone must be texts."
        )
    texts, clips = (data["queries"], data["corpus"]) if asked_in_words else (data["corpus"], data["queries"])
    answers: dict[str, list[str]] = {}
    for query, items in data["relevant_docs"].items():
        for item in (item for item, degree in items.items() if degree > 0):
            text, clip = (query, item) if asked_in_words else (item, query)
            answers.setdefault(text, []).append(clip)
    rows = [
        (name, answers[name][0], text, answers[name][1:])
        for name, text in zip(texts["id"], texts["text"], strict=True)
        if name in answers
    ]
    columns = dict.fromkeys(["caption_id", "clip_id", "text"], pl.String) | {OTHER_CLIPS: pl.List(pl.String)}
    captions = pl.DataFrame(rows, schema=columns, orient="row")
    if not captions[OTHER_CLIPS].list.len().sum():
        captions = captions.drop(OTHER_CLIPS)
    return make_corpus(pl.DataFrame({"clip_id": list(clips["id"])}), captions)


def _part(task: Any, split: str, subset: str) -> Any:
    """What is loaded of a split and a subset."""
    if not task.data_loaded:
        raise UsageError(f"{task.metadata.name} is not loaded; call its load_data() first.")
    if split not in task.dataset.get(subset, {}):
        there = ", ".join(f"{one}/{each}" for one, splits in task.dataset.items() for each in splits)
        raise UsageError(f"{task.metadata.name} has no {subset}/{split}; it has: {there}.")
    return task.dataset[subset][split]


def load_predictions(
    path: str | Path, corpus: Corpus, split: str = "test", subset: str = "default", queries: Direction | None = None
) -> ListedScores:
    """Load predictions of MTEB (`TASK_predictions.json`) as scores, which `evenreel.evaluate` gives intervals.

    Args:
        path: file that `mteb.evaluate(prediction_folder=...)` wrote.
        corpus: corpus with the task's ids, such as `task_corpus` makes.
        split: split of the task.
        subset: subset of the task.
        queries: `t2v` where texts are the queries, `v2t` where videos are; needed where both have the same ids.

    Raises:
        ScoresError: the file is no such file, has no such part, or names ids that the corpus does not have.
    """
    return read_predictions(Path(path), corpus, split=split, subset=subset, queries=queries)


def read_results(path: str | Path) -> pl.DataFrame:
    """Read the figures of a result file of MTEB, as it prints them: a row a split, subset and metric.

    A result file has no figures of single queries, so there are no intervals; `load_predictions` gives them.

    Returns:
        Columns `task`, `split`, `subset`, `metric` and `value`.

    Raises:
        ScoresError: the file is no such file.
    """
    path = Path(path)
    document = read_document(path)
    if not isinstance(document.get("scores"), dict):
        raise ScoresError(f"{path} has no scores; give a result file of MTEB, TASK.json.")
    rows = [
        (str(document.get("task_name", path.stem)), split, str(part.get("hf_subset", "default")), metric, float(value))
        for split, parts in document["scores"].items()
        for part in parts
        for metric, value in part.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    names = ["task", "split", "subset", "metric"]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), "value": pl.Float64}, orient="row")
