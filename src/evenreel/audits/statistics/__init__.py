"""Tests and intervals that several audits share: Student, permutation and exchange, and their inversion."""
