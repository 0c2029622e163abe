"""Names of files that are taken away: any system takes them, and none is given twice."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from evenreel.handover.picks import LONGEST, file_stem, free_path


@given(text=st.one_of(st.text(max_size=300), st.sampled_from(["../../etc", "a\\b", "c:d", "nul.txt", " . ", "\udcff"])))
def test_any_text_becomes_one_name(text: str) -> None:
    stem = file_stem(text)
    assert stem and stem not in {".", ".."}
    assert not set(stem) & set('/\\:*?"<>|\0\n')
    assert len(stem.encode()) <= LONGEST + 1
    assert stem == stem.strip(" .")
    assert stem.partition(".")[0].lower() not in {"con", "prn", "aux", "nul", "com1", "lpt9"}
    assert file_stem(stem) == stem


def test_a_name_that_is_taken_is_numbered_whatever_its_case(tmp_path: Path) -> None:
    (tmp_path / "Tram.mp4").touch()
    (tmp_path / "tram (2).mp4").touch()
    assert free_path(tmp_path, "tram", ".mp4") == tmp_path / "tram (3).mp4"
    assert free_path(tmp_path, "tram", ".srt") == tmp_path / "tram.srt"
    assert free_path(tmp_path / "new", "tram", ".mp4") == tmp_path / "new" / "tram.mp4"
