"""Muon: momentum with orthogonal updates of matrices (Jordan et al. 2024), and Adam for all other weights.

Shapes: a weight [O, I, ...] is N matrices [R, C]. Each tap of a kernel is a matrix, and a matrix of several squares is
those: the gates of an RNN, the halves of a gated convolution, the parts of a wide layer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, optim
from torch.optim.optimizer import ParamsT

COEFFICIENTS = (
    (1.0, 8.28721201814563, -23.595886519098837, 17.300387312530933),
    (1.992, 4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (1.966, 3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (1.866, 3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (1.560, 2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)
"""Of each step: the largest singular value before it, and the factors a, b and c of a X + b X X'X + c X (X'X)^2.

Polar Express (Amsel et al. 2025, for singular values from 0.001 to 1). After the last they are 0.88 to 1.12.
"""
ADAM_RMS = 0.2
"""Root mean square of the elements of an update, that of Adam's: one learning rate suits both (Liu et al. 2025)."""


class Muon(optim.Adam):
    """Muon for the matrices in groups of `parameter_groups`, in float32, and Adam for all other weights."""

    found_inf: Tensor | None = None  # [] 1 if a step must change nothing, as for fused Adam

    def __init__(self, groups: ParamsT, *, momentum: float, ns_steps: int, **adam: Any) -> None:
        super().__init__(groups, fused=True, **adam)
        self.momentum = momentum
        self.ns_steps = ns_steps

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update from the gradients, of which those of matrices are dropped."""
        for group in self.param_groups:
            self._step_matrices(group)
        return super().step(closure)  # of what still has a gradient

    def _step_matrices(self, group: dict[str, Any]) -> None:
        by_shape = defaultdict[torch.Size, list[tuple[Tensor, Tensor]]](list)
        for parameter, is_matrix in zip(group["params"], group["is_matrix"], strict=True):
            if is_matrix and parameter.grad is not None:
                update = matrices(self._nesterov(parameter, parameter.grad)).flatten(0, 1)
                by_shape[update.shape[1:]].append((matrices(parameter), update))
                parameter.grad = None
        for shape, parts in by_shape.items():
            updates = orthogonalize(torch.cat([update for _, update in parts]), self.ns_steps)
            updates *= -group["lr"] * ADAM_RMS * max(shape) ** 0.5
            if self.found_inf is not None:
                updates *= 1 - self.found_inf
            for (weight, _), update in zip(parts, updates.split([len(update) for _, update in parts]), strict=True):
                weight += update.view(weight.shape)

    def _nesterov(self, parameter: Tensor, gradient: Tensor) -> Tensor:
        """The gradient with momentum, without waiting for a GPU: finite, and the momentum as before, if it is not."""
        state = self.state[parameter]
        if not state:  # Adam expects a step when it loads a state
            state |= {"momentum": torch.zeros_like(parameter), "step": torch.zeros(())}
        new: Tensor | float = 1 - self.momentum
        if self.found_inf is not None:
            gradient.masked_fill_(self.found_inf.bool(), 0.0)
            new = new * (1 - self.found_inf)
        return gradient.lerp(state["momentum"].lerp_(gradient, new), self.momentum)


def matrices(weight: Tensor) -> Tensor:
    """The matrices of a weight, as a view of it: [O, I, ...] -> [taps, N, R, C]"""
    x = weight.view(*weight.shape[:2], -1).permute(2, 0, 1)
    rows, columns = x.shape[1:]
    if columns % rows == 0:
        return x.unflatten(2, (-1, rows)).transpose(1, 2)
    return x.unflatten(1, (-1, columns)) if rows % columns == 0 else x.unsqueeze(1)


def orthogonalize(x: Tensor, steps: int) -> Tensor:
    """U V' of each matrix X = U S V', nearly, by the last `steps`; without the first, small values of S stay small.

    [N, R, C] -> [N, R, C]
    """
    is_tall = x.size(1) > x.size(2)
    x = x.mT if is_tall else x
    x = x * (COEFFICIENTS[-steps][0] / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-16))
    for _, a, b, c in COEFFICIENTS[-steps:]:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
