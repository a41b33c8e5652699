# Seal of generated text, broken by edits: b2419d91a650abca2cac081942e377ec
"""A block of GPT: pre-LayerNorm, causal multi-head attention, GELU.

Forward (Y) and backward (dX, dweight_N1, dshift_N1, dW_Q, db_Q, dW_K, db_K, dW_V, db_V, dW_O, db_O,
dweight_N2, dshift_N2, dW_up, db_up, dW_down, db_down) for NumPy, derived from the definitions of `gpt_block`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 130 for the plain program (X, weight_N1, shift_N1,
W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O, weight_N2, shift_N2, W_up, b_up, W_down, b_down to Y and gradients).
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="gpt_block",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("weight_N1", ("D",), "real", "multiplies each coordinate of N1"),
        TensorSpec("shift_N1", ("D",), "real", "added to each coordinate of N1"),
        TensorSpec("W_Q", ("D", "H", "d"), "real", "the queries' maps"),
        TensorSpec("b_Q", ("H", "d"), "real", "added to the queries"),
        TensorSpec("W_K", ("D", "H", "d"), "real", "the keys' maps"),
        TensorSpec("b_K", ("H", "d"), "real", "added to the keys"),
        TensorSpec("W_V", ("D", "H", "d_v"), "real", "the values' maps"),
        TensorSpec("b_V", ("H", "d_v"), "real", "added to the values"),
        TensorSpec("W_O", ("H", "d_v", "D"), "real", "the output map of each head"),
        TensorSpec("b_O", ("D",), "real", "added to the output"),
        TensorSpec("weight_N2", ("D",), "real", "multiplies each coordinate of N2"),
        TensorSpec("shift_N2", ("D",), "real", "added to each coordinate of N2"),
        TensorSpec("W_up", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("b_up", ("F",), "real", "added before the activation"),
        TensorSpec("W_down", ("F", "D"), "real", "the map back"),
        TensorSpec("b_down", ("D",), "real", "added to the output"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updated states"),
    ),
    gradients=("X", "weight_N1", "shift_N1", "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O", "weight_N2", "shift_N2", "W_up", "b_up", "W_down", "b_down"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    weight_N1: Array,
    shift_N1: Array,
    W_Q: Array,
    b_Q: Array,
    W_K: Array,
    b_K: Array,
    W_V: Array,
    b_V: Array,
    W_O: Array,
    b_O: Array,
    weight_N2: Array,
    shift_N2: Array,
    W_up: Array,
    b_up: Array,
    W_down: Array,
    b_down: Array,
    *,
    eps: float = 1/100000,
) -> tuple[dict[str, Array], Saved]:
    """A block of GPT: pre-LayerNorm, causal multi-head attention, GELU.

    X [.., n, D]: states
    weight_N1 [.., D]: multiplies each coordinate of N1
    shift_N1 [.., D]: added to each coordinate of N1
    W_Q [.., D, H, d]: the queries' maps
    b_Q [.., H, d]: added to the queries
    W_K [.., D, H, d]: the keys' maps
    b_K [.., H, d]: added to the keys
    W_V [.., D, H, d_v]: the values' maps
    b_V [.., H, d_v]: added to the values
    W_O [.., H, d_v, D]: the output map of each head
    b_O [.., D]: added to the output
    weight_N2 [.., D]: multiplies each coordinate of N2
    shift_N2 [.., D]: added to each coordinate of N2
    W_up [.., D, F]: the map to the hidden width
    b_up [.., F]: added before the activation
    W_down [.., F, D]: the map back
    b_down [.., D]: added to the output
    eps: added to the mean square before the root is taken

    Returns the outputs Y, and what the backward pass needs:

        M[i,j] = [j ≤ i]
        mean_N1[i] = Σ_x X[i,x]/D
        centred_N1[i,x] = X[i,x] − mean_N1[i]
        rstd_N1[i] = 1/√(Σ_x centred_N1[i,x]²/D + ε)
        normed_N1[i,x] = centred_N1[i,x] rstd_N1[i]
        N1[i,x] = normed_N1[i,x] weight_N1[x] + shift_N1[x]
        Q[h,i,c] = Σ_x N1[i,x] W_Q[x,h,c] + b_Q[h,c]
        K[h,j,c] = Σ_x N1[j,x] W_K[x,h,c] + b_K[h,c]
        V[h,j,v] = Σ_x N1[j,x] W_V[x,h,v] + b_V[h,v]
        S[h,i,j] = Σ_c K[h,j,c] Q[h,i,c]/√d
        A[h,i,j] = M[i,j] exp(S[h,i,j])/(Σ_i′ M[i,i′] exp(S[h,i,i′]))
        O[h,i,v] = Σ_i′ A[h,i,i′] V[h,i′,v]
        X1[i,x] = Σ_hv O[h,i,v] W_O[h,v,x] + X[i,x] + b_O[x]
        mean_N2[i] = Σ_x X1[i,x]/D
        centred_N2[i,x] = X1[i,x] − mean_N2[i]
        rstd_N2[i] = 1/√(Σ_x centred_N2[i,x]²/D + ε)
        normed_N2[i,x] = centred_N2[i,x] rstd_N2[i]
        N2[i,x] = normed_N2[i,x] weight_N2[x] + shift_N2[x]
        U[i,f] = Σ_x N2[i,x] W_up[x,f] + b_up[f]
        H_1[i,f] = tanh(√2 (8943/200000 U[i,f]³ + U[i,f])/√π)
        H[i,f] = 1/2 U[i,f] (H_1[i,f] + 1)
        Y[i,x] = Σ_f H[i,f] W_down[f,x] + X1[i,x] + b_down[x]
    """
    D = X.shape[-1]
    d = W_Q.shape[-1]
    n = X.shape[-2]
    M = xp.arange(n)[None, :] <= xp.arange(n)[:, None]
    mean_N1 = (1/max(D, 1)) * xp.sum(X, axis=-1)
    centred_N1 = X - mean_N1[..., None]
    rstd_N1 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N1 ** 2, axis=-1) + eps)
    normed_N1 = centred_N1 * rstd_N1[..., None]
    N1 = normed_N1 * weight_N1[..., None, :] + shift_N1[..., None, :]
    Q = xp.moveaxis(matmul(xp, N1, W_Q, axes=(1, 1, 2)), -3, -2) + b_Q[..., None, :]
    K = xp.moveaxis(matmul(xp, N1, W_K, axes=(1, 1, 2)), -3, -2) + b_K[..., None, :]
    V = xp.moveaxis(matmul(xp, N1, W_V, axes=(1, 1, 2)), -3, -2) + b_V[..., None, :]
    S = (1 / math.sqrt(max(d, 1))) * (Q @ K.mT)
    S_max = visible_max(xp, S, M[..., None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M[..., None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M[..., None, :, :])
    O = visible_matmul(xp, A, V, M[..., None, :, :])
    X1 = matmul(xp, xp.moveaxis(O, -3, -2), W_O, axes=(1, 2, 1)) + X + b_O[..., None, :]
    mean_N2 = (1/max(D, 1)) * xp.sum(X1, axis=-1)
    centred_N2 = X1 - mean_N2[..., None]
    rstd_N2 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N2 ** 2, axis=-1) + eps)
    normed_N2 = centred_N2 * rstd_N2[..., None]
    N2 = normed_N2 * weight_N2[..., None, :] + shift_N2[..., None, :]
    U = N2 @ W_up + b_up[..., None, :]
    H_1 = xp.tanh((math.sqrt(2)/math.sqrt(math.pi)) * ((8943/200000) * U ** 3 + U))
    H = (1/2) * (U * (H_1 + 1))
    Y = H @ W_down + X1 + b_down[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"H": H, "W_down": W_down, "U": U, "H_1": H_1, "N2": N2, "W_up": W_up, "normed_N2": normed_N2, "weight_N2": weight_N2, "rstd_N2": rstd_N2, "O": O, "W_O": W_O, "V": V, "A": A, "M": M, "N1": N1, "Q": Q, "K": K, "W_K": W_K, "W_Q": W_Q, "W_V": W_V, "normed_N1": normed_N1, "weight_N1": weight_N1, "rstd_N1": rstd_N1}


def backward(
    dY: Array,
    *,
    H: Array,
    W_down: Array,
    U: Array,
    H_1: Array,
    N2: Array,
    W_up: Array,
    normed_N2: Array,
    weight_N2: Array,
    rstd_N2: Array,
    O: Array,
    W_O: Array,
    V: Array,
    A: Array,
    M: Array,
    N1: Array,
    Q: Array,
    K: Array,
    W_K: Array,
    W_Q: Array,
    W_V: Array,
    normed_N1: Array,
    weight_N1: Array,
    rstd_N1: Array,
) -> dict[str, Array]:
    """Gradients of gpt_block, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, weight_N1, shift_N1, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O,
        weight_N2, shift_N2, W_up, b_up, W_down and b_down. Steps:

        ∇W_down[f,x] = Σ_i H[i,f] ∇Y[i,x]    (product)
        ∇b_down[x] = Σ_i ∇Y[i,x]    (added term)
        ∇H[i,f] = Σ_x W_down[f,x] ∇Y[i,x]    (product)
        ∇U[i,f] = ∇H[i,f] (U[i,f] (1 − H_1[i,f]²) (26829/400000 √2 U[i,f]²/√π + 1/√(2π)) + 1/2 H_1[i,f] + 1/2)
            (chain rule, sum over uses, write out, fold, factor)
        ∇W_up[x,f] = Σ_i N2[i,x] ∇U[i,f]    (product)
        ∇b_up[f] = Σ_i ∇U[i,f]    (added term)
        ∇N2[i,x] = Σ_f W_up[x,f] ∇U[i,f]    (product)
        ∇weight_N2[x] = Σ_i ∇N2[i,x] normed_N2[i,x]    (chain rule)
        ∇shift_N2[x] = Σ_i ∇N2[i,x]    (added term)
        ∇normed_N2[i,x] = ∇N2[i,x] weight_N2[x]    (chain rule)
        r[i] = Σ_x ∇normed_N2[i,x]/D    (name a reduction)
        r2[i] = Σ_x ∇normed_N2[i,x] normed_N2[i,x]/D    (name a reduction)
        ∇X1[i,x] = rstd_N2[i] (∇normed_N2[i,x] − normed_N2[i,x] r2[i] − r[i]) + ∇Y[i,x]    (chain rule, sum
            over uses, write out, fold, factor, vanishing sum, added term, sum)
        ∇W_O[h,v,x] = Σ_i O[h,i,v] ∇X1[i,x]    (product)
        ∇b_O[x] = Σ_i ∇X1[i,x]    (added term)
        ∇O[h,i,v] = Σ_x W_O[h,v,x] ∇X1[i,x]    (product)
        ∇A[h,i,j] = Σ_v V[h,j,v] ∇O[h,i,v]    (product)
        r3[h,i] = Σ_i′ A[h,i,i′] ∇A[h,i,i′]    (name a reduction)
        ∇S[h,i,j] = A[h,i,j] (∇A[h,i,j] − r3[h,i])    (softmax, fold, factor)
        ∇V[h,j,v] = Σ_i A[h,i,j] ∇O[h,i,v]    (product)
        ∇W_V[x,h,v] = Σ_i N1[i,x] ∇V[h,i,v]    (product)
        ∇b_V[h,v] = Σ_i ∇V[h,i,v]    (added term)
        ∇K[h,j,c] = Σ_i Q[h,i,c] ∇S[h,i,j]/√d    (product)
        ∇W_K[x,h,c] = Σ_i N1[i,x] ∇K[h,i,c]    (product)
        ∇b_K[h,c] = Σ_i ∇K[h,i,c]    (added term)
        ∇Q[h,i,c] = Σ_i′ K[h,i′,c] ∇S[h,i,i′]/√d    (product)
        ∇W_Q[x,h,c] = Σ_i N1[i,x] ∇Q[h,i,c]    (product)
        ∇b_Q[h,c] = Σ_i ∇Q[h,i,c]    (added term)
        ∇N1[i,x] = Σ_hc W_K[x,h,c] ∇K[h,i,c] + Σ_hc W_Q[x,h,c] ∇Q[h,i,c] + Σ_hv W_V[x,h,v] ∇V[h,i,v]
            (product, sum over uses)
        ∇weight_N1[x] = Σ_i ∇N1[i,x] normed_N1[i,x]    (chain rule)
        ∇shift_N1[x] = Σ_i ∇N1[i,x]    (added term)
        ∇normed_N1[i,x] = ∇N1[i,x] weight_N1[x]    (chain rule)
        r4[i] = Σ_x ∇normed_N1[i,x]/D    (name a reduction)
        r5[i] = Σ_x ∇normed_N1[i,x] normed_N1[i,x]/D    (name a reduction)
        ∇X[i,x] = rstd_N1[i] (∇normed_N1[i,x] − normed_N1[i,x] r5[i] − r4[i]) + ∇X1[i,x]    (chain rule, sum
            over uses, write out, fold, factor, vanishing sum, added term, sum)
    """
    D = dY.shape[-1]
    d = Q.shape[-1]
    dW_down = H.mT @ dY
    db_down = xp.sum(dY, axis=-2)
    dH = dY @ W_down.mT
    dU = dH * (U * (1 - H_1 ** 2) * (((26829/400000)*math.sqrt(2)/math.sqrt(math.pi)) * U ** 2 + (1 / math.sqrt(2*math.pi))) + (1/2) * H_1 + (1/2))
    dW_up = N2.mT @ dU
    db_up = xp.sum(dU, axis=-2)
    dN2 = dU @ W_up.mT
    dweight_N2 = xp.sum(dN2 * normed_N2, axis=-2)
    dshift_N2 = xp.sum(dN2, axis=-2)
    dnormed_N2 = dN2 * weight_N2[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_N2, axis=-1)
    r2 = (1/max(D, 1)) * xp.sum(dnormed_N2 * normed_N2, axis=-1)
    dX1 = rstd_N2[..., None] * (dnormed_N2 - normed_N2 * r2[..., None] - r[..., None])
    if dY is not None:
        dX1 = dX1 + dY
    dW_O = matmul(xp, O.mT, dX1, axes=(2, 1, 1))
    db_O = xp.sum(dX1, axis=-2)
    dO = xp.moveaxis(matmul(xp, dX1, xp.moveaxis(W_O, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA = dO @ V.mT
    r3 = xp.sum(visible_only(xp, A * dA, M[..., None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r3[..., None]), M[..., None, :, :])
    dV = visible_matmul(xp, A.mT, dO, M.mT[..., None, :, :])
    dW_V = matmul(xp, N1.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2))
    db_V = xp.sum(dV, axis=-2)
    dK = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS.mT, Q, M.mT[..., None, :, :])
    dW_K = matmul(xp, N1.mT, xp.moveaxis(dK, -3, -2), axes=(1, 1, 2))
    db_K = xp.sum(dK, axis=-2)
    dQ = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS, K, M[..., None, :, :])
    dW_Q = matmul(xp, N1.mT, xp.moveaxis(dQ, -3, -2), axes=(1, 1, 2))
    db_Q = xp.sum(dQ, axis=-2)
    dN1 = matmul(xp, xp.moveaxis(dK, -3, -2), xp.moveaxis(W_K, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dQ, -3, -2), xp.moveaxis(W_Q, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1))
    dweight_N1 = xp.sum(dN1 * normed_N1, axis=-2)
    dshift_N1 = xp.sum(dN1, axis=-2)
    dnormed_N1 = dN1 * weight_N1[..., None, :]
    r4 = (1/max(D, 1)) * xp.sum(dnormed_N1, axis=-1)
    r5 = (1/max(D, 1)) * xp.sum(dnormed_N1 * normed_N1, axis=-1)
    dX = rstd_N1[..., None] * (dnormed_N1 - normed_N1 * r5[..., None] - r4[..., None]) + dX1
    return {"X": dX, "weight_N1": dweight_N1, "shift_N1": dshift_N1, "W_Q": dW_Q, "b_Q": db_Q, "W_K": dW_K, "b_K": db_K, "W_V": dW_V, "b_V": db_V, "W_O": dW_O, "b_O": db_O, "weight_N2": dweight_N2, "shift_N2": dshift_N2, "W_up": dW_up, "b_up": db_up, "W_down": dW_down, "b_down": db_down}
