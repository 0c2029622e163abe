"""The budgets of the repository: how much of it there is, and through how many files a search or a training step leads.

python scripts/budget.py [--counts] [--json] [--hold]

`budget.json` beside this file has the ceilings, numbers that were reached once; `tests/test_architecture.py` fails
where one is exceeded. --hold lowers them to what is counted now.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "evenreel"
CEILINGS = Path(__file__).with_suffix(".json")

RESEARCH = (
    "adaptation", "audits", "checkpoint", "corpus", "debias", "edits", "evaluation", "integrations", "language",
    "losses", "matchers", "papers", "planted", "report", "shifts", "similarity", "training",
    *(f"features/{name}" for name in (
        "compute", "facts", "load", "manifest", "on_screen", "pretrained", "scene_elements", "settings", "stored",
        "windows", "word_changes",
    )),
    *(f"cli/{name}" for name in (
        "adapt", "audit", "clip_pictures", "corpus", "cost", "elements", "evaluate", "features", "fuse", "perturb",
        "planted", "prepare", "score", "shifts", "study", "text_lines", "train",
    )),
)  # fmt: skip
"""Packages and modules of the research half; everything else is of the product."""

PRODUCT_TESTS = (
    "library", "server", "handover", "media", "onscreen", "speech", "sound", "faces", "encoders",
    *(f"features/{name}" for name in ("test_lock", "test_moving", "test_shards", "killed_run")),
    *(f"cli/test_{name}" for name in (
        "asking", "default_model", "export", "first_steps", "from_settings", "imports", "library_commands", "limits",
        "models", "personal", "serve", "without_extras",
    )),
)  # fmt: skip
"""Folders and modules of tests of the product half."""

METHODS = {
    "BiMa": (
        "language/scene_elements", "matchers/bima",
    ),
    "frame length": (
        "debias/frame_length", "training/members", "matchers/hgr",
    ),
    "Ghost": (  # with the pairs of corpus/counterparts and the exchange of versions in audits/exchange
        "audits/source", "debias/source", "papers/ghost/p_vector",
    ),
    "TITAN": ("adaptation/titan", "adaptation/titan_correction"),
    "TCD": (
        "matchers/tcd", "matchers/tcd_fast",
    ),
}  # fmt: skip
"""What somebody reads who compares a method with its paper: formulas, settings, and what a batch passes."""

BUDGETS: dict[str, tuple[int, int]] = {
    "lines of src": (135_556, 88_000),
    "lines of src, product": (55_400, 32_000),
    "lines of src, research": (80_156, 56_000),
    "files of src": (986, 450),
    "files of src, product": (363, 130),
    "lines of tests": (100_173, 65_000),
    "lines of tests, product": (39_858, 30_000),
    "lines of recipes": (3_155, 900),
    "base dependencies": (30, 25),
    "words of docs": (128_000, 50_000),
    "files of BiMa": (14, 2),
    "files of frame length": (18, 3),
    "files of Ghost": (12, 3),
    "files of TITAN": (16, 2),
    "files of TCD": (9, 2),
    "files entered by a search": (55, 15),
    "files entered by a search over HTTP": (71, 20),
    "files entered by index": (73, 20),
    "files entered by evaluate": (25, 10),
    "files entered by audit source": (38, 12),
    "files entered by a row of a study": (88, 30),
    "files entered by a training step": (8, 8),
}
"""What was in November 2026, and what is to be reached."""


HOME = f"{PACKAGE}{os.sep}"
ENTERED: set[str] = set()


def lines_of(paths: Iterable[Path]) -> int:
    """Lines of text files."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def counted(root: Path = ROOT) -> dict[str, int]:
    """What can be counted without running anything."""
    package = root / "src" / "evenreel"
    sources = {path: path.relative_to(package).with_suffix("").as_posix() for path in package.rglob("*.py")}
    research = [path for path, name in sources.items() if any(f"{name}/".startswith(f"{one}/") for one in RESEARCH)]
    base = re.search(r"^dependencies = \[\n(.*?)^\]", (root / "pyproject.toml").read_text("utf-8"), re.M | re.S)
    assert base is not None
    lines, of_research = lines_of(sources), lines_of(research)
    tests = {
        path: path.relative_to(root / "tests").with_suffix("").as_posix() for path in (root / "tests").rglob("*.py")
    }
    of_product = [
        path for path, name in tests.items() if any(f"{name}/".startswith(f"{one}/") for one in PRODUCT_TESTS)
    ]
    return {
        "lines of src": lines,
        "lines of src, product": lines - of_research,
        "lines of src, research": of_research,
        "files of src": len(sources),
        "files of src, product": len(sources) - len(research),
        "lines of tests": lines_of(tests),
        "lines of tests, product": lines_of(of_product),
        "lines of recipes": lines_of(package.rglob("*.yaml")),
        "base dependencies": len(re.findall(r'^\s*"', base[1], re.M)),
        "words of docs": sum(len(path.read_text("utf-8").split()) for path in (root / "docs").rglob("*.md")),
        **{f"files of {name}": len(method_files(name, package)) for name in METHODS},
    }


def method_files(name: str, package: Path = PACKAGE) -> set[Path]:
    """The files of a paper's method.

    Raises:
        FileNotFoundError: one of them has gone; `METHODS` is to say where its contents are now.
    """
    found = set()
    for pattern in METHODS[name]:
        if not (paths := set(package.glob(f"{pattern}.py")) - {(package / pattern).with_name("__init__.py")}):
            raise FileNotFoundError(f"{pattern}.py of {name} has gone: say in METHODS of {Path(__file__).name} where")
        found |= paths
    return found


