"""Prepared data of a source for test-time training, kept in `source/` of its checkpoint: no clip and no caption.

`source/config.json` says what was prepared, of which weights and with which digest; `source/prepared.safetensors` holds
the arrays. Both are written beside their place first, so that the folder is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from evenreel.adaptation.baselines.ttt import SourceStatistics, statistics_of
from evenreel.adaptation.baselines.ttt_flow import Flow, flow_of
from evenreel.adaptation.titan.causal import CausalCorrection, CausalSettings, check_length
from evenreel.adaptation.titan.confounders import COUNT, frame_confounders, phrase_confounders
from evenreel.checkpoint.records import CONFIG, SOURCE, read_config
from evenreel.documents import brief, parse_json
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary
from evenreel.files import replacing_folder
from evenreel.language.scene_elements import SceneDictionary
from evenreel.types import FloatArray, VideoFeatures
from evenreel.version import __version__

FORMAT = 1
"""Version of the layout; a reader refuses a larger one. 1: the first."""

ARRAYS = "prepared.safetensors"

AGAIN = "make it again with `evenreel prepare`"

Kind = Literal["elements", "kmeans", "file"]


class Flows(NamedTuple):
    """Normalising flows of the vectors of the source's captions and clips."""

    text: Flow
    video: Flow


@dataclass(frozen=True)
class Note:
    """Origin of a source's prepared data, and figures of how well it fits.

    Attributes:
        corpus: name of the source corpus.
        split: split of the corpus.
        captions: number of captions.
        clips: number of clips.
        confounders: method by which confounders of source and target are found.
        names: names of the source's confounders, if any, the most frequent first.
        seed: random seed.
        figures: measured figures by name.
    """

    corpus: str = ""
    split: str = ""
    captions: int = 0
    clips: int = 0
    confounders: Kind = "kmeans"
    names: tuple[str, ...] = ()
    seed: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PreparedSource:
    """Data prepared of a source checkpoint for test-time training; a part that was not prepared is None.

    Attributes:
        correction: bias correction after its source stage; use `copy.deepcopy` of it for each target.
        statistics: moments of the source's vectors.
        flows: normalising flows of captions and clips.
        dictionary: dictionary of the phrases that confounders are chosen from, where these are scene elements.
        note: origin of the data.
    """

    correction: CausalCorrection | None = None
    statistics: SourceStatistics | None = None
    flows: Flows | None = None
    dictionary: EmbeddedDictionary | None = None
    note: Note = Note()

    @property
    def uses(self) -> tuple[str, ...]:
        """Labels, for the notes of scores, of splits other than the source's own that the data are from."""
        return () if self.dictionary is None else self.dictionary.dictionary.uses

    def target_confounders(self, videos: VideoFeatures, given: FloatArray | None = None) -> Tensor:
        """Find the confounders `c_t` (N, d) of a target's clips, by the same method as the source's.

        Args:
            videos: features of the target's clips, by the source's encoder.
            given: (N, d) confounders to use instead, such as those of a file.

        Raises:
            UsageError: the source's were read from a file, and none is given for the target; or those that are given
                are of another length.
        """
        if given is not None:
            if self.correction is not None:
                check_length(given, self.correction.source)
            return torch.from_numpy(given)
        if self.note.confounders == "file":
            raise UsageError(
                "The confounders of the source were read from a file, and those of the target cannot be found the same "
                "way; give a file of theirs, or prepare the checkpoint with --confounders elements or kmeans."
            )
        count = COUNT if self.correction is None else len(self.correction.source)
        if self.dictionary is not None:
            return torch.from_numpy(phrase_confounders(videos, self.dictionary, count).vectors)
        return torch.from_numpy(frame_confounders(videos, count, self.note.seed))


def save_prepared(folder: str | Path, prepared: PreparedSource, weights_sha256: str | None = None) -> Path:
    """Save prepared data in the folder of its checkpoint; earlier prepared data are replaced.

    Args:
        folder: folder of the checkpoint whose matcher it was prepared with.
        prepared: parts to write.
        weights_sha256: digest of the weights that `config.json` had when the matcher was loaded, to notice a change
            meanwhile; None for the one that it has now.

    Returns:
        The folder `source` in that folder.

    Raises:
        CheckpointError: there is no checkpoint, it has other weights meanwhile, or the disk refuses.
    """
    from safetensors.torch import save

    place = Path(folder) / SOURCE
    weights = read_config(Path(folder) / CONFIG).weights_sha256
    if weights_sha256 not in (None, weights):
        raise CheckpointError(f"{folder} has other weights than those that were prepared; prepare it again.")
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in _tensors(prepared)}
    payload = save(tensors, metadata={"format": "pt"})
    record = _record(prepared) | {"weights_sha256": weights, "prepared_sha256": hashlib.sha256(payload).hexdigest()}
    try:
        with replacing_folder(place) as part:
            (part / ARRAYS).write_bytes(payload)
            (part / CONFIG).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"{place} cannot be written: {error.strerror or error}.") from error
    return place


