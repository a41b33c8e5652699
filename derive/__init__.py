"""The symbolic layer: definitions in, derivations, proofs, code and documents out.

Importing :mod:`derive` itself loads nothing heavy; its subpackages import SymPy and never numpy,
cupy or :mod:`numeric`.
"""
