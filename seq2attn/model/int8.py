"""Linear layers in whole numbers of 8 bits, for translating on a CPU.

Shapes: M vectors, I and O the widths of a layer's input and output.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from seq2attn.model.seq2seq import Seq2Seq

MOST = 127
"""The largest number, on either side of zero."""


class Int8Linear(nn.Linear):
    """A linear layer that rounds its weights once and each input as it comes: x W + b = sx sw (x / sx) (W / sw) + b.

    Every output has a scale sw of its own and every input vector one sx, so that a sentence gets in a batch what it
    gets alone. The float weights stay for those who use them without calling the layer.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.scale, self.rounded = whole(layer.weight.detach())

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        scale, rounded = whole(x.reshape(-1, x.size(-1)))
        y = torch.mul(torch._int_mm(rounded, self.rounded.t()), scale)
        scales = self.scale.squeeze(1)
        y = y.mul_(scales) if self.bias is None else torch.addcmul(self.bias, y, scales, out=y)
        return y.view(*x.shape[:-1], -1)


def whole(x: Tensor) -> tuple[Tensor, Tensor]:
    """[M, I] -> the scale of each vector [M, 1], and the vectors in its units, whole numbers [M, I]"""
    scale = x.abs().amax(1, keepdim=True).clamp_min_(torch.finfo(x.dtype).tiny * MOST) / MOST
    return scale, (x / scale).round_().to(torch.int8)


def int8(model: Seq2Seq) -> Seq2Seq:
    """A copy of a model on a CPU whose linear layers are rounded; embeddings, tied to the output or not, are not."""
    model = copy.deepcopy(model).eval()
    for parent in list(model.modules()):
        for name, part in parent.named_children():
            if isinstance(part, nn.Linear):
                setattr(parent, name, Int8Linear(part))
    return model
