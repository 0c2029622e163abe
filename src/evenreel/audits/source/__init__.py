"""Audit of source bias: does a ranking favour generated clips? Measured in pairs with mirrors, or over the gallery."""
