"""Loading of a model of speech by its name: a short name, a folder, or a hub id."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenreel.errors import EncoderError, UsageError
from evenreel.extras import installed
from evenreel.hub import HUB_ID, UnavailableError, cached_folder, fetch, named_folder
from evenreel.speech import onnx_models, whisper
from evenreel.speech.onnx_models import OnnxSpeechModel
from evenreel.speech.reader import SpeechModel, SpeechReader
from evenreel.speech.voice import VoiceRule
from evenreel.speech.whisper import WhisperModel, missing_whisper_parts

_TABLE = Path(__file__).with_name("known_models.json")


@dataclass(frozen=True)
class KnownSpeechModel:
    """A model of speech with what is known of it.

    Attributes:
        name: short name, such as `small`.
        id: hub id.
        family: name of the family, for people.
        size_mb: size of its files in megabytes.
        licence: licence of its weights.
        languages: languages that it hears, in words.
    """

    name: str
    id: str
    family: str
    size_mb: float
    licence: str
    languages: str


@functools.cache
def known_speech_models() -> tuple[KnownSpeechModel, ...]:
    """Read the table of known models of speech."""
    given: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return tuple(KnownSpeechModel(**row) for row in given["models"])


def load_speech_reader(
    name: str, *, revision: str | None = None, device: str = "auto", rule: VoiceRule | None = None
) -> SpeechReader:
    """Load a model of speech and return a reader that recognises with it; no code of a model is run.

    A model of the hub that is in the cache is used from there without a look at the network; one that is not is
    fetched, as it was named, unless the network is switched off (EVENREEL_OFFLINE or HF_HUB_OFFLINE).

    Args:
        name: short name (`known_speech_models`), folder, or hub id `org/name` or `org/name@revision`, of a Whisper
            model in CTranslate2's form or of a model in ONNX form that onnx-asr reads.
        revision: commit, branch or tag of a hub id.
        device: `auto`, `cpu` or `cuda`; models in ONNX form run on the CPU.
        rule: rule by which speech is found; None for the default.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had or read, is of another kind, or the extra `speech` is not installed.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"The device {device!r} of a speech model is not auto, cpu or cuda.")
    for package in ("faster_whisper", "ctranslate2", "onnx_asr"):
        if not installed(package):
            raise EncoderError(
                f"Hearing speech needs {package}, which is not installed: pip install 'evenreel[speech]'."
            )
    return SpeechReader(_load(*locate_speech_model(name, revision), device), rule)


def _load(speech_id: str, folder: Path, device: str) -> SpeechModel:
    if _is_onnx(folder):
        if device == "cuda":
            raise UsageError(f"The speech model in {folder} is in ONNX form, which runs on the CPU here: --device cpu.")
        return OnnxSpeechModel(folder, speech_id)
    return WhisperModel(folder, speech_id, device)


def locate_speech_model(name: str, revision: str | None = None) -> tuple[str, Path]:
    """Find the folder of a model of speech, downloading it where it is missing and that is allowed.

    Returns:
        The name it can be loaded by again (a hub id comes with its commit), and its folder.

    Raises:
        UsageError: two revisions are named, or one for a model that has none.
        EncoderError: there is no such model, or it cannot be had, or it is of another kind.
    """
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
        found = fetch(repository, wanted, (*whisper.WANTED, *onnx_models.WANTED), _missing)
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
    """Return whether a model of speech can be loaded without a download.

    Args:
        name: short name, folder, or hub id.
    """
    name = next((model.id for model in known_speech_models() if model.name == name), name)
    hub = HUB_ID.fullmatch(name)
    folder = named_folder(name) or (cached_folder(hub["repository"], hub["revision"] or "main") if hub else None)
    return folder is not None and not _missing(folder)


def _is_onnx(folder: Path) -> bool:
    return not (folder / "model.bin").is_file() and next(folder.rglob("*.onnx"), None) is not None


def _missing(folder: Path) -> list[str]:
    """What a folder lacks to be a model of speech in one of the two forms."""
    if _is_onnx(folder):
        return [] if (folder / "config.json").is_file() else ["config.json"]
    return missing_whisper_parts(folder)


def _of_another_kind(folder: Path, missing: list[str]) -> EncoderError:
    convert = ""
    if onnx_models.model_type(folder) == "whisper" and not (folder / "model.bin").exists():
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
