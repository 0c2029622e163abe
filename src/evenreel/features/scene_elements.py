"""Scene elements of clips: the phrases of a dictionary that lie nearest to each clip (BiMa, section 3.1).

A dictionary is kept in a folder: `dictionary.parquet` with its phrases, `dictionary.json` with where they are from, and
`embeddings/HASH.safetensors` for each encoder that has read them, named by the hash of its weights.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import slices
from evenreel.documents import parse_json
from evenreel.errors import EvenreelError, FeaturesError, UsageError
from evenreel.features.manifest import store
from evenreel.features.shards import seal, unseal
from evenreel.language.scene_elements import SceneDictionary
from evenreel.parquet_files import read_table
from evenreel.progress import Progress
from evenreel.types import Encoder, FloatArray, VideoFeatures

Places = NDArray[np.int32]

FORMAT = 1
TABLE, RECORD, EMBEDDINGS, CLIPS = "dictionary.parquet", "dictionary.json", "embeddings", "clips-{}.parquet"
ENTITY, ACTIVITY = "entity", "activity"
"""Values of the column `kind` of the tables."""

_AGAIN = "make it again with `evenreel elements`"
_HASH_LETTERS = 16
_BATCH = 128
_AT_ONCE_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class EmbeddedDictionary:
    """A scene dictionary with a vector for each phrase, by the text tower of an encoder."""

    dictionary: SceneDictionary  # the phrases
    entities: FloatArray  # (N_e, D) float32, rows of unit length
    activities: FloatArray  # (N_a, D) float32, rows of unit length
    encoder_id: str  # name of the encoder
    weights_hash: str  # hash of its weights; features of another encoder cannot be compared with it

    def __post_init__(self) -> None:
        rows = (len(self.entities), len(self.activities))
        phrases = (len(self.dictionary.entities), len(self.dictionary.activities))
        if rows != phrases or self.entities.shape[1:] != self.activities.shape[1:]:
            raise FeaturesError(
                f"The embeddings of {self.encoder_id} are of {rows[0]:,} entities and {rows[1]:,} activities, and the "
                f"dictionary has {phrases[0]:,} and {phrases[1]:,}; embed the dictionary again."
            )


@dataclass(frozen=True, eq=False)
class TopElements:
    """Phrases nearest to each clip, in descending score; equal scores in the order of the dictionary."""

    clip_ids: tuple[str, ...]  # V ids
    entities: Places  # (V, k) int32, places in the dictionary; k is at most the size of the dictionary
    entity_scores: FloatArray  # (V, k) float32 cosines
    activities: Places  # (V, l) int32, places in the dictionary
    activity_scores: FloatArray  # (V, l) float32 cosines


def embed(dictionary: SceneDictionary, encoder: Encoder, progress: Progress = lambda share: None) -> EmbeddedDictionary:
    """Embed each phrase of a scene dictionary with the text tower of the clips' features, as its sentence feature."""
    phrases = (*dictionary.entities, *dictionary.activities)
    rows: list[FloatArray] = []
    for start in range(0, len(phrases), _BATCH):
        batch = phrases[start : start + _BATCH]
        rows.append(np.asarray(encoder.encode_text(batch).sentence, np.float32))
        progress((start + len(batch)) / len(phrases))
    vectors = _unit(np.concatenate(rows), phrases)
    cut = len(dictionary.entities)
    return EmbeddedDictionary(dictionary, vectors[:cut], vectors[cut:], encoder.encoder_id, encoder.weights_hash)


def clip_means(videos: VideoFeatures) -> FloatArray:
    """Compute the mean of the frames of each clip, (V, D), some clips at a time."""
    means = np.empty((len(videos.ids), videos.frames.shape[2]), np.float32)
    step = _AT_ONCE_BYTES // max(1, 4 * videos.frames.shape[1] * videos.frames.shape[2])
    for part in slices(len(means), step):
        mask = videos.frame_mask[part, :, None]
        means[part] = (videos.frames[part].astype(np.float32) * mask).sum(axis=1) / mask.sum(axis=1)
    return means


