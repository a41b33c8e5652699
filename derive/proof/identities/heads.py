"""Heads: the matrix form of one head, the ranks of its maps, several heads side by side, and groups that share keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, Total
from derive.algebra.binders import rewrite
from derive.calculus import backward
from derive.forward.program import Definition, Program
from derive.forward.special import with_identity
from derive.proof.identities.attention import SCALE
from derive.proof.identities.known import Known, renamed, with_entries_replaced
from derive.proof.statements import Identity, equation, products_sum_to_delta


def head_identities(program: Program) -> Iterator[Identity]:
    """One head with its maps and the residual: Y = H + A H W_V W_O (rows are positions)."""
    k = Known(program)
    yield from (k.stated(x) for x in (*_matrix_form(k), *_factors(k)))
    yield from _without_output_map(program)


def _matrix_form(k: Known) -> Iterator[Identity]:
    """Section 7 of the notes: with R = dS, every gradient is a product of R or A with what was there."""
    W_Q, W_K, W_V, W_O = (k.program.input(f"W_{n}").tensor for n in "QKVO")
    H, (i, x) = k.program.input("H").tensor, k.program.input("H").axes
    A, R, Q, K = (k.by_name[n].target.tensor for n in ("A", "dS", "Q", "K"))
    c, v = k.by_name["Q"].axes[1], k.by_name["V"].axes[1]
    G, B = k.at("dY").base, k.by_name["dO"].target.tensor
    j, q = Axis("j", i.size), Axis("q", i.size)
    chain = k.gradients
    query = SCALE * Total(R[i, j] * K[j, c] * W_Q[x, c], j, c)
    key = SCALE * Total(R[j, i] * Q[j, c] * W_K[x, c], j, c)
    value = Total(A[j, i] * B[j, v] * W_V[x, v], j, v)
    yield equation(
        "the gradient of states has four branches",
        k.at("dH"),
        G[i, x] + query + key + value,
        tuple(d for d in chain if d.name not in ("dS", "dO", "dA", "r")),
        setting="in columns: ∇H = G + W_Qᵀ K R/√d + W_Kᵀ Q Rᵀ/√d + W_Vᵀ B Aᵀ with G = ∇Y, B = ∇O and R = ∇S",
        relied_on="the compact expression of a whole head",
    )
    yield equation(
        "score gradients in matrix form",
        R[i, j],
        A[i, j] * (k.by_name["dA"].target.tensor[i, j] - Total(A[i, q] * k.by_name["dA"].target.tensor[i, q], q)),
        k.chosen("dS", "r"),
        relied_on="one number a query in place of a Jacobian",
    )
    maps: dict[str, tuple[str, Entry, sp.Expr]] = {
        "W_Q": ("K R Hᵀ/√d", W_Q[x, c], SCALE * Total(R[i, j] * K[j, c] * H[i, x], i, j)),
        "W_K": ("Q Rᵀ Hᵀ/√d", W_K[x, c], SCALE * Total(R[i, j] * Q[i, c] * H[j, x], i, j)),
        "W_V": ("B Aᵀ Hᵀ", W_V[x, v], Total(A[i, j] * B[i, v] * H[j, x], i, j)),
        "W_O": ("G Oᵀ", W_O[v, x], Total(G[i, x] * k.by_name["O"].target.tensor[i, v], i)),
    }
    for name, (formula, entry, right) in maps.items():
        yield equation(
            f"the gradient of {name}",
            k.by_name[f"d{name}"].target.tensor[entry.indices],
            right,
            k.chosen("dQ", "dK", "dV", f"d{name}"),
            setting=f"in columns: ∇{name} = {formula}",
            relied_on="the compact expression of a whole head",
        )


def _factors(k: Known) -> Iterator[Identity]:
    """The two effective maps of a head, as products over few coordinates."""
    W_Q, W_K, W_V, W_O = (k.program.input(f"W_{n}").tensor for n in "QKVO")
    H, (i, x) = k.program.input("H").tensor, k.program.input("H").axes
    c, v, y = k.by_name["Q"].axes[1], k.by_name["V"].axes[1], Axis("y", x.size)
    (_, j), A = k.by_name["S"].axes, k.by_name["A"].target.tensor
    compared = Total(W_Q[x, c] * W_K[y, c], c)
    yield equation(
        "scores compare states by a map of rank d",
        k.at("S"),
        SCALE * Total(H[i, x] * compared * H[j, y], x, y),
        k.chosen("Q", "K", "S"),
        setting="the map that compares x with y is a product over the d coordinates c",
        relied_on="rank ≤ d of the compatibility map; the softmax of it may have any rank",
    )
    written = Total(W_V[x, v] * W_O[v, y], v)
    yield equation(
        "a head writes by a map of rank d_v",
        k.by_name["Y"].target.tensor[i, y] - H[i, y],
        Total(A[i, j] * H[j, x] * written, j, x),
        k.chosen("V", "O", "Y"),
        setting="the map that writes x to y is a product over the d_v coordinates v",
        relied_on="rank ≤ d_v of the value map: a head writes in few directions",
    )


def _without_output_map(program: Program) -> Iterator[Identity]:
    """W_O = I: what the derivation of the smaller program says is what the larger one says at W_O = I."""
    small, large = Known(with_identity(program, "W_O")), Known(program)
    resize = {large.by_name["V"].axes[1].size: small.by_name["V"].axes[1].size}
    axes = {
        a: Axis.of(a.name, resize[a.size]) for d in large.definitions for a in d.value.atoms(Axis) if a.size in resize
    }
    axes |= {a: Axis.of(a.name, resize[a.size]) for d in large.definitions for a in d.axes if a.size in resize}
    W_O = program.input("W_O").tensor.xreplace(resize)
    resized = tuple(
        Definition(d.target.xreplace(axes).xreplace(resize), d.value.xreplace(axes).xreplace(resize))
        for d in large.definitions
    )
    special = with_entries_replaced(resized, W_O, lambda entry: Delta(*entry.indices))
    gradients = renamed([d for d in special if d.name in large.backward], "at_I")
    here = {d.name: d for d in gradients}
    for name in ("dH", "dW_Q", "dW_K", "dW_V"):
        left, right = small.by_name[name], here[f"{name}_at_I"]
        yield small.stated(
            equation(
                f"{name} without an output map",
                left.target,
                right.target.xreplace(dict(zip(right.axes, left.axes, strict=True))),
                (*_needed(left, small.gradients), *_needed(right, gradients)),
                setting="what ends in _at_I belongs to the head with an output map, at W_O = I",
                relied_on="notes that fold the output map into the value map",
            )
        )


def _needed(last: Definition, chain: Sequence[Definition]) -> tuple[Definition, ...]:
    """The definitions of a chain that one of them is made of, itself among them."""
    needed, kept = {last.target.base}, []
    for definition in reversed(chain):
        if definition.target.base in needed:
            needed |= {e.base for e in definition.value.atoms(Entry)}
            kept.append(definition)
    return tuple(reversed(kept))


def side_by_side(program: Program) -> Iterator[Identity]:
    """The sum of the heads' updates is one output map of what the heads give side by side."""
    k = Known(program)
    O, W_O = k.by_name["O"], program.input("W_O")
    (h, _, v), x = O.axes, W_O.axes[2]
    place, g, u = Axis("k", "H_d_v"), Axis("g", h.size), Axis("u", v.size)
    P = Tensor("P", place, h, v)
    beside = Total(P[place, h, v] * O.target, h, v)
    stacked = Total(P[place, g, u] * W_O.tensor[g, u, x], g, u)
    yield k.stated(
        equation(
            "the sum of heads is one map of their concatenation",
            k.at("Y"),
            Total(beside * stacked, place),
            k.chosen("Y"),
            premises=(products_sum_to_delta(P[place, h, v], P[place, g, u], place, "places hold one coordinate each"),),
            setting="P[k,h,v] is 1 where place k of the concatenation holds coordinate v of head h, else 0",
            relied_on="implementations that concatenate heads and multiply once",
            refutable=False,
        )
    )


