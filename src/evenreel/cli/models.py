"""`evenreel models`: known models with licences and published figures, their speed here, and export to ONNX."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import DeviceOption, JsonOption, PrecisionOption
from evenreel.cli.progress import bars
from evenreel.cli.show_library import console, print_json, safe
from evenreel.errors import EncoderError, UsageError

if TYPE_CHECKING:
    from evenreel.encoders.loading import EncoderSpeed, KnownModel, ModelTable

COLUMNS = 80


@dataclass
class ModelRow:
    """A model in the list of `evenreel models`.

    Attributes:
        model: what is known of the model: licence, size, published figures.
        here: whether it is on this machine.
        lacks_torch: whether it is here, but needs torch, which is not installed.
        speed: frames and captions a second on this machine; None where that was not measured.
        trouble: sentence on why it could not be measured; None for no trouble.
    """

    model: KnownModel
    here: bool
    lacks_torch: bool = False
    speed: EncoderSpeed | None = None
    trouble: str | None = None


def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="Hub ids, folders or names. \\[default: all that are known]")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="See how fast those are that are on this machine; downloads nothing.")
    ] = False,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option("--export", metavar="MODEL OUT", help="Write a checkpoint in ONNX form, which needs no torch."),
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    as_json: JsonOption = False,
) -> None:
    """List the models that are known, with licence and published figures. Exit status 3 if one cannot be measured."""
    if export is not None:
        if names or measure:
            raise UsageError("--export MODEL OUT goes without names and --measure.")
        _export(*export, as_json)
        return
    from evenreel.encoders.loading import KnownModel, folder_here, known_models, lacks_torch

    table, speech = known_models(), _speech_rows(names)
    heard = {name for row in speech for name in (row["name"], row["id"])}
    others = [name for name in names or () if name not in heard]
    found = [(name, table.find(name) or KnownModel(name)) for name in others]
    named = [replace(model, id=name) if "@" in name else model for name, model in found]
    wanted = named if names else table.models
    rows = [ModelRow(model, folder_here(model.id) is not None) for model in wanted]
    for row in rows:
        row.lacks_torch = not row.here and lacks_torch(row.model.id)
    if measure:
        _measure(rows, device, precision, named=bool(names))
    if as_json:
        more = ("here", "lacks_torch", "speed", "trouble")
        listed = [asdict(row.model) | {name: getattr(row, name) for name in more} for row in rows]
        print_json({"names": dict(table.names), "sources": dict(table.sources), "models": listed, "speech": speech})
    else:
        _show(rows, table)
        _show_speech(speech)
    if any(row.trouble for row in rows):
        raise typer.Exit(EXIT_SET_ASIDE)


def _speech_rows(names: list[str] | None) -> list[dict[str, Any]]:
    """The known models of speech, or those that are named."""
    from evenreel.speech.recogniser import known_speech_models, speech_model_here

    wanted = [model for model in known_speech_models() if not names or {model.name, model.id} & set(names)]
    return [asdict(model) | {"here": speech_model_here(model.id)} for model in wanted]


def _export(name: str, out: Path, as_json: bool) -> None:
    from evenreel.encoders.onnx_export import export_onnx

    record = export_onnx(name, out)
    if as_json:
        print_json(asdict(record) | {"folder": out})
        return
    console().print(
        f"{safe(out)} holds {safe(name)} in ONNX form: vectors of pictures, captions and words have a cosine of "
        f"{record.cosine:.7f} with the checkpoint's at worst."
    )


def _measure(rows: list[ModelRow], device: str, precision: Any, *, named: bool) -> None:
    from evenreel.encoders import load_encoder
    from evenreel.encoders.loading import measure_speed

    with bars() as progress:
        progress.stage("measuring", sum(row.here for row in rows))
        for row in rows:
            if row.here:
                try:
                    row.speed = measure_speed(load_encoder(row.model.id, device=device, precision=precision))
                except (EncoderError, UsageError) as error:
                    row.trouble = str(error)
                progress.advance(1)
            elif row.lacks_torch:
                row.trouble = f"{row.model.id} is on this machine, but needs torch: pip install 'evenreel[torch]'."
            elif named:
                row.trouble = f"It is not on this machine; `evenreel index --model {row.model.id}` fetches it."


def _show(rows: list[ModelRow], table: ModelTable) -> None:
    out = console()
    cited = list(dict.fromkeys(figure.source for row in rows for figure in row.model.figures))
    for row in rows:
        here = "on this machine" if row.here else "on this machine, needs torch" if row.lacks_torch else ""
        marks = ", ".join(filter(None, (row.model.name, here)))
        out.print(f"[bold]{safe(row.model.id)}[/]{f' ({safe(marks)})' if marks else ''}")
        _print_wrapped("; ".join(_facts(row.model)), "  ", "  ")
        _print_wrapped(", ".join(_figures(row.model, cited)), "  published: ", "    ")
        _print_wrapped(_speed(row), "  ", "  ")
    out.print()
    for number, source in enumerate(cited, 1):
        _print_wrapped(table.sources[source], f"[{number}] ", "    ")
    for name in dict.fromkeys(row.model.name for row in rows if row.model.name):
        _print_wrapped(table.names[name], f"{name}: ", "    ")


def _show_speech(rows: list[dict[str, Any]]) -> None:
    """Models of what is said (`evenreel.speech`)."""
    if rows:
        console().print("\nSpeech, with the extra `speech`:")
    for row in rows:
        here = ", on this machine" if row["here"] else ""
        console().print(f"[bold]{safe(row['id'])}[/] ({safe(row['name'] + here)})")
        _print_wrapped(f"{row['family']}; {row['size_mb']:,g} MB; {row['licence']}; {row['languages']}", "  ", "  ")


def _print_wrapped(text: str, first: str, others: str) -> None:
    for line in textwrap.wrap(
        text, COLUMNS, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    ):
        console().print(safe(line))


def _facts(model: KnownModel) -> list[str]:
    size = model.parameters_m
    parts = (
        model.family and f"{model.family}, {model.kind}",
        size and (f"{size / 1000:g}B parameters" if size >= 1000 else f"{size:g}M parameters"),
        model.size_mb and f"{model.size_mb:g} MB",
        model.licence + (", needs --accept-licence" if model.non_commercial else ""),
        model.languages,
        model.dimension and f"{model.dimension:,} numbers",
        model.onnx and f"without torch: {model.onnx}",
    )
    return [part for part in parts if part]


def _figures(model: KnownModel, cited: list[str]) -> list[str]:
    return [f"{figure.measure} {figure.value} [{cited.index(figure.source) + 1}]" for figure in model.figures]


def _speed(row: ModelRow) -> str:
    if row.speed is None:
        return row.trouble or ""
    return f"measured here: {row.speed.frames_per_s:.1f} frames/s, {row.speed.captions_per_s:.0f} captions/s"