def top_of_means(
    means: FloatArray,
    embedded: EmbeddedDictionary,
    count: int,
    clip_ids: tuple[str, ...] = (),
    progress: Progress = lambda share: None,
) -> TopElements:
    """Find the `count` phrases of each kind that are nearest to mean frames (V, D), by their cosines.

    Clips without ids are called by row. The paper takes 20 of each kind (kappa).
    """
    names = clip_ids or tuple(map(str, range(len(means))))
    if count < 1:
        raise UsageError(f"The number of scene elements is {count}; it must be 1 or more.")
    if means.shape[1] != embedded.entities.shape[1]:
        raise FeaturesError(
            f"The clips have features of {means.shape[1]:,} numbers and the dictionary of "
            f"{embedded.entities.shape[1]:,}; take features and dictionary by one encoder."
        )
    unit = _unit(means, names)
    entities, entity_scores = _nearest(unit, embedded.entities, count, lambda share: progress(share / 2))
    activities, activity_scores = _nearest(unit, embedded.activities, count, lambda share: progress((1 + share) / 2))
    return TopElements(names, entities, entity_scores, activities, activity_scores)


def _nearest(rows: FloatArray, phrases: FloatArray, count: int, progress: Progress) -> tuple[Places, FloatArray]:
    """Return places and cosines of the nearest phrases, some rows at a time."""
    kept = min(count, len(phrases))
    places, scores = np.empty((len(rows), kept), np.int32), np.empty((len(rows), kept), np.float32)
    step = _AT_ONCE_BYTES // max(1, 16 * len(phrases))  # a score and its place in the order of scores
    for part in slices(len(rows), step):
        cosines = rows[part] @ phrases.T
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :kept]
        places[part], scores[part] = order, np.take_along_axis(cosines, order, axis=1)
        progress(part.stop / len(rows))
    return places, scores


