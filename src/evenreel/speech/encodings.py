"""From the bytes of a subtitle file to its text, by the most likely encoding."""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OLD = (
    *("cp1252", "cp1251", "cp932", "gb18030", "cp949", "big5", "koi8_r"),
    *("cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "euc_jp"),
)
"""What subtitles were written in before UTF-8, by Python's names."""

_LOOKED_AT_BYTES = 2**16
_ZEROS = 0.05  # share of zero bytes in one half from which a text is UTF-16: spaces, digits and line ends have them
_SLIPS = 0.02  # share of damaged characters among those beyond ASCII up to which a text is still UTF-8
_CHARACTER = re.compile(rb"[\x80-\xff]+")


def decode(data: bytes) -> tuple[str, str | None]:
    r"""Decode the bytes of a subtitle file: by its byte order mark, as UTF-8, as UTF-16, else by likeness."""
    text, doubt = _decoded(data)
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""), doubt


def _decoded(data: bytes) -> tuple[str, str | None]:
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _with_slips(data[len(mark) :], name)
    try:
        if b"\0" not in data:
            return data.decode(), None
    except UnicodeDecodeError:
        pass
    if order := _utf16(data):
        return _with_slips(data, order)
    return _with_slips(data, "utf-8") if _few_slips(data) else _guessed(data)


def _with_slips(data: bytes, encoding: str) -> tuple[str, str | None]:
    text = data.decode(encoding, errors="replace")
    return text, "some of its letters are damaged" if "\ufffd" in text else None


def _utf16(data: bytes) -> str | None:
    """UTF-16 of either order, where zero bytes stand in one half of the pairs and hardly any in the other."""
    head = data[:_LOOKED_AT_BYTES]
    first, second = head[::2].count(0), head[1::2].count(0)
    if max(first, second) < _ZEROS * len(head) / 2 or min(first, second) > max(first, second) / 4:
        return None
    return "utf-16-be" if first > second else "utf-16-le"


def _few_slips(data: bytes) -> bool:
    beyond = sum(map(len, _CHARACTER.findall(data)))
    return data.decode(errors="replace").count("\ufffd") <= _SLIPS * beyond


def _guessed(data: bytes) -> tuple[str, str | None]:
    from charset_normalizer import from_bytes

    lines = [line for line in data.splitlines() if not line.isascii()]  # times and numbers say nothing of a language
    best = from_bytes(b"\n".join(lines)[:_LOOKED_AT_BYTES], cp_isolation=list(_OLD)).best()
    if best is None:
        return data.decode("cp1252", errors="replace"), "its encoding could not be told"
    return data.decode(best.encoding, errors="replace"), None
