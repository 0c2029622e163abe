"""Edited scores and corpora of edited captions, as `evenreel audit` is given them: NAME=FILE and NAME=DIR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenreel.errors import UsageError


def edited_files(words: Sequence[str], systems: int) -> list[dict[str, Path]]:
    """Return the files of edited scores by the name of the edit, of each system."""
    files: dict[str, list[Path]] = {}
    for word in words:
        name, sign, path = word.partition("=")
        if not (name.strip() and sign and path):
            raise UsageError(f"--edited {word!r} is not of the form NAME=FILE, such as background-swapped=bg.npz.")
        files.setdefault(name.strip(), []).append(Path(path))
    for name, given in files.items():
        if len(given) != systems:
            raise UsageError(
                f"--edited {name}=FILE is given {len(given)} times and --scores {systems} times; give it once for each "
                "of these, in their order."
            )
    return [{name: given[number] for name, given in files.items()} for number in range(systems)]


def edited_folders(words: Sequence[str], audits: Sequence[str]) -> dict[str, Path]:
    """Return the folders of corpora with edited captions by the name of the edit."""
    from evenreel.audits import AUDITS

    readers = [name for name, one in AUDITS.items() if "edited_texts" in one.takes]
    if words and not set(readers) & set(audits):
        raise UsageError(f"--edited-corpus goes with the audit {' or '.join(readers)}; leave it out.")
    folders: dict[str, Path] = {}
    for word in words:
        name, sign, path = word.partition("=")
        if not (name.strip() and sign and path):
            raise UsageError(f"--edited-corpus {word!r} is not of the form NAME=DIR, such as role-swapped=swapped.")
        if name.strip() in folders:
            raise UsageError(f"--edited-corpus names {name.strip()!r} twice; name each edit once.")
        folders[name.strip()] = Path(path)
    return folders
