"""What one of several processes that serve a library is told when it is started, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from evenreel.config import MediaLimits
from evenreel.server.settings import ServeSettings


@dataclass(frozen=True)
class WorkerTask:
    """What a worker needs to know: the library, the settings of all workers, and a folder that they share."""

    library: Path
    settings: ServeSettings
    shared: Path

    def to_json(self) -> bytes:
        """Write the task down; a path that is no UTF-8 is kept as it is."""
        return json.dumps(asdict(self), default=str).encode()

    @staticmethod
    def from_json(text: bytes) -> WorkerTask:
        """Read a task, the inverse of `to_json`."""
        told = json.loads(text)
        settings, cache = told["settings"], told["settings"]["snapshot_cache"]
        return WorkerTask(
            library=Path(told["library"]),
            settings=ServeSettings(
                **settings
                | {
                    "allowed_hosts": tuple(settings["allowed_hosts"]),
                    "trusted_proxies": tuple(settings["trusted_proxies"]),
                    "cache": Path(settings["cache"]),
                    "snapshot_cache": None if cache is None else Path(cache),
                    "limits": MediaLimits(**settings["limits"]),
                    "image_limits": MediaLimits(**settings["image_limits"]),
                }
            ),
            shared=Path(told["shared"]),
        )
