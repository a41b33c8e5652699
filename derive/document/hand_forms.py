"""Forward and backward passes as people write them by hand, and one rule to count array operations in any code.

The formulas are those of llm.c (attention, layer norm, GELU by a tanh), of PyTorch's reference for SwiGLU and RMSNorm,
and of every textbook for cross-entropy; constants are multiplied out, and no value is computed twice.
"""

from __future__ import annotations

import ast

HAND_FORMS: dict[str, str] = {
    "attention": """
S = scale * (Q @ K.mT)
E = xp.exp(S - xp.max(S, axis=-1)[..., None])
A = E / xp.sum(E, axis=-1)[..., None]
O = A @ V
dV = A.mT @ dO
dA = dO @ V.mT
r = xp.sum(A * dA, axis=-1)
dS = A * (dA - r[..., None])
dQ = scale * (dS @ K)
dK = scale * (dS.mT @ Q)
""",
    "softmax_rows": """
S = X / temperature
E = xp.exp(S - xp.max(S, axis=-1)[..., None])
P = E / xp.sum(E, axis=-1)[..., None]
dX = P * (dP - xp.sum(P * dP, axis=-1)[..., None]) / temperature
""",
    "layer_norm": """
mean = xp.sum(X, axis=-1) / D
centred = X - mean[..., None]
rstd = 1 / xp.sqrt(xp.sum(centred ** 2, axis=-1) / D + eps)
normed = centred * rstd[..., None]
Y = normed * weight + shift
dweight = xp.sum(dY * normed, axis=-2)
dshift = xp.sum(dY, axis=-2)
moved = dY * weight
first = xp.sum(moved, axis=-1) / D
second = xp.sum(moved * normed, axis=-1) / D
dX = rstd[..., None] * (moved - first[..., None] - normed * second[..., None])
""",
    "rms_norm": """
rstd = 1 / xp.sqrt(xp.sum(X ** 2, axis=-1) / D + eps)
normed = X * rstd[..., None]
Y = normed * weight
dweight = xp.sum(dY * normed, axis=-2)
moved = dY * weight
second = xp.sum(moved * normed, axis=-1) / D
dX = rstd[..., None] * (moved - normed * second[..., None])
""",
    "gelu_tanh_mlp": """
U = X @ W_up + b_up
bend = xp.tanh(root * (U + third * U ** 3))
H = half * U * (1 + bend)
Y = H @ W_down + b_down
dW_down = H.mT @ dY
db_down = xp.sum(dY, axis=-2)
dH = dY @ W_down.mT
slope = half * (1 + bend) + half * U * (1 - bend ** 2) * (root + tripled * U ** 2)
dU = dH * slope
dW_up = X.mT @ dU
db_up = xp.sum(dU, axis=-2)
dX = dU @ W_up.mT
""",
    "gelu_mlp": """
U = X @ W_up + b_up
bend = erf(xp, root * U)
H = half * U * (1 + bend)
Y = H @ W_down + b_down
dW_down = H.mT @ dY
db_down = xp.sum(dY, axis=-2)
dH = dY @ W_down.mT
slope = half * (1 + bend) + U * (density * xp.exp(minus_half * U ** 2))
dU = dH * slope
dW_up = X.mT @ dU
db_up = xp.sum(dU, axis=-2)
dX = dU @ W_up.mT
""",
    "swiglu": """
U = X @ W_gate
B = X @ W_up
sig = sigmoid(xp, U)
gate = U * sig
H = gate * B
Y = H @ W_down
dW_down = H.mT @ dY
dH = dY @ W_down.mT
dB = dH * gate
dU = dH * B * sig * (1 + U * (1 - sig))
dW_gate = X.mT @ dU
dW_up = X.mT @ dB
dX = dU @ W_gate.mT + dB @ W_up.mT
""",
    "cross_entropy": """
S = Z / temperature
top = xp.max(S, axis=-1)
E = xp.exp(S - top[..., None])
total = xp.sum(E, axis=-1)
counted = targets >= 0
N = maximum(xp, 1, xp.sum(as_numbers(xp, counted, Z), axis=-1))
nll = visible_only(xp, top + xp.log(total) - gathered(xp, S, targets, 0, 0), counted)
loss = xp.sum(nll, axis=-1) / N
P = E / total[..., None]
onehot = as_numbers(xp, xp.arange(T) == targets[..., None], Z)
dS = visible_only(xp, (P - onehot) * (dloss / N), counted)
dZ = dS / temperature
""",
}
"""By the program that computes the same."""

_SCALARS = {
    *("scale", "temperature", "eps", "half", "minus_half", "root", "third", "tripled", "density"),
    *("D", "T", "F", "n", "m", "d", "d_v", "math", "xp", "max", "epsilon"),
}

_FREE = {"moveaxis", "reshape", "broadcast_to", "filled", "arange", "asarray", "zeros_like", "checked"}
"""Calls that make views, numbers that depend on shapes alone, or an error."""


def operations_in(source: str) -> int:
    """How many array operations Python code spells: arithmetic, comparisons and calls that touch an array.

    Views, positions and arithmetic of scalars are free; docstrings, signatures and dictionaries hold none.
    """
    tree = ast.parse(source)
    return sum(_counts(node) for statement in _assignments(tree) for node in ast.walk(statement))


def _assignments(tree: ast.Module) -> list[ast.expr]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    named = [node for node in found if not (isinstance(node.targets[0], ast.Name) and node.targets[0].id in _SCALARS)]
    return [node.value for node in named if not isinstance(node.value, (ast.Dict, ast.Tuple))]


def _counts(node: ast.AST) -> int:
    if isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp)):
        return int(_touches_an_array(node))
    if not isinstance(node, ast.Call):
        return 0
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _FREE or not any(map(_touches_an_array, node.args)):
        return 0
    return len(node.args) - 1 if name == "all_of" else 1


def _touches_an_array(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "arange":
        return True
    if isinstance(node, ast.Name):
        return node.id not in _SCALARS
    return any(map(_touches_an_array, ast.iter_child_nodes(node)))
