"""Options that several commands share, said once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.config import MediaLimits

if TYPE_CHECKING:
    from evenreel.types import Corpus

MOST = 1_000_000
"""Largest number of phrases, steps and the like that a command makes or counts."""
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
PrecisionOption = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]


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
        """Folder in which the paths of the clips begin."""
        return self.videos or self.folder

    def load(self) -> Corpus:
        """Read the corpus, or the part of it that is named.

        Raises:
            CorpusError: it cannot be read, or has no such split.
        """
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
        timeout: seconds without progress after which a video is set aside.
        memory: MiB that reading one video may take.
        max_damage: share of a video's pictures that damage may spoil.
    """
    return MediaLimits(stall_timeout_s=timeout, memory_bytes=memory << 20, max_damaged_share=max_damage)


SHARED: dict[str, Any] = {
    "device": DeviceOption,
    "precision": PrecisionOption,
    "workers": Annotated[int, typer.Option(min=0, max=MOST_PROCESSES, help="Reader processes; 0: one a core.")],
    "retry": Annotated[bool, typer.Option("--retry", help="Try again what was set aside.")],
    "accept_licence": Annotated[bool, typer.Option("--accept-licence", help=LICENCE_HELP)],
    "limits": media_limits,
    "vision": Annotated[bool, typer.Option("--no-vision", help="Words only; loads no model.")],
    "read_text": Annotated[bool, typer.Option("--no-ocr", help="Do not read on-screen text.")],
    "cluster": Annotated[str, typer.Option(help=CLUSTER_HELP)],
    "resamples": Annotated[int, typer.Option(min=0, max=MOST)],
    "seed": Annotated[int, typer.Option(min=0, max=MOST_SEED)],
}
"""How a field of this name becomes an option, in the settings of whichever command."""
