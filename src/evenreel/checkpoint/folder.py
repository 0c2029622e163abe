"""A checkpoint as a folder: saved in one step with its model card, loaded from a folder, the hub's cache or the hub."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save
from torch import Tensor

from evenreel.checkpoint.architecture import (
    build,
    encodings,
    kept_weights,
    module,
    reads_graphs,
    resolved,
    without_training_only,
)
from evenreel.checkpoint.records import (
    ADAPTATION,
    CARD,
    CONFIG,
    ENCODER,
    SOURCE,
    WEIGHTS,
    About,
    Config,
    EncoderNote,
    Inputs,
    MatcherSpec,
    Pretrained,
    read_config,
    to_json,
)
from evenreel.config import check_kind
from evenreel.encoders.checkpoint import TOKENIZER_FILES, open_checkpoint
from evenreel.encoders.encoder import quiet
from evenreel.encoders.towers import usable_device
from evenreel.errors import CheckpointError, DownloadError, UsageError
from evenreel.extras import HUB_ID, fetch, named_folder
from evenreel.features.manifest import read_manifest
from evenreel.features.windows import EMPTY
from evenreel.files import replacing_folder
from evenreel.matchers import MATCHERS, Matcher
from evenreel.version import __version__

if TYPE_CHECKING:
    from evenreel.encoders.towers import Towers

_PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")


def save_pretrained(
    folder: str | Path, pretrained: Pretrained, towers: Towers | None = None, *, loaded_from: Path | None = None
) -> Pretrained:
    """Save a matcher as a checkpoint; the matcher that `load_matcher` loads from it gives equal scores bit by bit.

    The folder is written whole or not at all; an earlier checkpoint in its place is replaced, and what was prepared of
    that for test-time training is deleted with it.

    Args:
        folder: folder to write.
        pretrained: the matcher, its specification and its origin.
        towers: the encoder, if it was trained with the matcher; it is saved as a model of its own in `encoder/`, for
            `evenreel index --model FOLDER/encoder`, and the matcher is tied to it.
        loaded_from: checkpoint that the matcher was loaded from, where its towers did not change: those that were
            trained further are copied from there.

    Returns:
        What was saved: with every setting spelt out, and tied to the trained towers where there are some.

    Raises:
        CheckpointError: the matcher is not what its spec builds, its encoder was trained further and is not given or
            is another, the folder holds other things, or the disk refuses.
    """
    place, note = Path(folder), pretrained.about.encoder
    check_free(place)
    with torch.device("meta"):
        described = kept_weights(build(pretrained.spec, note.dimension))
    given = kept_weights(pretrained.matcher)
    if name := next((name for name, *_ in _differing(described, given)), None):
        raise CheckpointError(
            f"The matcher is not what its spec ({pretrained.spec.name}) builds: they differ in {name}; save it with "
            "the spec that it was built from."
        )
    if loaded_from is None and note.trained_further and towers is None:  # the only encoder whose features it takes
        raise CheckpointError(
            f"The matcher takes features of towers that were trained further from {note.id}; save them with it (give "
            f"`towers`, from the folder {ENCODER} of the checkpoint that it was loaded from)."
        )
    try:
        with replacing_folder(place) as part:
            if loaded_from is not None and note.trained_further:
                shutil.copytree(loaded_from / ENCODER, part / ENCODER)
            return _write(part, replace(pretrained, spec=resolved(pretrained.spec)), towers)
    except OSError as error:
        raise CheckpointError(f"The checkpoint {folder} cannot be written: {error.strerror or error}.") from error


def _write(folder: Path, pretrained: Pretrained, towers: Towers | None) -> Pretrained:
    if towers is not None:
        note = _write_towers(folder / ENCODER, towers, pretrained.about.encoder)
        pretrained = replace(pretrained, about=replace(pretrained.about, encoder=note))
    weights = folder / WEIGHTS
    kept = kept_weights(pretrained.matcher).items()
    # Where two names share one tensor, each has a copy of its own, which safetensors asks for.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in kept}
    payload = save(tensors, metadata={"format": "pt"})
    weights.write_bytes(payload)  # not `save_file`, whose files nobody else may read
    digest = hashlib.sha256(payload).hexdigest()
    config = Config(pretrained.spec, pretrained.about, digest)
    (folder / CONFIG).write_text(to_json(config), encoding="utf-8")
    (folder / CARD).write_text(model_card(config, needs_pretrained=pretrained.needs_pretrained_means), encoding="utf-8")
    return pretrained


def _write_towers(folder: Path, towers: Towers, before: EncoderNote) -> EncoderNote:
    """Save towers as transformers does; how pictures and captions are prepared is copied as it was."""
    source = towers.checkpoint.folder
    with quiet():
        towers.model.save_pretrained(folder)
    for name in (*_PROCESSOR_FILES, *TOKENIZER_FILES):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    digest = open_checkpoint(folder).digest()
    if before.trained_further and digest != before.weights_hash:
        raise CheckpointError(
            f"The towers are not those whose features the matcher takes; give those from the folder {ENCODER} of its "
            f"checkpoint, or, if they were trained again with it, an EncoderNote of {before.id} without what "
            "it was before."
        )
    return EncoderNote(before.id, digest, towers.dimension, before.before or before.weights_hash)


def check_free(folder: Path) -> None:
    """Check that a folder is free for a checkpoint: it is empty or missing, or holds an earlier checkpoint."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; save the checkpoint to a folder of its own.")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if others := sorted(there - {CONFIG, WEIGHTS, CARD, ENCODER, SOURCE, ADAPTATION}):
        raise CheckpointError(f"{folder} holds other things ({others[0]}); save the checkpoint to a folder of its own.")


