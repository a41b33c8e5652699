"""Named axes, indexed tensors, sums over axes, and the rewrites that keep them canonical."""

from derive.algebra.axes import Axis, free_axes, fresh, is_bound
from derive.algebra.binders import Binder, Maximum, Supremum, Total
from derive.algebra.canonical import canonical, equal
from derive.algebra.fold import fold
from derive.algebra.tensors import Delta, Entry, Indicator, Tensor, Visible
from derive.algebra.terms import Term, compacted, factor_common, from_terms, powers_of, terms_of

__all__ = [
    "Axis",
    "Binder",
    "Delta",
    "Entry",
    "Indicator",
    "Maximum",
    "Supremum",
    "Tensor",
    "Term",
    "Total",
    "Visible",
    "canonical",
    "compacted",
    "equal",
    "factor_common",
    "fold",
    "free_axes",
    "fresh",
    "from_terms",
    "is_bound",
    "powers_of",
    "terms_of",
]
