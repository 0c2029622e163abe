"""What the API answers, field by field; hazards 47 to 52 and 56 over HTTP."""

from __future__ import annotations

import io
import json
import re
import zlib
from contextlib import closing
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient

from evenreel.library import open_library
from evenreel.library.store.catalog import open_for_writing
from evenreel.media import open_video, parse_rule
from evenreel.server import make_app
from evenreel.server.api import Stats
from tests.server.conftest import Served


def ask(client: TestClient, path: str, **query: object) -> Any:
    answer = client.get(path, params={name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def clip_named(client: TestClient, name: str) -> str:
    files = ask(client, "/api/v1/files", text=name)["files"]
    return str(files[0]["clip_id"])


def test_a_search_is_that_of_the_library(client: TestClient, served: Served) -> None:
    answer = ask(client, "/api/v1/search", q="a red star on a beach", k=3)
    with open_library(served.library) as library:
        expected = library.search("a red star on a beach", k=3)
    assert [hit["clip_id"] for hit in answer["hits"]] == [hit.clip_id for hit in expected.hits]
    assert answer["hits"][0]["name"] == "star.mp4"
    assert (answer["matches"], answer["answering"]) == (expected.matches, expected.answering) == (1, 1)
    for hit, wanted in zip(answer["hits"], expected.hits, strict=True):
        assert hit["score"] == pytest.approx(wanted.score)
        assert hit["scores"] == pytest.approx(wanted.scores)
        assert hit["weaker"] == wanted.weaker
        assert (hit["above_nonsense"], hit["written"]) == pytest.approx((wanted.above_nonsense, wanted.written))
        assert "confidence" not in hit
        assert [moment["time_s"] for moment in hit["moments"]] == [moment.time_s for moment in wanted.moments]
        assert hit["source"] == wanted.metadata["source"]
        assert hit["folder"] == ""
        assert str(served.videos) not in json.dumps(hit)  # how the disk is laid out is nobody's business


def test_more_like_this_leaves_the_clip_out_and_takes_words_beside_it(client: TestClient) -> None:
    clip_id = clip_named(client, "star.mp4")
    assert ask(client, f"/api/v1/clips/{clip_id}/similar", q="in a forest")["hits"][0]["name"] == "heart.mp4"
    answer = ask(client, f"/api/v1/clips/{clip_id}/similar", t=1.0, k=2)
    assert len(answer["hits"]) == 2
    assert clip_id not in {hit["clip_id"] for hit in answer["hits"]}
    assert (answer["matches"], answer["answering"]) == (0, 2)
    assert all(hit["weaker"] is None and hit["above_nonsense"] is None for hit in answer["hits"])


def test_a_picture_finds_the_clip_it_was_taken_from(client: TestClient, served: Served) -> None:
    made = io.BytesIO()
    with open_video(served.videos / "heart.mp4") as video:
        Image.fromarray(list(video.frames(parse_rule("every 0.5 s")))[4].pixels).save(made, "PNG")
    answer = client.post("/api/v1/search/image", content=made.getvalue(), headers={"content-type": "image/png"})
    assert answer.json()["hits"][0]["name"] == "heart.mp4"


def bomb() -> bytes:
    """A PNG of 60,000 x 60,000 pixels in a few bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = (60_000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (bomb(), "image/png", 400),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", 400),
        (b"GIF89a<script>alert(1)</script>", "image/gif", 400),
        (b"", "image/png", 400),
        (b"http://169.254.169.254/latest/meta-data", "text/uri-list", 415),
        (b"--b\r\n\r\n--b--", "multipart/form-data; boundary=b", 415),
        (bytes(21 * 2**20), "image/png", 413),
    ],
    ids=["bomb", "svg", "polyglot", "empty", "address", "multipart", "21 MiB"],
)
def test_hazard_50_bad_pictures_are_refused(client: TestClient, body: bytes, kind: str, status: int) -> None:
    refused = client.post("/api/v1/search/image", content=body, headers={"content-type": kind})
    assert refused.status_code == status
    assert re.fullmatch(r"[A-Z].*\.", refused.json()["detail"], re.DOTALL)


def test_hazard_50_a_picture_without_length_is_counted(client: TestClient) -> None:
    body = (bytes(2**20) for _ in range(25))
    refused = client.post("/api/v1/search/image", content=body, headers={"content-type": "image/png"})
    assert refused.status_code == 413


@pytest.mark.parametrize(
    ("asked", "status", "word"),
    [
        *(({"q": q}, 400, "empty") for q in ("", "   ", "\x00\x01")),
        ({"q": "x" * 20_000}, 422, "q: "),
        *(({"q": "star", "k": k}, 422, "k: ") for k in ("0", "-1", "1000000000", "201", "many", "1.5", "")),
        ({"q": "a then b", "right": "x.mp4"}, 422, "right"),
        *(({"q": "a then b", "within": within}, 422, "within: ") for within in ("0", "inf")),
        ({"q": "a shape", "right": "0" * 32}, 404, "no clip"),
    ],
)
def test_what_cannot_be_searched_for_is_one_sentence(
    client: TestClient, asked: dict[str, str], status: int, word: str
) -> None:
    refused = client.get("/api/v1/search", params=asked)
    assert (refused.status_code, word in refused.json()["detail"]) == (status, True), refused.text


@pytest.mark.parametrize("q", ["x" * 1_900, "star \x00 beach", "⭐" * 40, "звезда на пляже", "a " * 400, 'NEAR("* OR'])
def test_hazard_47_an_odd_query_is_answered(client: TestClient, q: str) -> None:
    assert ask(client, "/api/v1/search", q=q)["hits"]


def test_hazard_48_nonsense_is_said_not_to_fit(client: TestClient) -> None:
    answer = ask(client, "/api/v1/search", q="quarterly tax spreadsheet")
    assert (answer["matches"], answer["answering"]) == (0, 0)
    assert answer["hits"]
    assert (answer["favours"]["shown"], answer["favours"]["sentences"]) == (0, [])


def test_what_is_true_of_the_library_is_told_of_it_and_of_no_search(client: TestClient) -> None:
    speech = "Speech is not searched: there are no subtitles, and no speech was recognised."
    assert ask(client, "/api/v1/stats")["notices"] == [speech]
    assert ask(client, "/api/v1/search", q="a red star on a beach")["notices"] == []


@pytest.mark.parametrize("where", ["' OR 1=1 --", "source = 'x'; DROP TABLE files", "nothing = 1", "(", "source"])
def test_hazard_49_a_filter_is_never_sql(client: TestClient, where: str) -> None:
    refused = client.get("/api/v1/search", params={"q": "star", "where": where})
    assert refused.status_code == 400
    assert ask(client, "/api/v1/stats")["files"] == 4


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/clips/../../etc/passwd/media",
        "/api/v1/clips/..%2f..%2fetc%2fpasswd/media",
        "/api/v1/clips/%2fetc%2fpasswd/media",
        "/api/v1/clips/C:%5Cwindows/media",
        "/media/../../etc/passwd",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        *(
            f"/api/v1/clips/{'0' * 32}{part}"
            for part in ("/media", "/still", "/preview", "", "/similar", "/transcripts")
        ),
    ],
)
def test_hazard_51_nothing_but_clips_of_the_library(client: TestClient, path: str) -> None:
    refused = client.get(path)
    assert refused.status_code in {404, 422}
    assert "root:" not in refused.text and "import" not in refused.text


def test_hazard_52_several_ranges_and_if_range(client: TestClient, served: Served) -> None:
    address = f"/api/v1/clips/{clip_named(client, 'star.mp4')}/media"
    whole = (served.videos / "star.mp4").read_bytes()
    several = client.get(address, headers={"range": "bytes=0-9,20-29"})
    assert (several.status_code, several.content) == (200, whole)  # as RFC 9110 lets a server do
    tag = client.head(address).headers["etag"]
    assert client.get(address, headers={"range": "bytes=0-9", "if-range": tag}).status_code == 206
    assert client.get(address, headers={"range": "bytes=0-9", "if-range": '"other"'}).content == whole


def test_a_clip_with_all_that_is_known_of_it(client: TestClient) -> None:
    clip = ask(client, f"/api/v1/clips/{clip_named(client, 'cross.mp4')}")
    assert clip["name"] == "cross.mp4"
    assert clip["files"] == [{"name": "cross.mp4", "folder": "", "state": "indexed"}]
    assert clip["duration_s"] == pytest.approx(5.0, abs=0.1)
    assert (clip["container"], clip["codec"], clip["moments"]) == ("mp4", "H.264", 5)
    assert clip["signs"][0]["text"] == "HARBOUR"
    assert clip["metadata"] == {"source": "generator_a"}


def test_the_library_view_says_what_was_skipped_and_why(client: TestClient) -> None:
    answer = ask(client, "/api/v1/files", state="set_aside")
    assert answer["total"] == 1
    (file,) = answer["files"]
    assert (file["name"], file["reason"], file["still"]) == ("broken.mp4", "not_media", None)
    assert "not a video" in file["sentence"]
    assert client.get("/api/v1/files", params={"state": "lost"}).status_code == 422
    longest = ask(client, "/api/v1/files", order="-length")["files"]
    assert [one["duration_s"] for one in longest] == [6.0, 5.0, 4.0, 3.0, None]
    assert longest[0]["size_bytes"] > 0 and len(longest[0]["day"]) == 10
    past = ask(client, "/api/v1/files", offset=10**9)
    assert (past["total"], past["files"]) == (5, [])


def test_hazard_56_names_are_data(client: TestClient) -> None:
    sent = client.get("/api/v1/search", params={"q": "an orange circle in the mountains"})
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["x-content-type-options"] == "nosniff"
    hit = sent.json()["hits"][0]
    assert hit["name"] == "circle <b>.mp4"
    media = client.head(f"/api/v1/clips/{hit['clip_id']}/media")
    assert "<" not in media.headers["content-disposition"]


def test_the_page_and_its_parts_are_there_and_none_that_loads_from_elsewhere(client: TestClient) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(path).status_code == 404
    for path in ("/", "/library"):
        page = client.get(path)
        assert page.status_code == 200
        parts = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
        assert any(part.endswith(".js") for part in parts)
        for part in parts:
            assert part.startswith("/")
            assert client.get(part).status_code == 200


def test_hazard_30_a_file_that_has_gone_is_one_sentence(client: TestClient, served: Served, tmp_path: Path) -> None:
    clip_id = clip_named(client, "heart.mp4")
    (served.videos / "heart.mp4").rename(tmp_path / "elsewhere.mp4")
    try:
        gone = client.get(f"/api/v1/clips/{clip_id}/media")
        assert gone.status_code == 404
        assert "not there any more" in gone.json()["detail"]
    finally:
        (tmp_path / "elsewhere.mp4").rename(served.videos / "heart.mp4")


def test_the_library_that_is_used_unasked_has_a_name_that_tells_something(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name() -> str:
        with open_library(served.library, vision=False) as opened:
            return Stats.of(opened, notices=(), vision=False, opens_folders=False).name

    assert name() == served.library.name == "library"
    monkeypatch.setenv("EVENREEL_LIBRARY", str(served.library))
    assert name() == "Your videos"


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
