"""What a source leaves for test-time training: fitted once, kept in `source/` of its checkpoint, without its clips.

`source/config.json` says what was prepared, of which weights and with which digest; `source/prepared.safetensors` holds
the arrays. Both are written beside their place first, so that the folder is there whole or not at all. An adapted
checkpoint takes it along (`save_adapted`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from evenreel.adaptation.adapted import Resources
from evenreel.adaptation.baselines import (
    Flow,
    FlowObjective,
    FlowSettings,
    SourceStatistics,
    TTTObjective,
    TTTSettings,
    fit_flow,
    flow_of,
    nll_per_number,
    source_statistics,
    statistics_of,
)
from evenreel.adaptation.stream import EncodeTexts, RememberingTagger, caption_vectors, clip_vectors
from evenreel.adaptation.titan import AdaptSettings
from evenreel.adaptation.titan_correction import (
    COUNT,
    CausalCorrection,
    CausalSettings,
    FitSettings,
    check_length,
    correction_recall,
    fit_source,
    frame_confounders,
    new_correction,
    pair_accuracy,
    phrase_confounders,
)
from evenreel.checkpoint.folder import check_free, load_matcher, save_pretrained
from evenreel.checkpoint.records import ADAPTATION, BEFORE, CONFIG, SOURCE, WEIGHTS, Pretrained, read_config
from evenreel.config import MOST_BITS, check_settings, whole
from evenreel.documents import brief, parse_json
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary
from evenreel.files import replacing_folder
from evenreel.language.scene_elements import SceneDictionary
from evenreel.language.tokens import Tagger
from evenreel.matchers.matcher import Matcher, check_lengths
from evenreel.progress import Progress
from evenreel.similarity.tiles import device_of
from evenreel.training.batches import FeatureExamples
from evenreel.training.recipe import cannot_be_followed, changed, read_changed, read_settings
from evenreel.types import FloatArray, VideoFeatures
from evenreel.version import __version__

FORMAT = 1
"""Version of the layout; a reader refuses a larger one. 1: the first."""
ARRAYS = "prepared.safetensors"
AGAIN = "make it again with `evenreel prepare`"
AT_ONCE = 512
"""Captions, or clips, that become vectors at a time."""

Kind = Literal["elements", "kmeans", "file"]
Bar = Callable[[str], AbstractContextManager[Progress]]
"""What a stage is called -> a block in which the share that is done is told."""


class Flows(NamedTuple):
    """Normalising flows of the vectors of the source's captions and clips."""

    text: Flow
    video: Flow


