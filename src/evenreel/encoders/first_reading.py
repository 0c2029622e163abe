"""The first reading of a stranger's model, in a process that can be killed: files can hang libraries, or crash them.

A folder that was read well once is known by the state of its files, and is read at once from then on.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evenreel.config import MediaLimits
from evenreel.documents import brief
from evenreel.encoders.sources import BUILTIN_FOLDER
from evenreel.errors import EncoderError, MediaError
from evenreel.media.workers import Worker

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

    states = [(str(path), *_state(os.stat(path))) for path in _files(folder)]
    digest = hashlib.sha256(repr(states).encode("utf-8", "surrogateescape")).hexdigest()
    return user_cache_path("evenreel") / "models" / digest


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
