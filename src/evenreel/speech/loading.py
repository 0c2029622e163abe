"""Loading of a model of speech by its name: a short name, a folder, or a hub id."""

from __future__ import annotations

from pathlib import Path

from evenreel.errors import UsageError
from evenreel.speech.onnx_models import OnnxSpeechModel
from evenreel.speech.reader import SpeechModel, SpeechReader
from evenreel.speech.sources import check_extra, is_onnx, locate_speech_model
from evenreel.speech.voice import VoiceRule
from evenreel.speech.whisper import WhisperModel


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
    check_extra()
    return SpeechReader(_load(*locate_speech_model(name, revision), device), rule)


def _load(speech_id: str, folder: Path, device: str) -> SpeechModel:
    if is_onnx(folder):
        if device == "cuda":
            raise UsageError(f"The speech model in {folder} is in ONNX form, which runs on the CPU here: --device cpu.")
        return OnnxSpeechModel(folder, speech_id)
    return WhisperModel(folder, speech_id, device)