def _unit(rows: NDArray[Any], names: tuple[str, ...]) -> FloatArray:
    """Scale rows to unit length."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(bad := np.flatnonzero(~(norms[:, 0] > 0) | ~np.isfinite(norms[:, 0]))):
        raise FeaturesError(
            f"The features of {names[bad[0]][:80]!r} have no direction (a length of {norms[bad[0], 0]:g}); leave it "
            "out, or compute them again."
        )
    return np.asarray(rows / norms, np.float32)


def save_dictionary(dictionary: SceneDictionary, folder: Path) -> None:
    """Write a scene dictionary into a folder, replacing that of the folder."""
    rows = [
        (kind, *row)
        for kind, phrases, counts in (
            (ENTITY, dictionary.entities, dictionary.entity_counts),
            (ACTIVITY, dictionary.activities, dictionary.activity_counts),
        )
        for row in zip(phrases, counts or (None,) * len(phrases), strict=True)
    ]
    schema = {"kind": pl.String(), "phrase": pl.String(), "captions": pl.Int64()}
    record = {
        "format": FORMAT,
        "captions": dictionary.captions,
        "source": dictionary.source,
        "splits": list(dictionary.splits),
        "digest": dictionary.digest,
    }
    _store_table(pl.DataFrame(rows, schema, orient="row"), folder / TABLE)
    store(folder / RECORD, (json.dumps(record, indent=2) + "\n").encode())


def remove_dictionary(folder: Path) -> None:
    """Delete a dictionary from a folder, with its embeddings and the phrases of clips; other files stay."""
    any_hash = "[0-9a-f]" * _HASH_LETTERS
    try:
        for path in (*folder.glob(f"{EMBEDDINGS}/{any_hash}.safetensors"), *folder.glob(CLIPS.format(any_hash))):
            path.unlink()
        for name in (RECORD, TABLE):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise FeaturesError(f"Cannot remove {error.filename}: {error.strerror or error}; remove it by hand.") from error


def load_dictionary(folder: Path) -> SceneDictionary:
    """Load the dictionary of a folder."""
    if not (folder / TABLE).is_file():
        raise FeaturesError(f"There is no scene dictionary in {folder}; make one with `evenreel elements`.")
    try:
        record = parse_json((folder / RECORD).read_text(encoding="utf-8"))
        if record["format"] > FORMAT:
            raise FeaturesError(f"The dictionary in {folder} was made by a later version; update evenreel to read it.")
        table = read_table(folder / TABLE)
        of_kind = [table.filter(pl.col("kind") == kind) for kind in (ENTITY, ACTIVITY)]
        entities, activities = (tuple(part["phrase"].to_list()) for part in of_kind)
        named, done = (() if part["captions"].null_count() else tuple(part["captions"].to_list()) for part in of_kind)
        captions, source, splits = int(record["captions"]), str(record["source"]), tuple(map(str, record["splits"]))
        dictionary = SceneDictionary(entities, activities, named, done, captions, source, splits)
        whole = dictionary.digest == record["digest"]
    except FeaturesError:
        raise
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError, EvenreelError) as error:
        raise FeaturesError(f"The scene dictionary in {folder} is damaged ({error}); {_AGAIN}.") from error
    if not whole:
        raise FeaturesError(f"{folder / RECORD} is of another dictionary than {TABLE} beside it; {_AGAIN}.")
    return dictionary


def embeddings_path(folder: Path, weights_hash: str) -> Path:
    """Return the file of the embeddings by an encoder in the folder of a dictionary."""
    return folder / EMBEDDINGS / f"{weights_hash[:_HASH_LETTERS]}.safetensors"


def save_embedded(embedded: EmbeddedDictionary, folder: Path) -> Path:
    """Write a dictionary and its embeddings into a folder, and return their file; those by other encoders stay."""
    save_dictionary(embedded.dictionary, folder)
    path = embeddings_path(folder, embedded.weights_hash)
    record = {
        "format": FORMAT,
        "encoder_id": embedded.encoder_id,
        "weights_hash": embedded.weights_hash,
        "digest": embedded.dictionary.digest,
    }
    store(path, seal({"entities": embedded.entities, "activities": embedded.activities}, record))
    return path


def load_embedded(folder: Path, weights_hash: str) -> EmbeddedDictionary:
    """Load the dictionary of a folder with its embeddings by an encoder."""
    dictionary, path = load_dictionary(folder), embeddings_path(folder, weights_hash)
    if not path.is_file():
        raise FeaturesError(
            f"The dictionary in {folder} has no embeddings by the encoder of these features (weights "
            f"{weights_hash[:_HASH_LETTERS]}); run `evenreel elements` with --features or --model for it."
        )
    try:
        arrays, record = unseal(path.read_bytes())
        newer, made_by = record["format"] > FORMAT, (record["weights_hash"], record["digest"])
        rows = arrays["entities"], arrays["activities"]
    except Exception as error:  # a damaged header can fail in any way in the parser
        raise FeaturesError(f"The embeddings in {path} are damaged; {_AGAIN}.") from error
    if newer:
        raise FeaturesError(f"The embeddings in {path} were made by a later version; update evenreel to read them.")
    if made_by != (weights_hash, dictionary.digest):
        what = "encoder" if made_by[0] != weights_hash else "dictionary"
        raise FeaturesError(f"The embeddings in {path} are of another {what}; {_AGAIN}.")
    return EmbeddedDictionary(dictionary, *rows, str(record["encoder_id"]), weights_hash)


def element_table(top: TopElements, dictionary: SceneDictionary) -> pl.DataFrame:
    """Make a table of the phrases nearest to each clip: `clip_id, kind, rank, phrase, score`, rank 1 the nearest."""
    schema = {"clip_id": pl.String, "kind": pl.String, "rank": pl.Int32, "phrase": pl.String, "score": pl.Float32}
    parts = []
    for kind, phrases, places, scores in (
        (ENTITY, dictionary.entities, top.entities, top.entity_scores),
        (ACTIVITY, dictionary.activities, top.activities, top.activity_scores),
    ):
        clips, kept = places.shape
        columns = {
            "clip_id": np.repeat(np.array(top.clip_ids, object), kept).tolist(),
            "kind": [kind] * (clips * kept),
            "rank": np.tile(np.arange(1, kept + 1, dtype=np.int32), clips),
            "phrase": [phrases[place] for place in places.ravel()],
            "score": scores.ravel(),
        }
        parts.append(pl.DataFrame(columns, schema))
    return pl.concat(parts)


def save_elements(
    top: TopElements, dictionary: SceneDictionary, folder: Path, fingerprint: Mapping[str, str | int | None]
) -> Path:
    """Write the phrases of each clip, `element_table`, beside the dictionary."""
    of = json.dumps([dictionary.digest, fingerprint], sort_keys=True).encode()
    path = folder / CLIPS.format(hashlib.blake2b(of, digest_size=_HASH_LETTERS // 2).hexdigest())
    _store_table(element_table(top, dictionary), path)
    return path


def _store_table(table: pl.DataFrame, path: Path) -> None:
    held = io.BytesIO()
    table.write_parquet(held)
    store(path, held.getvalue())
