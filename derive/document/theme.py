"""The look of a page: a calm textbook, in light and dark."""

STYLE = """\
:root {
  color-scheme: light dark;
  --paper: #fdfcf9; --ink: #23262b; --quiet: #636a73; --rule: #e4e0d6; --panel: #f6f3ec;
  --accent: #1f5f8b; --wrong: #a83232; --right: #2c6e49;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #17191d; --ink: #dfe1e4; --quiet: #9aa1ab; --rule: #30343b; --panel: #1e2126;
    --accent: #7fb8e0; --wrong: #ef8f8f; --right: #85c9a0;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.65 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, "Noto Serif", "DejaVu Serif", serif;
}
main { max-width: 46rem; margin: 0 auto; padding: 3.5rem 1.25rem 6rem; overflow-wrap: break-word; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 1.5rem; font-weight: 600; letter-spacing: -0.01em; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3.5rem 0 1rem; font-weight: 600; }
h3 { font-size: 1.12rem; line-height: 1.4; margin: 2.5rem 0 0.75rem; font-weight: 600; }
h2 { padding-top: 1.5rem; border-top: 1px solid var(--rule); }
p, ul, ol { margin: 0 0 1rem; }
ul, ol { padding-left: 1.4rem; }
li { margin-bottom: 0.35rem; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: 0.18em; }
nav { margin: 2rem 0 0; font-size: 0.95rem; }
nav ol { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1.4rem; }
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
math { font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", "TeX Gyre Termes Math", math; }
.work { margin: 0 0 1.5rem; padding: 0.4rem 1.1rem; background: var(--panel); border-radius: 8px; }
.line {
  padding: 0.7rem 0; border-bottom: 1px solid var(--rule);
  display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; column-gap: 1.5rem;
}
.line:last-child { border-bottom: 0; }
.label { flex-basis: 100%; font-size: 0.85rem; color: var(--quiet); }
.formula { max-width: 100%; overflow-x: auto; overflow-y: hidden; padding: 0.35rem 0.7rem 0.35rem 0; }
.formula math { width: max-content; margin: 0; font-size: 1.06em; }
.note { max-width: 100%; font-size: 0.93rem; color: var(--quiet); line-height: 1.5; }
.mark { font-size: 0.78rem; font-weight: 600; text-transform: uppercase; letter-spacing: 0.06em; }
.right .mark { color: var(--right); }
.wrong .mark { color: var(--wrong); }
.wide { display: inline-block; max-width: 100%; overflow-x: auto; overflow-y: hidden; vertical-align: middle; }
mtable.matrix {
  margin: 0 0.15em; padding: 0 0.3em; border: solid currentcolor; border-width: 0 1.5px; border-radius: 0.7em;
}
mtable.matrix mtd { padding: 0.22em 0.45em; }
blockquote {
  margin: 0 0 1rem; padding: 0.1rem 0 0.1rem 1.1rem; border-left: 3px solid var(--wrong); font-style: italic;
}
blockquote p { margin: 0; }
details { margin: 0 0 1rem; }
summary { cursor: pointer; color: var(--accent); width: fit-content; }
details[open] summary { margin-bottom: 0.4rem; }
.questions { padding-left: 1.4rem; }
.questions > li { margin-bottom: 1.25rem; }
.questions > li > p { margin-bottom: 0.4rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
@media (max-width: 30rem) {
  main { padding: 2rem 1rem 4rem; }
  h1 { font-size: 1.65rem; }
  h2 { font-size: 1.25rem; margin-top: 2.5rem; }
  .work { padding: 0.3rem 0.8rem; margin-left: -0.3rem; margin-right: -0.3rem; }
}
@media print { .work { background: none; padding: 0; } nav { display: none; } }
"""
