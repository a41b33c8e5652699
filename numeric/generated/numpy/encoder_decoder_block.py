# Seal of generated text, broken by edits: dc0c61352f29144eb690c5c6f0e4c325
"""A decoder's block: causal self-attention, cross-attention, GELU, post-LayerNorm.

Forward (Y) and backward (dX, dC, dW_Q, db_Q, dW_K, db_K, dW_V, db_V, dW_O, db_O, dweight_N1, dshift_N1,
dW_Q_cross, db_Q_cross, dW_K_cross, db_K_cross, dW_V_cross, db_V_cross, dW_O_cross, db_O_cross, dweight_N2,
dshift_N2, dW_up, db_up, dW_down, db_down, dweight_Y, dshift_Y) for NumPy, derived from the definitions of
`encoder_decoder_block`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 200 for the plain program (X, C, real, W_Q, b_Q, W_K,
b_K, W_V, b_V, W_O, b_O, weight_N1, shift_N1, W_Q_cross, b_Q_cross, W_K_cross, b_K_cross, W_V_cross,
b_V_cross, W_O_cross, b_O_cross, weight_N2, shift_N2, W_up, b_up, W_down, b_down, weight_Y, shift_Y to Y and
gradients).
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="encoder_decoder_block",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("C", ("m", "D"), "real", "the encoder's states"),
        TensorSpec("real", ("m",), "boolean", "True where the encoder's position k is a token"),
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
        TensorSpec("W_Q_cross", ("D", "H", "d"), "real", "the queries' maps"),
        TensorSpec("b_Q_cross", ("H", "d"), "real", "added to the queries"),
        TensorSpec("W_K_cross", ("D", "H", "d"), "real", "the keys' maps"),
        TensorSpec("b_K_cross", ("H", "d"), "real", "added to the keys"),
        TensorSpec("W_V_cross", ("D", "H", "d_v"), "real", "the values' maps"),
        TensorSpec("b_V_cross", ("H", "d_v"), "real", "added to the values"),
        TensorSpec("W_O_cross", ("H", "d_v", "D"), "real", "the output map of each head"),
        TensorSpec("b_O_cross", ("D",), "real", "added to the output"),
        TensorSpec("weight_N2", ("D",), "real", "multiplies each coordinate of N2"),
        TensorSpec("shift_N2", ("D",), "real", "added to each coordinate of N2"),
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
    gradients=("X", "C", "W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O", "b_O", "weight_N1", "shift_N1", "W_Q_cross", "b_Q_cross", "W_K_cross", "b_K_cross", "W_V_cross", "b_V_cross", "W_O_cross", "b_O_cross", "weight_N2", "shift_N2", "W_up", "b_up", "W_down", "b_down", "weight_Y", "shift_Y"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    C: Array,
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
    W_Q_cross: Array,
    b_Q_cross: Array,
    W_K_cross: Array,
    b_K_cross: Array,
    W_V_cross: Array,
    b_V_cross: Array,
    W_O_cross: Array,
    b_O_cross: Array,
    weight_N2: Array,
    shift_N2: Array,
    W_up: Array,
    b_up: Array,
    W_down: Array,
    b_down: Array,
    weight_Y: Array,
    shift_Y: Array,
    *,
    eps: float = 1/100000,
) -> tuple[dict[str, Array], Saved]:
    """A decoder's block: causal self-attention, cross-attention, GELU, post-LayerNorm.

    X [.., n, D]: states
    C [.., m, D]: the encoder's states
    real [.., m]: True where the encoder's position k is a token
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
    W_Q_cross [.., D, H, d]: the queries' maps
    b_Q_cross [.., H, d]: added to the queries
    W_K_cross [.., D, H, d]: the keys' maps
    b_K_cross [.., H, d]: added to the keys
    W_V_cross [.., D, H, d_v]: the values' maps
    b_V_cross [.., H, d_v]: added to the values
    W_O_cross [.., H, d_v, D]: the output map of each head
    b_O_cross [.., D]: added to the output
    weight_N2 [.., D]: multiplies each coordinate of N2
    shift_N2 [.., D]: added to each coordinate of N2
    W_up [.., D, F]: the map to the hidden width
    b_up [.., F]: added before the activation
    W_down [.., F, D]: the map back
    b_down [.., D]: added to the output
    weight_Y [.., D]: multiplies each coordinate of Y
    shift_Y [.., D]: added to each coordinate of Y
    eps: added to the mean square before the root is taken

    Returns the outputs Y, and what the backward pass needs:

        M[i,j] = [j ≤ i]
        Q[h,i,c] = Σ_x W_Q[x,h,c] X[i,x] + b_Q[h,c]
        K[h,j,c] = Σ_x W_K[x,h,c] X[j,x] + b_K[h,c]
        V[h,j,v] = Σ_x W_V[x,h,v] X[j,x] + b_V[h,v]
        S[h,i,j] = Σ_c K[h,j,c] Q[h,i,c]/√d
        A[h,i,j] = M[i,j] exp(S[h,i,j])/(Σ_i′ M[i,i′] exp(S[h,i,i′]))
        O[h,i,v] = Σ_i′ A[h,i,i′] V[h,i′,v]
        X1[i,x] = Σ_hv O[h,i,v] W_O[h,v,x] + X[i,x] + b_O[x]
        mean_N1[i] = Σ_x X1[i,x]/D
        centred_N1[i,x] = X1[i,x] − mean_N1[i]
        rstd_N1[i] = 1/√(Σ_x centred_N1[i,x]²/D + ε)
        normed_N1[i,x] = centred_N1[i,x] rstd_N1[i]
        N1[i,x] = normed_N1[i,x] weight_N1[x] + shift_N1[x]
        Q_cross[h,i,c] = Σ_x N1[i,x] W_Q_cross[x,h,c] + b_Q_cross[h,c]
        K_cross[h,k,c] = Σ_x C[k,x] W_K_cross[x,h,c] + b_K_cross[h,c]
        V_cross[h,k,v] = Σ_x C[k,x] W_V_cross[x,h,v] + b_V_cross[h,v]
        S_cross[h,i,k] = Σ_c K_cross[h,k,c] Q_cross[h,i,c]/√d
        A_cross[h,i,k] = exp(S_cross[h,i,k]) real[k]/(Σ_k′ exp(S_cross[h,i,k′]) real[k′])
        O_cross[h,i,v] = Σ_k A_cross[h,i,k] V_cross[h,k,v]
        X2[i,x] = N1[i,x] + Σ_hv O_cross[h,i,v] W_O_cross[h,v,x] + b_O_cross[x]
        mean_N2[i] = Σ_x X2[i,x]/D
        centred_N2[i,x] = X2[i,x] − mean_N2[i]
        rstd_N2[i] = 1/√(Σ_x centred_N2[i,x]²/D + ε)
        normed_N2[i,x] = centred_N2[i,x] rstd_N2[i]
        N2[i,x] = normed_N2[i,x] weight_N2[x] + shift_N2[x]
        U[i,f] = Σ_x N2[i,x] W_up[x,f] + b_up[f]
        H_1[i,f] = tanh(√2 (8943/200000 U[i,f]³ + U[i,f])/√π)
        H[i,f] = 1/2 U[i,f] (H_1[i,f] + 1)
        X3[i,x] = N2[i,x] + Σ_f H[i,f] W_down[f,x] + b_down[x]
        mean_Y[i] = Σ_x X3[i,x]/D
        centred_Y[i,x] = X3[i,x] − mean_Y[i]
        rstd_Y[i] = 1/√(Σ_x centred_Y[i,x]²/D + ε)
        normed_Y[i,x] = centred_Y[i,x] rstd_Y[i]
        Y[i,x] = normed_Y[i,x] weight_Y[x] + shift_Y[x]
    """
    D = X.shape[-1]
    d = W_Q.shape[-1]
    n = X.shape[-2]
    M = xp.arange(n)[None, :] <= xp.arange(n)[:, None]
    Q = xp.moveaxis(matmul(xp, X, W_Q, axes=(1, 1, 2)), -3, -2) + b_Q[..., None, :]
    K = xp.moveaxis(matmul(xp, X, W_K, axes=(1, 1, 2)), -3, -2) + b_K[..., None, :]
    V = xp.moveaxis(matmul(xp, X, W_V, axes=(1, 1, 2)), -3, -2) + b_V[..., None, :]
    S = (1 / math.sqrt(max(d, 1))) * (Q @ K.mT)
    S_max = visible_max(xp, S, M[..., None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M[..., None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M[..., None, :, :])
    O = visible_matmul(xp, A, V, M[..., None, :, :])
    X1 = matmul(xp, xp.moveaxis(O, -3, -2), W_O, axes=(1, 2, 1)) + X + b_O[..., None, :]
    mean_N1 = (1/max(D, 1)) * xp.sum(X1, axis=-1)
    centred_N1 = X1 - mean_N1[..., None]
    rstd_N1 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N1 ** 2, axis=-1) + eps)
    normed_N1 = centred_N1 * rstd_N1[..., None]
    N1 = normed_N1 * weight_N1[..., None, :] + shift_N1[..., None, :]
    Q_cross = xp.moveaxis(matmul(xp, N1, W_Q_cross, axes=(1, 1, 2)), -3, -2) + b_Q_cross[..., None, :]
    K_cross = xp.moveaxis(matmul(xp, C, W_K_cross, axes=(1, 1, 2)), -3, -2) + b_K_cross[..., None, :]
    V_cross = xp.moveaxis(matmul(xp, C, W_V_cross, axes=(1, 1, 2)), -3, -2) + b_V_cross[..., None, :]
    S_cross = (1 / math.sqrt(max(d, 1))) * (Q_cross @ K_cross.mT)
    S_cross_max = visible_max(xp, S_cross, real[..., None, None, :])
    E2 = visible_only(xp, xp.exp(S_cross - S_cross_max[..., None]), real[..., None, None, :])
    Z2 = xp.sum(E2, axis=-1)
    A_cross = visible_only(xp, E2 / Z2[..., None], real[..., None, None, :])
    O_cross = visible_matmul(xp, A_cross, V_cross, real[..., None, None, :])
    X2 = N1 + matmul(xp, xp.moveaxis(O_cross, -3, -2), W_O_cross, axes=(1, 2, 1)) + b_O_cross[..., None, :]
    mean_N2 = (1/max(D, 1)) * xp.sum(X2, axis=-1)
    centred_N2 = X2 - mean_N2[..., None]
    rstd_N2 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N2 ** 2, axis=-1) + eps)
    normed_N2 = centred_N2 * rstd_N2[..., None]
    N2 = normed_N2 * weight_N2[..., None, :] + shift_N2[..., None, :]
    U = N2 @ W_up + b_up[..., None, :]
    H_1 = xp.tanh((math.sqrt(2)/math.sqrt(math.pi)) * ((8943/200000) * U ** 3 + U))
    H = (1/2) * (U * (H_1 + 1))
    X3 = N2 + H @ W_down + b_down[..., None, :]
    mean_Y = (1/max(D, 1)) * xp.sum(X3, axis=-1)
    centred_Y = X3 - mean_Y[..., None]
    rstd_Y = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_Y ** 2, axis=-1) + eps)
    normed_Y = centred_Y * rstd_Y[..., None]
    Y = normed_Y * weight_Y[..., None, :] + shift_Y[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"normed_Y": normed_Y, "weight_Y": weight_Y, "rstd_Y": rstd_Y, "H": H, "W_down": W_down, "U": U, "H_1": H_1, "N2": N2, "W_up": W_up, "normed_N2": normed_N2, "weight_N2": weight_N2, "rstd_N2": rstd_N2, "O_cross": O_cross, "W_O_cross": W_O_cross, "V_cross": V_cross, "A_cross": A_cross, "real": real, "C": C, "Q_cross": Q_cross, "W_K_cross": W_K_cross, "W_V_cross": W_V_cross, "K_cross": K_cross, "N1": N1, "W_Q_cross": W_Q_cross, "normed_N1": normed_N1, "weight_N1": weight_N1, "rstd_N1": rstd_N1, "O": O, "W_O": W_O, "V": V, "A": A, "M": M, "X": X, "Q": Q, "K": K, "W_K": W_K, "W_Q": W_Q, "W_V": W_V}


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
    N2: Array,
    W_up: Array,
    normed_N2: Array,
    weight_N2: Array,
    rstd_N2: Array,
    O_cross: Array,
    W_O_cross: Array,
    V_cross: Array,
    A_cross: Array,
    real: Array,
    C: Array,
    Q_cross: Array,
    W_K_cross: Array,
    W_V_cross: Array,
    K_cross: Array,
    N1: Array,
    W_Q_cross: Array,
    normed_N1: Array,
    weight_N1: Array,
    rstd_N1: Array,
    O: Array,
    W_O: Array,
    V: Array,
    A: Array,
    M: Array,
    X: Array,
    Q: Array,
    K: Array,
    W_K: Array,
    W_Q: Array,
    W_V: Array,
) -> dict[str, Array]:
    """Gradients of encoder_decoder_block, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, C, W_Q, b_Q, W_K, b_K, W_V, b_V, W_O, b_O, weight_N1, shift_N1,
        W_Q_cross, b_Q_cross, W_K_cross, b_K_cross, W_V_cross, b_V_cross, W_O_cross, b_O_cross, weight_N2,
        shift_N2, W_up, b_up, W_down, b_down, weight_Y and shift_Y. Steps:

        ∇weight_Y[x] = Σ_i ∇Y[i,x] normed_Y[i,x]    (chain rule)
        ∇shift_Y[x] = Σ_i ∇Y[i,x]    (added term)
        ∇normed_Y[i,x] = ∇Y[i,x] weight_Y[x]    (chain rule)
        r[i] = Σ_x ∇normed_Y[i,x]/D    (name a reduction)
        r2[i] = Σ_x ∇normed_Y[i,x] normed_Y[i,x]/D    (name a reduction)
        ∇X3[i,x] = rstd_Y[i] (∇normed_Y[i,x] − normed_Y[i,x] r2[i] − r[i])    (chain rule, sum over uses,
            write out, fold, factor, vanishing sum, added term, sum)
        ∇W_down[f,x] = Σ_i H[i,f] ∇X3[i,x]    (product)
        ∇b_down[x] = Σ_i ∇X3[i,x]    (added term)
        ∇H[i,f] = Σ_x W_down[f,x] ∇X3[i,x]    (product)
        ∇U[i,f] = ∇H[i,f] (U[i,f] (1 − H_1[i,f]²) (26829/400000 √2 U[i,f]²/√π + 1/√(2π)) + 1/2 H_1[i,f] + 1/2)
            (chain rule, sum over uses, write out, fold, factor)
        ∇W_up[x,f] = Σ_i N2[i,x] ∇U[i,f]    (product)
        ∇b_up[f] = Σ_i ∇U[i,f]    (added term)
        ∇N2[i,x] = Σ_f W_up[x,f] ∇U[i,f] + ∇X3[i,x]    (added term, product, sum over uses)
        ∇weight_N2[x] = Σ_i ∇N2[i,x] normed_N2[i,x]    (chain rule)
        ∇shift_N2[x] = Σ_i ∇N2[i,x]    (added term)
        ∇normed_N2[i,x] = ∇N2[i,x] weight_N2[x]    (chain rule)
        r3[i] = Σ_x ∇normed_N2[i,x]/D    (name a reduction)
        r4[i] = Σ_x ∇normed_N2[i,x] normed_N2[i,x]/D    (name a reduction)
        ∇X2[i,x] = rstd_N2[i] (∇normed_N2[i,x] − normed_N2[i,x] r4[i] − r3[i])    (chain rule, sum over uses,
            write out, fold, factor, vanishing sum, added term, sum)
        ∇W_O_cross[h,v,x] = Σ_i O_cross[h,i,v] ∇X2[i,x]    (product)
        ∇b_O_cross[x] = Σ_i ∇X2[i,x]    (added term)
        ∇O_cross[h,i,v] = Σ_x W_O_cross[h,v,x] ∇X2[i,x]    (product)
        ∇A_cross[h,i,k] = Σ_v V_cross[h,k,v] ∇O_cross[h,i,v]    (product)
        r5[h,i] = Σ_k A_cross[h,i,k] ∇A_cross[h,i,k]    (name a reduction)
        ∇S_cross[h,i,k] = A_cross[h,i,k] (∇A_cross[h,i,k] − r5[h,i])    (softmax, fold, factor)
        ∇V_cross[h,k,v] = Σ_i A_cross[h,i,k] ∇O_cross[h,i,v]    (product)
        ∇W_V_cross[x,h,v] = Σ_k C[k,x] ∇V_cross[h,k,v]    (product)
        ∇b_V_cross[h,v] = Σ_k ∇V_cross[h,k,v]    (added term)
        ∇K_cross[h,k,c] = Σ_i Q_cross[h,i,c] ∇S_cross[h,i,k]/√d    (product)
        ∇C[k,x] = Σ_hc W_K_cross[x,h,c] ∇K_cross[h,k,c] + Σ_hv W_V_cross[x,h,v] ∇V_cross[h,k,v]    (product,
            sum over uses)
        ∇W_K_cross[x,h,c] = Σ_k C[k,x] ∇K_cross[h,k,c]    (product)
        ∇b_K_cross[h,c] = Σ_k ∇K_cross[h,k,c]    (added term)
        ∇Q_cross[h,i,c] = Σ_k K_cross[h,k,c] ∇S_cross[h,i,k]/√d    (product)
        ∇W_Q_cross[x,h,c] = Σ_i N1[i,x] ∇Q_cross[h,i,c]    (product)
        ∇b_Q_cross[h,c] = Σ_i ∇Q_cross[h,i,c]    (added term)
        ∇N1[i,x] = Σ_hc W_Q_cross[x,h,c] ∇Q_cross[h,i,c] + ∇X2[i,x]    (added term, product, sum over uses)
        ∇weight_N1[x] = Σ_i ∇N1[i,x] normed_N1[i,x]    (chain rule)
        ∇shift_N1[x] = Σ_i ∇N1[i,x]    (added term)
        ∇normed_N1[i,x] = ∇N1[i,x] weight_N1[x]    (chain rule)
        r6[i] = Σ_x ∇normed_N1[i,x]/D    (name a reduction)
        r7[i] = Σ_x ∇normed_N1[i,x] normed_N1[i,x]/D    (name a reduction)
        ∇X1[i,x] = rstd_N1[i] (∇normed_N1[i,x] − normed_N1[i,x] r7[i] − r6[i])    (chain rule, sum over uses,
            write out, fold, factor, vanishing sum, added term, sum)
        ∇W_O[h,v,x] = Σ_i O[h,i,v] ∇X1[i,x]    (product)
        ∇b_O[x] = Σ_i ∇X1[i,x]    (added term)
        ∇O[h,i,v] = Σ_x W_O[h,v,x] ∇X1[i,x]    (product)
        ∇A[h,i,j] = Σ_v V[h,j,v] ∇O[h,i,v]    (product)
        r8[h,i] = Σ_i′ A[h,i,i′] ∇A[h,i,i′]    (name a reduction)
        ∇S[h,i,j] = A[h,i,j] (∇A[h,i,j] − r8[h,i])    (softmax, fold, factor)
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
    d = Q_cross.shape[-1]
    dweight_Y = xp.sum(dY * normed_Y, axis=-2)
    dshift_Y = xp.sum(dY, axis=-2)
    dnormed_Y = dY * weight_Y[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_Y, axis=-1)
    r2 = (1/max(D, 1)) * xp.sum(dnormed_Y * normed_Y, axis=-1)
    dX3 = rstd_Y[..., None] * (dnormed_Y - normed_Y * r2[..., None] - r[..., None])
    dW_down = H.mT @ dX3
    db_down = xp.sum(dX3, axis=-2)
    dH = dX3 @ W_down.mT
    dU = dH * (U * (1 - H_1 ** 2) * (((26829/400000)*math.sqrt(2)/math.sqrt(math.pi)) * U ** 2 + (1 / math.sqrt(2*math.pi))) + (1/2) * H_1 + (1/2))
    dW_up = N2.mT @ dU
    db_up = xp.sum(dU, axis=-2)
    dN2 = dU @ W_up.mT + dX3
    dweight_N2 = xp.sum(dN2 * normed_N2, axis=-2)
    dshift_N2 = xp.sum(dN2, axis=-2)
    dnormed_N2 = dN2 * weight_N2[..., None, :]
    r3 = (1/max(D, 1)) * xp.sum(dnormed_N2, axis=-1)
    r4 = (1/max(D, 1)) * xp.sum(dnormed_N2 * normed_N2, axis=-1)
    dX2 = rstd_N2[..., None] * (dnormed_N2 - normed_N2 * r4[..., None] - r3[..., None])
    dW_O_cross = matmul(xp, O_cross.mT, dX2, axes=(2, 1, 1))
    db_O_cross = xp.sum(dX2, axis=-2)
    dO_cross = xp.moveaxis(matmul(xp, dX2, xp.moveaxis(W_O_cross, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA_cross = dO_cross @ V_cross.mT
    r5 = xp.sum(visible_only(xp, A_cross * dA_cross, real[..., None, None, :]), axis=-1)
    dS_cross = visible_only(xp, A_cross * (dA_cross - r5[..., None]), real[..., None, None, :])
    dV_cross = visible_matmul(xp, A_cross.mT, dO_cross, real[..., None, :, None])
    dW_V_cross = matmul(xp, C.mT, xp.moveaxis(dV_cross, -3, -2), axes=(1, 1, 2))
    db_V_cross = xp.sum(dV_cross, axis=-2)
    dK_cross = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS_cross.mT, Q_cross, real[..., None, :, None])
    dC = matmul(xp, xp.moveaxis(dK_cross, -3, -2), xp.moveaxis(W_K_cross, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV_cross, -3, -2), xp.moveaxis(W_V_cross, -3, -1), axes=(1, 2, 1))
    dW_K_cross = matmul(xp, C.mT, xp.moveaxis(dK_cross, -3, -2), axes=(1, 1, 2))
    db_K_cross = xp.sum(dK_cross, axis=-2)
    dQ_cross = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS_cross, K_cross, real[..., None, None, :])
    dW_Q_cross = matmul(xp, N1.mT, xp.moveaxis(dQ_cross, -3, -2), axes=(1, 1, 2))
    db_Q_cross = xp.sum(dQ_cross, axis=-2)
    dN1 = matmul(xp, xp.moveaxis(dQ_cross, -3, -2), xp.moveaxis(W_Q_cross, -3, -1), axes=(1, 2, 1)) + dX2
    dweight_N1 = xp.sum(dN1 * normed_N1, axis=-2)
    dshift_N1 = xp.sum(dN1, axis=-2)
    dnormed_N1 = dN1 * weight_N1[..., None, :]
    r6 = (1/max(D, 1)) * xp.sum(dnormed_N1, axis=-1)
    r7 = (1/max(D, 1)) * xp.sum(dnormed_N1 * normed_N1, axis=-1)
    dX1 = rstd_N1[..., None] * (dnormed_N1 - normed_N1 * r7[..., None] - r6[..., None])
    dW_O = matmul(xp, O.mT, dX1, axes=(2, 1, 1))
    db_O = xp.sum(dX1, axis=-2)
    dO = xp.moveaxis(matmul(xp, dX1, xp.moveaxis(W_O, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA = dO @ V.mT
    r8 = xp.sum(visible_only(xp, A * dA, M[..., None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r8[..., None]), M[..., None, :, :])
    dV = visible_matmul(xp, A.mT, dO, M.mT[..., None, :, :])
    dW_V = matmul(xp, X.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2))
    db_V = xp.sum(dV, axis=-2)
    dK = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS.mT, Q, M.mT[..., None, :, :])
    dW_K = matmul(xp, X.mT, xp.moveaxis(dK, -3, -2), axes=(1, 1, 2))
    db_K = xp.sum(dK, axis=-2)
    dQ = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS, K, M[..., None, :, :])
    dX = matmul(xp, xp.moveaxis(dK, -3, -2), xp.moveaxis(W_K, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dQ, -3, -2), xp.moveaxis(W_Q, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1)) + dX1
    dW_Q = matmul(xp, X.mT, xp.moveaxis(dQ, -3, -2), axes=(1, 1, 2))
    db_Q = xp.sum(dQ, axis=-2)
    return {"X": dX, "C": dC, "W_Q": dW_Q, "b_Q": db_Q, "W_K": dW_K, "b_K": db_K, "W_V": dW_V, "b_V": db_V, "W_O": dW_O, "b_O": db_O, "weight_N1": dweight_N1, "shift_N1": dshift_N1, "W_Q_cross": dW_Q_cross, "b_Q_cross": db_Q_cross, "W_K_cross": dW_K_cross, "b_K_cross": db_K_cross, "W_V_cross": dW_V_cross, "b_V_cross": db_V_cross, "W_O_cross": dW_O_cross, "b_O_cross": db_O_cross, "weight_N2": dweight_N2, "shift_N2": dshift_N2, "W_up": dW_up, "b_up": db_up, "W_down": dW_down, "b_down": db_down, "weight_Y": dweight_Y, "shift_Y": dshift_Y}
