"""What a visitor can find out of where the files lie: from the indexed folders on, and nothing above them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from shutil import copytree

from starlette.testclient import TestClient

from evenreel.library.store.catalog import open_for_writing
from evenreel.server import make_app

from .conftest import Served


def found(client: TestClient, where: str) -> set[str]:
    answer = client.get("/api/v1/search", params={"q": "star", "where": where})
    assert answer.status_code == 200, answer.text
    names = {hit["name"] for hit in answer.json()["hits"]}
    assert answer.json()["favours"]["all"] == len(names)
    return names


def test_no_filter_tells_the_path_above_the_indexed_folder(client: TestClient, served: Served) -> None:
    whole = str(served.videos / "star.mp4")
    assert found(client, f"path = '{whole}'") == set()
    for end in range(1, len(str(served.videos)) + 1):
        assert found(client, f"path like '{whole[:end]}%'") == set()
    assert found(client, "path >= '/' and path < '0'") == set()
    assert found(client, f"path like '%{served.videos.name}%'") == set()
    assert found(client, f"path between '{whole[:9]}' and '{whole}'") == set()


def test_a_path_begins_in_the_indexed_folder(client: TestClient) -> None:
    assert found(client, "path = 'star.mp4'") == {"star.mp4"}
    assert found(client, "path like 'c%.mp4'") == {"cross.mp4", "circle <b>.mp4"}
    assert found(client, "path not like 'c%'") == {"star.mp4", "heart.mp4"}


def test_no_answer_names_a_folder_above(served: Served, tmp_path: Path) -> None:
    """Not even where a decoder named the file in its complaint, or where the model is a folder."""
    library = tmp_path / "library"
    copytree(served.library, library)
    with closing(open_for_writing(library)) as connection:
        complaint = f"reading it failed: OSError: '{served.videos / 'broken.mp4'}'"
        connection.execute("UPDATE files SET sentence = ? WHERE state = 'set_aside'", (complaint,))
        connection.execute("UPDATE meta SET value = ? WHERE key = 'model'", (str(tmp_path / "my model"),))
    with TestClient(make_app(library, served.settings), base_url="http://127.0.0.1:8765") as client:
        clip_id = client.get("/api/v1/files", params={"text": "star"}).json()["files"][0]["clip_id"]
        plain = ("files", "stats", f"clips/{clip_id}", f"clips/{clip_id}/similar", "search/image", "retry")
        searches = (f"search?q=star&where={where}" for where in ("nothing = 1", "path = 'star.mp4'"))
        said = "".join(client.get(f"/api/v1/{path}").text for path in (*plain, *searches))
    assert "reading it failed: OSError: 'broken.mp4'" in said
    assert '"model":"my model"' in said
    for folder in (*served.videos.parts, *library.parts[:-1]):
        assert len(folder) < 4 or folder not in said, folder
