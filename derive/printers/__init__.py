"""Printers: small, one a target. They print what they are given and optimise nothing."""