@dataclass(frozen=True)
class Note:
    """What a source's prepared data are from (the corpus by name), and figures of how well they fit.

    `names` are those of the source's confounders, the most frequent first; `confounders` says how they were found.
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
    """Data prepared of a source checkpoint for test-time training; a part that was not prepared is None."""

    correction: CausalCorrection | None = None  # after its source stage; use `copy.deepcopy` of it for each target
    statistics: SourceStatistics | None = None
    flows: Flows | None = None
    dictionary: EmbeddedDictionary | None = None  # of the phrases that confounders are chosen from, where they are such
    note: Note = Note()

    @property
    def uses(self) -> tuple[str, ...]:
        """Labels, for the notes of scores, of splits other than the source's own that the data are from."""
        return () if self.dictionary is None else self.dictionary.dictionary.uses

    def target_confounders(self, videos: VideoFeatures, given: FloatArray | None = None) -> Tensor:
        """Find the confounders `c_t` (N, d) of a target's clips, by the same method as the source's.

        Those that are `given` are taken instead, such as those of a file; needed where the source's are of a file.
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
        return torch.from_numpy(confounders_of(videos, self.dictionary, count, self.note.seed).vectors)


def resources_of(
    prepared: PreparedSource | None,
    videos: VideoFeatures,
    settings: AdaptSettings,
    encode: EncodeTexts | None = None,
    tagger: Tagger | None = None,
    *,
    confounders: FloatArray | None = None,
) -> Resources:
    """Collect the resources that test-time training needs, where they exist; `Resources.check` names missing ones.

    Args:
        prepared: prepared data of the source checkpoint; None for none.
        videos: features of the target's clips, to find their confounders.
        settings: settings of the adaptation.
        encode: function that encodes counterfactual captions (`evenreel.adaptation.stream.text_reader`), if any.
        tagger: tagger of the words of queries.
        confounders: (N, d) confounders of the target; None to find them.
    """
    found = Resources(encode, None if tagger is None else RememberingTagger(tagger))
    if prepared is None:
        return found
    found, statistics, flows = replace(found, statistics=prepared.statistics), prepared.statistics, prepared.flows
    if settings.causal and settings.objective == "pseudo_labels" and prepared.correction is not None:
        of_target = prepared.target_confounders(videos, confounders)
        return replace(found, correction=prepared.correction, confounders=of_target)
    if settings.objective == "ttt" and statistics is not None:
        seed = settings.seed
        return replace(
            found, objective=lambda: TTTObjective(statistics, TTTSettings(), torch.Generator().manual_seed(seed))
        )
    if settings.objective == "ttt_flow" and flows is not None:
        return replace(found, objective=lambda: FlowObjective(flows.text, flows.video))
    return found


# preparing a source ------------------------------------------------------------------------------------------------


class FoundConfounders(NamedTuple):
    """Confounders of a source: how they were found, vectors (N, d), names if any, and the dictionary they are from."""

    kind: Kind
    vectors: FloatArray
    names: tuple[str, ...] = ()
    dictionary: EmbeddedDictionary | None = None


@dataclass(frozen=True)
class PrepareSettings:
    """Settings of preparing a source for test-time training."""

    causal: CausalSettings = field(default_factory=CausalSettings)
    # of the source stage; adaptation has settings of the same name for the target stage
    causal_fit: FitSettings = field(default_factory=FitSettings)
    flow: FlowSettings = field(default_factory=FlowSettings)
    seed: Annotated[int, whole(0, MOST_BITS)] = 0  # of all parts; those of `causal_fit` and `flow` are added to it

    def __post_init__(self) -> None:
        check_settings("preparation", self)


def load_prepare_settings(path: Path | None = None, changes: Sequence[str] = ()) -> PrepareSettings:
    """Load the settings of `evenreel prepare` from a YAML file (None: the defaults), see `load_settings`."""
    values = changed({}, changes) if path is None else read_changed(path, changes, "file of settings")
    with cannot_be_followed("file of settings" if path is None else f"file of settings {path}", changes):
        return read_settings(PrepareSettings, values)


@contextlib.contextmanager
def _silent(stage: str) -> Iterator[Progress]:
    yield lambda share: None


def confounders_of(
    videos: VideoFeatures, dictionary: EmbeddedDictionary | None = None, count: int = COUNT, seed: int = 0
) -> FoundConfounders:
    """Find confounders of clips: phrases of a scene dictionary, or cluster centres of frames without one."""
    if dictionary is None:
        return FoundConfounders("kmeans", frame_confounders(videos, count, seed))
    return FoundConfounders("elements", *phrase_confounders(videos, dictionary, count), dictionary)


def prepare(
    matcher: Matcher,
    source: FeatureExamples,
    confounders: FoundConfounders,
    settings: PrepareSettings | None = None,
    validation: FeatureExamples | None = None,
    bar: Bar = _silent,
) -> PreparedSource:
    """Prepare a source for test-time training: fit the bias correction, moments and flows; the matcher stays as it is.

    Args:
        matcher: the source matcher, on the device where the work is to be done.
        source: split that it was trained on.
        confounders: confounders of its clips.
        settings: settings of the fits.
        validation: split to measure the correction on; None for none.
        bar: shows the progress of each stage.

    Raises:
        UsageError: the matcher takes no features of captions; a caption or clip is not one that it can take; there are
            too few, or of one clip only.
    """
    settings = settings or PrepareSettings()
    measured = None if validation is None else _vectors(matcher, validation, bar)
    q, v = _vectors(matcher, source, bar)
    statistics = source_statistics(q, v)
    seed = settings.seed
    fit = replace(settings.causal_fit, seed=seed + settings.causal_fit.seed)
    of_flows = replace(settings.flow, seed=seed + settings.flow.seed)
    correction = new_correction(q.shape[1], torch.from_numpy(confounders.vectors), settings.causal, seed).to(q.device)
    if validation is not None and measured is not None:  # what cannot be measured on is refused before the long part
        pair_accuracy(correction, *measured, validation.pairs, of="validation split")
    with bar("learning to tell pairs apart") as progress:
        figures = fit_source(correction, q, v, source.pairs, fit, progress)
    flows: dict[str, Flow] = {}
    for name, rows in (("text", q), ("video", v)):
        with bar(f"fitting a flow ({name})"):
            flow = fit_flow(rows, of_flows)
        plain = Flow(rows.shape[1], layers=0, hidden=1).to(rows.device)  # independent Gaussians
        plain.mean.copy_(flow.mean)
        plain.scale.copy_(flow.scale)
        with torch.no_grad():
            for kind, density in (("flow", flow), ("gaussian", plain)):
                figures[f"{kind}_{name}"] = nll_per_number(density, rows[: 8 * AT_ONCE]).item()
        flows[name] = flow.cpu()
    if validation is not None and measured is not None:
        verdicts = pair_accuracy(correction, *measured, validation.pairs)._asdict()
        firsts = correction_recall(correction, *measured, validation.pairs)._asdict()
        figures |= {f"validation_{name}": float(value) for name, value in verdicts.items()}
        figures |= {f"first_{name}": float(value) for name, value in firsts.items()}
    note = Note(
        captions=len(source.text_features.ids),
        clips=len(source.video_features.ids),
        confounders=confounders.kind,
        names=confounders.names,
        seed=seed,
        figures=figures,
    )
    return PreparedSource(correction.cpu(), statistics, Flows(**flows), confounders.dictionary, note)


def _vectors(matcher: Matcher, part: FeatureExamples, bar: Bar) -> tuple[Tensor, Tensor]:
    """Unit vectors of all captions (Q, D) and clips (V, D) of a split that the matcher can take, on its device."""
    texts, videos = part.text_features, part.video_features
    check_lengths(matcher, texts, videos)
    with bar("vectors of captions") as progress:
        q = caption_vectors(matcher, texts, AT_ONCE, progress)
    with bar("vectors of clips") as progress:
        v = clip_vectors(matcher, videos, AT_ONCE, progress)
    return q.to(device_of(matcher)), v.to(device_of(matcher))


# on disk -----------------------------------------------------------------------------------------------------------


def save_prepared(folder: str | Path, prepared: PreparedSource, weights_sha256: str | None = None) -> Path:
    """Save prepared data in the folder `source` of its checkpoint; earlier prepared data are replaced.

    `weights_sha256` is the digest of the weights that `config.json` had when the matcher was loaded, to notice a change
    meanwhile; None for the one that it has now.

    Raises:
        CheckpointError: there is no checkpoint, it has other weights meanwhile, or the disk refuses.
    """
    from safetensors.torch import save

    place = Path(folder) / SOURCE
    weights = read_config(Path(folder) / CONFIG).weights_sha256
    if weights_sha256 not in (None, weights):
        raise CheckpointError(f"{folder} has other weights than those that were prepared; prepare it again.")
    record: dict[str, Any] = {
        "format": FORMAT, "evenreel_version": __version__, "note": asdict(prepared.note), "correction": None,
        "dictionary": None,
    }  # fmt: skip
    parts: dict[str, Mapping[str, Tensor]] = {}
    if (correction := prepared.correction) is not None:
        record["correction"] = {"dimension": correction.dimension, "settings": asdict(correction.settings)}
        parts["correction"] = correction.state_dict()
    if prepared.statistics is not None:
        parts["statistics"] = prepared.statistics.tensors()
    if prepared.flows is not None:
        parts |= {f"flow_{side}": flow.state_dict() for side, flow in prepared.flows._asdict().items()}
    if (found := prepared.dictionary) is not None:
        encoder = {"encoder_id": found.encoder_id, "weights_hash": found.weights_hash}
        record["dictionary"] = asdict(found.dictionary) | encoder
        rows = {"entities": found.entities, "activities": found.activities}
        parts["dictionary"] = {name: torch.from_numpy(vectors) for name, vectors in rows.items()}
    tensors = {
        f"{part}.{name}": tensor.detach().cpu().contiguous().clone()
        for part, own in parts.items()
        for name, tensor in own.items()
    }
    payload = save(tensors, metadata={"format": "pt"})
    record |= {"weights_sha256": weights, "prepared_sha256": hashlib.sha256(payload).hexdigest()}
    try:
        with replacing_folder(place) as folder_of_parts:
            (folder_of_parts / ARRAYS).write_bytes(payload)
            text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
            (folder_of_parts / CONFIG).write_text(text, encoding="utf-8")
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
    record, tensors = _read(place, read_config(Path(folder) / CONFIG).weights_sha256)

    def part(start: str) -> dict[str, Tensor]:
        return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}

    correction = dictionary = None
    try:
        with torch.random.fork_rng(devices=[]):  # networks draw numbers for weights that are then replaced
            if (of := record["correction"]) is not None:
                weights = part("correction.")
                correction = CausalCorrection(of["dimension"], weights["source"], CausalSettings(**of["settings"]))
                correction.load_state_dict(weights)
            text, video = part("flow_text."), part("flow_video.")
            flows = Flows(flow_of(text).eval(), flow_of(video).eval()) if text and video else None
        if (of := record["dictionary"]) is not None:
            facts: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in of.items()}
            encoder = facts.pop("encoder_id"), facts.pop("weights_hash")
            entities, activities = (part("dictionary.")[kind].numpy() for kind in ("entities", "activities"))
            dictionary = EmbeddedDictionary(SceneDictionary(**facts), entities, activities, *encoder)
        moments = part("statistics.")
        note = Note(**{**record["note"], "names": tuple(record["note"]["names"])})
        return PreparedSource(correction, statistics_of(moments) if moments else None, flows, dictionary, note)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError, AttributeError, UsageError) as error:
        raise CheckpointError(
            f"{place} is damaged or was edited ({type(error).__name__}: {error}); {AGAIN}."
        ) from error


def _read(place: Path, weights: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the record and the arrays, if they are those that were written, by this version, with these weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        record = dict(parse_json((place / CONFIG).read_text(encoding="utf-8")))
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
    if record["weights_sha256"] != weights:
        raise CheckpointError(f"{place} was prepared with other weights than those beside it; {AGAIN}.")
    try:
        payload = (place / ARRAYS).read_bytes()
        if hashlib.sha256(payload).hexdigest() != record["prepared_sha256"]:
            raise CheckpointError(
                f"{place / ARRAYS} is not what was saved (its digest is another); get the checkpoint again, or {AGAIN}."
            )
        return record, load(payload)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{place / ARRAYS} cannot be read ({error}); {AGAIN}.") from error


def save_adapted(
    folder: Path,
    pretrained: Pretrained,
    records: Mapping[str, str],
    *,
    source: Path | None = None,
    in_place: bool = False,
) -> None:
    """Save an adapted matcher with records (texts by file name) as a checkpoint of its own, or in place of its source.

    The prepared data of the source checkpoint are copied along for further adaptations, and stay those of the source;
    in place it is moved into the folder `before` of the new one.
    """
    if not in_place:
        check_free(folder)
    prepared = None if source is None else load_prepared(source)
    try:
        with replacing_folder(folder) as part:
            save_pretrained(part, pretrained, loaded_from=source)
            if prepared is not None:
                save_prepared(part, prepared)
            (part / ADAPTATION).mkdir()
            for name, words in records.items():
                (part / ADAPTATION / name).write_text(words, encoding="utf-8", errors="backslashreplace")
            if in_place:
                shutil.copytree(folder, part / BEFORE)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {folder} cannot be written: {error.strerror or error}.") from error


def undo(folder: Path) -> None:
    """Restore a checkpoint that was adapted in place, with all its files."""
    before = folder / BEFORE
    if not all((folder / name).is_file() for name in (CONFIG, WEIGHTS)):
        raise CheckpointError(f"{folder} is no folder of a checkpoint, so there is nothing to undo.")
    if not before.is_dir():
        raise CheckpointError(
            f"{folder} was not adapted in place (it has no folder {BEFORE}), so there is nothing to undo."
        )
    load_matcher(before)
    try:
        with replacing_folder(folder) as part:
            shutil.copytree(before, part, dirs_exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be put back: {error.strerror or error}.") from error
