from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.config import IndexSettings
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.encoders import load_encoder
from evenreel.evaluation import save_scores
from evenreel.features import FeatureSettings, compute_features
from evenreel.library import index_folders
from evenreel.planted import plan_corpus, write_corpus
from evenreel.types import Scores
from tests.library.videos import write_folder

COMMAND = """
import atexit, json, sys
from pathlib import Path
place = Path(sys.argv.pop(1))
atexit.register(lambda: place.write_text(json.dumps(sorted(sys.modules))))
from evenreel.cli import main
main()
"""
HELP_OF_ALL = """
import contextlib, io, json, sys
import typer
from evenreel.cli.app import app

def paths(command, path=()):
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*path, name))

heavy, found = set(sys.argv.pop(1).split(",")), {}
for path in paths(typer.main.get_command(app)):
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
        app([*path, "--help"])
    found[" ".join(path)] = ["Usage:" in shown.getvalue(), sorted(heavy & set(sys.modules))]
print(json.dumps(found))
"""
RECIPE = """
name: tests/small
about: Written for a test.
data: {corpus: planted, features: features}
matcher: {name: mean_pool}
adapter: {kind: linear}
loop: {batch_size: 4, epochs: 1, device: cpu}
records: {every_steps: 1, tensorboard: false}
"""
MODELS = {"torch", "transformers", "lightning", "sentencepiece", "tokenizers"}
TABLES = {"polars", "scipy", "sklearn", "pandas", "plotly"}
READERS = {"av", "cv2", "onnxruntime", "rapidocr", "PIL"}
WORDS = {"nltk", "textblob", "spacy", "lemminflect"}
RESEARCH = {"evenreel.papers", "evenreel.audits", "evenreel.adaptation", "evenreel.planted", "evenreel.training"}
CORPUS = {"evenreel.corpus"}
PRODUCT = {"evenreel.library", "evenreel.server", "fastapi", "uvicorn"}
MEASURING = {"evenreel.evaluation", "evenreel.report"}
STUDIES = {"evenreel.papers", "evenreel.corpus.formats", "evenreel.planted"}
NAMES_OF_STUDIES = MODELS | TABLES | READERS | WORDS | CORPUS | PRODUCT | {"evenreel.training", "evenreel.adaptation"}
LEAN = MODELS | TABLES | READERS | WORDS | RESEARCH | CORPUS | MEASURING | STUDIES

NOT_IMPORTED: dict[str, tuple[list[str], int, set[str]]] = {
    "help": (["--help"], 0, LEAN | PRODUCT | {"numpy", "pydantic", "yaml", "sqlite3", "evenreel.matchers"}),
    "help of search": (["search", "--help"], 0, LEAN | PRODUCT | {"numpy"}),
    "help of study": (["study", "--help"], 0, NAMES_OF_STUDIES),
    "list of studies": (["study", "--list"], 0, NAMES_OF_STUDIES),
    "info": (["info", "-l", "library"], 0, LEAN),
    "search without vision": (["search", "tram", "--no-vision", "-l", "library"], 0, LEAN),
    "search": (["search", "a tram", "-l", "library"], 0, LEAN - {"onnxruntime", "tokenizers"} | {"sympy"}),
    "index": (
        ["index", "videos", "-l", "new", "--no-ocr", "--model", "builtin"],
        0,
        MODELS - {"tokenizers"} | RESEARCH | {"sympy"},
    ),
    "index, nothing new": (["index", "videos", "-l", "library", "--no-ocr"], 0, LEAN),
    "models": (["models"], 0, LEAN | PRODUCT),
    "serve, refused": (["serve", "-l", "nothing"], 1, LEAN),
    "evaluate": (
        ["evaluate", "s.npz", "--corpus", "corpus", "--rescore", "csls"],
        0,
        MODELS | READERS | WORDS | RESEARCH | PRODUCT | {"plotly"},
    ),
    "audit length": (
        ["audit", "length", "--scores", "s.npz", "--corpus", "corpus"],
        0,
        MODELS | READERS | WORDS | PRODUCT | RESEARCH - {"evenreel.audits", "evenreel.adaptation"} | {"plotly"},
    ),
    "train": (
        ["train", "small.yaml", "--out", "run"],
        0,
        STUDIES | {"evenreel.audits", "evenreel.adaptation", "evenreel.library", "evenreel.server", "fastapi"},
    ),
    "score": (
        ["score", "mean_pool", "planted", "--features", "features", "--out", "scores.npz"],
        0,
        STUDIES | {"evenreel.audits", "evenreel.adaptation", "evenreel.training", "evenreel.library", "lightning"},
    ),
    "train, refused by its recipe": (
        ["train", "msrvtt-9k/mean_pool", "--set", "loop.batch_size=0"],
        2,
        PRODUCT | MEASURING | READERS | {"transformers", "lightning", "polars", "evenreel.papers", "evenreel.audits"},
    ),
}  # fmt: skip


def test_no_help_imports_what_takes_time() -> None:
    heavy = MODELS | TABLES | READERS | WORDS | {"numpy", "fastapi", "starlette", "uvicorn", "lightning"}
    command = [sys.executable, "-c", HELP_OF_ALL, ",".join(heavy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"", "search", "corpus edit", "study titan/t1"} < found.keys()
    assert [name for name, (shown, _) in found.items() if not shown] == []
    assert next(((name, modules) for name, (_, modules) in found.items() if modules), None) is None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library, a corpus with scores of it, and a planted one with features and a recipe."""
    place = tmp_path_factory.mktemp("imports")
    write_folder(place / "videos", 1)
    index_folders(place / "videos", place / "library", IndexSettings(model="builtin", read_text=False, workers=1))
    clips, captions = (pl.Series([f"{letter}{number}" for number in range(40)]) for letter in "vc")
    lengths = {"start_s": [0.0] * 40, "end_s": np.linspace(1, 9, 40)}
    texts = {"caption_id": captions, "clip_id": clips, "text": ["a ball"] * 40}
    save_corpus(make_corpus(pl.DataFrame({"clip_id": clips, **lengths}), pl.DataFrame(texts)), place / "corpus")
    save_scores(Scores(np.random.default_rng(0).normal(size=(40, 40)), list(captions), list(clips)), place / "s.npz")
    write_corpus(plan_corpus("visual", 0.5, 12), place / "planted", workers=1)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=place / "planted", workers=1)
    compute_features(
        load_corpus(place / "planted"), place / "features", load_encoder("builtin", device="cpu"), settings
    )
    (place / "small.yaml").write_text(RECIPE)
    return place


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "train" else ()) for name in NOT_IMPORTED]
)
def test_a_command_imports_what_it_needs(name: str, place: Path, tmp_path: Path) -> None:
    words, status, unwanted = NOT_IMPORTED[name]
    command = [sys.executable, "-c", COMMAND, str(tmp_path / "modules.json"), *words]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert "evenreel.cli.app" in modules
    found = sorted(one for one in modules if any(one == name or one.startswith(f"{name}.") for name in unwanted))
    assert not found, found[:10]
