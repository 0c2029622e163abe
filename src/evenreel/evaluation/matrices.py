"""Lists, tables and tensors as plain arrays of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import described
from evenreel.errors import ScoresError


def as_table(values: Any, what: str = "The scores") -> NDArray[Any]:
    """Convert lists, tables and tensors to arrays; a tensor may be on any device, need gradients or be bfloat16.

    Args:
        values: numbers in any of these forms; they are copied only where their form asks for it.
        what: name of the values, in the plural, for messages.

    Raises:
        ScoresError: they are sparse, masked, or nothing that numpy makes an array of.
    """
    if values is None:
        raise ScoresError(f"The table of {what.removeprefix('The ')} is None; give an array of numbers with two axes.")
    if hasattr(values, "toarray"):  # numpy makes one object of a sparse matrix
        raise ScoresError(
            f"The table of {what.removeprefix('The ')} is {described(values)}, which leaves numbers out; give its "
            ".toarray(), in which 0 is a score like any other."
        )
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu()
            values = values.float() if "bfloat16" in str(values.dtype) else values  # numpy has no such numbers
        return unmasked(values, what)
    except (ValueError, TypeError, RuntimeError) as error:
        why = "its rows differ in length" if "inhomogeneous" in str(error) else str(error).splitlines()[0]
        raise ScoresError(f"{what} are no table of numbers ({why}); give an array with two axes.") from error


def unmasked(values: Any, what: str) -> NDArray[Any]:
    """Convert values to a plain array; masked values are refused, since a plain array would show what the mask hides.

    Args:
        values: an array, or what numpy makes one of.
        what: name of the values, in the plural, for the message.

    Raises:
        ScoresError: a value is masked.
    """
    masked = int(np.ma.getmaskarray(values).sum()) if isinstance(values, np.ma.MaskedArray) else 0
    if masked:
        raise ScoresError(
            f"{what} are a masked array with {masked:,} of {values.size:,} values masked, and a ranking has no place "
            "for these; fill them, with .filled(-numpy.inf) for what is never to be found."
        )
    return np.asarray(values)
