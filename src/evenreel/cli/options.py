"""Options of commands: those that several share, and those made of settings, one for each field of a dataclass."""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from evenreel.config import MediaLimits, OptionForm

if TYPE_CHECKING:
    from evenreel.types import Corpus

MOST = 1_000_000  # largest number of phrases, steps and the like that a command makes or counts
MOST_SEED = 2**63 - 1
MOST_PROCESSES = 1_024

LICENCE_HELP = "Accept the model's licence where that forbids commercial use."
CLUSTER_HELP = (
    "What intervals and tests draw: auto (videos where the corpus shows that clips share one, else clips), clip, "
    "video, or a column of the corpus."
)

CorpusArgument = Annotated[Path, typer.Argument(metavar="CORPUS", help="Folder of the corpus.")]
RecipeArgument = Annotated[
    str,
    typer.Argument(
        help="A YAML file, or a recipe that comes along, such as msrvtt-9k/x_pool; a wrong name lists them all."
    ),
]
LibraryOption = Annotated[
    Path | None,
    typer.Option("--library", "-l", help="Folder of the library. \\[default: EVENREEL_LIBRARY or your data folder]"),
]
PlaceOption = Annotated[
    Path | None,
    typer.Option(
        "--library",
        "-l",
        help="Folder of the library, or where snapshots of it were published: a folder, s3://BUCKET/PREFIX. "
        "\\[default: EVENREEL_LIBRARY or your data folder]",
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--snapshot-cache", help="Folder of published snapshots on this machine. \\[default: your cache folder]"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
DeviceOption = Annotated[str, typer.Option(help="Where the model runs: auto, cpu, cuda, cuda:1, mps.")]
PrecisionOption = Annotated[str, typer.Option(help="auto (float32), float32, bfloat16, float16 or int8.")]


@dataclass(frozen=True)
class CorpusClips:
    """Clips of a corpus, and the folder that their videos are in.

    Attributes:
        folder: folder of the corpus.
        split: only this part of the corpus, such as test.
        videos: folder in which the paths of the clips begin; None for CORPUS.
    """

    folder: Annotated[Path, typer.Argument(metavar="CORPUS")]
    split: str | None = None
    videos: Path | None = None

    @property
    def place(self) -> Path:
        return self.videos or self.folder

    def load(self) -> Corpus:
        from evenreel.corpus import load_corpus, select

        whole = load_corpus(self.folder)
        return whole if self.split is None else select(whole, split=self.split)


USUAL = MediaLimits()


def media_limits(
    timeout: Annotated[float, typer.Option(min=0.1, max=604_800.0)] = USUAL.stall_timeout_s,
    memory: Annotated[int, typer.Option(min=64, max=2**24)] = USUAL.memory_bytes >> 20,
    max_damage: Annotated[float, typer.Option(min=0.0, max=1.0)] = USUAL.max_damaged_share,
) -> MediaLimits:
    """Make the limits of reading one video of the values of options.

    Args:
        timeout: seconds without progress after which a video is skipped.
        memory: MiB that reading one video may take.
        max_damage: share of a video's pictures that damage may spoil.
    """
    return MediaLimits(stall_timeout_s=timeout, memory_bytes=memory << 20, max_damaged_share=max_damage)


SHARED: dict[str, Any] = {
    "device": DeviceOption,
    "precision": PrecisionOption,
    "workers": Annotated[int, typer.Option(min=0, max=MOST_PROCESSES, help="Reader processes; 0: one a core.")],
    "retry": Annotated[bool, typer.Option("--retry", help="Try again what was skipped.")],
    "accept_licence": Annotated[bool, typer.Option("--accept-licence", help=LICENCE_HELP)],
    "limits": media_limits,
    "vision": Annotated[bool, typer.Option("--no-vision", help="Search words only; no model is loaded.")],
    "read_text": Annotated[bool, typer.Option("--no-ocr", help="Do not read on-screen text.")],
    "cluster": Annotated[str, typer.Option(help=CLUSTER_HELP)],
    "resamples": Annotated[int, typer.Option(min=0, max=MOST)],
    "seed": Annotated[int, typer.Option(min=0, max=MOST_SEED)],
}
"""How a field of this name becomes an option, in the settings of whichever command."""


def fetched(library: Path, cache: Path | None) -> Path:
    """Return the folder that a library is read from; a published snapshot is fetched, and a bar says how that goes."""
    from evenreel.library.store.catalog import is_published

    if not is_published(library):
        return library
    from evenreel.cli.progress import share_bar
    from evenreel.library.published import local_folder

    with share_bar("fetching the snapshot") as progress:
        return local_folder(library, cache, progress)


_SECTION = re.compile(r"^(?:Attributes|Args):\n((?:(?: +.*)?\n)+)", re.MULTILINE)
_REFERENCE = re.compile(r" \(`evenreel\.[\w.]+`\)")
_USUAL = re.compile(r"; (?:None|empty) for ")
_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class OptionSettings:
    """The options that one parameter of a command stands for, made by `from_settings`."""

    source: Callable[..., Any] | str  # a dataclass or a function, or `module:name` of one
    leave_out: tuple[str, ...] = ()  # parameters of it that are no options
    panel: str | None = None  # heading of the options in `--help`; None for the usual one
    options: Mapping[str, Any] = field(default_factory=dict)  # how they are declared, by parameter

    @functools.cached_property
    def make(self) -> Callable[..., Any]:
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        return cast("Callable[..., Any]", getattr(import_module(module), name))

    @functools.cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        found = inspect.signature(self.make).parameters
        if strange := (set(self.leave_out) | set(self.options)) - set(found):
            raise TypeError(f"{self.make.__name__} takes no {', '.join(sorted(strange))}")
        return {name: one for name, one in found.items() if name not in self.leave_out}

    def parameters(self) -> Iterator[inspect.Parameter]:
        texts = documented(self.make)
        for name, one in self._parameters.items():
            declared = self._declared(name)
            if isinstance(declared, OptionSettings):
                yield from declared.parameters()
            else:
                yield self._option(one, declared or self._hint(one), texts.get(name))

    def _declared(self, name: str) -> Any:
        """What is said of a parameter; None where its option follows from itself."""
        found = self.options.get(name, SHARED.get(name))
        return OptionSettings(found, panel=self.panel) if inspect.isfunction(found) else found

    def _hint(self, one: inspect.Parameter) -> Any:
        """The type of one parameter alone, as the module reads it that names it: others may be for type checkers."""
        holder = type("Holder", (), {"__annotations__": {one.name: one.annotation}})
        named = (own for own in getattr(self.make, "__mro__", ()) if one.name in vars(own).get("__annotations__", {}))
        module = next(named, self.make).__module__
        return get_type_hints(holder, vars(sys.modules[module]), include_extras=True)[one.name]

    def _option(self, one: inspect.Parameter, hint: Any, text: str | None) -> inspect.Parameter:
        kind, info = _declared(one, hint)
        info = copy.copy(info)
        usual = ""
        if isinstance(one.default, tuple) and one.default:  # which Typer does not show
            values = (f"{value:g}" if isinstance(value, float) else str(value) for value in one.default)
            usual = rf" \[default: {', '.join(values)}]"
        info.help = info.help or (text and text + usual)
        if isinstance(info, OptionInfo):
            info.rich_help_panel = info.rich_help_panel or self.panel
        shown = one.default in (one.empty, None) or isinstance(one.default, (str, int, float, Path))
        default = False if one.default is True else one.default if shown else None  # None leaves it to the settings
        if default is None and type(None) not in get_args(kind):
            kind = kind | None
        return one.replace(kind=one.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])

    def build(self, given: Mapping[str, Any]) -> Any:
        """Make the settings of the values that Typer read, by parameter; one that was not given has its default."""
        values: dict[str, Any] = {}
        for name, one in self._parameters.items():
            declared = self._declared(name)
            value = declared.build(given) if isinstance(declared, OptionSettings) else given[name]
            if one.default is True:
                values[name] = not value
            elif value is not None:
                values[name] = tuple(value) if isinstance(value, list) else value
        return self.make(**values)


def from_settings(
    source: Callable[..., Any] | str, *, leave_out: tuple[str, ...] = (), panel: str | None = None, **options: Any
) -> Any:
    """Declare an option for each parameter of a dataclass or function, as the default of a command's parameter.

    The option of `max_entities` is `--max-entities`; that of `duration_s`, `--duration`; of a field that is True by
    default, `--no-...`; an `OptionForm` in its annotation gives another name, and bounds. Its help is what the
    docstring says of the attribute or argument.
    """
    return OptionSettings(source, leave_out, panel, options)


def documented(source: Callable[..., Any]) -> dict[str, str]:
    r"""Read help texts from a docstring, one an attribute or argument; a class has those of its bases too.

    >>> def rate(fps, side):
    ...     '''How clips are written.
    ...
    ...     Args:
    ...         fps: frames a second, `[0-9]+`;
    ...             None for as many as there are.
    ...         side: of the picture.
    ...     '''
    >>> documented(rate)["fps"]
    "Frames a second, '\\[0-9]+'. \\[default: as many as there are]"
    """
    found: dict[str, str] = {}
    for one in reversed(source.__mro__) if isinstance(source, type) else (source,):
        section = _SECTION.search(inspect.cleandoc(one.__doc__ or "") + "\n")
        entries = _ENTRY.findall(section[1]) if section else []
        found |= {name: _as_help(text) for names, text in entries for name in names.split(", ")}
    return found


def _as_help(text: str) -> str:
    plain = _REFERENCE.sub("", " ".join(text.split()))
    words, *default = _USUAL.split(plain.replace("[", r"\[").rstrip("."), maxsplit=1)
    usual = rf" \[default: {default[0]}]" if default else ""
    return f"{words[:1].upper()}{words[1:]}.{usual}".replace("`", "'")


def _declared(one: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Type and option of a parameter: those of an `Annotated` type, else what follows from the name and the type."""
    kind, form = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, OptionForm())
    if not isinstance(form, OptionForm):
        return _readable(kind) if get_origin(kind) is tuple else kind, form
    name = one.name.removesuffix("_s").replace("_", "-")
    usual = f"--no-{name}" if one.default is True else f"--{name}"
    return _readable(kind), typer.Option(form.name or usual, min=form.least, max=form.most)


def _readable(kind: Any) -> Any:
    """A type that Typer reads from the command line, for that of a field."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return str
    if origin is Mapping:
        return list[str]
    if origin is tuple and inner[-1] is Ellipsis:
        return list[_readable(inner[0])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        return Union[tuple(_readable(one) for one in inner)]  # noqa: UP007 -- made of a list
    return kind
