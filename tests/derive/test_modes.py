"""Modes, compact forms and special cases: programs made from programs, and what they must equal."""

from __future__ import annotations

import pytest

from derive.algebra import Axis
from derive.calculus import backward, compact_form
from derive.errors import DefinitionError
from derive.forward import Builder, Program, program
from derive.forward.special import one_of, with_identity
from derive.modes import COMMITTED, MODES, derivation_in, in_mode, names, taken_apart
from derive.modes import program as mode_of
from derive.pipeline import module
from derive.printers.derivation import page
from derive.proof.checks import compacting_changed_nothing, forward_mode_agrees, tangents_agree

SOME = ("attention", "layer_norm", "swiglu", "alibi_attention", "decode_step", "cross_entropy", "gpt_block")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SOME)
def test_every_mode_of_any_program_is_a_program_that_is_proved_like_one(name: str, mode: str) -> None:
    """Not only the committed ones: fingerprints of its own backward pass, where it has one."""
    made = in_mode(program(name), mode)
    assert made.name == f"{name}_{mode.replace('-', '_')}"
    derivation = backward(made)
    assert bool(derivation.derived.outputs) == (mode == "double-backward")
    if mode != "double-backward":
        assert tangents_agree(derivation_in(program(name), mode)) == []
    if derivation.derived.outputs:
        assert compacting_changed_nothing(derivation) == []
        assert forward_mode_agrees(derivation)


def test_modes_are_known_by_name_and_made_once() -> None:
    assert mode_of("attention_tangent") is mode_of("attention_tangent")
    assert mode_of("attention_tangent").name == "attention_tangent"
    assert mode_of("attention") is program("attention")
    assert set(COMMITTED) < set(names())
    with pytest.raises(DefinitionError, match="there is no mode 'sideways'; there are backward, tangent"):
        in_mode(program("attention"), "sideways")
    with pytest.raises(DefinitionError, match="there is no program 'nothing'"):
        mode_of("nothing_tangent")


def test_double_backward_of_attention_is_compact() -> None:
    """Nine definitions, no larger than the first backward pass's matrices, and softmax's own form once more."""
    derived = derivation_in(program("attention").plain(), "double-backward").derived
    shown = {
        line.left: line.right
        for line in page(derivation_in(program("attention").plain(), "double-backward"), "row").result
    }
    assert shown["∇grad_S"] == "((∇grad_Q)Kᵀ + Q(∇grad_K)ᵀ)/√d"
    assert shown["∇V"] == "(∇grad_A)ᵀ grad_O"
    assert shown["∇S"] == "A ∘ (∇A − r2 1ᵀ)"
    assert len(derived.definitions) == 11


def lines(name: str, notation: str, identity: str = "") -> dict[str, str]:
    source = program(name).plain()
    source = with_identity(source, identity) if identity else source
    shown = page(backward(source), notation, compact=True).compact  # type: ignore[arg-type]
    return {line.left: f"{line.right}  {line.rule}".strip() for line in shown}


def test_the_head_of_the_notes_has_their_compact_expression() -> None:
    assert lines("attention_head", "column") == {
        "∇W_O": "GOᵀ",
        "B = ∇O": "W_Oᵀ G",
        "E = ∇A": "VᵀB",
        "R = ∇S": "A ∘ (E − 1 colsum(A ∘ E)ᵀ)",
        "∇W_V": "BAᵀHᵀ",
        "∇W_K": "QRᵀHᵀ/√d",
        "∇H": "G + W_Qᵀ K R/√d + W_Kᵀ Q Rᵀ/√d + W_Vᵀ B Aᵀ  residual + query + key + value",
        "∇W_Q": "KRHᵀ/√d",
    }


def test_with_the_output_map_the_identity_the_shorter_expression_is_left() -> None:
    shorter = lines("attention_head", "column", "W_O")
    assert shorter["∇H"] == "G + W_Qᵀ K R/√d + W_Kᵀ Q Rᵀ/√d + W_Vᵀ G Aᵀ  residual + query + key + value"
    assert shorter["E = ∇A"] == "VᵀG"
    assert shorter["∇W_V"] == "GAᵀHᵀ"
    assert "B = ∇O" not in shorter
    assert "∇W_O" not in shorter


def test_the_row_convention_has_the_transposed_expression() -> None:
    assert lines("attention_head", "row")["∇H"].startswith("G + R K W_Qᵀ/√d + Rᵀ Q W_Kᵀ/√d + Aᵀ B W_Vᵀ")