def shared_keys(program: Program) -> Iterator[Identity]:
    """Keys and values that a group shares learn what copies of them would learn together."""
    shared = Known(program)
    own = program.input("K").axes[:-2]
    (member,) = (a for a in shared.by_name["S"].axes[:-2] if a not in own)
    names = {name: program.input(name) for name in "KV"}
    copies = {g.tensor: Tensor(f"{n}_each", *own, member, *g.axes[len(own) :]) for n, g in names.items()}

    def copied(node: sp.Expr) -> sp.Expr:
        if isinstance(node, Entry) and node.base in copies:
            at = len(own)
            return copies[node.base][(*node.indices[:at], member, *node.indices[at:])]
        return node

    def given(tensor: Tensor, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return (*axes[: len(own)], member, *axes[len(own) :]) if tensor in copies else axes

    inputs = tuple(
        replace(g, tensor=copies[g.tensor], axes=given(g.tensor, g.axes), dims=()) if g.tensor in copies else g
        for g in program.inputs
    )
    definitions = tuple(replace(d, value=rewrite(d.value, copied)) for d in program.definitions)
    separate = backward(replace(program, inputs=inputs, definitions=definitions)).derived.definitions
    back = {copy: tensor for tensor, copy in copies.items()}

    def original(node: sp.Expr) -> sp.Expr:
        if isinstance(node, Entry) and node.base in back:
            at = len(own)
            return back[node.base][(*node.indices[:at], *node.indices[at + 1 :])]
        return node

    copied_gradients = renamed([replace(d, value=rewrite(d.value, original)) for d in separate], "apart")
    for name in "KV":
        each = next(d for d in copied_gradients if d.name == f"d{name}_each_apart")
        yield shared.stated(
            equation(
                f"d{name} is the sum over the group",
                shared.at(f"d{name}"),
                Total(each.target, member),
                (*_needed(shared.backward[f"d{name}"], shared.gradients), *_needed(each, copied_gradients)),
                setting=f"what ends in _apart is of a program with a copy of {name} for each member of the group",
                relied_on="grouped-query kernels accumulate dK and dV over the group",
            )
        )
