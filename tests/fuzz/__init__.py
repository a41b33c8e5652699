"""Fuzzing: random programs and statements, held against an evaluator that shares no code with the package."""
