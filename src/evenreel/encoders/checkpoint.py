"""A checkpoint folder: its parts, whether it may be trusted, and its fingerprint. Needs no torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenreel.documents import brief, parse_json
from evenreel.encoders.families import FAMILIES, OPEN_CLIP, Family
from evenreel.encoders.preprocessing import Preprocessing, read_preprocessing
from evenreel.errors import EncoderError

OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "vocab.txt",
    "sentencepiece.bpe.model",
)
_VOCABULARIES = ("tokenizer.json", "vocab.json", "spiece.model", "vocab.txt", "sentencepiece.bpe.model")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_SHARD_NAME = re.compile(r"[\w.-]{1,200}\.safetensors")
_COUNTS_LAYERS = re.compile(r"^num_(\w+_)?layers$|^prompt_layers$|^num_block_repeats$|^layers$")
_SHA256 = re.compile(r"[0-9a-f]{64}")

_IGNORED = frozenset(
    {"_name_or_path", "_commit_hash", "transformers_version", "architectures", "torch_dtype", "dtype"}
    | {"auto_map", "attn_implementation", "_attn_implementation", "_attn_implementation_internal"}
)
"""Entries of config.json that are not followed: where a model comes from, and code that would be fetched."""


@dataclass(frozen=True)
class Checkpoint:
    """A checked checkpoint folder; its weights are read later.

    Attributes:
        kind: `model_type` of its configuration, or `open_clip`.
        config: config.json without what names code or an origin, or open_clip's settings.
        settings: what its own processor says of pictures; empty for open_clip, whose settings say it.
        preprocessing: preparation of a picture; None where a processor of the maker's does it.
        weights: the safetensors files, in the order of their names.
    """

    folder: Path
    kind: str
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    preprocessing: Preprocessing | None
    weights: tuple[Path, ...]

    @property
    def family(self) -> Family:
        return OPEN_CLIP if self.kind == OPEN_CLIP.title else FAMILIES[self.kind]

    def digest(self) -> str:
        """Compute SHA-256, in hex, over everything that decides what the encoder calculates.

        That is: weights and tokenizer byte for byte, settings by their values. Two folders with equal content
        have equal digests, whatever their names.
        """
        pictures = self.settings if self.preprocessing is None else asdict(self.preprocessing)
        parts = [("config", json_digest(self.config)), ("preprocessing", json_digest(pictures))]
        if instructions := self.family.instructions:
            parts.append(("instructions", json_digest(asdict(instructions))))
        parts += [(path.name, file_digest(path)) for path in (*tokenizer_files(self.folder), *self.weights)]
        return digest_of(parts)


def open_checkpoint(folder: Path) -> Checkpoint:
    """Check a folder and refuse what cannot be read or should not be trusted."""
    if missing := missing_parts(folder):
        raise incomplete(folder, missing)
    if is_open_clip(folder):
        return _open_open_clip(folder)
    given = read_settings(folder / "config.json")
    config = plain_config(given)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        code = " and brings code of its own (auto_map), which is never run" if "auto_map" in given else ""
        raise EncoderError(
            f"The model in {folder} is of the kind {brief(kind)}{code}; the kinds (model_type) that can be used are "
            f"{', '.join(FAMILIES)}."
        )
    family = FAMILIES[kind]
    if family.instructions and family.instructions.file and not (folder / family.instructions.file).is_file():
        raise EncoderError(
            f"The model in {folder} has no {family.instructions.file}, which {family.title} comes with: it is a "
            "chat model of the same kind, whose vectors mean nothing to a search, or is to be downloaded again."
        )
    if "quantization_config" in config:
        raise EncoderError(f"The model in {folder} is quantised; use the original, unquantised weights.")
    weights = tuple(folder / name for name in weight_names(folder))
    _check_weights(weights, config)
    settings = plain_config(processor_settings(folder, bool(family.frames)))
    preprocessing = None if family.processor is None else read_preprocessing(settings, kind)
    return Checkpoint(folder, kind, config, settings, preprocessing, weights)


def is_open_clip(folder: Path) -> bool:
    """Return whether a folder is one of open_clip; one that also has the form of transformers is read in that form."""
    weights = ("model.safetensors", "model.safetensors.index.json")
    in_form_of_transformers = (folder / "config.json").is_file() and any((folder / name).is_file() for name in weights)
    return (folder / OPEN_CLIP_CONFIG).is_file() and not in_form_of_transformers


def _open_open_clip(folder: Path) -> Checkpoint:
    """Refuse settings that lead out of the folder, or that the weights cannot belong to."""
    settings, weights = _open_clip_settings(folder), folder / OPEN_CLIP_WEIGHTS
    model = settings["model_cfg"]
    text, vision = model["text_cfg"], model["vision_cfg"]
    asks = {
        "a text tower of the hub": text.get("hf_model_name"),
        "a picture tower of the hub": ":" in str(vision.get("timm_model_name")) and vision["timm_model_name"],
        "a caption decoder": "multimodal_cfg" in model and "multimodal_cfg",
        "a text tower with a class token": text.get("embed_cls") and "embed_cls",
        "a way of its own to tokenise": text.get("tokenizer_mode")
        or (text.get("tokenizer_kwargs") or {}).get("strip_sep_token"),
    }
    for what, name in asks.items():
        if name:
            raise EncoderError(f"The open_clip model in {folder} asks for {what} ({brief(name)}), which is not read.")
    _check_weights([weights], model)
    return Checkpoint(folder, OPEN_CLIP.title, settings, {}, None, (weights,))


def _open_clip_settings(folder: Path) -> dict[str, Any]:
    settings = read_settings(folder / OPEN_CLIP_CONFIG)
    model = settings.get("model_cfg")
    parts = [model.get("text_cfg"), model.get("vision_cfg")] if isinstance(model, dict) else [None]
    if not all(isinstance(part, dict) for part in parts):
        raise EncoderError(
            f"{folder / OPEN_CLIP_CONFIG} describes no text tower and picture tower; download the model again."
        )
    return settings


def missing_parts(folder: Path) -> list[str]:
    """Return what a folder lacks to be a checkpoint, in words; empty for a whole one."""
    with_tokenizer = any((folder / name).is_file() for name in _VOCABULARIES)
    if is_open_clip(folder):
        own = _open_clip_settings(folder)["model_cfg"]["text_cfg"].get("hf_tokenizer_name")
        parts = {OPEN_CLIP_WEIGHTS: (folder / OPEN_CLIP_WEIGHTS).is_file(), "its tokenizer": with_tokenizer or not own}
    else:
        parts = {
            "config.json": (folder / "config.json").is_file(),
            "preprocessor_config.json": any(path.is_file() for path in processor_files(folder)),
            "its tokenizer": with_tokenizer,
            **{name: (folder / name).is_file() for name in weight_names(folder)},
        }
    return [name for name, there in parts.items() if not there]


def incomplete(folder: Path, missing: list[str]) -> EncoderError:
    """Make the error for a folder that lacks parts of a checkpoint, with what to do about a pickle."""
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if not folder.is_dir() or missing not in (["model.safetensors"], [OPEN_CLIP_WEIGHTS]):
        return EncoderError(f"The model in {folder} is not complete: {', '.join(missing[:5])} missing.")
    if missing == [OPEN_CLIP_WEIGHTS]:
        return EncoderError(
            f"The model in {folder} has no {OPEN_CLIP_WEIGHTS}; open_clip's older pickles are not read."
        )
    found = f" but {pickles[0]}, a pickle, which can run any code when it is read" if pickles else ""
    return EncoderError(
        f"The model in {folder} has no model.safetensors{found}; if you trust where it comes from, convert it "
        "once with `python -c \"from transformers import AutoModel; AutoModel.from_pretrained('SOURCE')"
        f".save_pretrained('{folder}')\"`, SOURCE being its hub id or this folder (many models of the hub also "
        "have a converted revision: name it as ORG/NAME@refs/pr/NUMBER)."
    )


def weight_names(folder: Path) -> list[str]:
    """Return the names of the weight files."""
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file() or not index.is_file():
        return ["model.safetensors"]
    names = read_settings(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise EncoderError(f"{index} is not a list of weight files; download it again.")
    for name in names.values():
        if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
            raise EncoderError(f"{index} names {str(name)[:80]!r}, which is not a safetensors file in its folder.")
    return sorted(set(names.values()))


def _check_weights(paths: Sequence[Path], config: Mapping[str, Any]) -> None:
    """Refuse damaged weights, and a model with layers without weights, before any of them is built."""
    from safetensors import SafetensorError, safe_open

    tensors = 0
    for path in paths:
        try:
            with safe_open(path, framework="np") as file:
                tensors += len(list(file.keys()))
        except (SafetensorError, OSError) as error:
            raise EncoderError(
                f"The weights {path} are cut off or damaged ({error}); put a good copy in their place."
            ) from error
    for key, said in _entries(config):
        if _COUNTS_LAYERS.search(key) and said > tensors:  # a layer has a tensor at least
            raise EncoderError(
                f"The settings beside {paths[0]} say that {key} is {brief(said)}, and it has {tensors} tensors; the "
                "files do not belong together, so download the model again."
            )


def _entries(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Each whole number of a configuration with its entry's name, also within entries."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _entries(value)
        yield from ((key, one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, int))


def processor_files(folder: Path) -> tuple[Path, Path, Path]:
    """Return where settings for pictures may be: the newer form, the older one, and that of videos."""
    names = ("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json")
    whole, alone, videos = (folder / name for name in names)
    return whole, alone, videos


def processor_settings(folder: Path, of_videos: bool) -> dict[str, Any]:
    """Read the settings of the processor of pictures, or of videos where there is one and the model takes them."""
    whole, alone, videos = processor_files(folder)
    parts = read_settings(whole) if whole.is_file() else {}
    for part in ("video_processor", "image_processor") if of_videos else ("image_processor",):
        if isinstance(nested := parts.get(part), dict):
            return nested
    for path in (videos, alone) if of_videos else (alone,):
        if path.is_file():
            return read_settings(path)
    raise incomplete(folder, ["preprocessor_config.json"])


def tokenizer_files(folder: Path) -> list[Path]:
    """List the files of a tokenizer that are in a folder."""
    return [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a table of settings."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path} cannot be read as JSON ({error}); download the model again.") from error
    if not isinstance(content, dict):
        raise EncoderError(f"{path} is not a table of settings; download the model again.")
    return content


def plain_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json without the entries that say where a model comes from or name code, also within others."""
    return {
        key: plain_config(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in _IGNORED
    }


def json_digest(settings: Mapping[str, Any]) -> str:
    """Compute SHA-256, in hex, over settings by their values."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def digest_of(parts: Iterable[tuple[str, str]], start: bytes = b"") -> str:
    """Compute SHA-256, in hex, over labelled digests."""
    total = hashlib.sha256(start)
    for label, digest in parts:
        total.update(f"{label}\0{digest}\n".encode())
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """Compute SHA-256, in hex, of a file."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    real = path.resolve()
    # The hub's cache calls a large file by its SHA-256, so a bad download gives itself away.
    if real.parent.name == "blobs" and _SHA256.fullmatch(real.name) and real.name != total.hexdigest():
        raise EncoderError(f"The file {real} is not what the hub sent out; delete it and run the command again.")
    return total.hexdigest()