def test_one_query_alone_gives_the_notes_routing_rules() -> None:
    """α_j g for the values, β_j = α_j gᵀ(v_j − o) for the scores, and what they give queries and keys."""
    alone = one_of(program("attention").plain(), "i")
    derivation = backward(alone)
    assert {str(f.target.tensor.name): len(f.target.indices) for f in compact_form(derivation)} == {
        "dV": 2,
        "dS": 1,
        "dQ": 1,
        "dK": 2,
    }
    shown = {line.left: line.right for line in page(derivation, "index", compact=True).compact}
    assert shown == {
        "∇V[j,v]": "A[j] ∇O[v]",
        "∇S[j]": "A[j] Σ_v ∇O[v] (V[j,v] − O[v])",
        "∇Q[c]": "Σ_j K[j,c] ∇S[j]/√d",
        "∇K[j,c]": "Q[c] ∇S[j]/√d",
    }
    assert compacting_changed_nothing(derivation) == []


def test_a_position_that_is_used_as_a_number_becomes_a_parameter() -> None:
    alone = one_of(program("causal_attention").plain(), "i")
    assert [p.name for p in alone.parameters] == ["scale", "offset", "i"]
    assert compacting_changed_nothing(backward(alone)) == []


@pytest.mark.parametrize(
    ("name", "axis", "message"),
    [
        ("attention", "j", "attention: M takes part at other positions of j too; fix another axis"),
        ("attention", "z", "attention has no axis 'z'; it has i, c, j, v"),
        ("attention_head", "i", "attention_head: .* takes part at other positions of i too|attention_head has no"),
    ],
)
def test_what_does_not_stand_alone_is_said(name: str, axis: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        one_of(program(name), axis)


def test_only_a_map_can_be_the_identity() -> None:
    with pytest.raises(DefinitionError, match="attention: mask is no map between two axes"):
        with_identity(program("attention"), "mask")
    with pytest.raises(DefinitionError, match="layer_norm: weight is no map between two axes"):
        with_identity(program("layer_norm"), "weight")


@pytest.mark.parametrize("name", [n for n in COMMITTED if not n.endswith("_double_backward")])
def test_committed_tangents_are_what_dual_numbers_give(name: str) -> None:
    base, mode = taken_apart(name)
    assert tangents_agree(derivation_in(program(base), mode), seed=1) == []


def test_an_index_that_is_looked_up_loses_a_fixed_axis_too() -> None:
    """W[tokens[i], x] of one position is W[tokens, x]: no axis may be left in an index of an index."""
    alone = one_of(program("embedding"), "i")
    assert [p.name for p in alone.parameters] == []
    assert {a.name for a in alone.definition("X").value.atoms(Axis)} == {"x"}
    assert compacting_changed_nothing(backward(alone)) == []


def test_a_table_that_is_looked_up_in_is_no_map() -> None:
    with pytest.raises(DefinitionError, match="W_E is a table that is looked up in"):
        with_identity(program("embedding"), "W_E")


def mixed() -> Program:
    """Two outputs, of which one depends on nothing that moves."""
    i = Axis("i", "n")
    b = Builder("mixed", "")
    moves, stays = b.input("a", i), b.input("b", i, constant=True)
    b.define("X", (i,), moves[i] ** 2)
    b.define("Y", (i,), 3 * stays[i])
    return b.output("X").output("Y").build()


def test_what_does_not_move_has_the_tangent_zero() -> None:
    made = in_mode(mixed(), "tangent")
    assert [o.name for o in made.outputs] == ["X", "Y", "tX", "tY"]
    assert tangents_agree(derivation_in(mixed(), "tangent")) == []
    assert "tY = xp.zeros_like(X)" in module(made, "numpy")


def test_a_program_without_gradients_has_none_to_go_on_from() -> None:
    i = Axis("i", "n")
    b = Builder("still", "")
    X = b.input("X", i, constant=True)
    b.define("Y", (i,), 2 * X[i])
    still = b.output("Y").build()
    for mode in ("double-backward", "hessian-vector"):
        with pytest.raises(DefinitionError, match="still has no input that a gradient is asked for"):
            in_mode(still, mode)


def test_the_plain_form_of_a_mode_keeps_what_the_mode_is_for() -> None:
    assert [o.name for o in mode_of("attention_tangent").plain().outputs] == ["O", "tO"]
    assert [o.name for o in mode_of("attention_double_backward").plain().outputs] == ["grad_Q", "grad_K", "grad_V"]
