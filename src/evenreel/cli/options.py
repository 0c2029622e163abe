"""Options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenreel.config import MediaLimits

MOST = 1_000_000
"""Of phrases, steps and the like that a command makes or counts."""
MOST_SEED = 2**63 - 1
MOST_PROCESSES = 1_024

RECIPE_HELP = "A YAML file, or a recipe that comes along, such as msrvtt-9k/x_pool; a wrong name lists them all."
LibraryOption = Annotated[
    Path | None,
    typer.Option("--library", "-l", help="Folder of the library. \\[default: EVENREEL_LIBRARY or your data folder]"),
]
VideosOption = Annotated[
    Path | None, typer.Option("--videos", help="Folder in which the paths of the clips begin. \\[default: CORPUS]")
]
ClusterOption = Annotated[
    str,
    typer.Option(
        help="What intervals and tests draw: auto (videos where the corpus shows that clips share one, else clips), "
        "clip, video, or a column of the corpus."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
NoVisionOption = Annotated[bool, typer.Option("--no-vision", help="Words only; loads no model.")]
NoOcrOption = Annotated[bool, typer.Option("--no-ocr", help="Do not read on-screen text.")]
DeviceOption = Annotated[str, typer.Option(help="Where the model runs: auto, cpu, cuda, cuda:1, mps.")]
PrecisionOption = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
ReadersOption = Annotated[int, typer.Option(min=0, max=MOST_PROCESSES, help="Reader processes; 0: one a core.")]
RetryOption = Annotated[bool, typer.Option("--retry", help="Try again what was set aside.")]
TimeoutOption = Annotated[
    float, typer.Option(min=0.1, max=604_800.0, help="Seconds without progress after which a video is set aside.")
]
MemoryOption = Annotated[int, typer.Option(min=64, max=2**24, help="MiB that reading one video may take.")]
DamageOption = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of a video's pictures that damage may spoil.")
]

USUAL = MediaLimits()


def media_limits(
    timeout: TimeoutOption = USUAL.stall_timeout_s,
    memory: MemoryOption = USUAL.memory_bytes >> 20,
    max_damage: DamageOption = USUAL.max_damaged_share,
) -> MediaLimits:
    """What these options say one video may cost."""
    return MediaLimits(stall_timeout_s=timeout, memory_bytes=memory << 20, max_damaged_share=max_damage)


SHARED: dict[str, Any] = {
    "device": DeviceOption,
    "precision": PrecisionOption,
    "workers": ReadersOption,
    "retry": RetryOption,
    "limits": media_limits,
    "vision": NoVisionOption,
    "read_text": NoOcrOption,
    "cluster": ClusterOption,
    "resamples": Annotated[int, typer.Option(min=0, max=MOST)],
    "seed": Annotated[int, typer.Option(min=0, max=MOST_SEED)],
}
"""How a field of this name becomes an option, in the settings of whichever command."""
