from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenreel.config import IndexSettings
from evenreel.encoders.loading import BUILTIN_FOLDER
from evenreel.library import index_folders
from tests.encoders.onnx_files import onnx_copy
from tests.library.videos import write_folder
from tests.tiny_checkpoints import tiny_clip

MEASURE = ("polars", "scipy", "plotly", "textblob")
TORCH = ("torch", "transformers", "lightning", "pytorch_lightning", "torchmetrics", "tensorboardX", "sentencepiece")
TORCH += ("sklearn", "onnx", "threadpoolctl")

REFUSAL = """
import os, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ.get("MISSING", "").split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""

FORKING = """
import json, os, sys, traceback
import numpy, onnxruntime
import evenreel.library
from evenreel.cli import app, main
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        for number, name in ((1, "out.txt"), (2, "err.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv, code = ["evenreel", *json.loads(line)], 99
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with videos, their library, and a module that makes the packages of all extras unimportable."""
    place = tmp_path_factory.mktemp("core")
    (place / "site").mkdir()
    (place / "site" / "sitecustomize.py").write_text(REFUSAL)
    write_folder(place / "videos", 2)
    done = run(place, "index", "videos", "-l", "library", "--no-ocr", "--model", "builtin")
    assert done.returncode == 0, done.stderr
    yield place
    for python in PYTHONS.values():
        python.process.communicate()


def environment(place: Path, missing: tuple[str, ...] = TORCH + MEASURE) -> dict[str, str]:
    """The variables of this process, with the refusal before all else."""
    paths = (str(place / "site"), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), "MISSING": ",".join(missing)}


class Python:
    """One that imports the command once and forks for each call of it, which is a second less each time."""

    def __init__(self, place: Path, missing: tuple[str, ...]) -> None:
        self.place, command = place, [sys.executable, "-c", FORKING]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=place, env=environment(place, missing), text=True, **pipes)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        said = ((self.place / name).read_text(encoding="utf-8") for name in ("out.txt", "err.txt"))
        return subprocess.CompletedProcess(words, status, *said)


PYTHONS: dict[tuple[Path, tuple[str, ...]], Python] = {}


def run(place: Path, *words: str, missing: tuple[str, ...] = TORCH + MEASURE) -> subprocess.CompletedProcess[str]:
    if (place, missing) not in PYTHONS:
        PYTHONS[place, missing] = Python(place, missing)
    return PYTHONS[place, missing].run(*words)


def test_the_refusal_holds(place: Path) -> None:
    code = "import importlib.util, evenreel.extras; print(evenreel.extras.installed('torch')); import torch"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(place), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "False\n")


@pytest.mark.parametrize(
    "words",
    [
        "search trams -l library --json",
        "index videos -l library --no-ocr",
        "info -l library",
        "verify -l library",
        "verify --repair -l library",
        "models",
    ],
)
def test_commands_of_the_product_need_no_extra(place: Path, words: str) -> None:
    done = run(place, *words.split())
    assert done.returncode == 0, done.stderr


def test_an_audit_needs_measure_and_no_torch(place: Path) -> None:
    (place / "queries.txt").write_text("a tram\na red ball\n")
    audit = ("audit", "hubness", "-l", "library", "--queries", "queries.txt")
    done = run(place, *audit, missing=TORCH)
    assert done.returncode == 0, done.stderr
    refused = run(place, *audit)
    assert refused.returncode == 1
    assert refused.stderr.endswith("which is not installed: pip install 'evenreel[measure]'.\n")


def test_metadata_as_text_need_no_extra_and_parquet_says_which(place: Path) -> None:
    shutil.copytree(place / "videos", place / "told")
    name = "clip_00.mp4"
    (place / "told" / "metadata.csv").write_text(f"path,year\n{name},2024\n")
    (place / "told" / "manifest.parquet").write_bytes(b"PAR1")
    done = run(place, "index", "told", "-l", "of-told", "--no-ocr", "--model", "builtin", "--json")
    assert done.returncode == 3, done.stderr
    (aside,) = (one for one in json.loads(done.stdout)["set_aside"] if one["path"].endswith("manifest.parquet"))
    assert aside["sentence"].endswith("needs polars, which is not installed: pip install 'evenreel[measure]'.")
    found = run(place, "search", "a tram", "-l", "of-told", "--all", "--where", "year > 2023", "--json")
    assert found.returncode == 0, found.stderr
    assert [Path(hit["path"]).name for hit in json.loads(found.stdout)["hits"]] == [name]


def test_the_demo_says_what_its_audit_needs(place: Path) -> None:
    code = "from pathlib import Path; from evenreel.cli.audit.library import audit_inputs as of; "
    code += "from evenreel.demo import run_demo; run_demo(Path('demo'), of, count=4)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=place, env=environment(place), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1. clip_" in done.stdout
    assert "pip install 'evenreel[measure]'." in done.stdout


@pytest.mark.parametrize(
    "words",
    [["train", "msrvtt-9k/mean_pool", "--out", "run"], ["search", "a tram", "-l", "library", "--rerank", "none"]],
)
def test_the_others_say_which_extra_to_install(place: Path, words: list[str]) -> None:
    done = run(place, *words)
    assert done.returncode == 1
    assert done.stderr.endswith("needs torch, which is not installed: pip install 'evenreel[torch]'.\n")


def test_a_checkpoint_says_so_and_names_the_ways_on(place: Path) -> None:
    """So do settings alone, as they are fetched without torch."""
    tiny_clip(place / "clip")
    for _ in range(2):
        done = run(place, "index", "videos", "-l", "other", "--no-ocr", "--model", "clip")
        assert done.returncode == 1
        assert "is a checkpoint, which needs torch: pip install 'evenreel[torch]'; or use a model in ONN" in done.stderr
        assert "Traceback" not in done.stderr and "model.safetensors" not in done.stderr
        (place / "clip" / "model.safetensors").unlink(missing_ok=True)


def test_graphs_beside_a_checkpoint_are_taken_whoever_made_them(place: Path) -> None:
    onnx_copy(place / "both")
    done = run(place, "index", "videos", "-l", "of-both", "--no-ocr", "--model", "both")
    assert done.returncode == 0, done.stderr
    (place / "both" / "vision_model.onnx").unlink()  # half of them is nothing to go on with
    done = run(place, "index", "videos", "-l", "of-half", "--no-ocr", "--model", "both")
    assert (done.returncode, "which needs torch" in done.stderr) == (1, True)


def test_a_library_of_a_checkpoint_goes_on_with_its_export(place: Path) -> None:
    shutil.copytree(BUILTIN_FOLDER, place / "checkpoint", ignore=shutil.ignore_patterns("*.onnx"))
    settings = IndexSettings(model=str(place / "checkpoint"), read_text=False, workers=1)
    index_folders(place / "videos", place / "made", settings)
    refused = run(place, "search", "a tram", "-l", "made")
    assert (refused.returncode, "which needs torch" in refused.stderr) == (1, True)
    done = run(place, "index", "videos", "-l", "made", "--no-ocr", "--model", "builtin")  # its weights, exported
    assert done.returncode == 0, done.stderr
    found = json.loads(run(place, "search", "a tram", "-l", "made", "--json", "--all").stdout)["hits"]
    same = json.loads(run(place, "search", "a tram", "-l", "library", "--json", "--all").stdout)["hits"]
    assert [Path(hit["path"]).name for hit in found] == [Path(hit["path"]).name for hit in same]
