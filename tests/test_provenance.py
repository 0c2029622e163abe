"""Where a result comes from: date, command, version and digests, on every page and in JSON, and never a secret."""

from __future__ import annotations

import ast
import hashlib
import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenreel
from evenreel import __version__
from evenreel.corpus import make_corpus, save_corpus
from evenreel.evaluation import save_scores
from evenreel.provenance import Input, digest_of, provenance_of, typed
from evenreel.report import Page, Section, Text, write_page
from evenreel.report.page import render
from evenreel.types import Scores
from tests.cli.test_library_commands import here
from tests.report.test_page import Elements

COUNT = 24
EPOCH = "1700000000"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and scores of it by two systems."""
    place = tmp_path_factory.mktemp("from") / "my <b>data</b>"
    clips = [f"v{number}" for number in range(COUNT)]
    captions = [f"c{number}" for number in range(COUNT)]
    table = pl.DataFrame({"caption_id": captions, "clip_id": clips, "text": [f"text {one}" for one in captions]})
    save_corpus(make_corpus(pl.DataFrame({"clip_id": clips}), table), place / "corpus")
    for seed, name in enumerate(("old.npz", "new.npz")):
        values = np.random.default_rng(seed).normal(size=(COUNT, COUNT)) + np.eye(COUNT)
        save_scores(Scores(values, captions, clips), place / name)
    return place


def footer(page: str) -> str:
    return Elements(page[page.index("<footer>") : page.index("</footer>")]).words


def sha256(*paths: Path, named: bool = False) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update((f"{path.name}\n".encode() if named else b"") + path.read_bytes())
    return total.hexdigest()[:12]


def test_a_page_says_when_by_what_and_of_what_and_is_made_again_byte_for_byte(place: Path) -> None:
    page = place / "page.html"
    systems = (place / "old.npz", "--against", place / "new.npz")
    words = ("evaluate", *systems, "--corpus", place / "corpus", "--html", page)
    done = here(*words, SOURCE_DATE_EPOCH=EPOCH)
    assert done.returncode == 0, done.stderr
    first = page.read_text(encoding="utf-8")
    said = footer(first)
    assert f"2023-11-14 22:13 UTC, by evenreel {__version__}." in said
    assert shlex.join(["evenreel", *map(str, words)]) in said
    tables = [place / "corpus" / name for name in ("clips.parquet", "captions.parquet")]
    for digest in (sha256(place / "old.npz"), sha256(place / "new.npz"), sha256(*tables, named=True)):
        assert digest in said
    here(*words, SOURCE_DATE_EPOCH=EPOCH)
    assert page.read_text(encoding="utf-8") == first


@pytest.mark.parametrize("name", ["evaluate", "audit"])
def test_json_has_the_same(place: Path, name: str) -> None:
    given = [place / "old.npz"] if name == "evaluate" else ["hubness", "--scores", place / "old.npz"]
    words = [name, *map(str, given), "--corpus", str(place / "corpus"), "--json"]
    done = here(*words, SOURCE_DATE_EPOCH=EPOCH)
    assert json.loads(done.stdout)["provenance"] == {
        "made": "2023-11-14 22:13 UTC",
        "version": __version__,
        "command": shlex.join(["evenreel", *words]),
        "inputs": [
            {"what": "scores", "place": str(place / "old.npz"), "digest": sha256(place / "old.npz")},
            {"what": "corpus", "place": str(place / "corpus"), "digest": digest_of(place / "corpus")},
        ],
    }


def test_a_page_from_python_has_a_date_and_no_command() -> None:
    said = footer(render(Page("t", "lead", [Section("s", [Text("w")])])))
    made = datetime.strptime(said.splitlines()[2][:16], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - made) < timedelta(minutes=5)
    assert f"UTC, by evenreel {__version__}." in said
    assert "evenreel " not in said.replace(f"by evenreel {__version__}", "")


@pytest.mark.parametrize("words", [["--token", "s3cret"], ["--token=s3cret"], ["--token=a", "--token", "s3cret"]])
def test_a_secret_is_left_out(words: list[str]) -> None:
    with typed(["serve", *words, "--port", "80"]):
        shown = provenance_of().command
    assert "s3cret" not in shown
    assert shown.startswith("evenreel serve --token") and shown.endswith(" --port 80")
    assert provenance_of().command == ""


@pytest.mark.parametrize("word", ["", "soon", "-1", "1e9", "9" * 30, "²"])
def test_a_date_that_is_none_is_passed_over(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", word)
    assert provenance_of().made[:4] == str(datetime.now(UTC).year)


def test_a_digest_is_of_the_content_wherever_it_lies(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(b"weights")
        (tmp_path / name / "README.md").write_text(name)
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b") != ""
    (tmp_path / "b" / "model.safetensors").write_bytes(b"Weights")
    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "b")
    library = tmp_path / "library"
    (library / "shards" / "ab").mkdir(parents=True)
    (library / "catalog.sqlite").write_bytes(b"one state")
    (library / "shards" / "ab" / "abc.safetensors").write_bytes(b"")
    before = digest_of(library)
    (library / "catalog.sqlite").write_bytes(b"another state")
    assert digest_of(library) == before
    (library / "shards" / "ab" / "abd.safetensors").write_bytes(b"")
    assert digest_of(library) != before


def test_what_is_no_file_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    names = [tmp_path / "none", tmp_path / "empty", "openai/clip-vit-base-patch32", "a\0b", "x" * 5000]
    found = provenance_of({"matcher": names, "corpus": None}).inputs
    assert found == tuple(Input("matcher", str(name), "") for name in names)


def test_names_from_outside_are_text(place: Path, tmp_path: Path) -> None:
    with typed(["audit", "</footer><script>alert(1)</script>", "\x1b[31m"]):
        write_page(Page("t", "lead"), tmp_path / "p.html", provenance_of({"scores": place / "old.npz"}))
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert page.count("</footer>") == 1
    assert "<script>alert" not in page and "<b>" not in page and "\x1b" not in page


def test_every_page_that_the_package_writes_says_what_it_is_made_of() -> None:
    """Each call that writes or renders a page hands its origin on."""
    calls = [
        (path.name, node)
        for path in Path(evenreel.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("write_page", "render")
    ]
    assert len(calls) >= 9
    wanted = {"write_page": 3, "render": 2}
    assert [name for name, node in calls if len(node.args) < wanted[node.func.id]] == []  # type: ignore[attr-defined]