def entered(run: Callable[[], object]) -> set[str]:
    """Files of the package of which a function runs in this process, the second time that something is done."""
    run()
    ENTERED.clear()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return set(ENTERED)


def note(frame: FrameType, event: str, argument: object) -> None:
    """Note the file of a function that is called; the body of a module is none."""
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(HOME) and code.co_name != "<module>":
        ENTERED.add(code.co_filename.removeprefix(HOME))


def traced() -> dict[str, int]:
    """What is entered by what people do most, on made material."""
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    threading.setprofile(note)  # of threads that begin from now on
    with tempfile.TemporaryDirectory() as folder:
        found = {**of_searches(Path(folder)), **of_measures(), **of_training(Path(folder))}
    return {f"files entered by {name}": len(files) for name, files in found.items()}


def of_searches(folder: Path) -> dict[str, set[str]]:
    """Index two rendered videos, the second of them with a sign, and search them."""
    from starlette.testclient import TestClient

    from evenreel import index_folders, open_library
    from evenreel.config import IndexSettings
    from evenreel.demo import DEMO_QUERIES
    from evenreel.planted import write_scene
    from evenreel.server import make_app

    library, places = folder / "library", [folder / "first", folder / "second"]
    for place, query in zip(places, (DEMO_QUERIES[0], DEMO_QUERIES[2]), strict=True):
        place.mkdir()
        assert query.answer is not None
        write_scene(place / f"{query.text}.mp4", query.answer)
    added, settings = iter(places), IndexSettings(model="builtin", device="cpu", workers=1)
    found = {"index": entered(lambda: index_folders([next(added)], library, settings))}
    asked = iter(["a red star", "a red star on a beach"] * 2)
    with open_library(library) as opened:
        found["a search"] = entered(lambda: opened.search(next(asked)))
    with TestClient(make_app(library), base_url="http://127.0.0.1:8765") as visitor:
        while visitor.get("/api/v1/health").json()["model"] == "loading":
            time.sleep(0.02)
        found["a search over HTTP"] = entered(
            lambda: visitor.get("/api/v1/search", params={"q": next(asked)}).raise_for_status()
        )
    return found


def of_measures() -> dict[str, set[str]]:
    """Measure and audit scores by chance of 80 captions and 80 clips, half of them mirrors of the others."""
    import numpy as np

    from evenreel import audit, evaluate
    from evenreel.audits import AuditSettings
    from evenreel.types import Scores
    from tests.papers.offset_pairs import paired_corpus

    corpus = paired_corpus("test", ("text",))
    captions, clips = corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list()
    scores = Scores(np.random.default_rng(0).random((len(captions), len(clips))), captions, clips)
    return {
        "evaluate": entered(lambda: evaluate(scores, corpus)),
        "audit source": entered(lambda: audit("source", scores, corpus, AuditSettings(resamples=40))),
    }


def of_training(folder: Path) -> dict[str, set[str]]:
    """Make a batch and its loss, and a figure of TCD: three rows, one seed, two steps each."""
    from dataclasses import replace
    from itertools import count

    from evenreel.matchers import build_matcher
    from evenreel.papers import run_study
    from evenreel.training.batches import Batches, Order
    from evenreel.training.module import RetrievalModule
    from tests.papers.signs import quick_settings, sign_material
    from tests.training.small_material import DIMENSION, small_examples, small_recipe

    module = RetrievalModule(build_matcher("mean_pool", DIMENSION), None, small_recipe(), steps=8)
    batches, runs = Batches(small_examples(), Order(32, 4, 0)), count()
    material, settings = sign_material(), quick_settings()

    def study() -> None:
        run_study("tcd/f3", material, replace(settings, runs=folder / f"runs {next(runs)}"))

    return {"a training step": entered(lambda: module.training_step(batches[0], 0)), "a row of a study": entered(study)}


def exceeded(found: dict[str, int], slack: int = 0) -> str:
    """What is above its ceiling, a line each.

    Args:
        found: numbers by their names in `BUDGETS`.
        slack: how far above is still right, for files entered by threads that may or may not have something to do.
    """
    ceilings = json.loads(CEILINGS.read_text(encoding="utf-8"))
    return "\n".join(
        f"{name}: {number}, and at most {ceilings[name]} were reached before; make it less, or name what the new thing "
        "replaces and delete that"
        for name, number in found.items()
        if number > ceilings[name] + slack
    )


def hold(found: dict[str, int]) -> None:
    """Lower the ceilings to what is counted, and raise none."""
    ceilings = json.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else {}
    lowered = {name: min(number, ceilings.get(name, number)) for name, number in found.items()}
    CEILINGS.write_text(json.dumps({**ceilings, **lowered}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Print the table."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--counts", action="store_true", help="leave out what has to be run")
    words.add_argument("--json", action="store_true", help="print JSON")
    words.add_argument("--hold", action="store_true", help="lower the ceilings to what is counted")
    asked = words.parse_args()
    sys.path.insert(0, str(ROOT))  # material of tests
    found = counted() if asked.counts else {**counted(), **traced()}
    if asked.hold:
        hold(found)
    rows = {name: {"was": BUDGETS[name][0], "now": now, "at most": BUDGETS[name][1]} for name, now in found.items()}
    if asked.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':36}{'was':>9}{'now':>9}{'at most':>9}")
    for name, row in rows.items():
        print(f"{name:36}" + "".join(f"{number:>9,}" for number in row.values()))


if __name__ == "__main__":
    main()
