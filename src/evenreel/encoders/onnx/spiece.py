"""SigLIP's tokenizer as rules of `tokenizers`, from its sentencepiece model; transformers has no such form of it."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

from evenreel.errors import EncoderError

_SPACE = "\u2581"


def tokenizer_of_spiece(folder: Path) -> Any:
    """Build the tokenizer of a checkpoint of SigLIP: lower case, no punctuation, pieces of words, an end mark.

    The steps are those of `SiglipTokenizer` in transformers (Zhai et al. 2023, arXiv 2303.15343, by big_vision).
    """
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Regex, Tokenizer, models, normalizers, processors

    path = folder / "spiece.model"
    if not path.is_file():
        raise EncoderError(
            f"The tokenizer in {folder} has no form that tokenizer.json can hold; it cannot be exported."
        )
    pieces = SentencePieceProcessor(model_file=str(path))
    vocabulary = [(pieces.id_to_piece(number), pieces.get_score(number)) for number in range(len(pieces))]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=pieces.unk_id()))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Lowercase(),
            normalizers.Replace(Regex(f"[{re.escape(string.punctuation)}]"), ""),
            normalizers.NFKC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
            normalizers.Prepend(_SPACE),
            normalizers.Replace(" ", _SPACE),
        ]
    )
    end = pieces.id_to_piece(pieces.eos_id())
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, pieces.eos_id())]
    )
    tokenizer.add_special_tokens([end])
    return tokenizer
