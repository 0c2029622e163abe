"""Dual towers in ONNX form, calculated by ONNX Runtime: neither torch nor transformers is imported.

In the order of reading: `folder` (the files, checked), `external` (weights beside a graph), `captions` (tokens),
`encoder`; and `export` with `sharing` and `spiece`, which need torch.
"""
