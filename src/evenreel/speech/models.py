"""Models of speech: those known by a short name, and where one is: in a folder, the cache of the hub, or the hub."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenreel.documents import parse_json
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import HUB_ID, UnavailableError, cached_folder, fetch, installed, named_folder


@dataclass(frozen=True)
class KnownSpeechModel:
    name: str  # such as `small`
    id: str  # of the hub
    family: str
    size_mb: float
    licence: str
    languages: str  # in words


@functools.cache
def known_speech_models() -> tuple[KnownSpeechModel, ...]:
    given: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tuple(KnownSpeechModel(**row) for row in given["models"])


WHISPER_WANTED = (
    *("config.json", "preprocessor_config.json", "model.bin"),
    *("tokenizer.json", "vocabulary.json", "vocabulary.txt"),
)
ONNX_WANTED = (
    *("config.json", "config.yaml", "vocab.txt", "tokens.txt", "vocab.json", "added_tokens.json"),
    *("model.onnx", "encoder-model.onnx", "decoder_joint-model.onnx", "decoder-model.onnx"),
    *("*.onnx.data", "*.onnx_data", "onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx"),
)  # files that are fetched of a model in ONNX form: its graphs in full precision, its words, its settings


def check_extra() -> None:
    for package in ("faster_whisper", "ctranslate2", "onnx_asr"):
        if not installed(package):
            raise EncoderError(
                f"Hearing speech needs {package}, which is not installed: pip install 'evenreel[speech]'."
            )


def locate_speech_model(name: str, revision: str | None = None) -> tuple[str, Path]:
    """Find the folder of a model of speech, downloading it where it is missing and that is allowed."""
    name = next((model.id for model in known_speech_models() if model.name == name), name)
    folder = named_folder(name)
    hub = None if folder is not None else HUB_ID.fullmatch(name)
    if revision is not None and (hub is None or hub["revision"] is not None):
        raise UsageError(f"A revision ({revision}) goes with a hub id without one, not with {name!r}.")
    if folder is not None:
        if missing := _missing(folder):
            raise _of_another_kind(folder, missing)
        return str(folder), folder
    if hub is None or ".." in name:
        raise _nothing(name)
    repository, wanted = hub["repository"], revision or hub["revision"] or "main"
    from huggingface_hub.errors import HFValidationError

    try:
        found = fetch(repository, wanted, (*WHISPER_WANTED, *ONNX_WANTED), _missing)
    except HFValidationError as error:
        raise _nothing(name) from error
    except UnavailableError as error:
        raise EncoderError(
            f"The speech model {repository} ({wanted}) cannot be had, because {error}; fetch it on a machine with "
            f"network (`hf download {repository} --revision {wanted} --local-dir FOLDER`), copy the folder here and "
            "name it."
        ) from error
    if missing := _missing(found):
        raise _of_another_kind(found, missing)
    return f"{repository}@{found.name}", found


def speech_model_here(name: str) -> bool:
    """Return whether a model of speech can be loaded without a download."""
    name = next((model.id for model in known_speech_models() if model.name == name), name)
    hub = HUB_ID.fullmatch(name)
    folder = named_folder(name) or (cached_folder(hub["repository"], hub["revision"] or "main") if hub else None)
    return folder is not None and not _missing(folder)


def is_onnx(folder: Path) -> bool:
    """Return whether a folder holds a model in ONNX form, and none in CTranslate2's."""
    return not (folder / "model.bin").is_file() and next(folder.rglob("*.onnx"), None) is not None


def _missing(folder: Path) -> list[str]:
    """What a folder lacks to be a model of speech in one of the two forms."""
    if is_onnx(folder):
        return [] if (folder / "config.json").is_file() else ["config.json"]
    missing = [name for name in ("config.json", "model.bin", "tokenizer.json") if not (folder / name).is_file()]
    if not any((folder / f"vocabulary.{kind}").is_file() for kind in ("json", "txt")):
        missing.append("vocabulary.json")
    return missing


def _of_another_kind(folder: Path, missing: list[str]) -> EncoderError:
    convert = ""
    if model_type(folder) == "whisper" and not (folder / "model.bin").exists():
        command = f"ct2-transformers-converter --model {folder} --output_dir OUT --copy_files tokenizer.json"
        convert = f" Convert this one: `{command}`."
    return EncoderError(
        f"{folder} is no model of speech that can be used here: it lacks {', '.join(missing)}. A Whisper model in "
        f"CTranslate2's form is wanted, or one in ONNX form that onnx-asr reads.{convert}"
    )


def _nothing(name: str) -> EncoderError:
    known = ", ".join(model.name for model in known_speech_models())
    return EncoderError(
        f"{name!r} is neither a folder that exists, nor a hub id such as Systran/faster-whisper-small, nor one of the "
        f"names {known}; name one of these."
    )


def model_type(folder: Path) -> str | None:
    """Return onnx-asr's type of the model in a folder, as its `config.json` says; None where it says none."""
    try:
        found = parse_json((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    name = found.get("model_type") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None
