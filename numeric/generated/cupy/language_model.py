# Seal of generated text, broken by edits: 6d0d2a905118b03ac3132facccfdb4d0
"""A language model: embedding, GPT blocks, dense and banded in turn, logits and loss.

Forward (loss) and backward (dW_E, dW_P, dweight_N1_1, dshift_N1_1, dW_Q_1, db_Q_1, dW_K_1, db_K_1, dW_V_1,
db_V_1, dW_O_1, db_O_1, dweight_N2_1, dshift_N2_1, dW_up_1, db_up_1, dW_down_1, db_down_1, dweight_N1_2,
dshift_N1_2, dW_Q_2, db_Q_2, dW_K_2, db_K_2, dW_V_2, db_V_2, dW_O_2, db_O_2, dweight_N2_2, dshift_N2_2,
dW_up_2, db_up_2, dW_down_2, db_down_2, dweight_N_out, dshift_N_out) for CuPy, derived from the definitions of
`language_model`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 320 for the plain program (tokens, targets, W_E, W_P,
weight_N1_1, shift_N1_1, W_Q_1, b_Q_1, W_K_1, b_K_1, W_V_1, b_V_1, W_O_1, b_O_1, weight_N2_1, shift_N2_1,
W_up_1, b_up_1, W_down_1, b_down_1, weight_N1_2, shift_N1_2, W_Q_2, b_Q_2, W_K_2, b_K_2, W_V_2, b_V_2, W_O_2,
b_O_2, weight_N2_2, shift_N2_2, W_up_2, b_up_2, W_down_2, b_down_2, weight_N_out, shift_N_out to loss and
gradients).
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import as_numbers, checked, gathered, matmul, maximum, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="language_model",
    inputs=(
        TensorSpec("tokens", ("n",), "integer", "token numbers", below="T"),
        TensorSpec("targets", ("n",), "integer", "the right tokens; negative ones are ignored", below="T", negative=True),
        TensorSpec("W_E", ("T", "D"), "real", "one row for each token of the vocabulary"),
        TensorSpec("W_P", ("n", "D"), "real", "one row for each position"),
        TensorSpec("weight_N1_1", ("D",), "real", "multiplies each coordinate of N1"),
        TensorSpec("shift_N1_1", ("D",), "real", "added to each coordinate of N1"),
        TensorSpec("W_Q_1", ("D", "H", "d"), "real", "the queries' maps"),
        TensorSpec("b_Q_1", ("H", "d"), "real", "added to the queries"),
        TensorSpec("W_K_1", ("D", "H", "d"), "real", "the keys' maps"),
        TensorSpec("b_K_1", ("H", "d"), "real", "added to the keys"),
        TensorSpec("W_V_1", ("D", "H", "d_v"), "real", "the values' maps"),
        TensorSpec("b_V_1", ("H", "d_v"), "real", "added to the values"),
        TensorSpec("W_O_1", ("H", "d_v", "D"), "real", "the output map of each head"),
        TensorSpec("b_O_1", ("D",), "real", "added to the output"),
        TensorSpec("weight_N2_1", ("D",), "real", "multiplies each coordinate of N2"),
        TensorSpec("shift_N2_1", ("D",), "real", "added to each coordinate of N2"),
        TensorSpec("W_up_1", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("b_up_1", ("F",), "real", "added before the activation"),
        TensorSpec("W_down_1", ("F", "D"), "real", "the map back"),
        TensorSpec("b_down_1", ("D",), "real", "added to the output"),
        TensorSpec("weight_N1_2", ("D",), "real", "multiplies each coordinate of N1"),
        TensorSpec("shift_N1_2", ("D",), "real", "added to each coordinate of N1"),
        TensorSpec("W_Q_2", ("D", "H", "d"), "real", "the queries' maps"),
        TensorSpec("b_Q_2", ("H", "d"), "real", "added to the queries"),
        TensorSpec("W_K_2", ("D", "H", "d"), "real", "the keys' maps"),
        TensorSpec("b_K_2", ("H", "d"), "real", "added to the keys"),
        TensorSpec("W_V_2", ("D", "H", "d_v"), "real", "the values' maps"),
        TensorSpec("b_V_2", ("H", "d_v"), "real", "added to the values"),
        TensorSpec("W_O_2", ("H", "d_v", "D"), "real", "the output map of each head"),
        TensorSpec("b_O_2", ("D",), "real", "added to the output"),
        TensorSpec("weight_N2_2", ("D",), "real", "multiplies each coordinate of N2"),
        TensorSpec("shift_N2_2", ("D",), "real", "added to each coordinate of N2"),
        TensorSpec("W_up_2", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("b_up_2", ("F",), "real", "added before the activation"),
        TensorSpec("W_down_2", ("F", "D"), "real", "the map back"),
        TensorSpec("b_down_2", ("D",), "real", "added to the output"),
        TensorSpec("weight_N_out", ("D",), "real", "multiplies each coordinate of N_out"),
        TensorSpec("shift_N_out", ("D",), "real", "added to each coordinate of N_out"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
        ParameterSpec("window", "integer", "how many positions a banded layer sees, its own among them"),
        ParameterSpec("temperature", "real", "divides the logits"),
    ),
    outputs=(
        OutputSpec("loss", (), "the mean over counted positions", statistic=True),
    ),
    gradients=("W_E", "W_P", "weight_N1_1", "shift_N1_1", "W_Q_1", "b_Q_1", "W_K_1", "b_K_1", "W_V_1", "b_V_1", "W_O_1", "b_O_1", "weight_N2_1", "shift_N2_1", "W_up_1", "b_up_1", "W_down_1", "b_down_1", "weight_N1_2", "shift_N1_2", "W_Q_2", "b_Q_2", "W_K_2", "b_K_2", "W_V_2", "b_V_2", "W_O_2", "b_O_2", "weight_N2_2", "shift_N2_2", "W_up_2", "b_up_2", "W_down_2", "b_down_2", "weight_N_out", "shift_N_out"),
    cotangents=("loss",),
)


def forward(
    tokens: Array,
    targets: Array,
    W_E: Array,
    W_P: Array,
    weight_N1_1: Array,
    shift_N1_1: Array,
    W_Q_1: Array,
    b_Q_1: Array,
    W_K_1: Array,
    b_K_1: Array,
    W_V_1: Array,
    b_V_1: Array,
    W_O_1: Array,
    b_O_1: Array,
    weight_N2_1: Array,
    shift_N2_1: Array,
    W_up_1: Array,
    b_up_1: Array,
    W_down_1: Array,
    b_down_1: Array,
    weight_N1_2: Array,
    shift_N1_2: Array,
    W_Q_2: Array,
    b_Q_2: Array,
    W_K_2: Array,
    b_K_2: Array,
    W_V_2: Array,
    b_V_2: Array,
    W_O_2: Array,
    b_O_2: Array,
    weight_N2_2: Array,
    shift_N2_2: Array,
    W_up_2: Array,
    b_up_2: Array,
    W_down_2: Array,
    b_down_2: Array,
    weight_N_out: Array,
    shift_N_out: Array,
    *,
    eps: float = 1/100000,
    window: int = 2,
    temperature: float = 1,
) -> tuple[dict[str, Array], Saved]:
    """A language model: embedding, GPT blocks, dense and banded in turn, logits and loss.

    tokens [.., n]: token numbers
    targets [.., n]: the right tokens; negative ones are ignored
    W_E [.., T, D]: one row for each token of the vocabulary
    W_P [.., n, D]: one row for each position
    weight_N1_1 [.., D]: multiplies each coordinate of N1
    shift_N1_1 [.., D]: added to each coordinate of N1
    W_Q_1 [.., D, H, d]: the queries' maps
    b_Q_1 [.., H, d]: added to the queries
    W_K_1 [.., D, H, d]: the keys' maps
    b_K_1 [.., H, d]: added to the keys
    W_V_1 [.., D, H, d_v]: the values' maps
    b_V_1 [.., H, d_v]: added to the values
    W_O_1 [.., H, d_v, D]: the output map of each head
    b_O_1 [.., D]: added to the output
    weight_N2_1 [.., D]: multiplies each coordinate of N2
    shift_N2_1 [.., D]: added to each coordinate of N2
    W_up_1 [.., D, F]: the map to the hidden width
    b_up_1 [.., F]: added before the activation
    W_down_1 [.., F, D]: the map back
    b_down_1 [.., D]: added to the output
    weight_N1_2 [.., D]: multiplies each coordinate of N1
    shift_N1_2 [.., D]: added to each coordinate of N1
    W_Q_2 [.., D, H, d]: the queries' maps
    b_Q_2 [.., H, d]: added to the queries
    W_K_2 [.., D, H, d]: the keys' maps
    b_K_2 [.., H, d]: added to the keys
    W_V_2 [.., D, H, d_v]: the values' maps
    b_V_2 [.., H, d_v]: added to the values
    W_O_2 [.., H, d_v, D]: the output map of each head
    b_O_2 [.., D]: added to the output
    weight_N2_2 [.., D]: multiplies each coordinate of N2
    shift_N2_2 [.., D]: added to each coordinate of N2
    W_up_2 [.., D, F]: the map to the hidden width
    b_up_2 [.., F]: added before the activation
    W_down_2 [.., F, D]: the map back
    b_down_2 [.., D]: added to the output
    weight_N_out [.., D]: multiplies each coordinate of N_out
    shift_N_out [.., D]: added to each coordinate of N_out
    eps: added to the mean square before the root is taken
    window: how many positions a banded layer sees, its own among them
    temperature: divides the logits

    Returns the outputs loss, and what the backward pass needs:

        M[i,j] = [j ≤ i]
        M_banded[i,j] = [j > i − window] M[i,j]
        X[i,x] = W_E[tokens[i],x] + W_P[i,x]
        mean_N1_1[i] = Σ_x X[i,x]/D
        centred_N1_1[i,x] = X[i,x] − mean_N1_1[i]
        rstd_N1_1[i] = 1/√(Σ_x centred_N1_1[i,x]²/D + ε)
        normed_N1_1[i,x] = centred_N1_1[i,x] rstd_N1_1[i]
        N1_1[i,x] = normed_N1_1[i,x] weight_N1_1[x] + shift_N1_1[x]
        Q_1[h,i,c] = Σ_x N1_1[i,x] W_Q_1[x,h,c] + b_Q_1[h,c]
        K_1[h,j,c] = Σ_x N1_1[j,x] W_K_1[x,h,c] + b_K_1[h,c]
        V_1[h,j,v] = Σ_x N1_1[j,x] W_V_1[x,h,v] + b_V_1[h,v]
        S_1[h,i,j] = Σ_c K_1[h,j,c] Q_1[h,i,c]/√d
        A_1[h,i,j] = M[i,j] exp(S_1[h,i,j])/(Σ_i′ M[i,i′] exp(S_1[h,i,i′]))
        O_1[h,i,v] = Σ_i′ A_1[h,i,i′] V_1[h,i′,v]
        X1_1[i,x] = Σ_hv O_1[h,i,v] W_O_1[h,v,x] + X[i,x] + b_O_1[x]
        mean_N2_1[i] = Σ_x X1_1[i,x]/D
        centred_N2_1[i,x] = X1_1[i,x] − mean_N2_1[i]
        rstd_N2_1[i] = 1/√(Σ_x centred_N2_1[i,x]²/D + ε)
        normed_N2_1[i,x] = centred_N2_1[i,x] rstd_N2_1[i]
        N2_1[i,x] = normed_N2_1[i,x] weight_N2_1[x] + shift_N2_1[x]
        U_1[i,f] = Σ_x N2_1[i,x] W_up_1[x,f] + b_up_1[f]
        H_1_1[i,f] = tanh(√2 (8943/200000 U_1[i,f]³ + U_1[i,f])/√π)
        H_1[i,f] = 1/2 U_1[i,f] (H_1_1[i,f] + 1)
        Y_1[i,x] = Σ_f H_1[i,f] W_down_1[f,x] + X1_1[i,x] + b_down_1[x]
        mean_N1_2[i] = Σ_x Y_1[i,x]/D
        centred_N1_2[i,x] = Y_1[i,x] − mean_N1_2[i]
        rstd_N1_2[i] = 1/√(Σ_x centred_N1_2[i,x]²/D + ε)
        normed_N1_2[i,x] = centred_N1_2[i,x] rstd_N1_2[i]
        N1_2[i,x] = normed_N1_2[i,x] weight_N1_2[x] + shift_N1_2[x]
        Q_2[h,i,c] = Σ_x N1_2[i,x] W_Q_2[x,h,c] + b_Q_2[h,c]
        K_2[h,j,c] = Σ_x N1_2[j,x] W_K_2[x,h,c] + b_K_2[h,c]
        V_2[h,j,v] = Σ_x N1_2[j,x] W_V_2[x,h,v] + b_V_2[h,v]
        S_2[h,i,j] = Σ_c K_2[h,j,c] Q_2[h,i,c]/√d
        A_2[h,i,j] = M_banded[i,j] exp(S_2[h,i,j])/(Σ_i′ M_banded[i,i′] exp(S_2[h,i,i′]))
        O_2[h,i,v] = Σ_i′ A_2[h,i,i′] V_2[h,i′,v]
        X1_2[i,x] = Σ_hv O_2[h,i,v] W_O_2[h,v,x] + Y_1[i,x] + b_O_2[x]
        mean_N2_2[i] = Σ_x X1_2[i,x]/D
        centred_N2_2[i,x] = X1_2[i,x] − mean_N2_2[i]
        rstd_N2_2[i] = 1/√(Σ_x centred_N2_2[i,x]²/D + ε)
        normed_N2_2[i,x] = centred_N2_2[i,x] rstd_N2_2[i]
        N2_2[i,x] = normed_N2_2[i,x] weight_N2_2[x] + shift_N2_2[x]
        U_2[i,f] = Σ_x N2_2[i,x] W_up_2[x,f] + b_up_2[f]
        H_2_1[i,f] = tanh(√2 (8943/200000 U_2[i,f]³ + U_2[i,f])/√π)
        H_2[i,f] = 1/2 U_2[i,f] (H_2_1[i,f] + 1)
        Y_2[i,x] = Σ_f H_2[i,f] W_down_2[f,x] + X1_2[i,x] + b_down_2[x]
        mean_N_out[i] = Σ_x Y_2[i,x]/D
        centred_N_out[i,x] = Y_2[i,x] − mean_N_out[i]
        rstd_N_out[i] = 1/√(Σ_x centred_N_out[i,x]²/D + ε)
        normed_N_out[i,x] = centred_N_out[i,x] rstd_N_out[i]
        N_out[i,x] = normed_N_out[i,x] weight_N_out[x] + shift_N_out[x]
        Z[i,t] = Σ_x N_out[i,x] W_E[t,x]
        S[i,t] = Z[i,t]/temperature
        P[i,t] = exp(S[i,t])/(Σ_t′ exp(S[i,t′]))
        counted[i] = [targets[i] ≥ 0]
        N = Max(1, Σ_i counted[i])
        nll[i] = counted[i] (log(Σ_t exp(S[i,t])) − S[i,targets[i]])
        loss = Σ_i nll[i]/N
    """
    D = W_E.shape[-1]
    T = W_E.shape[-2]
    d = W_Q_1.shape[-1]
    n = tokens.shape[-1]
    M = xp.arange(n)[None, :] <= xp.arange(n)[:, None]
    M_banded = (xp.arange(n)[None, :] > (xp.arange(n) - window)[..., None]) & M
    X = gathered(xp, W_E, tokens, 1, 1) + W_P
    mean_N1_1 = (1/max(D, 1)) * xp.sum(X, axis=-1)
    centred_N1_1 = X - mean_N1_1[..., None]
    rstd_N1_1 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N1_1 ** 2, axis=-1) + eps)
    normed_N1_1 = centred_N1_1 * rstd_N1_1[..., None]
    N1_1 = normed_N1_1 * weight_N1_1[..., None, :] + shift_N1_1[..., None, :]
    Q_1 = xp.moveaxis(matmul(xp, N1_1, W_Q_1, axes=(1, 1, 2)), -3, -2) + b_Q_1[..., None, :]
    K_1 = xp.moveaxis(matmul(xp, N1_1, W_K_1, axes=(1, 1, 2)), -3, -2) + b_K_1[..., None, :]
    V_1 = xp.moveaxis(matmul(xp, N1_1, W_V_1, axes=(1, 1, 2)), -3, -2) + b_V_1[..., None, :]
    S_1 = (1 / math.sqrt(max(d, 1))) * (Q_1 @ K_1.mT)
    S_1_max = visible_max(xp, S_1, M[..., None, :, :])
    E = visible_only(xp, xp.exp(S_1 - S_1_max[..., None]), M[..., None, :, :])
    Z2 = xp.sum(E, axis=-1)
    A_1 = visible_only(xp, E / Z2[..., None], M[..., None, :, :])
    O_1 = visible_matmul(xp, A_1, V_1, M[..., None, :, :])
    X1_1 = matmul(xp, xp.moveaxis(O_1, -3, -2), W_O_1, axes=(1, 2, 1)) + X + b_O_1[..., None, :]
    mean_N2_1 = (1/max(D, 1)) * xp.sum(X1_1, axis=-1)
    centred_N2_1 = X1_1 - mean_N2_1[..., None]
    rstd_N2_1 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N2_1 ** 2, axis=-1) + eps)
    normed_N2_1 = centred_N2_1 * rstd_N2_1[..., None]
    N2_1 = normed_N2_1 * weight_N2_1[..., None, :] + shift_N2_1[..., None, :]
    U_1 = N2_1 @ W_up_1 + b_up_1[..., None, :]
    H_1_1 = xp.tanh((math.sqrt(2)/math.sqrt(math.pi)) * ((8943/200000) * U_1 ** 3 + U_1))
    H_1 = (1/2) * (U_1 * (H_1_1 + 1))
    Y_1 = H_1 @ W_down_1 + X1_1 + b_down_1[..., None, :]
    mean_N1_2 = (1/max(D, 1)) * xp.sum(Y_1, axis=-1)
    centred_N1_2 = Y_1 - mean_N1_2[..., None]
    rstd_N1_2 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N1_2 ** 2, axis=-1) + eps)
    normed_N1_2 = centred_N1_2 * rstd_N1_2[..., None]
    N1_2 = normed_N1_2 * weight_N1_2[..., None, :] + shift_N1_2[..., None, :]
    Q_2 = xp.moveaxis(matmul(xp, N1_2, W_Q_2, axes=(1, 1, 2)), -3, -2) + b_Q_2[..., None, :]
    K_2 = xp.moveaxis(matmul(xp, N1_2, W_K_2, axes=(1, 1, 2)), -3, -2) + b_K_2[..., None, :]
    V_2 = xp.moveaxis(matmul(xp, N1_2, W_V_2, axes=(1, 1, 2)), -3, -2) + b_V_2[..., None, :]
    S_2 = (1 / math.sqrt(max(d, 1))) * (Q_2 @ K_2.mT)
    S_2_max = visible_max(xp, S_2, M_banded[..., None, :, :])
    E2 = visible_only(xp, xp.exp(S_2 - S_2_max[..., None]), M_banded[..., None, :, :])
    Z3 = xp.sum(E2, axis=-1)
    A_2 = visible_only(xp, E2 / Z3[..., None], M_banded[..., None, :, :])
    O_2 = visible_matmul(xp, A_2, V_2, M_banded[..., None, :, :])
    X1_2 = matmul(xp, xp.moveaxis(O_2, -3, -2), W_O_2, axes=(1, 2, 1)) + Y_1 + b_O_2[..., None, :]
    mean_N2_2 = (1/max(D, 1)) * xp.sum(X1_2, axis=-1)
    centred_N2_2 = X1_2 - mean_N2_2[..., None]
    rstd_N2_2 = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N2_2 ** 2, axis=-1) + eps)
    normed_N2_2 = centred_N2_2 * rstd_N2_2[..., None]
    N2_2 = normed_N2_2 * weight_N2_2[..., None, :] + shift_N2_2[..., None, :]
    U_2 = N2_2 @ W_up_2 + b_up_2[..., None, :]
    H_2_1 = xp.tanh((math.sqrt(2)/math.sqrt(math.pi)) * ((8943/200000) * U_2 ** 3 + U_2))
    H_2 = (1/2) * (U_2 * (H_2_1 + 1))
    Y_2 = H_2 @ W_down_2 + X1_2 + b_down_2[..., None, :]
    mean_N_out = (1/max(D, 1)) * xp.sum(Y_2, axis=-1)
    centred_N_out = Y_2 - mean_N_out[..., None]
    rstd_N_out = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_N_out ** 2, axis=-1) + eps)
    normed_N_out = centred_N_out * rstd_N_out[..., None]
    N_out = normed_N_out * weight_N_out[..., None, :] + shift_N_out[..., None, :]
    Z = N_out @ W_E.mT
    S = (1/temperature) * Z
    S_max = visible_max(xp, S, None)
    E3 = xp.exp(S - S_max[..., None])
    Z4 = xp.sum(E3, axis=-1)
    P = E3 / Z4[..., None]
    counted = targets >= 0
    N = maximum(xp, 1, xp.sum(as_numbers(xp, counted, W_E), axis=-1))
    nll = visible_only(
        xp,
        S_max + xp.log(Z4) - gathered(xp, S, checked(xp, targets, T, "S[i, targets[i]]", counted, 0), 0, 0),
        counted,
    )
    loss = xp.sum(nll, axis=-1) / N
    outputs = {"loss": loss}
    return outputs, {"P": P, "targets": targets, "N": N, "counted": counted, "W_E": W_E, "normed_N_out": normed_N_out, "weight_N_out": weight_N_out, "rstd_N_out": rstd_N_out, "H_2": H_2, "W_down_2": W_down_2, "U_2": U_2, "H_2_1": H_2_1, "N2_2": N2_2, "W_up_2": W_up_2, "normed_N2_2": normed_N2_2, "weight_N2_2": weight_N2_2, "rstd_N2_2": rstd_N2_2, "O_2": O_2, "W_O_2": W_O_2, "V_2": V_2, "A_2": A_2, "M_banded": M_banded, "N1_2": N1_2, "Q_2": Q_2, "K_2": K_2, "W_K_2": W_K_2, "W_Q_2": W_Q_2, "W_V_2": W_V_2, "normed_N1_2": normed_N1_2, "weight_N1_2": weight_N1_2, "rstd_N1_2": rstd_N1_2, "H_1": H_1, "W_down_1": W_down_1, "U_1": U_1, "H_1_1": H_1_1, "N2_1": N2_1, "W_up_1": W_up_1, "normed_N2_1": normed_N2_1, "weight_N2_1": weight_N2_1, "rstd_N2_1": rstd_N2_1, "O_1": O_1, "W_O_1": W_O_1, "V_1": V_1, "A_1": A_1, "M": M, "N1_1": N1_1, "Q_1": Q_1, "K_1": K_1, "W_K_1": W_K_1, "W_Q_1": W_Q_1, "W_V_1": W_V_1, "normed_N1_1": normed_N1_1, "weight_N1_1": weight_N1_1, "rstd_N1_1": rstd_N1_1, "tokens": tokens, "N_out": N_out, "temperature": temperature}


def backward(
    dloss: Array,
    *,
    P: Array,
    targets: Array,
    N: Array,
    counted: Array,
    W_E: Array,
    normed_N_out: Array,
    weight_N_out: Array,
    rstd_N_out: Array,
    H_2: Array,
    W_down_2: Array,
    U_2: Array,
    H_2_1: Array,
    N2_2: Array,
    W_up_2: Array,
    normed_N2_2: Array,
    weight_N2_2: Array,
    rstd_N2_2: Array,
    O_2: Array,
    W_O_2: Array,
    V_2: Array,
    A_2: Array,
    M_banded: Array,
    N1_2: Array,
    Q_2: Array,
    K_2: Array,
    W_K_2: Array,
    W_Q_2: Array,
    W_V_2: Array,
    normed_N1_2: Array,
    weight_N1_2: Array,
    rstd_N1_2: Array,
    H_1: Array,
    W_down_1: Array,
    U_1: Array,
    H_1_1: Array,
    N2_1: Array,
    W_up_1: Array,
    normed_N2_1: Array,
    weight_N2_1: Array,
    rstd_N2_1: Array,
    O_1: Array,
    W_O_1: Array,
    V_1: Array,
    A_1: Array,
    M: Array,
    N1_1: Array,
    Q_1: Array,
    K_1: Array,
    W_K_1: Array,
    W_Q_1: Array,
    W_V_1: Array,
    normed_N1_1: Array,
    weight_N1_1: Array,
    rstd_N1_1: Array,
    tokens: Array,
    N_out: Array,
    temperature: float,
) -> dict[str, Array]:
    """Gradients of language_model, derived from its definitions.

    dloss [..]: cotangent of loss

    Returns the gradients with respect to W_E, W_P, weight_N1_1, shift_N1_1, W_Q_1, b_Q_1, W_K_1, b_K_1,
        W_V_1, b_V_1, W_O_1, b_O_1, weight_N2_1, shift_N2_1, W_up_1, b_up_1, W_down_1, b_down_1, weight_N1_2,
        shift_N1_2, W_Q_2, b_Q_2, W_K_2, b_K_2, W_V_2, b_V_2, W_O_2, b_O_2, weight_N2_2, shift_N2_2, W_up_2,
        b_up_2, W_down_2, b_down_2, weight_N_out and shift_N_out. Steps:

        ∇S[i,t] = ∇loss counted[i] (P[i,t] − δ[t,targets[i]])/N    (sum, chain rule, write out, fold, factor)
        ∇Z[i,t] = ∇S[i,t]/temperature    (chain rule)
        ∇N_out[i,x] = Σ_t W_E[t,x] ∇Z[i,t]    (product)
        ∇weight_N_out[x] = Σ_i ∇N_out[i,x] normed_N_out[i,x]    (chain rule)
        ∇shift_N_out[x] = Σ_i ∇N_out[i,x]    (added term)
        ∇normed_N_out[i,x] = ∇N_out[i,x] weight_N_out[x]    (chain rule)
        r[i] = Σ_x ∇normed_N_out[i,x]/D    (name a reduction)
        r2[i] = Σ_x ∇normed_N_out[i,x] normed_N_out[i,x]/D    (name a reduction)
        ∇Y_2[i,x] = rstd_N_out[i] (∇normed_N_out[i,x] − normed_N_out[i,x] r2[i] − r[i])    (chain rule, sum
            over uses, write out, fold, factor, vanishing sum, added term, sum)
        ∇W_down_2[f,x] = Σ_i H_2[i,f] ∇Y_2[i,x]    (product)
        ∇b_down_2[x] = Σ_i ∇Y_2[i,x]    (added term)
        ∇H_2[i,f] = Σ_x W_down_2[f,x] ∇Y_2[i,x]    (product)
        ∇U_2[i,f] = ∇H_2[i,f] (U_2[i,f] (1 − H_2_1[i,f]²) (26829/400000 √2 U_2[i,f]²/√π + 1/√(2π)) + 1/2
            H_2_1[i,f] + 1/2)    (chain rule, sum over uses, write out, fold, factor)
        ∇W_up_2[x,f] = Σ_i N2_2[i,x] ∇U_2[i,f]    (product)
        ∇b_up_2[f] = Σ_i ∇U_2[i,f]    (added term)
        ∇N2_2[i,x] = Σ_f W_up_2[x,f] ∇U_2[i,f]    (product)
        ∇weight_N2_2[x] = Σ_i ∇N2_2[i,x] normed_N2_2[i,x]    (chain rule)
        ∇shift_N2_2[x] = Σ_i ∇N2_2[i,x]    (added term)
        ∇normed_N2_2[i,x] = ∇N2_2[i,x] weight_N2_2[x]    (chain rule)
        r3[i] = Σ_x ∇normed_N2_2[i,x]/D    (name a reduction)
        r4[i] = Σ_x ∇normed_N2_2[i,x] normed_N2_2[i,x]/D    (name a reduction)
        ∇X1_2[i,x] = rstd_N2_2[i] (∇normed_N2_2[i,x] − normed_N2_2[i,x] r4[i] − r3[i]) + ∇Y_2[i,x]    (chain
            rule, sum over uses, write out, fold, factor, vanishing sum, added term, sum)
        ∇W_O_2[h,v,x] = Σ_i O_2[h,i,v] ∇X1_2[i,x]    (product)
        ∇b_O_2[x] = Σ_i ∇X1_2[i,x]    (added term)
        ∇O_2[h,i,v] = Σ_x W_O_2[h,v,x] ∇X1_2[i,x]    (product)
        ∇A_2[h,i,j] = Σ_v V_2[h,j,v] ∇O_2[h,i,v]    (product)
        r5[h,i] = Σ_i′ A_2[h,i,i′] ∇A_2[h,i,i′]    (name a reduction)
        ∇S_2[h,i,j] = A_2[h,i,j] (∇A_2[h,i,j] − r5[h,i])    (softmax, fold, factor)
        ∇V_2[h,j,v] = Σ_i A_2[h,i,j] ∇O_2[h,i,v]    (product)
        ∇W_V_2[x,h,v] = Σ_i N1_2[i,x] ∇V_2[h,i,v]    (product)
        ∇b_V_2[h,v] = Σ_i ∇V_2[h,i,v]    (added term)
        ∇K_2[h,j,c] = Σ_i Q_2[h,i,c] ∇S_2[h,i,j]/√d    (product)
        ∇W_K_2[x,h,c] = Σ_i N1_2[i,x] ∇K_2[h,i,c]    (product)
        ∇b_K_2[h,c] = Σ_i ∇K_2[h,i,c]    (added term)
        ∇Q_2[h,i,c] = Σ_i′ K_2[h,i′,c] ∇S_2[h,i,i′]/√d    (product)
        ∇W_Q_2[x,h,c] = Σ_i N1_2[i,x] ∇Q_2[h,i,c]    (product)
        ∇b_Q_2[h,c] = Σ_i ∇Q_2[h,i,c]    (added term)
        ∇N1_2[i,x] = Σ_hc W_K_2[x,h,c] ∇K_2[h,i,c] + Σ_hc W_Q_2[x,h,c] ∇Q_2[h,i,c] + Σ_hv W_V_2[x,h,v]
            ∇V_2[h,i,v]    (product, sum over uses)
        ∇weight_N1_2[x] = Σ_i ∇N1_2[i,x] normed_N1_2[i,x]    (chain rule)
        ∇shift_N1_2[x] = Σ_i ∇N1_2[i,x]    (added term)
        ∇normed_N1_2[i,x] = ∇N1_2[i,x] weight_N1_2[x]    (chain rule)
        r6[i] = Σ_x ∇normed_N1_2[i,x]/D    (name a reduction)
        r7[i] = Σ_x ∇normed_N1_2[i,x] normed_N1_2[i,x]/D    (name a reduction)
        ∇Y_1[i,x] = rstd_N1_2[i] (∇normed_N1_2[i,x] − normed_N1_2[i,x] r7[i] − r6[i]) + ∇X1_2[i,x]    (chain
            rule, sum over uses, write out, fold, factor, vanishing sum, added term, sum)
        ∇W_down_1[f,x] = Σ_i H_1[i,f] ∇Y_1[i,x]    (product)
        ∇b_down_1[x] = Σ_i ∇Y_1[i,x]    (added term)
        ∇H_1[i,f] = Σ_x W_down_1[f,x] ∇Y_1[i,x]    (product)
        ∇U_1[i,f] = ∇H_1[i,f] (U_1[i,f] (1 − H_1_1[i,f]²) (26829/400000 √2 U_1[i,f]²/√π + 1/√(2π)) + 1/2
            H_1_1[i,f] + 1/2)    (chain rule, sum over uses, write out, fold, factor)
        ∇W_up_1[x,f] = Σ_i N2_1[i,x] ∇U_1[i,f]    (product)
        ∇b_up_1[f] = Σ_i ∇U_1[i,f]    (added term)
        ∇N2_1[i,x] = Σ_f W_up_1[x,f] ∇U_1[i,f]    (product)
        ∇weight_N2_1[x] = Σ_i ∇N2_1[i,x] normed_N2_1[i,x]    (chain rule)
        ∇shift_N2_1[x] = Σ_i ∇N2_1[i,x]    (added term)
        ∇normed_N2_1[i,x] = ∇N2_1[i,x] weight_N2_1[x]    (chain rule)
        r8[i] = Σ_x ∇normed_N2_1[i,x]/D    (name a reduction)
        r9[i] = Σ_x ∇normed_N2_1[i,x] normed_N2_1[i,x]/D    (name a reduction)
        ∇X1_1[i,x] = rstd_N2_1[i] (∇normed_N2_1[i,x] − normed_N2_1[i,x] r9[i] − r8[i]) + ∇Y_1[i,x]    (chain
            rule, sum over uses, write out, fold, factor, vanishing sum, added term, sum)
        ∇W_O_1[h,v,x] = Σ_i O_1[h,i,v] ∇X1_1[i,x]    (product)
        ∇b_O_1[x] = Σ_i ∇X1_1[i,x]    (added term)
        ∇O_1[h,i,v] = Σ_x W_O_1[h,v,x] ∇X1_1[i,x]    (product)
        ∇A_1[h,i,j] = Σ_v V_1[h,j,v] ∇O_1[h,i,v]    (product)
        r10[h,i] = Σ_i′ A_1[h,i,i′] ∇A_1[h,i,i′]    (name a reduction)
        ∇S_1[h,i,j] = A_1[h,i,j] (∇A_1[h,i,j] − r10[h,i])    (softmax, fold, factor)
        ∇V_1[h,j,v] = Σ_i A_1[h,i,j] ∇O_1[h,i,v]    (product)
        ∇W_V_1[x,h,v] = Σ_i N1_1[i,x] ∇V_1[h,i,v]    (product)
        ∇b_V_1[h,v] = Σ_i ∇V_1[h,i,v]    (added term)
        ∇K_1[h,j,c] = Σ_i Q_1[h,i,c] ∇S_1[h,i,j]/√d    (product)
        ∇W_K_1[x,h,c] = Σ_i N1_1[i,x] ∇K_1[h,i,c]    (product)
        ∇b_K_1[h,c] = Σ_i ∇K_1[h,i,c]    (added term)
        ∇Q_1[h,i,c] = Σ_i′ K_1[h,i′,c] ∇S_1[h,i,i′]/√d    (product)
        ∇W_Q_1[x,h,c] = Σ_i N1_1[i,x] ∇Q_1[h,i,c]    (product)
        ∇b_Q_1[h,c] = Σ_i ∇Q_1[h,i,c]    (added term)
        ∇N1_1[i,x] = Σ_hc W_K_1[x,h,c] ∇K_1[h,i,c] + Σ_hc W_Q_1[x,h,c] ∇Q_1[h,i,c] + Σ_hv W_V_1[x,h,v]
            ∇V_1[h,i,v]    (product, sum over uses)
        ∇weight_N1_1[x] = Σ_i ∇N1_1[i,x] normed_N1_1[i,x]    (chain rule)
        ∇shift_N1_1[x] = Σ_i ∇N1_1[i,x]    (added term)
        ∇normed_N1_1[i,x] = ∇N1_1[i,x] weight_N1_1[x]    (chain rule)
        r11[i] = Σ_x ∇normed_N1_1[i,x]/D    (name a reduction)
        r12[i] = Σ_x ∇normed_N1_1[i,x] normed_N1_1[i,x]/D    (name a reduction)
        ∇X[i,x] = rstd_N1_1[i] (∇normed_N1_1[i,x] − normed_N1_1[i,x] r12[i] − r11[i]) + ∇X1_1[i,x]    (chain
            rule, sum over uses, write out, fold, factor, vanishing sum, added term, sum)
        ∇W_E[t,x] = Σ_i δ[t,tokens[i]] ∇X[i,x] + Σ_i N_out[i,x] ∇Z[i,t]    (product, added term, sum over
            uses)
        ∇W_P[i,x] = ∇X[i,x]    (added term)
    """
    D = W_E.shape[-1]
    T = P.shape[-1]
    d = Q_2.shape[-1]
    dS = visible_only(
        xp,
        dloss[..., None, None] * (P - as_numbers(xp, xp.arange(T)[None, :] == targets[..., None], dloss)) / N[..., None, None],
        counted[..., None],
    )
    dZ = (1/temperature) * dS
    dN_out = visible_matmul(xp, dZ, W_E, counted[..., None])
    dweight_N_out = xp.sum(dN_out * normed_N_out, axis=-2)
    dshift_N_out = xp.sum(dN_out, axis=-2)
    dnormed_N_out = dN_out * weight_N_out[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_N_out, axis=-1)
    r2 = (1/max(D, 1)) * xp.sum(dnormed_N_out * normed_N_out, axis=-1)
    dY_2 = rstd_N_out[..., None] * (dnormed_N_out - normed_N_out * r2[..., None] - r[..., None])
    dW_down_2 = H_2.mT @ dY_2
    db_down_2 = xp.sum(dY_2, axis=-2)
    dH_2 = dY_2 @ W_down_2.mT
    dU_2 = dH_2 * (U_2 * (1 - H_2_1 ** 2) * (((26829/400000)*math.sqrt(2)/math.sqrt(math.pi)) * U_2 ** 2 + (1 / math.sqrt(2*math.pi))) + (1/2) * H_2_1 + (1/2))
    dW_up_2 = N2_2.mT @ dU_2
    db_up_2 = xp.sum(dU_2, axis=-2)
    dN2_2 = dU_2 @ W_up_2.mT
    dweight_N2_2 = xp.sum(dN2_2 * normed_N2_2, axis=-2)
    dshift_N2_2 = xp.sum(dN2_2, axis=-2)
    dnormed_N2_2 = dN2_2 * weight_N2_2[..., None, :]
    r3 = (1/max(D, 1)) * xp.sum(dnormed_N2_2, axis=-1)
    r4 = (1/max(D, 1)) * xp.sum(dnormed_N2_2 * normed_N2_2, axis=-1)
    dX1_2 = rstd_N2_2[..., None] * (dnormed_N2_2 - normed_N2_2 * r4[..., None] - r3[..., None]) + dY_2
    dW_O_2 = matmul(xp, O_2.mT, dX1_2, axes=(2, 1, 1))
    db_O_2 = xp.sum(dX1_2, axis=-2)
    dO_2 = xp.moveaxis(matmul(xp, dX1_2, xp.moveaxis(W_O_2, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA_2 = dO_2 @ V_2.mT
    r5 = xp.sum(visible_only(xp, A_2 * dA_2, M_banded[..., None, :, :]), axis=-1)
    dS_2 = visible_only(xp, A_2 * (dA_2 - r5[..., None]), M_banded[..., None, :, :])
    dV_2 = visible_matmul(xp, A_2.mT, dO_2, M_banded.mT[..., None, :, :])
    dW_V_2 = matmul(xp, N1_2.mT, xp.moveaxis(dV_2, -3, -2), axes=(1, 1, 2))
    db_V_2 = xp.sum(dV_2, axis=-2)
    dK_2 = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS_2.mT, Q_2, M_banded.mT[..., None, :, :])
    dW_K_2 = matmul(xp, N1_2.mT, xp.moveaxis(dK_2, -3, -2), axes=(1, 1, 2))
    db_K_2 = xp.sum(dK_2, axis=-2)
    dQ_2 = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS_2, K_2, M_banded[..., None, :, :])
    dW_Q_2 = matmul(xp, N1_2.mT, xp.moveaxis(dQ_2, -3, -2), axes=(1, 1, 2))
    db_Q_2 = xp.sum(dQ_2, axis=-2)
    dN1_2 = matmul(xp, xp.moveaxis(dK_2, -3, -2), xp.moveaxis(W_K_2, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dQ_2, -3, -2), xp.moveaxis(W_Q_2, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV_2, -3, -2), xp.moveaxis(W_V_2, -3, -1), axes=(1, 2, 1))
    dweight_N1_2 = xp.sum(dN1_2 * normed_N1_2, axis=-2)
    dshift_N1_2 = xp.sum(dN1_2, axis=-2)
    dnormed_N1_2 = dN1_2 * weight_N1_2[..., None, :]
    r6 = (1/max(D, 1)) * xp.sum(dnormed_N1_2, axis=-1)
    r7 = (1/max(D, 1)) * xp.sum(dnormed_N1_2 * normed_N1_2, axis=-1)
    dY_1 = rstd_N1_2[..., None] * (dnormed_N1_2 - normed_N1_2 * r7[..., None] - r6[..., None]) + dX1_2
    dW_down_1 = H_1.mT @ dY_1
    db_down_1 = xp.sum(dY_1, axis=-2)
    dH_1 = dY_1 @ W_down_1.mT
    dU_1 = dH_1 * (U_1 * (1 - H_1_1 ** 2) * (((26829/400000)*math.sqrt(2)/math.sqrt(math.pi)) * U_1 ** 2 + (1 / math.sqrt(2*math.pi))) + (1/2) * H_1_1 + (1/2))
    dW_up_1 = N2_1.mT @ dU_1
    db_up_1 = xp.sum(dU_1, axis=-2)
    dN2_1 = dU_1 @ W_up_1.mT
    dweight_N2_1 = xp.sum(dN2_1 * normed_N2_1, axis=-2)
    dshift_N2_1 = xp.sum(dN2_1, axis=-2)
    dnormed_N2_1 = dN2_1 * weight_N2_1[..., None, :]
    r8 = (1/max(D, 1)) * xp.sum(dnormed_N2_1, axis=-1)
    r9 = (1/max(D, 1)) * xp.sum(dnormed_N2_1 * normed_N2_1, axis=-1)
    dX1_1 = rstd_N2_1[..., None] * (dnormed_N2_1 - normed_N2_1 * r9[..., None] - r8[..., None]) + dY_1
    dW_O_1 = matmul(xp, O_1.mT, dX1_1, axes=(2, 1, 1))
    db_O_1 = xp.sum(dX1_1, axis=-2)
    dO_1 = xp.moveaxis(matmul(xp, dX1_1, xp.moveaxis(W_O_1, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA_1 = dO_1 @ V_1.mT
    r10 = xp.sum(visible_only(xp, A_1 * dA_1, M[..., None, :, :]), axis=-1)
    dS_1 = visible_only(xp, A_1 * (dA_1 - r10[..., None]), M[..., None, :, :])
    dV_1 = visible_matmul(xp, A_1.mT, dO_1, M.mT[..., None, :, :])
    dW_V_1 = matmul(xp, N1_1.mT, xp.moveaxis(dV_1, -3, -2), axes=(1, 1, 2))
    db_V_1 = xp.sum(dV_1, axis=-2)
    dK_1 = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS_1.mT, Q_1, M.mT[..., None, :, :])
    dW_K_1 = matmul(xp, N1_1.mT, xp.moveaxis(dK_1, -3, -2), axes=(1, 1, 2))
    db_K_1 = xp.sum(dK_1, axis=-2)
    dQ_1 = (1 / math.sqrt(max(d, 1))) * visible_matmul(xp, dS_1, K_1, M[..., None, :, :])
    dW_Q_1 = matmul(xp, N1_1.mT, xp.moveaxis(dQ_1, -3, -2), axes=(1, 1, 2))
    db_Q_1 = xp.sum(dQ_1, axis=-2)
    dN1_1 = matmul(xp, xp.moveaxis(dK_1, -3, -2), xp.moveaxis(W_K_1, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dQ_1, -3, -2), xp.moveaxis(W_Q_1, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV_1, -3, -2), xp.moveaxis(W_V_1, -3, -1), axes=(1, 2, 1))
    dweight_N1_1 = xp.sum(dN1_1 * normed_N1_1, axis=-2)
    dshift_N1_1 = xp.sum(dN1_1, axis=-2)
    dnormed_N1_1 = dN1_1 * weight_N1_1[..., None, :]
    r11 = (1/max(D, 1)) * xp.sum(dnormed_N1_1, axis=-1)
    r12 = (1/max(D, 1)) * xp.sum(dnormed_N1_1 * normed_N1_1, axis=-1)
    dX = rstd_N1_1[..., None] * (dnormed_N1_1 - normed_N1_1 * r12[..., None] - r11[..., None]) + dX1_1
    dW_E = as_numbers(xp, xp.arange(T)[:, None] == tokens[..., None, :], dloss) @ dX + visible_matmul(xp, dZ.mT, N_out, counted[..., None, :])
    dW_P = dX
    return {"W_E": dW_E, "W_P": dW_P, "weight_N1_1": dweight_N1_1, "shift_N1_1": dshift_N1_1, "W_Q_1": dW_Q_1, "b_Q_1": db_Q_1, "W_K_1": dW_K_1, "b_K_1": db_K_1, "W_V_1": dW_V_1, "b_V_1": db_V_1, "W_O_1": dW_O_1, "b_O_1": db_O_1, "weight_N2_1": dweight_N2_1, "shift_N2_1": dshift_N2_1, "W_up_1": dW_up_1, "b_up_1": db_up_1, "W_down_1": dW_down_1, "b_down_1": db_down_1, "weight_N1_2": dweight_N1_2, "shift_N1_2": dshift_N1_2, "W_Q_2": dW_Q_2, "b_Q_2": db_Q_2, "W_K_2": dW_K_2, "b_K_2": db_K_2, "W_V_2": dW_V_2, "b_V_2": db_V_2, "W_O_2": dW_O_2, "b_O_2": db_O_2, "weight_N2_2": dweight_N2_2, "shift_N2_2": dshift_N2_2, "W_up_2": dW_up_2, "b_up_2": db_up_2, "W_down_2": dW_down_2, "b_down_2": db_down_2, "weight_N_out": dweight_N_out, "shift_N_out": dshift_N_out}
