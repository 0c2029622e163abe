"""Language tags of streams and files in one form."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

_TAG = re.compile(r"([a-z]{2,3})(?:[-_](\w{2,8}))*", re.IGNORECASE | re.ASCII)


def language_tag(written: str | None) -> str | None:
    """Return a language as a BCP 47 tag: `eng` and `en` become `en`, `pt_br` becomes `pt-BR`.

    Returns:
        None where nothing is said (`und`, `mul`, `zxx`, an empty text) or what is said is no language tag.
    """
    written = (written or "").strip()
    if not _TAG.fullmatch(written):
        return None
    language, *rest = re.split("[-_]", written)
    language = _short_codes().get(language.lower(), language.lower())
    if language in {"und", "mul", "mis", "zxx"}:
        return None
    return "-".join([language, *(part.upper() if len(part) == 2 else part for part in rest)])


def same_language(one: str | None, other: str | None) -> bool:
    """Return whether two BCP 47 tags are of one language, wherever it is spoken; False where one is not known."""
    return one is not None and other is not None and one.partition("-")[0] == other.partition("-")[0]


@cache
def _short_codes() -> dict[str, str]:
    """Codes of two letters (ISO 639-1) by those of three (ISO 639-2, both forms)."""
    found: dict[str, str] = json.loads(Path(__file__).with_name("languages.json").read_text(encoding="utf-8"))
    return found
