"""Tokens of captions by `tokenizer.json` alone, cut and filled up as the text tower was trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.encoders.checkpoint import NO_TOKENS, of_model, read_settings
from evenreel.encoders.families import Family
from evenreel.encoders.onnx.folder import TOKENIZER, TOKENIZER_SETTINGS, OnnxFolder
from evenreel.errors import EncoderError

TokenArray = NDArray[np.int64]
LONGEST = 8_192
"""Most tokens of a caption, whatever a model says of itself: shorter ones may be filled up to them."""


class CaptionTokens:
    """Tokenizer of captions for a text tower in ONNX form; several threads may use it at once.

    Attributes:
        longest: most tokens that the text tower takes, its own marks included.
    """

    def __init__(self, model: OnnxFolder, fixed: int | None = None) -> None:
        self._family, self._folder = model.family, model.folder
        self.longest = fixed or _longest(model)
        self._tokenizer = _read(model.folder / TOKENIZER, model.family)
        self._tokenizer.enable_truncation(self.longest)
        filler = _padding_token(model, self._tokenizer)
        length = self.longest if fixed or model.family.padded else None
        self._tokenizer.enable_padding(pad_id=self._tokenizer.token_to_id(filler), pad_token=filler, length=length)

    def __call__(self, captions: Sequence[str]) -> tuple[TokenArray, TokenArray]:
        """Tokenise captions: ids and mask, 0 = padding, (Q, W), cut and filled up."""
        rows = self._encoded(captions)
        ids, mask = (np.array([getattr(row, name) for row in rows], np.int64) for name in ("ids", "attention_mask"))
        if self._family.averages_words:  # a caption without words is read off its first place, not divided by none
            mask[:, 0] = 1
        return ids, mask

    def cut(self, captions: Sequence[str]) -> list[bool]:
        """Return for each caption whether its end was cut off."""
        return [bool(row.overflowing) for row in self._encoded(captions)]

    def _encoded(self, captions: Sequence[str]) -> list[Any]:
        with of_model(self._folder, NO_TOKENS):
            return list(self._tokenizer.encode_batch(list(captions)))


def lower_case(tokenizer: Any) -> None:
    """Make a tokenizer of `tokenizers` lower-case captions before its other rules.

    The tokenizer of Gemma, which checkpoints of SigLIP 2 name, keeps capitals; SigLIP's own lowers them itself.
    """
    from tokenizers import normalizers

    before = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])


def _read(path: Path, family: Family) -> Any:
    from tokenizers import Tokenizer

    with of_model(path.parent, "has a tokenizer that cannot be read"):
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    if family.lower_cases:
        lower_case(tokenizer)
    return tokenizer


def _longest(model: OnnxFolder) -> int:
    """Most tokens that the positions of a text tower are enough for, and that it was trained on."""
    given = model.config.get("text_config")
    count = given.get("max_position_embeddings") if isinstance(given, dict) else None
    positions = (
        count if isinstance(count, int) and count > 0 else model.family.positions
    ) - model.family.first_position
    return min(positions, model.family.longest or LONGEST)


def _padding_token(model: OnnxFolder, tokenizer: Any) -> str:
    """What fills captions up, by the settings of the tokenizer, else by its own rules."""
    path = model.folder / TOKENIZER_SETTINGS
    settings = read_settings(path) if path.is_file() else {}
    given = settings.get("pad_token") or (tokenizer.padding or {}).get("pad_token")
    token = given.get("content") if isinstance(given, dict) else given
    if not isinstance(token, str) or tokenizer.token_to_id(token) is None:
        raise EncoderError(
            f"The tokenizer in {model.folder} does not say what captions are filled up with (pad_token in "
            f"{TOKENIZER_SETTINGS} is {json.dumps(token)}); download the model again."
        )
    return token