def load_prepared(folder: str | Path) -> PreparedSource | None:
    """Load the prepared data of a checkpoint for test-time training; None where it has none.

    Args:
        folder: folder of the checkpoint (`evenreel.checkpoint.checkpoint_folder` finds that of the hub).

    Raises:
        CheckpointError: the data belong to other weights, are damaged, or a later version wrote it.
    """
    place = Path(folder) / SOURCE
    if not place.is_dir():
        return None
    record = _read_record(place)
    if record["weights_sha256"] != read_config(Path(folder) / CONFIG).weights_sha256:
        raise CheckpointError(f"{place} was prepared with other weights than those beside it; {AGAIN}.")
    tensors = _read_tensors(place, record)
    try:
        with torch.random.fork_rng(devices=[]):  # networks draw numbers for weights that are then replaced
            return _prepared(record, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError, UsageError) as error:
        raise CheckpointError(
            f"{place} is damaged or was edited ({type(error).__name__}: {error}); {AGAIN}."
        ) from error


def _tensors(prepared: PreparedSource) -> Iterator[tuple[str, Tensor]]:
    """All arrays, each under its part's name."""
    parts: dict[str, Mapping[str, Tensor]] = {}
    if prepared.correction is not None:
        parts["correction"] = prepared.correction.state_dict()
    if prepared.statistics is not None:
        parts["statistics"] = prepared.statistics.tensors()
    if prepared.flows is not None:
        parts |= {"flow_text": prepared.flows.text.state_dict(), "flow_video": prepared.flows.video.state_dict()}
    if (found := prepared.dictionary) is not None:
        rows = {"entities": found.entities, "activities": found.activities}
        parts["dictionary"] = {name: torch.from_numpy(vectors) for name, vectors in rows.items()}
    for part, tensors in parts.items():
        yield from ((f"{part}.{name}", tensor) for name, tensor in tensors.items())


def _record(prepared: PreparedSource) -> dict[str, Any]:
    correction, embedded = prepared.correction, prepared.dictionary
    return {
        "format": FORMAT,
        "evenreel_version": __version__,
        "note": asdict(prepared.note),
        "correction": None
        if correction is None
        else {"dimension": correction.dimension, "settings": asdict(correction.settings)},
        "dictionary": None
        if embedded is None
        else asdict(embedded.dictionary) | {"encoder_id": embedded.encoder_id, "weights_hash": embedded.weights_hash},
    }


def _read_record(place: Path) -> dict[str, Any]:
    try:
        record = parse_json((place / CONFIG).read_text(encoding="utf-8"))
        version = record["format"]
        if not isinstance(version, int):
            raise TypeError(f"the format is {version!r}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{place / CONFIG} cannot be read ({error}); {AGAIN}.") from error
    if version > FORMAT:
        raise CheckpointError(
            f"{place / CONFIG} has format {brief(version)}, this version reads up to {FORMAT}; update evenreel to read "
            "it."
        )
    if missing := [name for name in ("weights_sha256", "prepared_sha256") if name not in record]:
        raise CheckpointError(f"{place / CONFIG} has no {missing[0]}; {AGAIN}.")
    return dict(record)


def _read_tensors(place: Path, record: Mapping[str, Any]) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        payload = (place / ARRAYS).read_bytes()
        if hashlib.sha256(payload).hexdigest() != record["prepared_sha256"]:
            raise CheckpointError(
                f"{place / ARRAYS} is not what was saved (its digest is another); get the checkpoint again, or {AGAIN}."
            )
        return load(payload)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{place / ARRAYS} cannot be read ({error}); {AGAIN}.") from error


def _prepared(record: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> PreparedSource:
    note = record["note"]
    statistics, text, video = (_part(tensors, name) for name in ("statistics", "flow_text", "flow_video"))
    return PreparedSource(
        _correction(record["correction"], _part(tensors, "correction")),
        statistics_of(statistics) if statistics else None,
        Flows(flow_of(text).eval(), flow_of(video).eval()) if text and video else None,
        _dictionary(record["dictionary"], _part(tensors, "dictionary")),
        Note(**{**note, "names": tuple(note["names"])}),
    )


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    start = f"{part}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _correction(record: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> CausalCorrection | None:
    if record is None:
        return None
    made = CausalCorrection(record["dimension"], tensors["source"], CausalSettings(**record["settings"]))
    made.load_state_dict(dict(tensors))
    return made


def _dictionary(record: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]) -> EmbeddedDictionary | None:
    if record is None:
        return None
    parts: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
    encoder_id, weights_hash = parts.pop("encoder_id"), parts.pop("weights_hash")
    entities, activities = (tensors[kind].numpy() for kind in ("entities", "activities"))
    return EmbeddedDictionary(SceneDictionary(**parts), entities, activities, encoder_id, weights_hash)
