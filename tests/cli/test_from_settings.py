from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from evenreel.adaptation.prepared import PrepareSettings
from evenreel.cli.app import command_of
from evenreel.cli.corpus.command import ClipChange
from evenreel.cli.elements import KAPPA, ElementsOptions
from evenreel.cli.features import FrameChoice
from evenreel.cli.options import documented, from_settings
from evenreel.cli.planted import PlantOptions
from evenreel.cli.prepare import FitOptions
from evenreel.config import DEFAULT_MODEL
from evenreel.edits.settings import RemovalSettings
from evenreel.errors import UsageError
from evenreel.features.settings import FeatureSettings
from evenreel.planted import PlantSettings


@dataclass(frozen=True)
class Limits:
    """What one may cost.

    Attributes:
        bytes: most of memory.
    """

    bytes: int


def limits(memory_kib: Annotated[int, typer.Option("--memory", min=1, max=9)] = 3) -> Limits:
    """Limits in other units.

    Args:
        memory_kib: KiB that one may take.
    """
    return Limits(memory_kib << 10)


@dataclass(frozen=True)
class Asked:
    """How it is done.

    Attributes:
        place: `here` or there.
        fit: `pad` or `crop`,
            as [words] say.
        duration_s: seconds of each.
        reads_text: reads [signs].
        strict: refuse more.
        names, values: what they
            are called.
        span: from and to.
        limits: of one.
        secret: no option.
        at_most: of all.
    """

    place: Path
    fit: Literal["pad", "crop"] = "pad"
    duration_s: float | None = None
    reads_text: bool = True
    strict: bool = False
    names: tuple[str, ...] = ("a", "b")
    values: tuple[int, ...] = ()
    span: tuple[float, float] = (1.0, 2.0)
    limits: Limits = Limits(0)
    secret: object = field(default_factory=object, compare=False)
    at_most: int = field(default_factory=lambda: 7)

    def __post_init__(self) -> None:
        if self.fit not in ("pad", "crop"):
            raise UsageError(f"{self.fit!r} is no way to fit.")


FLAG = Annotated[bool, typer.Option("--no-ocr", help="Read nothing.")]
FOUND: dict[str, Any] = {}


def do(
    what: str,
    asked: Asked = from_settings(
        Asked, leave_out=("secret",), panel="How", limits=from_settings(limits), reads_text=FLAG
    ),
    more: Annotated[bool, typer.Option("--more")] = False,
) -> None:
    """Do it."""
    FOUND.update(what=what, asked=asked, more=more)


def run(*words: str, place: tuple[str, ...] = ("--place", "p")) -> Any:
    app = typer.Typer()
    app.command()(command_of(do))
    FOUND.clear()
    return CliRunner().invoke(app, ["it", *place, *words], env={"COLUMNS": "200", "TERM": "dumb"})


def found() -> dict[str, Any]:
    return {name: value for name, value in asdict(FOUND["asked"]).items() if name != "secret"}


def told(**changed: Any) -> dict[str, Any]:
    usual = {"place": Path("p"), "limits": Limits(3 << 10), **changed}
    return {name: value for name, value in asdict(Asked(**usual)).items() if name != "secret"}


def test_what_is_left_out_has_the_settings_default() -> None:
    assert run().exit_code == 0
    assert found() == told()
    assert (FOUND["what"], FOUND["more"]) == ("it", False)


def test_each_field_is_an_option() -> None:
    words = "--fit crop --duration 2.5 --no-ocr --strict --names x --names y --values 4 --span 0 1 --memory 2"
    done = run(*words.split(), "--at-most", "5", "--more")
    assert done.exit_code == 0, done.output
    expected = told(
        fit="crop", duration_s=2.5, reads_text=False, strict=True, names=("x", "y"), values=(4,), span=(0.0, 1.0),
        limits=Limits(2 << 10), at_most=5,
    )  # fmt: skip
    assert found() == expected
    assert FOUND["more"]


def test_the_settings_refuse_a_value_in_their_own_words() -> None:
    done = run("--fit", "stretch")
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "'stretch' is no way to fit."
    assert run("--memory", "10").exit_code == 2
    assert run(place=()).exit_code == 2  # it is required


def test_help_is_what_the_docstring_says() -> None:
    shown = run("--help").output
    words = " ".join(shown.replace("│", " ").split())
    for text in ("'pad' or 'crop', as [words] say.", "Seconds of each.", "Read nothing.", "KiB that one may take."):
        assert text in words, shown
    assert words.count("What they are called.") == 2
    assert "--secret" not in words and "--no-strict" not in words
    assert "\u256d\u2500 How \u2500" in shown


def test_settings_are_imported_when_the_command_is_made() -> None:
    def later(how: Any = from_settings("no.such.module:Settings")) -> None:
        raise AssertionError(how)

    with pytest.raises(ModuleNotFoundError):
        command_of(later)


def test_options_that_are_none_are_mistakes() -> None:
    def unknown(how: Any = from_settings(Limits, leave_out=("bites",))) -> None:
        raise AssertionError(how)

    def twice(bytes: int = 0, how: Any = from_settings(Limits)) -> None:
        raise AssertionError(bytes, how)

    with pytest.raises(TypeError, match="Limits takes no bites"):
        command_of(unknown)
    with pytest.raises(TypeError, match="two options bytes"):
        command_of(twice)


def test_a_tuple_with_an_option_of_its_own_is_given_again_and_again() -> None:
    @dataclass(frozen=True)
    class Named:
        """Names.

        Attributes:
            names: what they are called.
        """

        names: Annotated[tuple[str, ...], typer.Option("--name", metavar="WORD")] = ()

    kept: list[Named] = []

    def keep(how: Named = from_settings(Named)) -> None:
        kept.append(how)

    app = typer.Typer()
    app.command()(command_of(keep))
    assert CliRunner().invoke(app, ["--name", "a", "--name", "b"]).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 0
    assert kept == [Named(("a", "b")), Named()]


def test_help_tells_the_values_that_hold_where_an_option_is_left_out() -> None:
    """What the code has for an option that is None when it is left out."""
    planted, fitted = PlantSettings(), PrepareSettings()
    assert fitted.causal_fit.steps == fitted.flow.steps
    for record, name, value in (
        (PlantOptions, "short", "{:g} and {:g}".format(*planted.short_s)),
        (PlantOptions, "long", "{:g} and {:g}".format(*planted.long_s)),
        (ClipChange, "share", RemovalSettings("motion").share),
        (ClipChange, "model", DEFAULT_MODEL),
        (FrameChoice, "frames", FeatureSettings().rule.removesuffix(" midpoints")),
        (ElementsOptions, "top", KAPPA),
        (FitOptions, "steps", fitted.causal_fit.steps),
        (FitOptions, "seed", fitted.seed),
    ):
        assert documented(record)[name].endswith(rf" \[default: {value}]"), (record, name)
