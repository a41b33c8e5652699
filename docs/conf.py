"""Sphinx configuration: Markdown pages, formulas by MathJax or KaTeX in the reader's browser."""

project = "backprove"
author = "The backprove authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
exclude_patterns = ["_build"]
