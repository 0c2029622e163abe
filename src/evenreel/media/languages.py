"""Language tags as streams, subtitles and file names write them, in one form."""

from __future__ import annotations

_NONE = frozenset({"und", "mul", "mis", "zxx"})


def language_tag(written: str | None) -> str | None:
    """Return a language as a BCP 47 tag: `eng` and `en` become `en`, `pt_br` becomes `pt-BR`, `chi` becomes `zh`."""
    import langcodes

    written = (written or "").strip().replace("_", "-")
    if not written or not langcodes.tag_is_valid(written):
        return None
    tag = langcodes.standardize_tag(written)
    return None if tag.partition("-")[0] in _NONE else tag


def same_language(one: str | None, other: str | None) -> bool:
    """Return whether two BCP 47 tags are of one language, wherever it is spoken; False where one is not known."""
    return one is not None and other is not None and one.partition("-")[0] == other.partition("-")[0]
