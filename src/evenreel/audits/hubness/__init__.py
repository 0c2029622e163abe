"""Audit of hubs: are a few clips first for many captions, more than by chance?"""
