# Seal of generated text, broken by edits: 452339a7f8922d178f23907ee712e926
"""A block of BERT: multi-head attention with a padding mask, GELU, post-LayerNorm.

Forward (Y) and backward (dX, dW_Q, db_Q, dW_K, db_K, dW_V, db_V, dW_O, db_O, dweight_N1, dshift_N1, dW_up,
db_up, dW_down, db_down, dweight_Y, dshift_Y) for CuPy, derived from the definitions of `bert_block`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 127 for the plain program (X, real, W_Q, b_Q, W_K,
b_K, W_V, b_V, W_O, b_O, weight_N1, shift_N1, W_up, b_up, W_down, b_down, weight_Y, shift_Y to Y and
gradients).
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="bert_block",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("real", ("n",), "boolean", "True where position j is a token, not padding"),
        TensorSpec("W_Q", ("D", "H", "d"), "real", "the queries' maps"),
        TensorSpec("b_Q", ("H", "d"), "real", "added to the queries"),
        TensorSpec("W_K", ("D", "H", "d"), "real", "the keys' maps"),
        TensorSpec("b_K", ("H", "d"), "real", "added to the keys"),
        TensorSpec("W_V", ("D", "H", "d_v"), "real", "the values' maps"),
        TensorSpec("b_V", ("H", "d_v"), "real", "added to the values"),
        TensorSpec("W_O", ("H", "d_v", "D"), "real", "the output map of each head"),
        TensorSpec("b_O", ("D",), "real", "added to the output"),
        TensorSpec("weight_N1", ("D",), "real", "multiplies each coordinate of N1"),
        TensorSpec("shift_N1", ("D",), "real", "added to each coordinate of N1"),
        TensorSpec("W_up", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("b_up", ("F",), "real", "added before the activation"),
        TensorSpec("W_down", ("F", "D"), "real", "the map back"),
        TensorSpec("b_down", ("D",), "real", "added to the output"),
        TensorSpec("weight_Y", ("D",), "real", "multiplies each coordinate of Y"),
        TensorSpec("shift_Y", ("D",), "real", "added to each coordinate of Y"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updated states"),
    ),
    gradients=("X", "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O", "weight_N1", "shift_N1", "W_up", "b_up", "W_down", "b_down", "weight_Y", "shift_Y"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    real: Array,
    W_Q: Array,
    b_Q: Array,
    W_K: Array,
    b_K: Array,
    W_V: Array,
    b_V: Array,
    W_O: Array,
    b_O: Array,
    weight_N1: Array,
    shift_N1: Array,
    W_up: Array,
    b_up: Array,
    W_down: Array,
    b_down: Array,
    weight_Y: Array,
    shift_Y: Array,
    *,
    eps: float = 1/100000,
) -> tuple[dict[str, Array], Saved]:
    """A block of BERT: multi-head attention with a padding mask, GELU, post-LayerNorm.

    X [.., n, D]: states
    real [.., n]: True where position j is a token, not padding
    W_Q [.., D, H, d]: the queries' maps
    b_Q [.., H, d]: added to the queries
    W_K [.., D, H, d]: the keys' maps
    b_K [.., H, d]: added to the keys
    W_V [.., D, H, d_v]: the values' maps
    b_V [.., H, d_v]: added to the values
    W_O [.., H, d_v, D]: the output map of each head
    b_O [.., D]: added to the output
    weight_N1 [.., D]: multiplies each coordinate of N1
    shift_N1 [.., D]: added to each coordinate of N1
    W_up [.., D, F]: the map to the hidden width
    b_up [.., F]: added before the activation
    W_down [.., F, D]: the map back
    b_down [.., D]: added to the output
    weight_Y [.., D]: multiplies each coordinate of Y
    shift_Y [.., D]: added to each coordinate of Y
    eps: added to the mean square before the root is taken

    Returns the outputs Y, and what the backward pass needs:

        Q[h,i,c] = Σ_x W_Q[x,h,c] X[i,x] + b_Q[h,c]
        K[h,j,c] = Σ_x W_K[x,h,c] X[j,x] + b_K[h,c]
        V[h,j,v] = Σ_x W_V[x,h,v] X[j,x] + b_V[h,v]
        S[h,i,j] = Σ_c K[h,j,c] Q[h,i,c]/√d
        A[h,i,j] = exp(S[h,i,j]) real[j]/(Σ_i′ exp(S[h,i,i′]) real[i′])
        O[h,i,v] = Σ_i′ A[h,i,i′] V[h,i′,v]
        X1[i,x] = Σ_hv O[h,i,v] W_O[h,v,x] + X[i,x] + b_O[x]
        mean_N1[i] = Σ_x X1[i,x]/D
        centred_N1[i,x] = X1[i,x] − mean_N1[i]
        rstd_N1[i] = 1/√(Σ_x centred_N1[i,x]²/D + ε)
        normed_N1[i,x] = centred_N1[i,x] rstd_N1[i]
        N1[i,x] = normed_N1[i,x] weight_N1[x] + shift_N1[x]
        U[i,f] = Σ_x N1[i,x] W_up[x,f] + b_up[f]
        H_1[i,f] = tanh(√2 (8943/200000 U[i,f]³ + U[i,f])/√π)
        H[i,f] = 1/2 U[i,f] (H_1[i,f] + 1)
        X2[i,x] = N1[i,x] + Σ_f H[i,f] W_down[f,x] + b_down[x]
        mean_Y[i] = Σ_x X2[i,x]/D
        centred_Y[i,x] = X2[i,x] − mean_Y[i]
        rstd_Y[i] = 1/√(Σ_x centred_Y[i,x]²/D + ε)
        normed_Y[i,x] = centred_Y[i,x] rstd_Y[i]
        Y[i,x] = normed_Y[i,x] weight_Y[x] + shift_Y[x]
    """
    D = X.shape[-1]
    d = W_Q.shape[-1]
    Q = xp.moveaxis(matmul(xp, X, W_Q, axes=(1, 1, 2)), -3, -2) + b_Q[..., None, :]
    K = xp.moveaxis(matmul(xp, X, W_K, axes=(1, 1, 2)), -3, -2) + b_K[..., None, :]
    V = xp.moveaxis(matmul(xp, X, W_V, axes=(1, 1, 2)), -3, -2) + b_V[..., None, :]
    S = (1 / math.sqrt(max(d, 1))) * (Q @ K.mT)
    S_max = visible_max(xp, S, real[..., None, None, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), real[..., None, None, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], real[..., None, None, :])
    O = visible_matmul(xp, A, V, real[..., None, None, :])
    X1 = matmul(xp, xp.moveaxis(O, -3, -2), W_O, axes=(1, 2, 1)) + X + b_O[..., None, :]
    mean_N1 = (1/max(D, 1)) * xp.sum(X1, axis=-1)
    centred_N1 = X1 - mean_N1[..., None]
    rstd_N1 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N1 ** 2, axis=-1) + eps)
    normed_N1 = centred_N1 * rstd_N1[..., None]
    N1 = normed_N1 * weight_N1[..., None, :] + shift_N1[..., None, :]
    U = N1 @ W_up + b_up[..., None, :]
    H_1 = xp.tanh((math.sqrt(2)/math.sqrt(math.pi)) * ((8943/200000) * U ** 3 + U))
    H = (1/2) * (U * (H_1 + 1))
    X2 = N1 + H @ W_down + b_down[..., None, :]
    mean_Y = (1/max(D, 1)) * xp.sum(X2, axis=-1)
    centred_Y = X2 - mean_Y[..., None]
    rstd_Y = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_Y ** 2, axis=-1) + eps)
    normed_Y = centred_Y * rstd_Y[..., None]
    Y = normed_Y * weight_Y[..., None, :] + shift_Y[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"normed_Y": normed_Y, "weight_Y": weight_Y, "rstd_Y": rstd_Y, "H": H, "W_down": W_down, "U": U, "H_1": H_1, "N1": N1, "W_up": W_up, "normed_N1": normed_N1, "weight_N1": weight_N1, "rstd_N1": rstd_N1, "O": O, "W_O": W_O, "V": V, "A": A, "real": real, "X": X, "Q": Q, "K": K, "W_K": W_K, "W_Q": W_Q, "W_V": W_V}


def backward(
    dY: Array,
    *,
    normed_Y: Array,
    weight_Y: Array,
    rstd_Y: Array,
    H: Array,
    W_down: Array,
    U: Array,
    H_1: Array,
    N1: Array,
    W_up: Array,
    normed_N1: Array,
    weight_N1: Array,
    rstd_N1: Array,
    O: Array,
    W_O: Array,
    V: Array,
    A: Array,
    real: Array,
    X: Array,
    Q: Array,
    K: Array,
    W_K: Array,
    W_Q: Array,
    W_V: Array,
) -> dict[str, Array]:
    """Gradients of bert_block, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O, weight_N1, shift_N1,
        W_up, b_up, W_down, b_down, weight_Y and shift_Y. Steps:

        ∇weight_Y[x] = Σ_i ∇Y[i,x] normed_Y[i,x]    (chain rule)
        ∇shift_Y[x] = Σ_i ∇Y[i,x]    (added term)
        ∇normed_Y[i,x] = ∇Y[i,x] weight_Y[x]    (chain rule)
        r[i] = Σ_x ∇normed_Y[i,x]/D    (name a reduction)
        r2[i] = Σ_x ∇normed_Y[i,x] normed_Y[i,x]/D    (name a reduction)
        ∇X2[i,x] = rstd_Y[i] (∇normed_Y[i,x] − normed_Y[i,x] r2[i] − r[i])    (chain rule, sum over uses,
            write out, fold, factor, vanishing sum, added term, sum)
        ∇W_down[f,x] = Σ_i H[i,f] ∇X2[i,x]    (product)
        ∇b_down[x] = Σ_i ∇X2[i,x]    (added term)
        ∇H[i,f] = Σ_x W_down[f,x] ∇X2[i,x]    (product)
        ∇U[i,f] = ∇H[i,f] (U[i,f] (1 − H_1[i,f]²) (26829/400000 √2 U[i,f]²/√π + 1/√(2π)) + 1/2 H_1[i,f] + 1/2)
            (chain rule, sum over uses, write out, fold, factor)
        ∇W_up[x,f] = Σ_i N1[i,x] ∇U[i,f]    (product)
        ∇b_up[f] = Σ_i ∇U[i,f]    (added term)
        ∇N1[i,x] = Σ_f W_up[x,f] ∇U[i,f] + ∇X2[i,x]    (added term, product, sum over uses)
        ∇weight_N1[x] = Σ_i ∇N1[i,x] normed_N1[i,x]    (chain rule)
        ∇shift_N1[x] = Σ_i ∇N1[i,x]    (added term)
        ∇normed_N1[i,x] = ∇N1[i,x] weight_N1[x]    (chain rule)
        r3[i] = Σ_x ∇normed_N1[i,x]/D    (name a reduction)
        r4[i] = Σ_x ∇normed_N1[i,x] normed_N1[i,x]/D    (name a reduction)
        ∇X1[i,x] = rstd_N1[i] (∇normed_N1[i,x] − normed_N1[i,x] r4[i] − r3[i])    (chain rule, sum over uses,
            write out, fold, factor, vanishing sum, added term, sum)
        ∇W_O[h,v,x] = Σ_i O[h,i,v] ∇X1[i,x]    (product)
        ∇b_O[x] = Σ_i ∇X1[i,x]    (added term)
        ∇O[h,i,v] = Σ_x W_O[h,v,x] ∇X1[i,x]    (product)
        ∇A[h,i,j] = Σ_v V[h,j,v] ∇O[h,i,v]    (product)
        r5[h,i] = Σ_i′ A[h,i,i′] ∇A[h,i,i′]    (name a reduction)
        ∇S[h,i,j] = A[h,i,j] (∇A[h,i,j] − r5[h,i])    (softmax, fold, factor)
        ∇V[h,j,v] = Σ_i A[h,i,j] ∇O[h,i,v]    (product)
        ∇W_V[x,h,v] = Σ_i X[i,x] ∇V[h,i,v]    (product)
        ∇b_V[h,v] = Σ_i ∇V[h,i,v]    (added term)
        ∇K[h,j,c] = Σ_i Q[h,i,c] ∇S[h,i,j]/√d    (product)
        ∇W_K[x,h,c] = Σ_i X[i,x] ∇K[h,i,c]    (product)
        ∇b_K[h,c] = Σ_i ∇K[h,i,c]    (added term)
        ∇Q[h,i,c] = Σ_i′ K[h,i′,c] ∇S[h,i,i′]/√d    (product)
        ∇X[i,x] = Σ_hc W_K[x,h,c] ∇K[h,i,c] + Σ_hc W_Q[x,h,c] ∇Q[h,i,c] + Σ_hv W_V[x,h,v] ∇V[h,i,v] + ∇X1[i,x]
            (added term, product, sum over uses)
        ∇W_Q[x,h,c] = Σ_i X[i,x] ∇Q[h,i,c]    (product)
        ∇b_Q[h,c] = Σ_i ∇Q[h,i,c]    (added term)
    """
    D = dY.shape[-1]
    d = Q.shape[-1]
    dweight_Y = xp.sum(dY * normed_Y, axis=-2)
    dshift_Y = xp.sum(dY, axis=-2)
    dnormed_Y = dY * weight_Y[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_Y, axis=-1)
    r2 = (1/max(D, 1)) * xp.sum(dnormed_Y * normed_Y, axis=-1)
    dX2 = rstd_Y[..., None] * (dnormed_Y - normed_Y * r2[..., None] - r[..., None])
    dW_down = H.mT @ dX2
    db_down = xp.sum(dX2, axis=-2)
    dH = dX2 @ W_down.mT
    dU = dH * (U * (1 - H_1 ** 2) * (((26829/400000)*math.sqrt(2)/math.sqrt(math.pi)) * U ** 2 + (1 / math.sqrt(2*math.pi))) + (1/2) * H_1 + (1/2))
    dW_up = N1.mT @ dU
    db_up = xp.sum(dU, axis=-2)
    dN1 = dU @ W_up.mT + dX2
    dweight_N1 = xp.sum(dN1 * normed_N1, axis=-2)
    dshift_N1 = xp.sum(dN1, axis=-2)
    dnormed_N1 = dN1 * weight_N1[..., None, :]
    r3 = (1/max(D, 1)) * xp.sum(dnormed_N1, axis=-1)
    r4 = (1/max(D, 1)) * xp.sum(dnormed_N1 * normed_N1, axis=-1)
    dX1 = rstd_N1[..., None] * (dnormed_N1 - normed_N1 * r4[..., None] - r3[..., None])
    dW_O = matmul(xp, O.mT, dX1, axes=(2, 1, 1))
    db_O = xp.sum(dX1, axis=-2)
    dO = xp.moveaxis(matmul(xp, dX1, xp.moveaxis(W_O, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA = dO @ V.mT
    r5 = xp.sum(visible_only(xp, A * dA, real[..., None, None, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r5[..., None]), real[..., None, None, :])
    dV = visible_matmul(xp, A.mT, dO, real[..., None, :, None])
    dW_V = matmul(xp, X.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2))
    db_V = xp.sum(dV, axis=-2)
    dK = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS.mT, Q, real[..., None, :, None])
    dW_K = matmul(xp, X.mT, xp.moveaxis(dK, -3, -2), axes=(1, 1, 2))
    db_K = xp.sum(dK, axis=-2)
    dQ = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS, K, real[..., None, None, :])
    dX = matmul(xp, xp.moveaxis(dK, -3, -2), xp.moveaxis(W_K, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dQ, -3, -2), xp.moveaxis(W_Q, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1)) + dX1
    dW_Q = matmul(xp, X.mT, xp.moveaxis(dQ, -3, -2), axes=(1, 1, 2))
    db_Q = xp.sum(dQ, axis=-2)
    return {"X": dX, "W_Q": dW_Q, "b_Q": db_Q, "W_K": dW_K, "b_K": db_K, "W_V": dW_V, "b_V": db_V, "W_O": dW_O, "b_O": db_O, "weight_N1": dweight_N1, "shift_N1": dshift_N1, "W_up": dW_up, "b_up": db_up, "W_down": dW_down, "b_down": db_down, "weight_Y": dweight_Y, "shift_Y": dshift_Y}
