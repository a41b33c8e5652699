# Seal of generated text, broken by edits: 117a51c011c6a6e58f93db24f25ef15b
"""Gradients of llama_block, to be differentiated again.

Forward (grad_X, grad_weight_N1, grad_W_Q, grad_W_K, grad_W_V, grad_W_O, grad_weight_N2, grad_W_gate,
grad_W_up, grad_W_down) and backward (dX, dweight_N1, dW_Q, dW_K, dW_V, dW_O, dweight_N2, dW_gate, dW_up,
dW_down, dgrad_Y) for CuPy, derived from the definitions of `llama_block_double_backward`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 359 for the plain program (X, position, weight_N1,
W_Q, W_K, W_V, W_O, weight_N2, W_gate, W_up, W_down, grad_Y to grad_X, grad_weight_N1, grad_W_Q, grad_W_K,
grad_W_V, grad_W_O, grad_weight_N2, grad_W_gate, grad_W_up and grad_W_down and gradients).
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, sigmoid, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="llama_block_double_backward",
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
        TensorSpec("grad_Y", ("n", "D"), "real", "cotangent of Y"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
    ),
    outputs=(
        OutputSpec("grad_X", ("n", "D"), "gradient with respect to X"),
        OutputSpec("grad_weight_N1", ("D",), "gradient with respect to weight_N1"),
        OutputSpec("grad_W_Q", ("D", "H*G", "2*pairs"), "gradient with respect to W_Q"),
        OutputSpec("grad_W_K", ("D", "H", "2*pairs"), "gradient with respect to W_K"),
        OutputSpec("grad_W_V", ("D", "H", "d_v"), "gradient with respect to W_V"),
        OutputSpec("grad_W_O", ("H*G", "d_v", "D"), "gradient with respect to W_O"),
        OutputSpec("grad_weight_N2", ("D",), "gradient with respect to weight_N2"),
        OutputSpec("grad_W_gate", ("D", "F"), "gradient with respect to W_gate"),
        OutputSpec("grad_W_up", ("D", "F"), "gradient with respect to W_up"),
        OutputSpec("grad_W_down", ("F", "D"), "gradient with respect to W_down"),
    ),
    gradients=("X", "weight_N1", "W_Q", "W_K", "W_V", "W_O", "weight_N2", "W_gate", "W_up", "W_down", "grad_Y"),
    cotangents=("grad_X", "grad_weight_N1", "grad_W_Q", "grad_W_K", "grad_W_V", "grad_W_O", "grad_weight_N2", "grad_W_gate", "grad_W_up", "grad_W_down"),
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
    grad_Y: Array,
    *,
    eps: float = 1/100000,
    base: float = 10000,
) -> tuple[dict[str, Array], Saved]:
    """Gradients of llama_block, to be differentiated again.

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
    grad_Y [.., n, D]: cotangent of Y
    eps: added to the mean square before the root is taken
    base: pair p turns by the position times base to the power −p/pairs

    Returns the outputs grad_X, grad_weight_N1, grad_W_Q, grad_W_K, grad_W_V, grad_W_O, grad_weight_N2,
        grad_W_gate, grad_W_up and grad_W_down, and what the backward pass needs:

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
        grad_W_down[f,x] = Σ_i H[i,f] grad_Y[i,x]
        grad_H[i,f] = Σ_x W_down[f,x] grad_Y[i,x]
        grad_B[i,f] = H_1[i,f] U[i,f] grad_H[i,f]
        grad_W_up[x,f] = Σ_i N2[i,x] grad_B[i,f]
        grad_U_1[i,f] = B[i,f] − H[i,f]
        grad_U_2[i,f] = H[i,f] + H_1[i,f] grad_U_1[i,f]
        grad_U[i,f] = grad_H[i,f] grad_U_2[i,f]
        grad_W_gate[x,f] = Σ_i N2[i,x] grad_U[i,f]
        grad_N2[i,x] = Σ_f W_gate[x,f] grad_U[i,f] + Σ_f W_up[x,f] grad_B[i,f]
        grad_weight_N2[x] = Σ_i grad_N2[i,x] normed_N2[i,x]
        grad_normed_N2[i,x] = grad_N2[i,x] weight_N2[x]
        r[i] = Σ_x grad_normed_N2[i,x] normed_N2[i,x]/D
        grad_X1_1[i,x] = grad_normed_N2[i,x] − normed_N2[i,x] r[i]
        grad_X1[i,x] = grad_X1_1[i,x] rstd_N2[i] + grad_Y[i,x]
        grad_W_O[h,g,v,x] = Σ_i O[h,g,i,v] grad_X1[i,x]
        grad_O[h,g,i,v] = Σ_x W_O[h,g,v,x] grad_X1[i,x]
        grad_A[h,g,i,j] = Σ_v V[h,j,v] grad_O[h,g,i,v]
        r2[h,g,i] = Σ_i′ A[h,g,i,i′] grad_A[h,g,i,i′]
        grad_S_1[h,g,i,j] = grad_A[h,g,i,j] − r2[h,g,i]
        grad_S[h,g,i,j] = A[h,g,i,j] grad_S_1[h,g,i,j]
        grad_K_turned[h,i,s,p] = Σ_gi′ Q_turned[h,g,i′,s,p] grad_S[h,g,i′,i]/√(2 pairs)
        grad_Q_turned[h,g,i,s,p] = Σ_i′ K_turned[h,i′,s,p] grad_S[h,g,i,i′]/√(2 pairs)
        grad_V[h,j,v] = Σ_gi A[h,g,i,j] grad_O[h,g,i,v]
        grad_W_V[x,h,v] = Σ_i N1[i,x] grad_V[h,i,v]
        grad_K[h,i,s,p] = C_x[i,p] grad_K_turned[h,i,s,p] + N_x[i,p] Σ_s′ −QuarterTurn(s, s′)
            grad_K_turned[h,i,s′,p]
        grad_W_K[x,h,s,p] = Σ_i N1[i,x] grad_K[h,i,s,p]
        grad_Q[h,g,i,s,p] = C_x[i,p] grad_Q_turned[h,g,i,s,p] + N_x[i,p] Σ_s′ −QuarterTurn(s, s′)
            grad_Q_turned[h,g,i,s′,p]
        grad_W_Q[x,h,g,s,p] = Σ_i N1[i,x] grad_Q[h,g,i,s,p]
        grad_N1[i,x] = Σ_shp W_K[x,h,s,p] grad_K[h,i,s,p] + Σ_sghp W_Q[x,h,g,s,p] grad_Q[h,g,i,s,p] + Σ_hv
            W_V[x,h,v] grad_V[h,i,v]
        grad_weight_N1[x] = Σ_i grad_N1[i,x] normed_N1[i,x]
        grad_normed_N1[i,x] = grad_N1[i,x] weight_N1[x]
        r3[i] = Σ_x grad_normed_N1[i,x] normed_N1[i,x]/D
        grad_X_1[i,x] = grad_normed_N1[i,x] − normed_N1[i,x] r3[i]
        grad_X[i,x] = grad_X1[i,x] + grad_X_1[i,x] rstd_N1[i]
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
    grad_W_down = H.mT @ grad_Y
    grad_H = grad_Y @ W_down.mT
    grad_B = H_1 * U * grad_H
    grad_W_up = N2.mT @ grad_B
    grad_U_1 = B - H
    grad_U_2 = H + H_1 * grad_U_1
    grad_U = grad_H * grad_U_2
    grad_W_gate = N2.mT @ grad_U
    grad_N2 = grad_U @ W_gate.mT + grad_B @ W_up.mT
    grad_weight_N2 = xp.sum(grad_N2 * normed_N2, axis=-2)
    grad_normed_N2 = grad_N2 * weight_N2[..., None, :]
    r = (1/max(D, 1)) * xp.sum(grad_normed_N2 * normed_N2, axis=-1)
    grad_X1_1 = grad_normed_N2 - normed_N2 * r[..., None]
    grad_X1 = grad_X1_1 * rstd_N2[..., None] + grad_Y
    grad_W_O = matmul(xp, O.mT, grad_X1, axes=(3, 1, 1))
    grad_O = xp.moveaxis(matmul(xp, grad_X1, xp.moveaxis(W_O, -1, -4), axes=(1, 1, 3)), -4, -2)
    grad_A = matmul(xp, grad_O, V.mT, axes=(2, 1, 1))
    r2 = xp.sum(visible_only(xp, A * grad_A, M[..., None, None, :, :]), axis=-1)
    grad_S_1 = grad_A - r2[..., None]
    grad_S = visible_only(xp, A * grad_S_1, M[..., None, None, :, :])
    grad_K_turned = (1 / math.sqrt(2*max(pairs, 1))) * visible_matmul(xp, xp.moveaxis(grad_S, -1, -3), Q_turned, M.mT[..., None, :, None, :], axes=(1, 2, 2))
    grad_Q_turned = (1 / math.sqrt(2*max(pairs, 1))) * visible_matmul(xp, grad_S, K_turned, M[..., None, None, :, :], axes=(2, 1, 2))
    grad_V = visible_matmul(xp, xp.moveaxis(A, -1, -3), grad_O, M.mT[..., None, :, None, :], axes=(1, 2, 1))
    grad_W_V = matmul(xp, N1.mT, xp.moveaxis(grad_V, -3, -2), axes=(1, 1, 2))
    grad_K = C_x[..., None, :, None, :] * grad_K_turned + N_x[..., None, :, None, :] * xp.moveaxis(matmul(xp, (xp.arange(2)[:, None] - xp.arange(2)[None, :]) * (-1), xp.moveaxis(grad_K_turned, -2, -4), axes=(1, 1, 3)), -4, -2)
    grad_W_K = matmul(xp, N1.mT, xp.moveaxis(grad_K, -4, -3), axes=(1, 1, 3))
    grad_Q = C_x[..., None, None, :, None, :] * grad_Q_turned + N_x[..., None, None, :, None, :] * xp.moveaxis(matmul(xp, (xp.arange(2)[:, None] - xp.arange(2)[None, :]) * (-1), xp.moveaxis(grad_Q_turned, -2, -5), axes=(1, 1, 4)), -5, -2)
    grad_W_Q = matmul(xp, N1.mT, xp.moveaxis(grad_Q, -3, -5), axes=(1, 1, 4))
    grad_N1 = matmul(xp, xp.moveaxis(grad_K, -4, -2), xp.moveaxis(W_K, (-2, -1, -4), (-4, -2, -1)), axes=(1, 3, 1)) + matmul(xp, xp.moveaxis(grad_Q, (-3, -2, -4, -5), (-5, -4, -3, -2)), xp.moveaxis(W_Q, (-2, -3, -4, -1, -5), (-5, -4, -3, -2, -1)), axes=(1, 4, 1)) + matmul(xp, xp.moveaxis(grad_V, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1))
    grad_weight_N1 = xp.sum(grad_N1 * normed_N1, axis=-2)
    grad_normed_N1 = grad_N1 * weight_N1[..., None, :]
    r3 = (1/max(D, 1)) * xp.sum(grad_normed_N1 * normed_N1, axis=-1)
    grad_X_1 = grad_normed_N1 - normed_N1 * r3[..., None]
    grad_X = grad_X1 + grad_X_1 * rstd_N1[..., None]
    outputs = {"grad_X": grad_X, "grad_weight_N1": grad_weight_N1, "grad_W_Q": grad_W_Q, "grad_W_K": grad_W_K, "grad_W_V": grad_W_V, "grad_W_O": grad_W_O, "grad_weight_N2": grad_weight_N2, "grad_W_gate": grad_W_gate, "grad_W_up": grad_W_up, "grad_W_down": grad_W_down}
    return outputs, {"rstd_N1": rstd_N1, "normed_N1": normed_N1, "weight_N1": weight_N1, "N1": N1, "W_Q": W_Q, "W_K": W_K, "W_V": W_V, "C_x": C_x, "N_x": N_x, "K_turned": K_turned, "Q_turned": Q_turned, "A": A, "M": M, "V": V, "O": O, "W_O": W_O, "rstd_N2": rstd_N2, "normed_N2": normed_N2, "weight_N2": weight_N2, "N2": N2, "W_gate": W_gate, "grad_H": grad_H, "H_1": H_1, "W_up": W_up, "U": U, "grad_U_2": grad_U_2, "grad_Y": grad_Y, "H": H, "W_down": W_down, "B": B, "grad_U_1": grad_U_1, "grad_B": grad_B, "grad_U": grad_U, "grad_N2": grad_N2, "grad_normed_N2": grad_normed_N2, "r": r, "grad_X1_1": grad_X1_1, "grad_X1": grad_X1, "grad_O": grad_O, "grad_S_1": grad_S_1, "grad_A": grad_A, "grad_S": grad_S, "grad_V": grad_V, "grad_K": grad_K, "grad_Q": grad_Q, "grad_N1": grad_N1, "grad_normed_N1": grad_normed_N1, "r3": r3, "grad_X_1": grad_X_1}


