"""Audit of length bias: does a ranking favour clips for their length, as lengths in training suggest?"""
