"""Whatever an extra brings, what needs it says which one when it is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

from evenreel.extras import BROUGHT, EXTRAS, needed_extra, to_install
from tests.cli.test_without_extras import REFUSAL
from tests.conftest import REPOSITORY
from tests.each import check_each

IMPORTED_AS = {
    "faiss-cpu": "faiss",
    "open_clip_torch": "open_clip",
    "protobuf": "google.protobuf",
    "pylance": "lance",
    "scikit-learn": "sklearn",
}
"""Names of imports that are not those of their packages."""
ASKING = """
import json, pathlib, re, sys, evenreel, importlib
told = {}
for stub in pathlib.Path(evenreel.__file__).parent.rglob("__init__.pyi"):
    package = ".".join(("evenreel", *stub.parent.relative_to(pathlib.Path(evenreel.__file__).parent).parts))
    for name in re.findall(r" as (\\w+)", stub.read_text("utf-8")):
        try:
            getattr(importlib.import_module(package), name)
        except ModuleNotFoundError as error:
            told[f"{package}.{name}"] = str(error)
json.dump(told, sys.stdout)
"""


def extras() -> dict[str, list[str]]:
    """Packages of each extra that the code imports, without those that another extra brings."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    names = {
        extra: [re.split(r"[\[>=<; ]", requirement)[0] for requirement in required]
        for extra, required in project["optional-dependencies"].items()
        if extra not in {"dev", "docs"}
    }
    return {
        extra: [IMPORTED_AS.get(one, one.replace("-", "_")) for one in of if one != "evenreel"]
        for extra, of in names.items()
    }


def test_every_package_of_every_extra_has_its_line() -> None:
    def check(extra: str) -> None:
        for package in extras()[extra]:
            sentence = needed_extra(ModuleNotFoundError(f"No module named '{package}'", name=package))
            top = package.partition(".")[0]
            assert sentence == f"This needs {top}, which is not installed: pip install 'evenreel[{extra}]'."

    check_each(extras(), check)


def test_no_extra_is_named_that_there_is_not() -> None:
    assert set(BROUGHT) == set(extras())
    assert sum(map(len, BROUGHT.values())) == len(EXTRAS)


def test_in_python_too_what_needs_a_missing_extra_says_which(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(REFUSAL)
    missing = ",".join(EXTRAS.keys() - {"google", "httpx2"})
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", ASKING],
        env={**os.environ, "PYTHONPATH": paths, "MISSING": missing},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"evenreel.load_matcher", "evenreel.evaluation.evaluate"} <= told.keys()
    assert "evenreel.open_library" not in told

    def check(name: str) -> None:
        found = re.fullmatch(
            r"([\w.]+) needs (\w+), which is not installed: pip install 'evenreel\[(.+)\]'\.", told[name]
        )
        assert found, told[name]
        assert EXTRAS[found[2]] == found[3]
        assert found[1].rpartition(".")[2] == name.rpartition(".")[2]

    check_each(told, check)


@pytest.mark.parametrize(
    ("file", "command"), [("pipx_metadata.json", "pipx inject evenreel"), ("uv-receipt.toml", "uv tool")]
)
def test_an_extra_is_added_by_the_tool_that_made_the_environment(
    file: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert to_install("speech").startswith("pip install")
    (tmp_path / file).touch()
    assert to_install("speech").startswith(command)
