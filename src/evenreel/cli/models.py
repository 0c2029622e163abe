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
from evenreel.config import AUTO, DEFAULT_MODEL
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import byte_size

if TYPE_CHECKING:
    from evenreel.encoders.loading import EncoderSpeed, KnownModel, ModelTable

COLUMNS = 80
ADVICE = {DEFAULT_MODEL: "recommended", "builtin": "small"}  # the same words as on the page


@dataclass
class ModelRow:
    """A model in the list of `evenreel models`."""

    model: KnownModel
    here: bool  # on this machine
    lacks_torch: bool = False  # it is here, but needs torch, which is not installed
    speed: EncoderSpeed | None = None  # on this machine; None where that was not measured
    trouble: str | None = None  # sentence on why it could not be measured


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
    precision: PrecisionOption = AUTO,
    as_json: JsonOption = False,
) -> None:
    """List the models that are known, with licence and published figures. Exit status 3 if one cannot be measured."""
    if export is not None:
        if names or measure:
            raise UsageError("--export MODEL OUT goes without names and --measure.")
        _export(*export, precision, as_json)
        return
    from evenreel.encoders.loading import KnownModel, folder_here, known_models, lacks_torch
    from evenreel.speech.recogniser import known_speech_models, speech_model_here

    chosen = [model for model in known_speech_models() if not names or {model.name, model.id} & set(names)]
    table, speech = known_models(), [asdict(model) | {"here": speech_model_here(model.id)} for model in chosen]
    heard = {name for row in speech for name in (row["name"], row["id"])}
    others = [name for name in names or () if name not in heard]
    found = [(name, table.find(name) or KnownModel(name)) for name in others]
    named = [replace(model, id=name) if set("@#") & set(name) else model for name, model in found]
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
        if speech:
            console().print("\nSpeech, with the extra `speech`:")
        for one in speech:
            here = ", on this machine" if one["here"] else ""
            console().print(f"[bold]{safe(one['id'])}[/] ({safe(one['name'] + here)})")
            size = byte_size(1e6 * one["size_mb"])
            _print_wrapped(f"{one['family']}; about {size}; {one['licence']}; {one['languages']}", "  ", "  ")
    if any(row.trouble for row in rows):
        raise typer.Exit(EXIT_SET_ASIDE)


def _export(name: str, out: Path, precision: str, as_json: bool) -> None:
    from evenreel.encoders.onnx_export import export_onnx

    record = export_onnx(name, out, precision="float32" if precision == AUTO else precision)
    if as_json:
        print_json(asdict(record) | {"folder": out})
        return
    console().print(
        f"{safe(out)} holds {safe(name)} in ONNX form: vectors of pictures, captions and words have a cosine of "
        f"{record.cosine:.7f} with the checkpoint's at worst."
    )
    if record.precision != "float32":
        console().print(
            f"In {record.precision} it is {record.lower:.4f}, of made-up pictures and captions: what that costs "
            f"a search is not known. To use it: evenreel index FOLDER --model {safe(out)}#{record.precision}"
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
        marks = ", ".join(filter(None, (row.model.name, ADVICE.get(row.model.id), here)))
        out.print(f"[bold]{safe(row.model.id)}[/]{f' ({safe(marks)})' if marks else ''}")
        _print_wrapped("; ".join(_facts(row.model)), "  ", "  ")
        figures = (f"{one.measure} {one.value} [{cited.index(one.source) + 1}]" for one in row.model.figures)
        _print_wrapped(", ".join(figures), "  published: ", "    ")
        speed = row.trouble or ""
        if row.speed is not None:
            speed = f"measured here: {row.speed.frames_per_s:.1f} frames/s, {row.speed.captions_per_s:.0f} captions/s"
        _print_wrapped(speed, "  ", "  ")
    out.print()
    for number, source in enumerate(cited, 1):
        _print_wrapped(table.sources[source], f"[{number}] ", "    ")
    for name in dict.fromkeys(row.model.name for row in rows if row.model.name):
        _print_wrapped(table.names[name], f"{name}: ", "    ")


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
        model.file_bytes and f"about {byte_size(model.file_bytes)}{' in float32' if '#' in model.id else ''}",
        model.licence + (", needs --accept-licence" if model.non_commercial else ""),
        model.languages,
        model.dimension and f"{model.dimension:,} numbers",
        model.onnx and f"without torch: {model.onnx}",
    )
    return [part for part in parts if part]