def backward(
    dgrad_X: Array,
    dgrad_weight_N1: Array,
    dgrad_W_Q: Array,
    dgrad_W_K: Array,
    dgrad_W_V: Array,
    dgrad_W_O: Array,
    dgrad_weight_N2: Array,
    dgrad_W_gate: Array,
    dgrad_W_up: Array,
    dgrad_W_down: Array,
    *,
    rstd_N1: Array,
    normed_N1: Array,
    weight_N1: Array,
    N1: Array,
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    C_x: Array,
    N_x: Array,
    K_turned: Array,
    Q_turned: Array,
    A: Array,
    M: Array,
    V: Array,
    O: Array,
    W_O: Array,
    rstd_N2: Array,
    normed_N2: Array,
    weight_N2: Array,
    N2: Array,
    W_gate: Array,
    grad_H: Array,
    H_1: Array,
    W_up: Array,
    U: Array,
    grad_U_2: Array,
    grad_Y: Array,
    H: Array,
    W_down: Array,
    B: Array,
    grad_U_1: Array,
    grad_B: Array,
    grad_U: Array,
    grad_N2: Array,
    grad_normed_N2: Array,
    r: Array,
    grad_X1_1: Array,
    grad_X1: Array,
    grad_O: Array,
    grad_S_1: Array,
    grad_A: Array,
    grad_S: Array,
    grad_V: Array,
    grad_K: Array,
    grad_Q: Array,
    grad_N1: Array,
    grad_normed_N1: Array,
    r3: Array,
    grad_X_1: Array,
) -> dict[str, Array]:
    """Gradients of llama_block_double_backward, derived from its definitions.

    dgrad_X [.., n, D]: cotangent of grad_X
    dgrad_weight_N1 [.., D]: cotangent of grad_weight_N1
    dgrad_W_Q [.., D, H, G, 2, pairs]: cotangent of grad_W_Q
    dgrad_W_K [.., D, H, 2, pairs]: cotangent of grad_W_K
    dgrad_W_V [.., D, H, d_v]: cotangent of grad_W_V
    dgrad_W_O [.., H, G, d_v, D]: cotangent of grad_W_O
    dgrad_weight_N2 [.., D]: cotangent of grad_weight_N2
    dgrad_W_gate [.., D, F]: cotangent of grad_W_gate
    dgrad_W_up [.., D, F]: cotangent of grad_W_up
    dgrad_W_down [.., F, D]: cotangent of grad_W_down

    Returns the gradients with respect to X, weight_N1, W_Q, W_K, W_V, W_O, weight_N2, W_gate, W_up, W_down
        and grad_Y. Steps:

        ∇grad_X_1[i,x] = ∇grad_X[i,x] rstd_N1[i]    (chain rule)
        ∇r3[i] = −Σ_x ∇grad_X_1[i,x] normed_N1[i,x]    (chain rule)
        ∇grad_normed_N1[i,x] = ∇grad_X_1[i,x] + ∇r3[i] normed_N1[i,x]/D    (added term, product, sum over
            uses)
        ∇grad_N1[i,x] = ∇grad_normed_N1[i,x] weight_N1[x] + ∇grad_weight_N1[x] normed_N1[i,x]    (chain rule,
            product, sum over uses)
        ∇grad_Q[h,g,i,s,p] = Σ_x N1[i,x] ∇grad_W_Q[x,h,g,s,p] + Σ_x W_Q[x,h,g,s,p] ∇grad_N1[i,x]    (product,
            sum over uses)
        ∇grad_K[h,i,s,p] = Σ_x N1[i,x] ∇grad_W_K[x,h,s,p] + Σ_x W_K[x,h,s,p] ∇grad_N1[i,x]    (product, sum
            over uses)
        ∇grad_V[h,j,v] = Σ_x N1[j,x] ∇grad_W_V[x,h,v] + Σ_x W_V[x,h,v] ∇grad_N1[j,x]    (product, sum over
            uses)
        ∇grad_Q_turned[h,g,i,s,p] = C_x[i,p] ∇grad_Q[h,g,i,s,p] + N_x[i,p] Σ_s′ QuarterTurn(s, s′)
            ∇grad_Q[h,g,i,s′,p]    (chain rule)
        ∇grad_K_turned[h,i,s,p] = C_x[i,p] ∇grad_K[h,i,s,p] + N_x[i,p] Σ_s′ QuarterTurn(s, s′)
            ∇grad_K[h,i,s′,p]    (chain rule)
        ∇grad_S[h,g,i,j] = (1/2 √2 Σ_sp K_turned[h,j,s,p] ∇grad_Q_turned[h,g,i,s,p] + 1/2 √2 Σ_sp
            Q_turned[h,g,i,s,p] ∇grad_K_turned[h,j,s,p])/√pairs    (product, sum over uses, factor)
        ∇grad_S_1[h,g,i,j] = A[h,g,i,j] ∇grad_S[h,g,i,j]    (chain rule)
        ∇r2[h,g,i] = −Σ_i′ ∇grad_S_1[h,g,i,i′]    (chain rule)
        ∇grad_A[h,g,i,j] = A[h,g,i,j] ∇r2[h,g,i] + ∇grad_S_1[h,g,i,j]    (added term, product, sum over uses)
        ∇grad_O[h,g,i,v] = Σ_i′ A[h,g,i,i′] ∇grad_V[h,i′,v] + Σ_i′ V[h,i′,v] ∇grad_A[h,g,i,i′]    (product,
            sum over uses)
        ∇grad_X1[i,x] = Σ_ghv O[h,g,i,v] ∇grad_W_O[h,g,v,x] + Σ_ghv W_O[h,g,v,x] ∇grad_O[h,g,i,v] +
            ∇grad_X[i,x]    (added term, product, sum over uses)
        ∇grad_X1_1[i,x] = ∇grad_X1[i,x] rstd_N2[i]    (chain rule)
        ∇r[i] = −Σ_x ∇grad_X1_1[i,x] normed_N2[i,x]    (chain rule)
        ∇grad_normed_N2[i,x] = ∇grad_X1_1[i,x] + ∇r[i] normed_N2[i,x]/D    (added term, product, sum over
            uses)
        ∇grad_N2[i,x] = ∇grad_normed_N2[i,x] weight_N2[x] + ∇grad_weight_N2[x] normed_N2[i,x]    (chain rule,
            product, sum over uses)
        ∇grad_U[i,f] = Σ_x N2[i,x] ∇grad_W_gate[x,f] + Σ_x W_gate[x,f] ∇grad_N2[i,x]    (product, sum over
            uses)
        ∇grad_U_2[i,f] = ∇grad_U[i,f] grad_H[i,f]    (chain rule)
        ∇grad_U_1[i,f] = H_1[i,f] ∇grad_U_2[i,f]    (chain rule)
        ∇grad_B[i,f] = Σ_x N2[i,x] ∇grad_W_up[x,f] + Σ_x W_up[x,f] ∇grad_N2[i,x]    (product, sum over uses)
        ∇grad_H[i,f] = H_1[i,f] U[i,f] ∇grad_B[i,f] + ∇grad_U[i,f] grad_U_2[i,f]    (chain rule, sum over
            uses)
        ∇W_down[f,x] = Σ_i ∇grad_H[i,f] grad_Y[i,x]    (product)
        ∇grad_Y[i,x] = Σ_f H[i,f] ∇grad_W_down[f,x] + Σ_f W_down[f,x] ∇grad_H[i,f] + ∇grad_X1[i,x]    (added
            term, product, sum over uses)
        ∇H[i,f] = Σ_x ∇grad_W_down[f,x] grad_Y[i,x] + ∇grad_U_2[i,f] − ∇grad_U_1[i,f]    (added term, chain
            rule, product, sum over uses)
        ∇H_1[i,f] = U[i,f] (B[i,f] ∇H[i,f] + ∇grad_B[i,f] grad_H[i,f]) + ∇grad_U_2[i,f] grad_U_1[i,f]
            (chain rule, sum over uses, factor)
        ∇B[i,f] = H_1[i,f] U[i,f] ∇H[i,f] + ∇grad_U_1[i,f]    (added term, chain rule, sum over uses)
        ∇W_up[x,f] = Σ_i N2[i,x] ∇B[i,f] + Σ_i ∇grad_N2[i,x] grad_B[i,f]    (product, sum over uses)
        ∇U[i,f] = H_1[i,f] (B[i,f] ∇H[i,f] + ∇H_1[i,f] + ∇grad_B[i,f] grad_H[i,f] − H_1[i,f] ∇H_1[i,f])
            (chain rule, sum over uses, fold, factor)
        ∇W_gate[x,f] = Σ_i N2[i,x] ∇U[i,f] + Σ_i ∇grad_N2[i,x] grad_U[i,f]    (product, sum over uses)
        ∇N2[i,x] = Σ_f W_gate[x,f] ∇U[i,f] + Σ_f W_up[x,f] ∇B[i,f] + Σ_f ∇grad_W_gate[x,f] grad_U[i,f] + Σ_f
            ∇grad_W_up[x,f] grad_B[i,f]    (product, sum over uses)
        ∇weight_N2[x] = Σ_i ∇N2[i,x] normed_N2[i,x] + Σ_i ∇grad_normed_N2[i,x] grad_N2[i,x]    (chain rule,
            sum over uses)
        ∇normed_N2[i,x] = ∇N2[i,x] weight_N2[x] + ∇grad_weight_N2[x] grad_N2[i,x] + ∇r[i]
            grad_normed_N2[i,x]/D − ∇grad_X1_1[i,x] r[i]    (chain rule, product, sum over uses)
        r4[i] = Σ_x ∇grad_X1_1[i,x] grad_X1_1[i,x] + Σ_x ∇normed_N2[i,x] normed_N2[i,x]    (name a reduction)
        ∇X1[i,x] = rstd_N2[i] (∇normed_N2[i,x] − normed_N2[i,x] r4[i]/D)    (chain rule, sum over uses, write
            out, fold, factor)
        ∇W_O[h,g,v,x] = Σ_i O[h,g,i,v] ∇X1[i,x] + Σ_i ∇grad_O[h,g,i,v] grad_X1[i,x]    (product, sum over
            uses)
        ∇O[h,g,i,v] = Σ_x W_O[h,g,v,x] ∇X1[i,x] + Σ_x ∇grad_W_O[h,g,v,x] grad_X1[i,x]    (product, sum over
            uses)
        ∇A[h,g,i,j] = Σ_v V[h,j,v] ∇O[h,g,i,v] + Σ_v ∇grad_V[h,j,v] grad_O[h,g,i,v] + ∇grad_S[h,g,i,j]
            grad_S_1[h,g,i,j] + ∇r2[h,g,i] grad_A[h,g,i,j]    (product, chain rule, sum over uses)
        r5[h,g,i] = Σ_i′ A[h,g,i,i′] ∇A[h,g,i,i′]    (name a reduction)
        ∇S[h,g,i,j] = A[h,g,i,j] (∇A[h,g,i,j] − r5[h,g,i])    (softmax, fold, factor)
        ∇K_turned[h,i,s,p] = (1/2 √2 Σ_gi′ Q_turned[h,g,i′,s,p] ∇S[h,g,i′,i] + 1/2 √2 Σ_gi′
            ∇grad_Q_turned[h,g,i′,s,p] grad_S[h,g,i′,i])/√pairs    (product, sum over uses, factor)
        ∇Q_turned[h,g,i,s,p] = (1/2 √2 Σ_i′ K_turned[h,i′,s,p] ∇S[h,g,i,i′] + 1/2 √2 Σ_i′
            ∇grad_K_turned[h,i′,s,p] grad_S[h,g,i,i′])/√pairs    (product, sum over uses, factor)
        ∇V[h,j,v] = Σ_gi A[h,g,i,j] ∇O[h,g,i,v] + Σ_gi ∇grad_A[h,g,i,j] grad_O[h,g,i,v]    (product, sum over
            uses)
        ∇W_V[x,h,v] = Σ_i N1[i,x] ∇V[h,i,v] + Σ_i ∇grad_N1[i,x] grad_V[h,i,v]    (product, sum over uses)
        ∇K[h,i,s,p] = C_x[i,p] ∇K_turned[h,i,s,p] − N_x[i,p] Σ_s′ QuarterTurn(s, s′) ∇K_turned[h,i,s′,p]
            (chain rule)
        ∇W_K[x,h,s,p] = Σ_i N1[i,x] ∇K[h,i,s,p] + Σ_i ∇grad_N1[i,x] grad_K[h,i,s,p]    (product, sum over
            uses)
        ∇Q[h,g,i,s,p] = C_x[i,p] ∇Q_turned[h,g,i,s,p] − N_x[i,p] Σ_s′ QuarterTurn(s, s′) ∇Q_turned[h,g,i,s′,p]
            (chain rule)
        ∇W_Q[x,h,g,s,p] = Σ_i N1[i,x] ∇Q[h,g,i,s,p] + Σ_i ∇grad_N1[i,x] grad_Q[h,g,i,s,p]    (product, sum
            over uses)
        ∇N1[i,x] = Σ_shp W_K[x,h,s,p] ∇K[h,i,s,p] + Σ_sghp W_Q[x,h,g,s,p] ∇Q[h,g,i,s,p] + Σ_hv W_V[x,h,v]
            ∇V[h,i,v] + Σ_shp ∇grad_W_K[x,h,s,p] grad_K[h,i,s,p] + Σ_sghp ∇grad_W_Q[x,h,g,s,p]
            grad_Q[h,g,i,s,p] + Σ_hv ∇grad_W_V[x,h,v] grad_V[h,i,v]    (product, sum over uses)
        ∇weight_N1[x] = Σ_i ∇N1[i,x] normed_N1[i,x] + Σ_i ∇grad_normed_N1[i,x] grad_N1[i,x]    (chain rule,
            sum over uses)
        ∇normed_N1[i,x] = ∇N1[i,x] weight_N1[x] + ∇grad_weight_N1[x] grad_N1[i,x] + ∇r3[i]
            grad_normed_N1[i,x]/D − ∇grad_X_1[i,x] r3[i]    (chain rule, product, sum over uses)
        r6[i] = Σ_x ∇grad_X_1[i,x] grad_X_1[i,x] + Σ_x ∇normed_N1[i,x] normed_N1[i,x]    (name a reduction)
        ∇X[i,x] = rstd_N1[i] (∇normed_N1[i,x] − normed_N1[i,x] r6[i]/D) + ∇X1[i,x]    (chain rule, sum over
            uses, added term, write out, fold, factor)
    """
    D = dgrad_X.shape[-1]
    pairs = dgrad_W_Q.shape[-1]
    dgrad_X_1 = dgrad_X * rstd_N1[..., None]
    dr3 = -xp.sum(dgrad_X_1 * normed_N1, axis=-1)
    dgrad_normed_N1 = dgrad_X_1 + ((1/max(D, 1)) * dr3)[..., None] * normed_N1
    dgrad_N1 = dgrad_normed_N1 * weight_N1[..., None, :] + dgrad_weight_N1[..., None, :] * normed_N1
    dgrad_Q = xp.moveaxis(matmul(xp, N1, dgrad_W_Q, axes=(1, 1, 4)), -5, -3) + xp.moveaxis(matmul(xp, dgrad_N1, W_Q, axes=(1, 1, 4)), -5, -3)
    dgrad_K = xp.moveaxis(matmul(xp, N1, dgrad_W_K, axes=(1, 1, 3)), -4, -3) + xp.moveaxis(matmul(xp, dgrad_N1, W_K, axes=(1, 1, 3)), -4, -3)
    dgrad_V = xp.moveaxis(matmul(xp, N1, dgrad_W_V, axes=(1, 1, 2)), -3, -2) + xp.moveaxis(matmul(xp, dgrad_N1, W_V, axes=(1, 1, 2)), -3, -2)
    dgrad_Q_turned = C_x[..., None, None, :, None, :] * dgrad_Q + N_x[..., None, None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dgrad_Q, -2, -5), axes=(1, 1, 4)), -5, -2)
    dgrad_K_turned = C_x[..., None, :, None, :] * dgrad_K + N_x[..., None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dgrad_K, -2, -4), axes=(1, 1, 3)), -4, -2)
    dgrad_S = (1 / math.sqrt(max(pairs, 1))) * (((1/2)*math.sqrt(2)) * matmul(xp, dgrad_Q_turned, xp.moveaxis(K_turned, -3, -1), axes=(2, 2, 1)) + ((1/2)*math.sqrt(2)) * matmul(xp, Q_turned, xp.moveaxis(dgrad_K_turned, -3, -1), axes=(2, 2, 1)))
    dgrad_S_1 = visible_only(xp, A * dgrad_S, M[..., None, None, :, :])
    dr2 = -xp.sum(dgrad_S_1, axis=-1)
    dgrad_A = visible_only(xp, A * dr2[..., None], M[..., None, None, :, :]) + dgrad_S_1
    dgrad_O = visible_matmul(xp, A, dgrad_V, M[..., None, None, :, :], axes=(2, 1, 1)) + visible_matmul(xp, dgrad_A, V, M[..., None, None, :, :], axes=(2, 1, 1))
    dgrad_X1 = matmul(xp, xp.moveaxis(O, (-2, -4), (-4, -2)), xp.moveaxis(dgrad_W_O, -4, -3), axes=(1, 3, 1)) + matmul(xp, xp.moveaxis(dgrad_O, (-2, -4), (-4, -2)), xp.moveaxis(W_O, -4, -3), axes=(1, 3, 1))
    if dgrad_X is not None:
        dgrad_X1 = dgrad_X + dgrad_X1
    dgrad_X1_1 = dgrad_X1 * rstd_N2[..., None]
    dr = -xp.sum(dgrad_X1_1 * normed_N2, axis=-1)
    dgrad_normed_N2 = dgrad_X1_1 + ((1/max(D, 1)) * dr)[..., None] * normed_N2
    dgrad_N2 = dgrad_normed_N2 * weight_N2[..., None, :] + dgrad_weight_N2[..., None, :] * normed_N2
    dgrad_U = N2 @ dgrad_W_gate + dgrad_N2 @ W_gate
    dgrad_U_2 = dgrad_U * grad_H
    dgrad_U_1 = H_1 * dgrad_U_2
    dgrad_B = N2 @ dgrad_W_up + dgrad_N2 @ W_up
    dgrad_H = H_1 * U * dgrad_B + dgrad_U * grad_U_2
    dW_down = dgrad_H.mT @ grad_Y
    dgrad_Y = H @ dgrad_W_down + dgrad_H @ W_down + dgrad_X1
    dH = grad_Y @ dgrad_W_down.mT + dgrad_U_2 - dgrad_U_1
    dH_1 = U * (B * dH + dgrad_B * grad_H) + dgrad_U_2 * grad_U_1
    dB = H_1 * U * dH + dgrad_U_1
    dW_up = N2.mT @ dB + dgrad_N2.mT @ grad_B
    dU = H_1 * (B * dH + dH_1 + dgrad_B * grad_H - H_1 * dH_1)
    dW_gate = N2.mT @ dU + dgrad_N2.mT @ grad_U
    dN2 = dU @ W_gate.mT + dB @ W_up.mT + grad_U @ dgrad_W_gate.mT + grad_B @ dgrad_W_up.mT
    dweight_N2 = xp.sum(dN2 * normed_N2, axis=-2) + xp.sum(dgrad_normed_N2 * grad_N2, axis=-2)
    dnormed_N2 = dN2 * weight_N2[..., None, :] + dgrad_weight_N2[..., None, :] * grad_N2 + ((1/max(D, 1)) * dr)[..., None] * grad_normed_N2 - dgrad_X1_1 * r[..., None]
    r4 = xp.sum(dgrad_X1_1 * grad_X1_1, axis=-1) + xp.sum(dnormed_N2 * normed_N2, axis=-1)
    dX1 = rstd_N2[..., None] * (dnormed_N2 - normed_N2 * ((1/max(D, 1)) * r4)[..., None])
    dW_O = matmul(xp, O.mT, dX1, axes=(3, 1, 1)) + matmul(xp, dgrad_O.mT, grad_X1, axes=(3, 1, 1))
    dO = xp.moveaxis(matmul(xp, dX1, xp.moveaxis(W_O, -1, -4), axes=(1, 1, 3)), -4, -2) + xp.moveaxis(matmul(xp, grad_X1, xp.moveaxis(dgrad_W_O, -1, -4), axes=(1, 1, 3)), -4, -2)
    dA = matmul(xp, dO, V.mT, axes=(2, 1, 1)) + matmul(xp, grad_O, dgrad_V.mT, axes=(2, 1, 1)) + dgrad_S * grad_S_1 + dr2[..., None] * grad_A
    r5 = xp.sum(visible_only(xp, A * dA, M[..., None, None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r5[..., None]), M[..., None, None, :, :])
    dK_turned = (1 / math.sqrt(max(pairs, 1))) * (((1/2)*math.sqrt(2)) * visible_matmul(xp, xp.moveaxis(dS, -1, -3), Q_turned, M.mT[..., None, :, None, :], axes=(1, 2, 2)) + ((1/2)*math.sqrt(2)) * visible_matmul(xp, xp.moveaxis(grad_S, -1, -3), dgrad_Q_turned, M.mT[..., None, :, None, :], axes=(1, 2, 2)))
    dQ_turned = (1 / math.sqrt(max(pairs, 1))) * (((1/2)*math.sqrt(2)) * visible_matmul(xp, dS, K_turned, M[..., None, None, :, :], axes=(2, 1, 2)) + ((1/2)*math.sqrt(2)) * visible_matmul(xp, grad_S, dgrad_K_turned, M[..., None, None, :, :], axes=(2, 1, 2)))
    dV = visible_matmul(xp, xp.moveaxis(A, -1, -3), dO, M.mT[..., None, :, None, :], axes=(1, 2, 1)) + visible_matmul(xp, xp.moveaxis(dgrad_A, -1, -3), grad_O, M.mT[..., None, :, None, :], axes=(1, 2, 1))
    dW_V = matmul(xp, N1.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2)) + matmul(xp, dgrad_N1.mT, xp.moveaxis(grad_V, -3, -2), axes=(1, 1, 2))
    dK = C_x[..., None, :, None, :] * dK_turned - N_x[..., None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dK_turned, -2, -4), axes=(1, 1, 3)), -4, -2)
    dW_K = matmul(xp, N1.mT, xp.moveaxis(dK, -4, -3), axes=(1, 1, 3)) + matmul(xp, dgrad_N1.mT, xp.moveaxis(grad_K, -4, -3), axes=(1, 1, 3))
    dQ = C_x[..., None, None, :, None, :] * dQ_turned - N_x[..., None, None, :, None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dQ_turned, -2, -5), axes=(1, 1, 4)), -5, -2)
    dW_Q = matmul(xp, N1.mT, xp.moveaxis(dQ, -3, -5), axes=(1, 1, 4)) + matmul(xp, dgrad_N1.mT, xp.moveaxis(grad_Q, -3, -5), axes=(1, 1, 4))
    dN1 = matmul(xp, xp.moveaxis(dK, -4, -2), xp.moveaxis(W_K, (-2, -1, -4), (-4, -2, -1)), axes=(1, 3, 1)) + matmul(xp, xp.moveaxis(dQ, (-3, -2, -4, -5), (-5, -4, -3, -2)), xp.moveaxis(W_Q, (-2, -3, -4, -1, -5), (-5, -4, -3, -2, -1)), axes=(1, 4, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(grad_K, -4, -2), xp.moveaxis(dgrad_W_K, (-2, -1, -4), (-4, -2, -1)), axes=(1, 3, 1)) + matmul(xp, xp.moveaxis(grad_Q, (-3, -2, -4, -5), (-5, -4, -3, -2)), xp.moveaxis(dgrad_W_Q, (-2, -3, -4, -1, -5), (-5, -4, -3, -2, -1)), axes=(1, 4, 1)) + matmul(xp, xp.moveaxis(grad_V, -3, -2), xp.moveaxis(dgrad_W_V, -3, -1), axes=(1, 2, 1))
    dweight_N1 = xp.sum(dN1 * normed_N1, axis=-2) + xp.sum(dgrad_normed_N1 * grad_N1, axis=-2)
    dnormed_N1 = dN1 * weight_N1[..., None, :] + dgrad_weight_N1[..., None, :] * grad_N1 + ((1/max(D, 1)) * dr3)[..., None] * grad_normed_N1 - dgrad_X_1 * r3[..., None]
    r6 = xp.sum(dgrad_X_1 * grad_X_1, axis=-1) + xp.sum(dnormed_N1 * normed_N1, axis=-1)
    dX = rstd_N1[..., None] * (dnormed_N1 - normed_N1 * ((1/max(D, 1)) * r6)[..., None]) + dX1
    return {"X": dX, "weight_N1": dweight_N1, "W_Q": dW_Q, "W_K": dW_K, "W_V": dW_V, "W_O": dW_O, "weight_N2": dweight_N2, "W_gate": dW_gate, "W_up": dW_up, "W_down": dW_down, "grad_Y": dgrad_Y}
