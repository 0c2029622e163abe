"""Devices that towers and matchers calculate on."""

from __future__ import annotations

import torch

from evenreel.errors import UsageError


def usable_device(name: str, precision: str) -> torch.device:
    """Return the device of a name, after a check that it can be used."""
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        device = torch.device(chosen)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"The device {name!r} cannot be used here ({str(error).splitlines()[0]}).") from error
    if device.type == "cpu" and precision == "float16":
        raise UsageError("float16 needs a GPU; use float32 or bfloat16 on the CPU.")
    return device
