# Seal of generated text, broken by edits: 952814ca4e9f19e0af15dd7fed0cddaa
"""A block of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, with tangents.

Forward (Y, tY) for NumPy, derived from the definitions of `llama_block_tangent`.

Generated: do not edit, run `backprove generate`.

Array operations of the pass, transposes being views: 149 for the plain program (X, position, weight_N1, W_Q,
W_K, W_V, W_O, weight_N2, W_gate, W_up, W_down, tX, tweight_N1, tW_Q, tW_K, tW_V, tW_O, tweight_N2, tW_gate,
tW_up, tW_down to Y and tY alone).
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, sigmoid, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="llama_block_tangent",
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
        TensorSpec("tX", ("n", "D"), "real", "tangent of X"),
        TensorSpec("tweight_N1", ("D",), "real", "tangent of weight_N1"),
        TensorSpec("tW_Q", ("D", "H*G", "2*pairs"), "real", "tangent of W_Q"),
        TensorSpec("tW_K", ("D", "H", "2*pairs"), "real", "tangent of W_K"),
        TensorSpec("tW_V", ("D", "H", "d_v"), "real", "tangent of W_V"),
        TensorSpec("tW_O", ("H*G", "d_v", "D"), "real", "tangent of W_O"),
        TensorSpec("tweight_N2", ("D",), "real", "tangent of weight_N2"),
        TensorSpec("tW_gate", ("D", "F"), "real", "tangent of W_gate"),
        TensorSpec("tW_up", ("D", "F"), "real", "tangent of W_up"),
        TensorSpec("tW_down", ("F", "D"), "real", "tangent of W_down"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updated states"),
        OutputSpec("tY", ("n", "D"), "tangent of Y"),
    ),
    gradients=(),
    cotangents=(),
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
    tX: Array,
    tweight_N1: Array,
    tW_Q: Array,
    tW_K: Array,
    tW_V: Array,
    tW_O: Array,
    tweight_N2: Array,
    tW_gate: Array,
    tW_up: Array,
    tW_down: Array,
    *,
    eps: float = 1/100000,
    base: float = 10000,
) -> tuple[dict[str, Array], Saved]:
    """A block of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU, with tangents.

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
    tX [.., n, D]: tangent of X
    tweight_N1 [.., D]: tangent of weight_N1
    tW_Q [.., D, H, G, 2, pairs]: tangent of W_Q
    tW_K [.., D, H, 2, pairs]: tangent of W_K
    tW_V [.., D, H, d_v]: tangent of W_V
    tW_O [.., H, G, d_v, D]: tangent of W_O
    tweight_N2 [.., D]: tangent of weight_N2
    tW_gate [.., D, F]: tangent of W_gate
    tW_up [.., D, F]: tangent of W_up
    tW_down [.., F, D]: tangent of W_down
    eps: added to the mean square before the root is taken
    base: pair p turns by the position times base to the power −p/pairs

    Returns the outputs Y and tY:

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
        trstd_N1[i] = −rstd_N1[i]² Σ_x normed_N1[i,x] tX[i,x]/D
        tnormed_N1[i,x] = X[i,x] trstd_N1[i] + rstd_N1[i] tX[i,x]
        tN1[i,x] = normed_N1[i,x] tweight_N1[x] + tnormed_N1[i,x] weight_N1[x]
        tQ[h,g,i,s,p] = Σ_x N1[i,x] tW_Q[x,h,g,s,p] + Σ_x W_Q[x,h,g,s,p] tN1[i,x]
        tK[h,i,s,p] = Σ_x N1[i,x] tW_K[x,h,s,p] + Σ_x W_K[x,h,s,p] tN1[i,x]
        tV[h,j,v] = Σ_x N1[j,x] tW_V[x,h,v] + Σ_x W_V[x,h,v] tN1[j,x]
        tQ_turned[h,g,i,s,p] = C_x[i,p] tQ[h,g,i,s,p] + N_x[i,p] Σ_s′ QuarterTurn(s, s′) tQ[h,g,i,s′,p]
        tK_turned[h,i,s,p] = C_x[i,p] tK[h,i,s,p] + N_x[i,p] Σ_s′ QuarterTurn(s, s′) tK[h,i,s′,p]
        tS[h,g,i,j] = (1/2 √2 Σ_sp K_turned[h,j,s,p] tQ_turned[h,g,i,s,p] + 1/2 √2 Σ_sp Q_turned[h,g,i,s,p]
            tK_turned[h,j,s,p])/√pairs
        tA_1[h,g,i,j] = tS[h,g,i,j] − Σ_i′ A[h,g,i,i′] tS[h,g,i,i′]
        tA[h,g,i,j] = A[h,g,i,j] tA_1[h,g,i,j]
        tO[h,g,i,v] = Σ_i′ A[h,g,i,i′] tV[h,i′,v] + Σ_i′ V[h,i′,v] tA[h,g,i,i′]
        tX1[i,x] = Σ_ghv O[h,g,i,v] tW_O[h,g,v,x] + Σ_ghv W_O[h,g,v,x] tO[h,g,i,v] + tX[i,x]
        trstd_N2[i] = −rstd_N2[i]² Σ_x normed_N2[i,x] tX1[i,x]/D
        tnormed_N2[i,x] = X1[i,x] trstd_N2[i] + rstd_N2[i] tX1[i,x]
        tN2[i,x] = normed_N2[i,x] tweight_N2[x] + tnormed_N2[i,x] weight_N2[x]
        tU[i,f] = Σ_x N2[i,x] tW_gate[x,f] + Σ_x W_gate[x,f] tN2[i,x]
        tB[i,f] = Σ_x N2[i,x] tW_up[x,f] + Σ_x W_up[x,f] tN2[i,x]
        tH_1[i,f] = H_1[i,f] tU[i,f] (1 − H_1[i,f])
        tH_2[i,f] = H_1[i,f] tU[i,f] + U[i,f] tH_1[i,f]
        tH[i,f] = B[i,f] tH_2[i,f] + H_1[i,f] U[i,f] tB[i,f]
        tY[i,x] = Σ_f H[i,f] tW_down[f,x] + Σ_f W_down[f,x] tH[i,f] + tX1[i,x]
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
    trstd_N1 = (-1/max(D, 1)) * (xp.sum(normed_N1 * tX, axis=-1) * rstd_N1 ** 2)
    tnormed_N1 = X * trstd_N1[..., None] + rstd_N1[..., None] * tX
    tN1 = normed_N1 * tweight_N1[..., None, :] + tnormed_N1 * weight_N1[..., None, :]
    tQ = xp.moveaxis(matmul(xp, N1, tW_Q, axes=(1, 1, 4)), -5, -3) + xp.moveaxis(matmul(xp, tN1, W_Q, axes=(1, 1, 4)), -5, -3)
    tK = xp.moveaxis(matmul(xp, N1, tW_K, axes=(1, 1, 3)), -4, -3) + xp.moveaxis(matmul(xp, tN1, W_K, axes=(1, 1, 3)), -4, -3)
    tV = xp.moveaxis(matmul(xp, N1, tW_V, axes=(1, 1, 2)), -3, -2) + xp.moveaxis(matmul(xp, tN1, W_V, axes=(1, 1, 2)), -3, -2)
    tQ_turned = C_x[..., None, None, :, None, :] * tQ + N_x[..., None, None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(tQ, -2, -5), axes=(1, 1, 4)), -5, -2)
    tK_turned = C_x[..., None, :, None, :] * tK + N_x[..., None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(tK, -2, -4), axes=(1, 1, 3)), -4, -2)
    tS = (1 / math.sqrt(max(pairs, 1))) * (((1/2)*math.sqrt(2)) * matmul(xp, tQ_turned, xp.moveaxis(K_turned, -3, -1), axes=(2, 2, 1)) + ((1/2)*math.sqrt(2)) * matmul(xp, Q_turned, xp.moveaxis(tK_turned, -3, -1), axes=(2, 2, 1)))
    tA_1 = tS - xp.sum(visible_only(xp, A * tS, M[..., None, None, :, :]), axis=-1)[..., None]
    tA = visible_only(xp, A * tA_1, M[..., None, None, :, :])
    tO = visible_matmul(xp, A, tV, M[..., None, None, :, :], axes=(2, 1, 1)) + visible_matmul(xp, tA, V, M[..., None, None, :, :], axes=(2, 1, 1))
    tX1 = matmul(xp, xp.moveaxis(O, (-2, -4), (-4, -2)), xp.moveaxis(tW_O, -4, -3), axes=(1, 3, 1)) + matmul(xp, xp.moveaxis(tO, (-2, -4), (-4, -2)), xp.moveaxis(W_O, -4, -3), axes=(1, 3, 1)) + tX
    trstd_N2 = (-1/max(D, 1)) * (xp.sum(normed_N2 * tX1, axis=-1) * rstd_N2 ** 2)
    tnormed_N2 = X1 * trstd_N2[..., None] + rstd_N2[..., None] * tX1
    tN2 = normed_N2 * tweight_N2[..., None, :] + tnormed_N2 * weight_N2[..., None, :]
    tU = N2 @ tW_gate + tN2 @ W_gate
    tB = N2 @ tW_up + tN2 @ W_up
    tH_1 = H_1 * tU * (1 - H_1)
    tH_2 = H_1 * tU + U * tH_1
    tH = B * tH_2 + H_1 * U * tB
    tY = H @ tW_down + tH @ W_down + tX1
    outputs = {"Y": Y, "tY": tY}
    return outputs, {}
