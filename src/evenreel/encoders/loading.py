"""Loading an encoder by the model's name: where its files are, a first reading that can be killed, the form they have.

Files of a stranger's model can hang libraries, or crash them. A folder that was read well once is known by the state of
its files, and is read at once from then on.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import string
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from evenreel.config import MediaLimits, check_kind, described
from evenreel.documents import brief
from evenreel.encoders.checkpoint import missing_parts, open_checkpoint
from evenreel.encoders.contexts import garbage_left
from evenreel.encoders.encoder import of_model
from evenreel.encoders.onnx_encoder import OnnxEncoder, has_onnx, missing_onnx_parts, open_onnx_folder, read_record
from evenreel.encoders.sources import BUILTIN_FOLDER, locate
from evenreel.errors import EncoderError, MediaError, UsageError
from evenreel.extras import installed
from evenreel.media.workers import Message, Worker

if TYPE_CHECKING:
    from evenreel.encoders.towers import TowerEncoder

LoadedEncoder: TypeAlias = "TowerEncoder | OnnxEncoder"
"""An encoder on torch, or one on ONNX Runtime."""

Precision = Literal["float32", "bfloat16", "float16"]
SAMPLES = ("", "a red ball", string.printable, "ﬁ Ａ é 红球 мяч كرة ０１ 🏖️")
"""Captions that a model is tried with when it is read first."""
LEAST_BYTES, LEAST_S = 4 * 2**30, 120.0
"""Memory in bytes and time in seconds that any model may take, beside what its files are worth."""

_PUNCTUATION = r"""[!"\#\$%\&'\(\)\*\+,\-\./:;<=>\?@\[\\\]\^_`\{\|\}\~]"""
_CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = frozenset(
    {" ", "``", "''", r"\s+", " {2,}", _CLIP, rf"<\|startoftext\|>|<\|endoftext\|>|{_CLIP}"}
    | {_QWEN, _QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")}  # the latter is Llama's
    | {_PUNCTUATION, f"[{string.punctuation}]", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"}
)
"""What the tokenizers of the known families look for, as a text or a regular expression."""
STEPS = {
    "normalizer": frozenset(
        {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Replace"}
        | {"Sequence", "Strip", "StripAccents"}
    ),
    "pre_tokenizer": frozenset(
        {"BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Sequence", "Split", "Whitespace"}
        | {"WhitespaceSplit"}
    ),
    "model": frozenset({"BPE", "Unigram", "WordPiece"}),
}
"""Kinds of steps that they have."""
MOST_STEPS, LONGEST_WORD, LONGEST_LETTER = 16, 1_000, 128
"""Steps of a tokenizer; letters of a word that is cut to pieces; bytes that a letter may become."""


def load_encoder(
    name: str | PathLike[str],
    *,
    device: str = "auto",
    precision: str = "float32",
    revision: str | None = None,
    batch_size: int = 32,
) -> LoadedEncoder:
    """Load a model in safetensors or in ONNX form; nothing else is read, and no code of a model is run.

    The families that are understood are in `evenreel.encoders.families`. A model in ONNX form runs on ONNX Runtime, on
    the CPU in float32; so does the built-in one, and any checkpoint with its export in the same folder, unless another
    device or precision is named. Without torch, graphs beside a checkpoint are taken whoever made them.

    A model of the hub that is in the cache is used from there without a look at the network. A folder is read in a
    process of its own at first, which is stopped where it takes too much time or memory.

    Args:
        name: `builtin`, a folder, or a hub id `org/name` or `org/name@revision`.
        device: `auto` (a CUDA GPU where there is one, for a checkpoint), `cpu`, `cuda`, `cuda:1`, ...
        precision: `float32`, `bfloat16`, or `float16` (GPU only): the numbers the towers calculate with.
        revision: commit, branch or tag of a hub id.
        batch_size: frames or captions at a time; it halves by itself where memory does not suffice.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had, read or trusted, or needs torch, which is not installed.
    """
    check_kind(name, (str, PathLike), "name", "give builtin, a folder, or a hub id")
    check_kind(device, str, "device", "give its name, such as auto or cpu")
    if not isinstance(precision, str) or precision not in get_args(Precision):
        raise UsageError(f"The precision {described(precision)} is not one of {', '.join(get_args(Precision))}.")
    check_kind(batch_size, Integral, "batch_size", "give a whole number")
    if batch_size < 1:
        raise UsageError(f"The batch size is {batch_size}; it must be 1 or more.")
    encoder_id, folder = locate(fspath(name), revision)
    read_first(folder, device, precision)
    return _open(encoder_id, folder, device, precision, batch_size)


def _open(encoder_id: str, folder: Path, device: str, precision: str, batch_size: int = 32) -> LoadedEncoder:
    """Load a model from its folder, in the form that it has."""

    def towers() -> TowerEncoder:
        if not installed("torch"):  # asked first: of a hub's checkpoint, its settings alone are fetched then
            raise EncoderError(
                f"The model in {folder} is a checkpoint, which needs torch: pip install 'evenreel[torch]'; or use a "
                "model in ONNX form (--model FOLDER or ORG/NAME of the hub), or the small one inside the package "
                "(--model builtin)."
            )
        checkpoint = open_checkpoint(folder)
        with ThreadPoolExecutor(1) as pool, garbage_left():
            # Hashing 600 MB takes a second or two, about as long as the imports below: do both at once.
            digest = pool.submit(checkpoint.digest)
            from evenreel.encoders.devices import usable_device
            from evenreel.encoders.towers import TowerEncoder, load_towers

            loaded = load_towers(checkpoint, usable_device(device, precision), precision)
            return TowerEncoder(loaded, encoder_id, digest.result(), batch_size)

    if not has_onnx(folder):
        return towers()
    plain = device in ("auto", "cpu") and precision == "float32"
    beside = not missing_parts(folder)
    only_graphs = not installed("torch") and not missing_onnx_parts(folder)
    if beside and not (plain and (only_graphs or read_record(folder))):
        return towers()
    if not plain:
        raise UsageError(
            f"The model in {folder} is in ONNX form, which runs on the CPU in float32 here; leave --device and "
            "--precision out, or use its checkpoint."
        )
    model = open_onnx_folder(folder)
    return OnnxEncoder(model, encoder_id, model.weights_hash(), batch_size, towers if beside else None)


def read_first(folder: Path, device: str, precision: str) -> None:
    """Read a folder in a process of its own, unless it was read well before as it is now."""
    if folder == BUILTIN_FOLDER or (known := _record(folder)).is_file():
        return
    size = sum(path.stat().st_size for path in _files(folder))
    limits = MediaLimits(stall_timeout_s=LEAST_S + size / 2e7, memory_bytes=LEAST_BYTES + 4 * size)
    worker = Worker("evenreel.encoders.loading:FirstReading", {}, limits)
    try:
        told = [header for header, _ in worker.run({"folder": str(folder), "device": device, "precision": precision})]
    except MediaError as error:
        raise EncoderError(
            f"The model in {folder} is not used: {error}. Its files ask for more than a model of {size / 2**20:,.0f} "
            "MiB needs, or break what reads them; use a copy from its maker."
        ) from error
    finally:
        worker.close()
    if refused := told[0]["refused"]:
        raise EncoderError(refused)
    if told[0]["read"]:
        with contextlib.suppress(OSError):  # it is read in a process of its own again then
            known.parent.mkdir(parents=True, exist_ok=True)
            known.touch()


class FirstReading:
    """Reads a model and encodes with it, in the process that `read_first` can kill."""

    def __call__(self, task: Mapping[str, Any]) -> Iterator[Message]:
        """Read the folder of a task; the message says what was wrong with it, and whether it was read."""
        folder, refused, read = Path(task["folder"]), None, True
        try:
            with of_model(folder, "cannot be used"):
                check_tokenizer(folder)
                encoder = _open(str(folder), folder, task["device"], task["precision"])
                for caption in SAMPLES:
                    encoder.encode_text([caption])
                encoder.encode_windows(np.zeros((1, 1, 3, 48, 64), np.uint8))
        except UsageError:  # the caller's own, who is told by what reads it next
            read = False
        except EncoderError as error:
            refused = str(error)
        yield {"refused": refused, "read": read}, None


def check_tokenizer(folder: Path) -> None:
    """Refuse a tokenizer with steps that no known family has: such as one that doubles a text again and again."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    try:
        rules = json.loads(path.read_text(encoding="utf-8"))
        parts = {**rules, "model": rules["model"] or {}}
        found = [(part, step) for part in STEPS for step in _steps(parts[part])]
        wrong = f"more than {MOST_STEPS} steps" if len(found) > MOST_STEPS else ""
        wrong = next(filter(None, (_trouble(part, step) for part, step in found)), wrong)
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise EncoderError(
            f"The tokenizer {path} cannot be read ({brief(error)}); download the model again."
        ) from error
    if wrong:
        raise EncoderError(
            f"The tokenizer {path} has {wrong}, as no tokenizer of the known kinds of models has; use a copy of the "
            "model from its maker."
        )


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """A part of the rules, and those that it is made of."""
    if part is not None:
        yield part
        for one in part.get("normalizers") or part.get("pretokenizers") or ():
            yield from _steps(one)


def _trouble(part: str, step: Mapping[str, Any]) -> str:
    """What is wrong with a step; '' for nothing."""
    kind = step.get("type") or ("BPE" if "merges" in step else None)
    if kind not in STEPS[part]:
        return f"a {part} of the kind {brief(kind)}"
    if part == "model" and not (step["vocab"] and step.get("max_input_chars_per_word", 0) <= LONGEST_WORD):
        return "no words, or words of any length"
    pattern = step.get("pattern", {" ": " "})
    if not PATTERNS.issuperset(pattern.values()) or len(step.get("content", step.get("prepend", ""))) > 1:
        return f"a {kind} with {brief({key: value for key, value in step.items() if key != 'type'})}"
    charsmap = base64.b64decode(step.get("precompiled_charsmap") or "")
    start = 4 + int.from_bytes(charsmap[:4], "little")  # after a trie, the texts that letters become
    if max(map(len, charsmap[start:].split(b"\0"))) > LONGEST_LETTER:
        return "a table that makes long texts of letters"
    return ""


def _files(folder: Path) -> list[Path]:
    """The files of a model: in its folder, and in those in it."""
    return sorted(path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file())


def _record(folder: Path) -> Path:
    """The empty file that says that a folder was read well, as its files are now."""
    from platformdirs import user_cache_path

    found = [(str(path), os.stat(path)) for path in _files(folder)]
    states = [(path, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for path, one in found]
    digest = hashlib.sha256(repr(states).encode("utf-8", "surrogateescape")).hexdigest()
    return user_cache_path("evenreel") / "models" / digest
