"""Measuring: metrics of any system's scores, with intervals, on numpy alone."""
