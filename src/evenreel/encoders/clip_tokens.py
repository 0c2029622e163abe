"""CLIP's tokenizer from its `tokenizer.json`, without transformers, whose import costs half a second.

Byte pairs of lower-case text between two marks (Radford et al. 2021, arXiv 2103.00020, section 2.4).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

_TOKENIZER, _CLASS = "tokenizer.json", "tokenizer_config.json"
_CLASSES = ("CLIPTokenizer", "CLIPTokenizerFast")
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_MARKS = r"<\|startoftext\|>|<\|endoftext\|>|"
_NORMALISED = [
    {"type": "NFC"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Lowercase"},
]
_MODEL = {
    "type": "BPE",
    "dropout": None,
    "unk_token": "<|endoftext|>",
    "continuing_subword_prefix": "",
    "end_of_word_suffix": "</w>",
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}


class ClipTokens:
    """Tokenizer of captions for CLIP.

    Not for two threads at once: whether captions are cut is a state of the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer, end: int) -> None:
        self._tokenizer, self._end = tokenizer, end

    def __call__(self, captions: Sequence[str], longest: int) -> tuple[list[list[int]], list[list[int]]]:
        """Token ids and mask of captions, each cut to `longest` and filled up to the longest of them."""
        self._tokenizer.enable_truncation(longest)
        self._tokenizer.enable_padding(pad_id=self._end)
        rows = self._tokenizer.encode_batch(list(captions))
        return [row.ids for row in rows], [row.attention_mask for row in rows]

    def counts(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens that captions have before they are cut, marks included."""
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        return [len(row.ids) for row in self._tokenizer.encode_batch(list(captions))]


def open_clip_tokens(folder: Path) -> ClipTokens | None:
    """Read the tokenizer of a checkpoint."""
    if not all((folder / name).is_file() for name in (_TOKENIZER, _CLASS)) or (folder / "added_tokens.json").is_file():
        return None
    try:
        settings, rules = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (_CLASS, _TOKENIZER))
        if settings.get("tokenizer_class") not in _CLASSES or settings.get("additional_special_tokens"):
            return None
        end = _end_of(rules)
        return None if end is None else ClipTokens(Tokenizer.from_str(json.dumps(rules)), end)
    except Exception:  # whatever is wrong with them, transformers is to say it
        return None


def _end_of(rules: dict[str, Any]) -> int | None:
    """The id of the mark at the end of a caption; None where the rules are not CLIP's."""
    split, letters = rules["pre_tokenizer"]["pretokenizers"]
    marks = {token["content"]: token["id"] for token in rules["added_tokens"]}
    start, end = marks.get("<|startoftext|>"), marks.get("<|endoftext|>")
    after, model = rules["post_processor"], {"byte_fallback": False, "ignore_merges": False, **rules["model"]}
    is_clip = (
        rules["normalizer"] == {"type": "Sequence", "normalizers": _NORMALISED}
        and rules["pre_tokenizer"]["type"] == "Sequence"
        and split["pattern"]["Regex"] in (_WORDS, _MARKS + _WORDS)
        and (split["type"], split["behavior"], split["invert"]) == ("Split", "Removed", True)
        and (letters["type"], letters["add_prefix_space"], letters.get("use_regex", True)) == ("ByteLevel", False, True)
        and len(marks) == 2
        and (after["type"], after["cls"], after["sep"])
        == ("RobertaProcessing", ["<|startoftext|>", start], ["<|endoftext|>", end])
        and {name: model[name] for name in _MODEL} == _MODEL
    )
    return end if is_clip else None
