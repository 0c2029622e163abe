"""Tests and intervals that several audits share: Student's t, permutations, exchanges, intervals from samples."""