FILES_WANTED = (
    CONFIG,
    WEIGHTS,
    "README.md",
    "encoder/*.json",
    "encoder/*.txt",
    "encoder/*.safetensors",
    "encoder/*.model",
    "source/*.json",
    "source/*.safetensors",
)
"""All that is fetched of a checkpoint: no pickle, no code."""
MOST_MORE_NUMBERS = 100_000_000
"""That a matcher may have for training alone, such as those of a decoder's words, beside twice its own."""


def load_matcher(name: str | PathLike[str], *, device: str = "cpu", revision: str | None = None) -> Pretrained:
    """Load a matcher from a checkpoint, of which only safetensors and JSON are read.

    Args:
        name: a folder, or a hub id `org/name` or `org/name@revision`.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...
        revision: commit, branch or tag of a hub id; naming a commit pins what is loaded.

    Returns:
        The matcher in evaluation mode, with its specification and origin.

    Raises:
        UsageError: the device cannot be used, or two revisions are named.
        CheckpointError: there is no such checkpoint, it is damaged, or it was written by a later version.
    """
    check_kind(device, str, "device", "give its name, such as cpu or auto")
    folder = checkpoint_folder(name, revision)
    config = read_config(folder / CONFIG)
    weights = _weights(folder / WEIGHTS, config)
    _check_size(folder, config, weights)
    matcher = without_training_only(_whole(folder, config))
    network = module(matcher)
    network.load_state_dict(weights)
    network.to(usable_device(device, "float32")).eval()
    return Pretrained(matcher, config.spec, config.about)


def checkpoint_folder(name: str | PathLike[str], revision: str | None = None) -> Path:
    """Return the folder of a checkpoint; a checkpoint of the hub is downloaded first.

    Args:
        name: a folder, or a hub id `org/name` or `org/name@revision`.
        revision: commit, branch or tag of a hub id.

    Raises:
        UsageError: two revisions are named.
        CheckpointError: there is no such checkpoint.
    """
    check_kind(name, (str, PathLike), "name", "give a folder, or a hub id")
    folder = _locate(fspath(name), revision)
    if missing := _missing(folder):
        raise CheckpointError(f"{folder} is no checkpoint of a matcher: {' and '.join(missing)} missing.")
    return folder


