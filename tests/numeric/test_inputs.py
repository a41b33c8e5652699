"""Bad input is an error that names the program, the tensor, what it is, what was expected and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import numeric
from numeric.backends import cupy_missing


def _inputs(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"Q": (2, 3, 4), "K": (2, 5, 4), "V": (2, 5, 6)}
    return {**{n: rng.standard_normal(s) for n, s in shapes.items()}, **changes}


BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown name": ({"v": np.ones((5, 6))}, ["'v'", "did you mean 'V'", "Q, K, V, mask, bias, scale"]),
    "missing input": ({"V": None}, ["V [.., m, d_v] is missing", "values"]),
    "another width": ({"K": np.ones((2, 5, 3))}, ["K", "(2, 5, 3)", "d = 4", "(2, 3, 4)"]),
    "another length": ({"V": np.ones((2, 7, 6))}, ["V", "(2, 7, 6)", "m = 5"]),
    "too few axes": ({"Q": np.ones(4)}, ["Q", "(4,)", "[.., n, d]"]),
    "leading axes": ({"V": np.ones((3, 5, 6))}, ["leading axes", "(3, 5, 6)", "(2, 3, 4)"]),
    "mixed dtypes": ({"K": np.ones((2, 5, 4), np.float32)}, ["mixed dtype", "K is float32", "Q is float64"]),
    "integers": (
        {n: np.ones(s, int) for n, s in (("Q", (3, 4)), ("K", (5, 4)), ("V", (5, 6)))},
        ["Q", "int64", "float64"],
    ),
    "complex": ({"Q": np.ones((2, 3, 4), complex)}, ["Q", "complex128", "float16"]),
    "objects": ({"Q": np.ones((2, 3, 4), object)}, ["Q", "object"]),
    "mask larger than the scores": ({"mask": np.ones((3, 2, 3, 5), bool)}, ["mask", "(3, 2, 3, 5)", "(2, 3, 5)"]),
    "mask of another size": ({"mask": np.ones((3, 4), bool)}, ["mask", "(3, 4)", "(2, 3, 5)"]),
    "mask of numbers": ({"mask": np.ones((3, 5))}, ["mask", "float64", "bool", "bias"]),
    "bias of another dtype": ({"bias": np.ones((3, 5), np.float32)}, ["bias is float32", "Q is float64"]),
    "bias larger than the scores": ({"bias": np.ones((2, 2, 3, 5))}, ["bias", "(2, 2, 3, 5)"]),
    "a list": ({"Q": [[1.0]]}, ["Q", "list", "numpy.asarray(Q)"]),
    "a matrix": ({"Q": np.ones((3, 4)).view(np.matrix)}, ["Q", "matrix", "numpy.asarray(Q)"]),
    "a masked array": ({"Q": np.ma.ones((2, 3, 4))}, ["Q", "MaskedArray"]),
    "scale that is no number": ({"scale": "large"}, ["scale", "'large'", "finite number"]),
    "scale that is not finite": ({"scale": float("nan")}, ["scale", "nan", "finite number"]),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_inputs_are_explained(case: str) -> None:
    """Every message holds the facts that are needed to mend the call."""
    changes, facts = BAD[case]
    with pytest.raises(numeric.InputError) as caught:
        numeric.load("attention").forward(**_inputs(**changes))
    message = str(caught.value)
    assert message.startswith("attention: ")
    for fact in facts:
        assert fact in message, message


def test_an_offset_is_an_integer() -> None:
    """A fractional or boolean offset is refused."""
    for offset in (0.5, True, np.float64(1)):
        with pytest.raises(numeric.InputError, match="offset"):
            numeric.load("causal_attention").forward(**_inputs(offset=offset))
    numeric.load("causal_attention").forward(**_inputs(offset=np.int64(1)))


@pytest.mark.parametrize(
    ("cotangents", "facts"),
    [
        ({"P": np.ones((2, 3, 6))}, ["'P'", "O, L"]),
        ({"o": np.ones((2, 3, 6))}, ["did you mean 'O'"]),
        ({"O": np.ones((2, 3, 5))}, ["(2, 3, 5)", "(2, 3, 6)"]),
        ({"O": np.ones((2, 3, 6), np.float32)}, ["float32", "float64"]),
        ({"L": np.ones((3,))}, ["L", "(3,)", "(2, 3)"]),
        ({"O": 1.0}, ["the cotangent of O", "float"]),
    ],
    ids=["unknown", "another case", "shape", "dtype", "shape of L", "a number"],
)
def test_bad_cotangents_are_explained(cotangents: dict[str, Any], facts: list[str]) -> None:
    """A cotangent has the shape and dtype of its output."""
    kernel = numeric.load("attention")
    result = kernel.forward(**_inputs())
    with pytest.raises(numeric.InputError) as caught:
        kernel.backward(result, cotangents)
    for fact in facts:
        assert fact in str(caught.value)


def test_unknown_names_list_the_known_ones() -> None:
    """Programs and backends."""
    with pytest.raises(numeric.UnknownProgramError, match="attention, causal_attention"):
        numeric.load("atention")
    with pytest.raises(numeric.BackendError, match="numpy, cupy"):
        numeric.load("attention", backend="jax")


@pytest.mark.skipif(cupy_missing() is None, reason="CuPy can run here")
def test_cupy_without_a_device_says_why() -> None:
    """The message names what is missing."""
    with pytest.raises(numeric.BackendError, match=r"cannot run here: .*(no CUDA device|does not import)"):
        numeric.load("attention", backend="cupy")


def test_missing_cotangents_mean_zero(program: str) -> None:
    """No cotangent at all gives gradients that are exactly zero, in the inputs' shapes."""
    kernel = numeric.load(program)
    inputs = _inputs()
    result = kernel.forward(**inputs)
    for cotangents in ({}, {"O": None}, {"L": None}):
        gradients = kernel.backward(result, cotangents)
        assert {n: g.shape for n, g in gradients.items()} == {n: a.shape for n, a in inputs.items()}
        assert all((g == 0).all() for g in gradients.values())


