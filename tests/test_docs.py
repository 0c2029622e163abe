"""The documentation names what is there."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from evenreel.matchers import MATCHERS
from tests.each import check_each

REPOSITORY = Path(__file__).resolve().parents[1]
HAZARDS = REPOSITORY / "docs" / "hazards.md"
PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))
NO_TEST_HERE = {"32"}


def rows() -> dict[str, str]:
    table = [line for line in HAZARDS.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d", line)]
    return {line.split("|")[1].strip(): line for line in table}


@cache
def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_hazards_stand_in_order() -> None:
    numbers = [int(number) for number in rows() if number.isdigit()]
    assert numbers == sorted(set(numbers))


def test_the_readme_says_how_many_hazards_there_are() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"| {len([number for number in rows() if number.isdigit()])} inputs and faults" in readme


def test_the_tests_that_a_hazard_names_exist() -> None:
    def check(number: str) -> None:
        row = rows()["7" if number == "8" else number]  # 'same two' as the row above
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named
        missing = [f"{file}::{test}" for file, test in named if test not in names_in(REPOSITORY / "tests" / file)]
        assert not missing

    check_each(sorted(set(rows()) - NO_TEST_HERE), check)


def test_links_between_pages_lead_somewhere() -> None:
    def check(page: Path) -> None:
        targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
        made = {REPOSITORY / "docs" / "reference" / name for name in ("command-line.md", "python.md")}
        missing = [one for one in targets if not (page.parent / one).exists() and page.parent / one not in made]
        assert not missing

    check_each([*PAGES, *REPOSITORY.glob("*.md")], check)


def test_files_of_the_project_that_are_named_exist() -> None:
    def check(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?<![\w./-])(?:src|tests|benchmarks|scripts|docs)/[\w/-]+\.(?:py|md|yaml|sql)\b", text)
        assert not {name for name in named if not (REPOSITORY / name).exists()}

    folders = [REPOSITORY / name for name in ("src", "tests", "benchmarks", "scripts", "docs")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".yaml")]
    pages = [page for page in REPOSITORY.glob("*.md") if page.name != "CHANGELOG.md"]
    check_each([*files, *pages], check)


def test_the_readme_shows_the_two_commands() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


@pytest.mark.parametrize(
    ("target", "installed"), [("demo", '-e ".[measure,meaning]"'), ("test", '-e ".[dev]"'), ("lint", '-e ".[dev]"')]
)
def test_a_demo_installs_no_tools_of_developers_and_everything_the_tested_versions(target: str, installed: str) -> None:
    command = ["make", "--dry-run", "--what-if=pyproject.toml", target]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    (install,) = [line for line in done.stdout.splitlines() if "pip install" in line and " -e " in line]
    assert install.endswith(f"pip install --quiet -c constraints.txt {installed}")


def test_every_install_that_is_told_of_takes_the_tested_versions() -> None:
    pages = [*PAGES, *REPOSITORY.glob("*.md"), REPOSITORY / "constraints.txt"]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    told = [line for line in lines if re.search(r"pip install .*(?<!\w)\.(\s|$)", line)]
    assert told
    assert all("-c constraints.txt" in line for line in told)


def test_the_page_on_matchers_lists_every_one() -> None:
    page = (REPOSITORY / "docs" / "matchers.md").read_text(encoding="utf-8").split("\n## ", maxsplit=1)[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(MATCHERS)


def test_every_page_says_for_whom_it_is_and_shows_a_command_and_a_picture() -> None:
    def check(page: Path) -> None:
        title, opening, head, picture, *_ = page.read_text(encoding="utf-8").split("\n\n")
        assert title.startswith("# ")
        assert 1 <= len(re.findall(r"[.?](?:\s|$)", opening)) <= 3
        assert re.fullmatch(r"\*\*For\*\* .+ · \*\*Command\*\* `[^`]+`", head)
        assert re.fullmatch(r"!\[[^\n]+", picture) or page.name in {"glossary.md", "evidence.md"}

    check_each(PAGES, check)


def test_every_page_has_its_place_on_the_site() -> None:
    listed = re.findall(r"[\w/-]+\.md", (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:")[2])
    there = [page.relative_to(REPOSITORY / "docs").as_posix() for page in PAGES]
    made = [f"notebooks/{path.stem}.md" for path in (REPOSITORY / "docs" / "notebooks").glob("*.ipynb")]
    assert sorted(listed) == sorted([*there, *made, "reference/command-line.md", "reference/python.md"])


def test_the_first_page_names_every_command() -> None:
    from typer.main import get_command

    from evenreel.cli.app import app

    table = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`[^`|]*`", table))
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert not [one for one in commands if not any(re.search(rf"(evenreel |`){one}\b", text) for text in named)]