def _whole(folder: Path, config: Config) -> Matcher:
    """The matcher with what only training needs."""
    try:
        return build(config.spec, config.about.encoder.dimension)
    except (UsageError, TypeError, ValueError, RuntimeError) as error:
        # What a made-up setting breaks inside torch is not foreseeable.
        raise CheckpointError(
            f"The matcher in {folder} cannot be built ({error}); use the version of evenreel that it was made by, "
            "or train it anew."
        ) from error


def _check_size(folder: Path, config: Config, weights: dict[str, Tensor]) -> None:
    """Find out that the weights are those of the matcher before any memory is taken for it."""
    with torch.device("meta"):  # which has shapes and no numbers
        whole = _whole(folder, config)
        more = sum(weight.numel() for weight in module(whole).state_dict().values())
        wanted = module(without_training_only(whole)).state_dict()
    for _, why in _differing(wanted, weights):
        raise CheckpointError(
            f"The weights in {folder} do not fit its {CONFIG}: {why}; the two files are not of one checkpoint."
        )
    if more > MOST_MORE_NUMBERS + 2 * sum(weight.numel() for weight in weights.values()):
        raise CheckpointError(
            f"The matcher in {folder} would have {more:,} numbers that only training needs, many more than all the "
            "others; get the checkpoint again."
        )


