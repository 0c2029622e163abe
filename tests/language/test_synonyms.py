"""Synonym files: what they may say, and that the one of the package keeps the same rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.errors import CorpusError
from evenreel.language import amounts, caption_synonyms, read_synonyms, stop_nouns, stop_verbs


def test_groups_are_named_by_their_first_word(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("# mine\n\nverb: Cut, hew ,  turn   on # all one\nnoun: sofa,couch\nnoun: lamp\n", encoding="utf-8")
    own = read_synonyms(path)
    assert own.verbs == {"cut": "cut", "hew": "cut", "turn on": "cut"}
    assert own.nouns == {"sofa": "sofa", "couch": "sofa", "lamp": "lamp"}
    both = caption_synonyms().updated(own)
    assert both.verbs["hew"] == both.verbs["cut"] == "cut"
    assert both.verbs["grab"] == "take"


def test_a_mark_before_the_text_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("verb: cut, hew\n", encoding="utf-8-sig")
    assert read_synonyms(path).verbs == {"cut": "cut", "hew": "cut"}


FORM = r"Line 2 of .*mine\.txt is .*; write `verb:` or `noun:` and words"
WRONG = dict.fromkeys(["cut, hew", "adverb: slowly", "verb: cut,, hew", "verb:", "noun: a,"], FORM)
WRONG["verb: cut, hew\nnoun: hew\nverb: chop, hew"] = "Line 4 of .* has the verb 'hew', which is in the group of 'cut'"


@pytest.mark.parametrize("lines", WRONG)
def test_a_line_of_another_form_and_a_word_of_two_groups_are_named(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(f"noun: lamp\n{lines}\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=WRONG[lines]):
        read_synonyms(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"The synonyms in .*none\.txt cannot be read"):
        read_synonyms(tmp_path / "none.txt")
    (tmp_path / "latin.txt").write_bytes("noun: café".encode("latin-1"))
    with pytest.raises(CorpusError, match="cannot be read as UTF-8 text"):
        read_synonyms(tmp_path / "latin.txt")


def test_the_packaged_groups() -> None:
    known = caption_synonyms()
    for groups in (known.verbs, known.nouns):
        assert all(groups[name] == name for name in groups.values())
    assert known.verbs["chop"] == known.verbs["slice"] == "cut"
    assert known.nouns["couch"] == known.nouns["sofa"]
    assert known.nouns["man"] != known.nouns["woman"]
    assert not stop_verbs() & set(known.verbs)
    assert not stop_nouns() & set(known.nouns)
    assert not stop_nouns() & amounts()
    assert known.verbs["shoot"] != known.verbs["film"]
    assert known.verbs["win"] != known.verbs["score"]
