"""Layers of encoders and decoders: dropout, feed-forward, residual connections, position encodings."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seq2attn.nn.kernels.linear import Linear, linear_gradients, onednn_linear, prefers_onednn

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
"""ReLU, GELU (Hendrycks and Gimpel 2016), its approximation by tanh, and SiLU, also called Swish."""


class Dropout(nn.Dropout):
    """Inverted dropout (Srivastava et al. 2014).

    PyTorch samples a float for each element on a CPU, which takes as long as a small matrix product. Here four elements
    share a random number of 64 bits, which their mask replaces. The probability is a multiple of 2 ** -16; the
    scale is exact for it.
    """

    def effective_p(self) -> float:
        """The probability in training, 0 otherwise; for kernels with their own dropout."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """[...] -> [...]"""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        return _Dropout.apply(x, self.p)  # type: ignore[no-untyped-call]


def dropout_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """Mask [...] of 16-bit integers, 0 where dropped and 1 elsewhere, and the scale of the others."""
    threshold = min(round(p * 2**16), 2**16 - 1)
    random = torch.empty(-(-shape.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    numbers = random.view(torch.int16)[: shape.numel()].view(shape)
    return numbers.ge_(threshold - 2**15), 2**16 / (2**16 - threshold)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask, ctx.scale = dropout_mask(x.shape, p)
        ctx.save_for_backward(mask)
        return (x * mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (dy * mask).mul_(ctx.scale), None


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor | None, p: float) -> Tensor:
    """Dropout with probability `p` of the ReLU of x W' + b: [..., I], [O, I], [O] -> [..., O]

    It keeps one tensor for the backward pass, where three layers would keep three.
    """
    y: Tensor = _LinearReLU.apply(x.flatten(0, -2), weight, bias, p)  # type: ignore[no-untyped-call]
    return y.unflatten(0, x.shape[:-1])


class _LinearReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, p: float) -> Tensor:
        y, ctx.scale = onednn_linear(x, weight, bias, "relu"), 1.0
        if p:
            mask, ctx.scale = dropout_mask(y.shape, p)
            y.mul_(mask).mul_(ctx.scale)
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        d = torch.ops.aten.threshold_backward(d, y, 0).mul_(ctx.scale)  # zeros are cut off by the ReLU, or dropped
        return *linear_gradients(ctx, d, x, weight), None


class FeedForward(nn.Module):
    """Two linear layers with an activation between them: Vaswani et al. 2017, eq. 2."""

    def __init__(self, dim: int, hidden: int, dropout: float, activation: Activation, *, bias: bool = True) -> None:
        super().__init__()
        self.up_proj = Linear(dim, hidden, bias)
        self.down_proj = Linear(hidden, dim, bias)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        if self.activation == "relu" and self.training and prefers_onednn(x):
            return self.down_proj(linear_relu(x, self.up_proj.weight, self.up_proj.bias, self.dropout.effective_p()))
        return self.down_proj(self.dropout(activate(self.up_proj(x), self.activation)))


class GatedFeedForward(nn.Module):
    """(f(x W) * x V) W2 without biases: Shazeer 2020, eq. 6, SwiGLU if f is SiLU and GEGLU if f is GELU.

    With three matrices instead of two, it has as many weights at two thirds of the hidden width.
    """

    def __init__(self, dim: int, hidden: int, dropout: float, activation: Activation) -> None:
        super().__init__()
        self.gate_proj = Linear(dim, hidden, bias=False)
        self.up_proj = Linear(dim, hidden, bias=False)
        self.down_proj = Linear(hidden, dim, bias=False)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        return self.down_proj(self.dropout(activate(self.gate_proj(x), self.activation) * self.up_proj(x)))


def activate(x: Tensor, activation: Activation) -> Tensor:
    """The activation of each element; ReLU and SiLU replace x without gradients."""
    in_place = not torch.is_grad_enabled()  # allocating another tensor takes ten times as long as the ReLU
    if activation == "relu":
        return F.relu(x, in_place)
    if activation == "silu":
        return F.silu(x, in_place)
    return F.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")


class ResidualConnection(nn.Module):
    """x + f(x) with dropout and a norm: before f (pre-norm) or after the sum (post-norm).

    Vaswani et al. 2017, section 5.4, is post-norm; Xiong et al. 2020 compare both.
    """

    def __init__(self, norm: nn.Module, dropout: float, norm_order: Literal["pre", "post"]) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.pre_norm = norm_order == "pre"

    def sublayer_input(self, x: Tensor) -> Tensor:
        """Input of the sublayer f: [B, T, D] -> [B, T, D]"""
        return self.norm(x) if self.pre_norm else x

    def add_output(self, x: Tensor, fx: Tensor) -> Tensor:
        """x and f(sublayer_input(x)) -> the output, all [B, T, D]"""
        total = x + self.dropout(fx)
        return total if self.pre_norm else self.norm(total)


class LayerDrop(nn.Module):
    """LayerDrop: in training a layer is skipped with probability `p` (Fan et al. 2020).

    The layer is computed nevertheless, so that all processes have gradients for the same weights.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, y: Tensor, log_prob: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Input and output of the layer [B, T, D], log-probability of its samples [B, T] -> output, log-probability

        Samples of a layer that is skipped have no consequence, so their log-probability is 0.
        """
        if not self.training or self.p == 0:
            return y, log_prob
        is_skipped = torch.rand((), device=x.device) < self.p
        return torch.where(is_skipped, x, y), None if log_prob is None else log_prob.masked_fill(is_skipped, 0.0)


class SinusoidalPositionEncoding(nn.Module):
    """Sinusoidal position encoding (Vaswani et al. 2017, section 3.5).

    Sines are in the first half and cosines in the second, as in the authors' own code (tensor2tensor), where the
    paper's alternate. The wavelengths of tensor2tensor reach 10,000 * 2 pi, those of the paper stay just below it.
    `offset` is the position of the first token.
    """

    def __init__(
        self, dim: int, wavelengths: Literal["tensor2tensor", "paper"] = "tensor2tensor", offset: int = 0
    ) -> None:
        super().__init__()
        self.dim = dim
        self.wavelengths = wavelengths
        self.offset = offset

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        half = (self.dim + 1) // 2
        longest = max(half - 1, 1) if self.wavelengths == "tensor2tensor" else self.dim / 2
        exponent = torch.arange(half, device=position.device) * (-math.log(10_000.0) / longest)
        angle = (position + self.offset).unsqueeze(-1) * exponent.exp()
        return torch.cat([angle.sin(), angle.cos()], -1)[..., : self.dim]


class LearnedPositionEmbedding(nn.Module):
    """Learned vectors for `max_positions` positions; later ones share the last (Gehring et al. 2017)."""

    def __init__(self, dim: int, max_positions: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_positions, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        return self.embedding(position.clamp_max(self.embedding.num_embeddings - 1))


class NoPositionEncoding(nn.Module):
    """Zero: no position encoding beside that of the self-attention."""

    def forward(self, position: Tensor) -> Tensor:
        """[...] -> []"""
        return torch.zeros((), device=position.device)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """x [B, S, D], mask [B, S] -> mean over the tokens [B, 1, D]"""
    is_token = mask.unsqueeze(-1)
    return x.masked_fill(~is_token, 0.0).sum(1, keepdim=True) / is_token.sum(1, keepdim=True)


def next_positions(position: Tensor, embedded: Tensor) -> Tensor:
    """Positions [N, T] of tokens [N, T, E] that follow `position` [N] others."""
    return position[:, None] + torch.arange(embedded.size(1), device=embedded.device)


def width_per_head(dim: int, heads: int) -> int:
    """Width of a head. Raises ValueError when the heads do not divide the width `dim`."""
    if dim % heads:
        raise ValueError(f"{heads} heads do not divide the width {dim}")
    return dim // heads


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, T, H*d] -> [B, H, T, d]"""
    return x.reshape(*x.shape[:2], heads, x.size(-1) // heads).transpose(1, 2)


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """[B, G, S, d] -> [B, H, S, d]: each head of keys or values repeated for the query heads that share it"""
    return x if x.size(1) == heads else x.repeat_interleave(heads // x.size(1), 1)
