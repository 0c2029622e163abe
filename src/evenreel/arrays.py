"""Names of the kinds of arrays that are columns of a table or rows of a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
"""(N,) A number for each of N things."""

Indices = NDArray[np.int64]
"""(N,) Whole numbers: rows of a table or matrix, or counts."""

Flags = NDArray[np.bool_]
"""(N,) True or False for each of N things."""