def _differing(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Names of weights that are missing, too many or of another shape, each with what is wrong."""
    for name in sorted(wanted.keys() | given.keys()):
        if name not in given:
            yield name, f"{name} is missing"
        elif name not in wanted:
            yield name, f"the matcher has no {name}"
        elif given[name].shape != wanted[name].shape:
            yield name, f"{name} is {tuple(given[name].shape)} instead of {tuple(wanted[name].shape)}"


def _weights(path: Path, config: Config) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        payload = path.read_bytes()
        if hashlib.sha256(payload).hexdigest() != config.weights_sha256:
            raise CheckpointError(
                f"The weights {path} are not those that were saved (their digest is another); get the checkpoint again."
            )
        return load(payload)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The weights {path} cannot be read ({error}); get the checkpoint again.") from error


def _locate(name: str, revision: str | None) -> Path:
    folder = named_folder(name)
    hub = None if folder is not None else HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if folder is not None:
        return folder
    if hub is None or ".." in name:
        raise _nothing(name)
    from huggingface_hub.errors import HFValidationError

    try:
        return fetch(hub["repository"], revision or hub["revision"] or "main", FILES_WANTED, _missing)
    except HFValidationError as error:
        raise _nothing(hub["repository"]) from error
    except DownloadError as error:
        raise CheckpointError(str(error)) from error


def _nothing(name: str) -> CheckpointError:
    return CheckpointError(
        f"{name!r} is neither the folder of a checkpoint nor a hub id such as org/name; `evenreel train` makes one."
    )


def _missing(folder: Path) -> list[str]:
    return [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]


def untrained_matcher(name: str, features: str | Path, *, device: str = "cpu") -> Pretrained:
    """Build a matcher without learned parameters for the stored features of any encoder.

    Args:
        name: a key of `evenreel.matchers.MATCHERS`, such as `mean_pool`.
        features: folder made by `evenreel features`.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...

    Raises:
        UsageError: no matcher has this name, it has parameters to learn, or the device cannot be used.
        FeaturesError: the folder holds no features.
    """
    manifest = read_manifest(Path(features))
    spec = MatcherSpec(name)
    matcher = build(spec, manifest.dimension)
    network = module(matcher)
    if learned := [word for word, _ in network.named_parameters() if word != "logit_scale"]:
        raise UsageError(
            f"The matcher {name} has parameters that are learned ({learned[0]}, ...), so it scores nothing untrained; "
            "train it and name its checkpoint."
        )
    network.to(usable_device(device, "float32")).eval()
    encoder = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    return Pretrained(matcher, spec, About(encoder))


def names_no_checkpoint(name: str) -> bool:
    """Return whether a name is a key of `evenreel.matchers.MATCHERS`, and no folder has this name."""
    return name in MATCHERS and not Path(name).exists()


def named_matcher(name: str, features: str | Path, *, device: str = "cpu") -> Pretrained:
    """Load a matcher from a checkpoint, or build one without learned parameters by its name.

    Args:
        name: folder or hub id of a checkpoint, or a key of `evenreel.matchers.MATCHERS` such as `mean_pool`.
        features: folder made by `evenreel features`, of the encoder that a matcher without a checkpoint is for.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...

    Raises:
        UsageError: the matcher of that name has parameters to learn, or the device cannot be used.
        CheckpointError: there is no such checkpoint, it is damaged, or it was written by a later version.
        FeaturesError: the folder holds no features.
    """
    if names_no_checkpoint(name):
        return untrained_matcher(name, features, device=device)
    return load_matcher(name, device=device)


_ANSWERS = {
    "clip": "its own clip",
    "text": "every clip with a caption of the same text",
    "classes": "clips of its verb and nouns, by degrees",
    "classes-iou": "clips of its verbs and nouns, by degrees",
}
"""What answers a caption, by the word of `evenreel evaluate --relevance`."""


def model_card(config: Config, *, needs_pretrained: bool = False) -> str:
    """Return the text of a checkpoint's model card; a library has no features by towers before their training."""
    from huggingface_hub import ModelCardData
    from jinja2 import Environment

    about, note = config.about, config.about.encoder
    base = HUB_ID.fullmatch(note.id)
    head = ModelCardData(
        library_name="evenreel",
        tags=["text-to-video-retrieval", "video-retrieval", "matcher"],
        license=about.license or None,
        base_model=base["repository"] if base else None,
    )
    before = replace(about, encoder=replace(note, before=None), inputs=Inputs(rule=about.inputs.rule))
    words = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)  # it is no HTML
    return words.from_string(Path(__file__).with_name("card.md").read_text(encoding="utf-8")).render(
        about=about,
        note=note,
        inputs=about.inputs,
        head=head.to_yaml(),
        title=_title(config.spec),
        version=__version__,
        reads_graphs=reads_graphs(config.spec),
        library=note.stored_name is None and not needs_pretrained,
        settings=list(_settings(config.spec)),
        times=encodings(config.spec),
        before=before if needs_pretrained else None,
        empty=EMPTY,
        answers=_ANSWERS,
    )


def _title(spec: MatcherSpec) -> str:
    inner = ", ".join(_times(count, _title(wrapped)) for wrapped, count in _alike(spec.wrapped))
    return f"{spec.name} ({inner})" if inner else spec.name


def _alike(specs: Sequence[MatcherSpec]) -> list[tuple[MatcherSpec, int]]:
    """Each spec once, with how many of it follow each other."""
    return [(spec, len(list(some))) for spec, some in groupby(specs)]


def _times(count: int, name: str) -> str:
    return name if count == 1 else f"{count} x {name}"


def _settings(spec: MatcherSpec, count: int = 1) -> Iterator[tuple[str, str, str]]:
    for name, value in spec.settings.items() or {"": ""}.items():
        yield _times(count, spec.name), name, _value(value) if name else ""
    for wrapped, alike in _alike(spec.wrapped):
        yield from _settings(wrapped, alike)


def _value(value: object) -> str:
    """A setting as config.json has it; of a vocabulary, which fills pages there, how long it is."""
    if isinstance(value, (list, tuple)) and value and all(isinstance(word, str) for word in value):
        return f"{len(value):,} words"
    return json.dumps(value)
