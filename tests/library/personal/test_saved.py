"""Saved searches say which of the clips that answer had not answered before."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.errors import NotFoundError, UsageError
from evenreel.library import open_library
from evenreel.library.personal.records import MOST_SEEN, SavedSearch
from tests import prebuilt
from tests.library.videos import write_video
from tests.library.words_only import index


def news(library: Path, name: str, *, keep: bool = False) -> list[str]:
    with open_library(library) as opened:
        return sorted(Path(hit.path).name for hit in opened.personal.run_search(name, keep=keep).new)


def test_what_came_since_is_new_until_it_is_looked_at(videos: Path, library: Path) -> None:
    write_video(videos / "red bus.mp4", 20)
    prebuilt.library(videos, library)
    with open_library(library) as opened:
        saved = opened.personal.save_search("bus", name="buses")
        assert (saved.query, saved.where, len(saved.seen)) == ("bus", None, 1)
        opened.personal.save_search("bus", "duration_s > 60")
    assert news(library, "buses") == []
    write_video(videos / "blue bus.mp4", 21)
    write_video(videos / "boat.mp4", 22)
    index(videos, library)
    assert news(library, "buses", keep=True) == news(library, "buses") == ["blue bus.mp4"]
    assert news(library, "buses") == news(library, "bus") == []
    (videos / "blue bus.mp4").unlink()
    index(videos, library)
    assert news(library, "buses") == []
    write_video(videos / "blue bus.mp4", 21)  # back again: it had been seen
    index(videos, library)
    assert news(library, "buses") == []
    with open_library(library) as opened:
        assert [one.name for one in opened.personal.searches()] == ["buses", "bus"]
        opened.personal.remove_search("buses")
        assert [one.name for one in opened.personal.searches()] == ["bus"]


def test_wrong_ones_are_refused(videos: Path, library: Path) -> None:
    prebuilt.library(videos, library)
    with open_library(library) as opened:
        opened.personal.save_search("clip")
        with pytest.raises(UsageError, match="There is a saved search 'clip'"):
            opened.personal.save_search("another", name="clip")
        with pytest.raises(UsageError, match="no column 'colour'"):
            opened.personal.save_search("clip", "colour = 'red'", "red")
        for wrong in (opened.personal.run_search, opened.personal.remove_search):
            with pytest.raises(NotFoundError, match="no saved search 'nobody'"):
                wrong("nobody")
        assert [one.name for one in opened.personal.searches()] == ["clip"]


def test_the_latest_clips_are_remembered() -> None:
    search = SavedSearch("bus", "bus", seen=tuple(f"{number}" for number in range(MOST_SEEN)))
    later = search.looked_at(("5", "new"))
    assert later.seen[-2:] == ("5", "new")
    assert len(later.seen) == MOST_SEEN
    assert later.seen[0] == "1"