def test_only_given_optional_inputs_get_gradients(program: str) -> None:
    """The bias has a gradient where it was given; a mask never has one."""
    kernel, bias = numeric.load(program), np.zeros((1, 5))
    plain = kernel.backward(kernel.forward(**_inputs()), {})
    full = kernel.backward(kernel.forward(**_inputs(bias=bias, mask=np.ones((3, 5), bool))), {})
    assert set(plain) == {"Q", "K", "V"}
    assert set(full) == {"Q", "K", "V", "bias"}
    assert full["bias"].shape == bias.shape


def test_inputs_are_never_written(program: str) -> None:
    """Read-only inputs work, and keep their bytes."""
    inputs = _inputs(bias=np.zeros((3, 5)), mask=np.ones((3, 5), bool))
    for array in inputs.values():
        array.flags.writeable = False
    before = {n: a.tobytes() for n, a in inputs.items()}
    kernel = numeric.load(program)
    kernel.backward(kernel.forward(**inputs), {"O": np.ones((2, 3, 6))})
    assert {n: a.tobytes() for n, a in inputs.items()} == before


def test_foreign_byte_order_is_the_same_numbers() -> None:
    """A big-endian array is computed like its native copy."""
    kernel, inputs = numeric.load("attention"), _inputs()
    swapped = {n: a.astype(a.dtype.newbyteorder()) for n, a in inputs.items()}
    np.testing.assert_array_equal(kernel.forward(**swapped).outputs["O"], kernel.forward(**inputs).outputs["O"])


def test_16_bit_results_have_the_inputs_dtype_and_statistics_stay_wide(program: str) -> None:
    """O and the gradients are float16 again; L is float32, for its bits are needed."""
    half = {n: a.astype(np.float16) for n, a in _inputs().items()}
    kernel = numeric.load(program)
    result = kernel.forward(**half)
    gradients = kernel.backward(result, {"O": np.ones((2, 3, 6), np.float16)})
    assert result.outputs["O"].dtype == np.float16
    assert result.outputs["L"].dtype == np.float32
    assert {g.dtype for g in gradients.values()} == {np.dtype(np.float16)}


def test_an_offset_beyond_64_bits_is_refused() -> None:
    """Large offsets work up to where positions would overflow, and are refused beyond."""
    kernel = numeric.load("causal_attention")
    everything = kernel.forward(**_inputs(offset=2**62)).outputs["O"]
    np.testing.assert_array_equal(everything, kernel.forward(**_inputs(offset=5)).outputs["O"])
    assert (kernel.forward(**_inputs(offset=-(2**62))).outputs["O"] == 0).all()
    with pytest.raises(numeric.InputError, match="offset"):
        kernel.forward(**_inputs(offset=2**70))


def test_what_is_visible_and_not_a_number_shows(program: str) -> None:
    """NaN in a visible bias, key or value reaches the output of the queries that see it, and of no others."""
    kernel = numeric.load(program)
    for name, at in (("bias", (..., 1, 0)), ("K", (0, 0, 0)), ("V", (0, 0, 0))):
        inputs = _inputs(bias=np.zeros((2, 3, 5)), mask=np.ones((2, 3, 5), bool))
        inputs["mask"][:, 2, 0] = False
        inputs[name][at] = np.nan
        outputs = kernel.forward(**inputs).outputs["O"]
        assert np.isnan(outputs[0, 1]).any(), name
        assert not np.isnan(outputs[0, 2]).any(), name


def test_a_scale_may_be_any_number_type() -> None:
    """NumPy scalars of any width are numbers, and give no warning."""
    kernel = numeric.load("attention")
    expected = kernel.forward(**_inputs(scale=0.5)).outputs["O"]
    for number in (np.float16(0.5), np.float32(0.5), np.float64(0.5)):
        np.testing.assert_array_equal(kernel.forward(**_inputs(scale=number)).outputs["O"], expected)
    with pytest.raises(numeric.InputError, match="scale"):
        kernel.forward(**_inputs(scale=10**400))


def test_a_result_belongs_to_its_kernel() -> None:
    """Another program's result, or cotangents that are no dictionary, are refused."""
    result = numeric.load("causal_attention").forward(**_inputs())
    with pytest.raises(numeric.InputError, match="made by causal_attention"):
        numeric.load("attention").backward(result, {})
    with pytest.raises(numeric.InputError, match="pass a dictionary"):
        numeric.load("causal_attention").backward(result, np.ones(3))  # type: ignore[arg-type]
