# Seal of generated text, broken by edits: 28416eb879b3c33dff354d20f1a9a3e0
"""A block of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Forward (Y) and backward (dX, dweight_N1, dW_Q, dW_K, dW_V, dW_O, dweight_N2, dW_gate, dW_up, dW_down) for
CuPy, derived from the definitions of `llama_block`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 134 for the plain program (X, position, weight_N1,
W_Q, W_K, W_V, W_O, weight_N2, W_gate, W_up, W_down to Y and gradients).
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, sigmoid, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="llama_block",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("position", ("n",), "real", "the position of each state"),
        TensorSpec("weight_N1", ("D",), "real", "multiplies each coordinate of N1"),
        TensorSpec("W_Q", ("D", "H*G", "2*pairs"), "real", "the queries' maps"),
        TensorSpec("W_K", ("D", "H", "2*pairs"), "real", "the keys' maps, one for each group"),
        TensorSpec("W_V", ("D", "H", "d_v"), "real", "the values' maps, one for each group"),
        TensorSpec("W_O", ("H*G", "d_v", "D"), "real", "the output map of each head"),
        TensorSpec("weight_N2", ("D",), "real", "multiplies each coordinate of N2"),
        TensorSpec("W_gate", ("D", "F"), "real", "the gate's map"),
        TensorSpec("W_up", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("W_down", ("F", "D"), "real", "the map back"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updated states"),
    ),
    gradients=("X", "weight_N1", "W_Q", "W_K", "W_V", "W_O", "weight_N2", "W_gate", "W_up", "W_down"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    position: Array,
    weight_N1: Array,
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    W_O: Array,
    weight_N2: Array,
    W_gate: Array,
    W_up: Array,
    W_down: Array,
    *,
    eps: float = 1/100000,
    base: float = 10000,
) -> tuple[dict[str, Array], Saved]:
    """A block of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

    X [.., n, D]: states
    position [.., n]: the position of each state
    weight_N1 [.., D]: multiplies each coordinate of N1
    W_Q [.., D, H, G, 2, pairs]: the queries' maps
    W_K [.., D, H, 2, pairs]: the keys' maps, one for each group
    W_V [.., D, H, d_v]: the values' maps, one for each group
    W_O [.., H, G, d_v, D]: the output map of each head
    weight_N2 [.., D]: multiplies each coordinate of N2
    W_gate [.., D, F]: the gate's map
    W_up [.., D, F]: the map to the hidden width
    W_down [.., F, D]: the map back
    eps: added to the mean square before the root is taken
    base: pair p turns by the position times base to the power −p/pairs

    Returns the outputs Y, and what the backward pass needs:

        C_x[i,p] = cos(base^(-p/pairs) position[i])
        N_x[i,p] = sin(base^(-p/pairs) position[i])
        M[i,j] = [j ≤ i]
        rstd_N1[i] = 1/√(Σ_x X[i,x]²/D + ε)
        normed_N1[i,x] = X[i,x] rstd_N1[i]
        N1[i,x] = normed_N1[i,x] weight_N1[x]
        Q[h,g,i,s,p] = Σ_x N1[i,x] W_Q[x,h,g,s,p]
        K[h,i,s,p] = Σ_x N1[i,x] W_K[x,h,s,p]
        V[h,j,v] = Σ_x N1[j,x] W_V[x,h,v]
        Q_turned[h,g,i,s,p] = C_x[i,p] Q[h,g,i,s,p] + N_x[i,p] Σ_s′ Q[h,g,i,s′,p] QuarterTurn(s, s′)
        K_turned[h,i,s,p] = C_x[i,p] K[h,i,s,p] + N_x[i,p] Σ_s′ K[h,i,s′,p] QuarterTurn(s, s′)
        S[h,g,i,j] = Σ_sp K_turned[h,j,s,p] Q_turned[h,g,i,s,p]/√(2 pairs)
        A[h,g,i,j] = M[i,j] exp(S[h,g,i,j])/(Σ_i′ M[i,i′] exp(S[h,g,i,i′]))
        O[h,g,i,v] = Σ_i′ A[h,g,i,i′] V[h,i′,v]
        X1[i,x] = Σ_ghv O[h,g,i,v] W_O[h,g,v,x] + X[i,x]
        rstd_N2[i] = 1/√(Σ_x X1[i,x]²/D + ε)
        normed_N2[i,x] = X1[i,x] rstd_N2[i]
        N2[i,x] = normed_N2[i,x] weight_N2[x]
        U[i,f] = Σ_x N2[i,x] W_gate[x,f]
        B[i,f] = Σ_x N2[i,x] W_up[x,f]
        H_1[i,f] = Sigmoid(U[i,f])
        H[i,f] = B[i,f] H_1[i,f] U[i,f]
        Y[i,x] = Σ_f H[i,f] W_down[f,x] + X1[i,x]
    """
    D = X.shape[-1]
    n = X.shape[-2]
    pairs = W_Q.shape[-1]
    C_x = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position[..., None])
    N_x = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position[..., None])
    M = xp.arange(n)[None, :] <= xp.arange(n)[:, None]
    rstd_N1 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(X ** 2, axis=-1) + eps)
    normed_N1 = X * rstd_N1[..., None]
    N1 = normed_N1 * weight_N1[..., None, :]
    Q = xp.moveaxis(matmul(xp, N1, W_Q, axes=(1, 1, 4)), -5, -3)
    K = xp.moveaxis(matmul(xp, N1, W_K, axes=(1, 1, 3)), -4, -3)
    V = xp.moveaxis(matmul(xp, N1, W_V, axes=(1, 1, 2)), -3, -2)
    Q_turned = C_x[..., None, None, :, None, :] * Q + N_x[..., None, None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(Q, -2, -5), axes=(1, 1, 4)), -5, -2)
    K_turned = C_x[..., None, :, None, :] * K + N_x[..., None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(K, -2, -4), axes=(1, 1, 3)), -4, -2)
    S = (1 / math.sqrt(2*max(pairs, 1))) * matmul(xp, Q_turned, xp.moveaxis(K_turned, -3, -1), axes=(2, 2, 1))
    S_max = visible_max(xp, S, M[..., None, None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M[..., None, None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M[..., None, None, :, :])
    O = visible_matmul(xp, A, V, M[..., None, None, :, :], axes=(2, 1, 1))
    X1 = matmul(xp, xp.moveaxis(O, (-2, -4), (-4, -2)), xp.moveaxis(W_O, -4, -3), axes=(1, 3, 1)) + X
    rstd_N2 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(X1 ** 2, axis=-1) + eps)
    normed_N2 = X1 * rstd_N2[..., None]
    N2 = normed_N2 * weight_N2[..., None, :]
    U = N2 @ W_gate
    B = N2 @ W_up
    H_1 = sigmoid(xp, U)
    H = B * H_1 * U
    Y = H @ W_down + X1
    outputs = {"Y": Y}
    return outputs, {"H": H, "W_down": W_down, "H_1": H_1, "U": U, "N2": N2, "B": B, "W_gate": W_gate, "W_up": W_up, "normed_N2": normed_N2, "weight_N2": weight_N2, "rstd_N2": rstd_N2, "O": O, "W_O": W_O, "V": V, "A": A, "M": M, "Q_turned": Q_turned, "K_turned": K_turned, "N1": N1, "C_x": C_x, "N_x": N_x, "W_K": W_K, "W_Q": W_Q, "W_V": W_V, "normed_N1": normed_N1, "weight_N1": weight_N1, "rstd_N1": rstd_N1}


def backward(
    dY: Array,
    *,
    H: Array,
    W_down: Array,
    H_1: Array,
    U: Array,
    N2: Array,
    B: Array,
    W_gate: Array,
    W_up: Array,
    normed_N2: Array,
    weight_N2: Array,
    rstd_N2: Array,
    O: Array,
    W_O: Array,
    V: Array,
    A: Array,
    M: Array,
    Q_turned: Array,
    K_turned: Array,
    N1: Array,
    C_x: Array,
    N_x: Array,
    W_K: Array,
    W_Q: Array,
    W_V: Array,
    normed_N1: Array,
    weight_N1: Array,
    rstd_N1: Array,
) -> dict[str, Array]:
    """Gradients of llama_block, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, weight_N1, W_Q, W_K, W_V, W_O, weight_N2, W_gate, W_up and
        W_down. Steps:

        ∇W_down[f,x] = Σ_i H[i,f] ∇Y[i,x]    (product)
        ∇H[i,f] = Σ_x W_down[f,x] ∇Y[i,x]    (product)
        ∇B[i,f] = H_1[i,f] U[i,f] ∇H[i,f]    (chain rule)
        ∇W_up[x,f] = Σ_i N2[i,x] ∇B[i,f]    (product)
        ∇U[i,f] = ∇H[i,f] (H_1[i,f] (B[i,f] − H[i,f]) + H[i,f])    (chain rule, sum over uses, write out,
            fold, factor)
        ∇W_gate[x,f] = Σ_i N2[i,x] ∇U[i,f]    (product)
        ∇N2[i,x] = Σ_f W_gate[x,f] ∇U[i,f] + Σ_f W_up[x,f] ∇B[i,f]    (product, sum over uses)
        ∇weight_N2[x] = Σ_i ∇N2[i,x] normed_N2[i,x]    (chain rule)
        ∇normed_N2[i,x] = ∇N2[i,x] weight_N2[x]    (chain rule)
        r[i] = Σ_x ∇normed_N2[i,x] normed_N2[i,x]/D    (name a reduction)
        ∇X1[i,x] = rstd_N2[i] (∇normed_N2[i,x] − normed_N2[i,x] r[i]) + ∇Y[i,x]    (chain rule, added term,
            sum over uses, write out, fold, factor)
        ∇W_O[h,g,v,x] = Σ_i O[h,g,i,v] ∇X1[i,x]    (product)
        ∇O[h,g,i,v] = Σ_x W_O[h,g,v,x] ∇X1[i,x]    (product)
        ∇A[h,g,i,j] = Σ_v V[h,j,v] ∇O[h,g,i,v]    (product)
        r2[h,g,i] = Σ_i′ A[h,g,i,i′] ∇A[h,g,i,i′]    (name a reduction)
        ∇S[h,g,i,j] = A[h,g,i,j] (∇A[h,g,i,j] − r2[h,g,i])    (softmax, fold, factor)
        ∇K_turned[h,i,s,p] = Σ_gi′ Q_turned[h,g,i′,s,p] ∇S[h,g,i′,i]/√(2 pairs)    (product)
        ∇Q_turned[h,g,i,s,p] = Σ_i′ K_turned[h,i′,s,p] ∇S[h,g,i,i′]/√(2 pairs)    (product)
        ∇V[h,j,v] = Σ_gi A[h,g,i,j] ∇O[h,g,i,v]    (product)
        ∇W_V[x,h,v] = Σ_i N1[i,x] ∇V[h,i,v]    (product)
        ∇K[h,i,s,p] = C_x[i,p] ∇K_turned[h,i,s,p] − N_x[i,p] Σ_s′ QuarterTurn(s, s′) ∇K_turned[h,i,s′,p]
            (chain rule)
        ∇W_K[x,h,s,p] = Σ_i N1[i,x] ∇K[h,i,s,p]    (product)
        ∇Q[h,g,i,s,p] = C_x[i,p] ∇Q_turned[h,g,i,s,p] − N_x[i,p] Σ_s′ QuarterTurn(s, s′) ∇Q_turned[h,g,i,s′,p]
            (chain rule)
        ∇W_Q[x,h,g,s,p] = Σ_i N1[i,x] ∇Q[h,g,i,s,p]    (product)
        ∇N1[i,x] = Σ_shp W_K[x,h,s,p] ∇K[h,i,s,p] + Σ_sghp W_Q[x,h,g,s,p] ∇Q[h,g,i,s,p] + Σ_hv W_V[x,h,v]
            ∇V[h,i,v]    (product, sum over uses)
        ∇weight_N1[x] = Σ_i ∇N1[i,x] normed_N1[i,x]    (chain rule)
        ∇normed_N1[i,x] = ∇N1[i,x] weight_N1[x]    (chain rule)
        r3[i] = Σ_x ∇normed_N1[i,x] normed_N1[i,x]/D    (name a reduction)
        ∇X[i,x] = rstd_N1[i] (∇normed_N1[i,x] − normed_N1[i,x] r3[i]) + ∇X1[i,x]    (chain rule, added term,
            sum over uses, write out, fold, factor)
    """
    D = dY.shape[-1]
    pairs = Q_turned.shape[-1]
    dW_down = H.mT @ dY
    dH = dY @ W_down.mT
    dB = H_1 * U * dH
    dW_up = N2.mT @ dB
    dU = dH * (H_1 * (B - H) + H)
    dW_gate = N2.mT @ dU
    dN2 = dU @ W_gate.mT + dB @ W_up.mT
    dweight_N2 = xp.sum(dN2 * normed_N2, axis=-2)
    dnormed_N2 = dN2 * weight_N2[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_N2 * normed_N2, axis=-1)
    dX1 = rstd_N2[..., None] * (dnormed_N2 - normed_N2 * r[..., None])
    if dY is not None:
        dX1 = dX1 + dY
    dW_O = matmul(xp, O.mT, dX1, axes=(3, 1, 1))
    dO = xp.moveaxis(matmul(xp, dX1, xp.moveaxis(W_O, -1, -4), axes=(1, 1, 3)), -4, -2)
    dA = matmul(xp, dO, V.mT, axes=(2, 1, 1))
    r2 = xp.sum(visible_only(xp, A * dA, M[..., None, None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r2[..., None]), M[..., None, None, :, :])
    dK_turned = (1 / math.sqrt(2*max(pairs, 1))) * visible_matmul(xp, xp.moveaxis(dS, -1, -3), Q_turned, M.mT[..., None, :, None, :], axes=(1, 2, 2))
    dQ_turned = (1 / math.sqrt(2*max(pairs, 1))) * visible_matmul(xp, dS, K_turned, M[..., None, None, :, :], axes=(2, 1, 2))
    dV = visible_matmul(xp, xp.moveaxis(A, -1, -3), dO, M.mT[..., None, :, None, :], axes=(1, 2, 1))
    dW_V = matmul(xp, N1.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2))
    dK = C_x[..., None, :, None, :] * dK_turned - N_x[..., None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dK_turned, -2, -4), axes=(1, 1, 3)), -4, -2)
    dW_K = matmul(xp, N1.mT, xp.moveaxis(dK, -4, -3), axes=(1, 1, 3))
    dQ = C_x[..., None, None, :, None, :] * dQ_turned - N_x[..., None, None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dQ_turned, -2, -5), axes=(1, 1, 4)), -5, -2)
    dW_Q = matmul(xp, N1.mT, xp.moveaxis(dQ, -3, -5), axes=(1, 1, 4))
    dN1 = matmul(xp, xp.moveaxis(dK, -4, -2), xp.moveaxis(W_K, (-2, -1, -4), (-4, -2, -1)), axes=(1, 3, 1)) + matmul(xp, xp.moveaxis(dQ, (-3, -2, -4, -5), (-5, -4, -3, -2)), xp.moveaxis(W_Q, (-2, -3, -4, -1, -5), (-5, -4, -3, -2, -1)), axes=(1, 4, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1))
    dweight_N1 = xp.sum(dN1 * normed_N1, axis=-2)
    dnormed_N1 = dN1 * weight_N1[..., None, :]
    r3 = (1/max(D, 1)) * xp.sum(dnormed_N1 * normed_N1, axis=-1)
    dX = rstd_N1[..., None] * (dnormed_N1 - normed_N1 * r3[..., None]) + dX1
    return {"X": dX, "weight_N1": dweight_N1, "W_Q": dW_Q, "W_K": dW_K, "W_V": dW_V, "W_O": dW_O, "weight_N2": dweight_N2, "W_gate": dW_gate, "W_up": dW_up, "W_down": dW_down}
