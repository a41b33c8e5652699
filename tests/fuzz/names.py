"""Names and texts for random programs: plain ones, and those that have broken programs of this kind before."""

from __future__ import annotations

from random import Random

PLAIN_TENSORS = ("Q", "K", "V", "X", "Y", "W", "U", "A", "B", "C", "F", "G", "H", "R", "S", "P", "u", "w")
PLAIN_AXES = ("i", "j", "k", "c", "v", "a", "b", "p", "q", "s", "t")
PLAIN_SIZES = ("n", "m", "d", "h", "e")
PLAIN_PARAMETERS = ("scale", "cap", "rate", "shift")

HOSTILE = (
    *("n", "d", "m", "i", "j", "T", "x", "X", "Q", "q", "dX", "dQ", "dY", "dY_total", "Y_total", "Y", "r", "r2", "E"),
    *(
        "Z",
        "S",
        "S_max",
        "Q_scaled",
        "X_scaled",
        "S_exp",
        "I",
        "N",
        "O",
        "pi",
        "oo",
        "nan",
        "inf",
        "zoo",
        "e",
        "_",
        "__",
    ),
    *("max", "min", "abs", "sum", "exp", "log", "np", "numpy", "lambda_", "list", "print", "len", "range"),
    *(
        "zip",
        "None_",
        "self",
        "saved",
        "result",
        "grad_X",
        "X_dot",
        "M",
        "A",
        "L",
        "a",
        "where",
        "einsum",
        "sqrt",
        "xs",
    ),
    *("i2", "i_2", "j_1", "n_1", "true", "false", "Total", "Axis", "object", "type", "id", "input", "sp", "Symbol"),
    *("μ", "fi", "ñ", "ß", "s", "Δ", "δ", "Σ", "λ", "größe", "變數", "K", "dλ", "x1", "x_1", "naïve", "Ω", "ж"),
)
"""Names that meet generated ones, builtins, SymPy's own, or one another; all of them are allowed to Python."""

UNUSUAL = ("_", "__", "_1", "_2", "µ", "ﬁ", "ſ", "ᵃ", "\u2126", "x\u2081", "nai\u0308ve")
"""Names that look like bound axes, or that Python takes for others of these: a refusal is as good as a result."""

RESERVED = ("xp", "math", "matmul", "visible_only", "forward", "outputs", "Array", "dict", "float", "sigmoid")
"""Names that may well be refused for tensors, but stand for axes and sizes without any harm."""

TEXTS = (
    'a "quoted" word',
    'three """ of them',
    "it's ''' too",
    "a backslash \\ and \\n and \\u",
    "\\N{nothing}",
    "two\nlines",
    "a tab\tand a return\r",
    "{braces} and {0!r} and %s",
    "ends with a backslash \\",
    'ends with a quote"',
    "# comment\nimport nothing",
    "Σ_j ∂f/∂x — “typographic”",
    "",
    " ",
)


class Names:
    """Hands out names: for tensors and parameters each once, for axes each once, for sizes each once.

    A tensor may so be called like an axis, an axis like a size: they are different things.
    """

    def __init__(self, rng: Random, hostile: bool) -> None:
        self.rng, self.hostile = rng, hostile
        self.odd_texts = hostile and rng.random() < 0.15
        self.taken: set[tuple[str, str]] = set()

    def tensor(self) -> str:
        """A name for a tensor."""
        return self._new("variable", PLAIN_TENSORS, RESERVED if self.rng.random() < 0.01 else ())

    def parameter(self) -> str:
        """A name for a parameter."""
        return self._new("variable", PLAIN_PARAMETERS)

    def axis(self) -> str:
        """A name for an axis."""
        return self._new("axis", PLAIN_AXES, RESERVED)

    def size(self) -> str:
        """A name for a size."""
        return self._new("size", PLAIN_SIZES, RESERVED)

    def text(self) -> str:
        """A summary or meaning."""
        return self.rng.choice(TEXTS) if self.odd_texts and self.rng.random() < 0.4 else ""

    def program(self) -> str:
        """A name for the program."""
        names = ("fuzzed", "fuzzed", "numpy", "list", "print_", "X", "größe", "n")
        return self.rng.choice(names) if self.hostile else "fuzzed"

    def _new(self, group: str, plain: tuple[str, ...], more: tuple[str, ...] = ()) -> str:
        mixed = self.hostile and self.rng.random() < 0.7
        names = (*(UNUSUAL if self.rng.random() < 0.03 else HOSTILE), *more) if mixed else plain
        free = [n for n in names if (group, n) not in self.taken]
        name = self.rng.choice(free) if free else f"{plain[0]}{len(self.taken)}"
        self.taken.add((group, name))
        return name
