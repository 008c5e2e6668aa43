"""Lack of memory: micro-batches that do not fit are halved, the largest ones are tried before the first update, and for
`training.batch.tokens: fit` the largest batch is found."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2attn.data.batch_planner import Indices
from seq2attn.data.collate import Batch, MicroBatch, make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.errors import UserError
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.terminal import plural
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.nn.device import is_oom_error
from seq2attn.nn.precision import autocast
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.metrics_logger import Session, format_few_lines
from seq2attn.training.resolve import MIN_UPDATES, UpdateBatches

MakeMicroBatches: TypeAlias = Callable[[Sequence[Indices]], list[MicroBatch]]
MEMORY_HINT = (
    "reduce `training.batch.micro_batch_tokens` or `training.batch.tokens`, or drop long pairs"
    " (`data.filters.max_length`)"
)
MIN_TOKENS = 1024
"""The smallest candidate for `fit`, in tokens."""
SAFETY_MARGIN = 0.8
"""Share of the largest candidate that is used: memory is allocated in blocks, and batches differ in shape."""
MAX_ROWS = 2**16 - 1
"""Maximum number of rows for which attention kernels can be launched."""


def reduce_micro_batches(
    micro_batches: list[MicroBatch], failed: MicroBatch, make: MakeMicroBatches, update: int, session: Session
) -> list[MicroBatch]:
    """Micro-batches with halves of those as large as `failed`, which lacked memory; a single pair is dropped."""
    count = len(failed.rows)
    message = f"update {update}: {format_few_lines(failed.rows)} did not fit in memory"
    event = "out_of_memory" if count > 1 else "dropped"
    session.logger.log_metrics(event, update, {}, failed.rows)
    if count > 1:
        session.logger.log(f"{message}; micro-batches of this size are halved")
        return [half for part in micro_batches for half in _halve(part, failed.num_tokens, make)]
    if session.distributed.size > 1:  # all processes divide by the tokens of all
        raise UserError(f"{message}: a single pair, in process {session.distributed.rank}; {MEMORY_HINT}")
    session.logger.log(f"{message}: a single pair, which is dropped; {MEMORY_HINT}")
    return [part for part in micro_batches if part is not failed]


def _halve(micro_batch: MicroBatch, size: int, make: MakeMicroBatches) -> list[MicroBatch]:
    if micro_batch.num_tokens < size or len(micro_batch.rows) == 1:
        return [micro_batch]
    return make(np.array_split(micro_batch.rows, 2))


def exchange_error(rank: int) -> UserError:
    """The error for lack of memory while the others have received some of the gradients, and wait for the rest."""
    return UserError(
        f"process {rank} ran out of memory during the exchange of gradients; {MEMORY_HINT}, and"
        " resume with `train --resume`"
    )


def drop_gradients(module: nn.Module) -> None:
    """Drop all gradients, and free cached GPU memory."""
    module.zero_grad(set_to_none=True)
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@contextmanager
def restored_buffers(module: nn.Module) -> Iterator[None]:
    """Buffers, such as the statistics of batch norm, are afterwards as before."""
    saved = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        for buffer, value in zip(module.buffers(), saved, strict=True):
            buffer.copy_(value)


@dataclass(frozen=True)
class MemoryTrial:
    """Trials whether the gradients of a batch fit in memory, beside the state of the optimizer; they are dropped."""

    training: TrainingConfig
    loss_module: TrainingLoss
    optimizer: torch.optim.Optimizer
    distributed: DistributedContext

    def check(self, corpus: Corpus, updates: Sequence[UpdateBatches], baseline: float | None) -> None:
        """Try the largest micro-batch, and that with the longest pair.

        Raises UserError, in all processes, if one of them has too little memory.
        """
        micro_batches = largest_micro_batches([rows for update in updates for rows in update], corpus.lengths)
        failed = next((rows for rows in micro_batches if not self.fits(corpus, rows, baseline)), None)
        device = self.distributed.device
        message = None if failed is None else _memory_message(corpus.lengths[failed], failed, device)
        for error in filter(None, self.distributed.all_gather(message)):
            raise UserError(error)

    def find_max_tokens(self, corpus: Corpus, rows_of_epoch: Indices) -> int:
        """Maximum number of tokens of a batch that fits in memory.

        Candidates are copies of one pair. The result allows as many updates per epoch as `auto`. All processes get the
        number of the smallest GPU.
        """
        widths = corpus.lengths.max(axis=1) + 1
        by_width = np.argsort(widths, kind="stable")
        batches = MIN_UPDATES * self.training.batch.gradient_accumulation * self.distributed.size

        def fits(tokens: int) -> bool:
            for pair in (by_width[len(by_width) // 2], by_width[-1]):  # the longest needs most for attention
                rows = max(1, tokens // int(widths[pair]))
                if rows > MAX_ROWS or not self.fits(corpus, np.full(rows, pair)):
                    return False
            return True

        limit = max(MIN_TOKENS, int(int(widths[rows_of_epoch].sum()) // batches / SAFETY_MARGIN))
        return min(self.distributed.all_gather(largest_that_fits(fits, limit)))

    def fits(self, corpus: Corpus, rows: Indices, baseline: float | None = None) -> bool:
        """True if the gradients of the pairs at `rows` fit in memory."""
        batch = make_batch(corpus, rows, packed=self.training.batch.padding_free)
        fits = self._try(batch, baseline)
        drop_gradients(self.loss_module)
        return fits

    def _try(self, batch: Batch, baseline: float | None) -> bool:
        """Returns False if there is too little memory. Gradients are not exchanged."""
        device = self.distributed.device
        try:
            reserved = reserve_optimizer_memory(self.loss_module, self.optimizer, self.training)
            with restored_buffers(self.loss_module):
                with autocast(self.training.precision, device):
                    loss = self.loss_module(batch.to(device), baseline, 1)
                loss.loss.backward()
            del reserved
        except (RuntimeError, MemoryError) as error:
            if not is_oom_error(error):
                raise
            return False
        return True


def largest_micro_batches(micro_batches: Sequence[Indices], lengths: NDArray[np.int64]) -> list[Indices]:
    """The micro-batch with most tokens, padding included, and that with the longest pair if it is another."""
    sizes = [(len(rows), int(lengths[rows].max()) + 1) for rows in micro_batches]
    largest = max(range(len(sizes)), key=lambda number: (sizes[number][0] * sizes[number][1], sizes[number][1]))
    longest = max(range(len(sizes)), key=lambda number: sizes[number][::-1])
    return [micro_batches[number] for number in dict.fromkeys((largest, longest))]


def reserve_optimizer_memory(
    module: nn.Module, optimizer: torch.optim.Optimizer, training: TrainingConfig
) -> list[Tensor]:
    """Tensors of the size of the state after the optimizer's first step: two per weight for Adam, and its average."""
    if optimizer.state:
        return []
    count = 2 if "momentum" not in optimizer.defaults else int(optimizer.defaults["momentum"] > 0)
    count += training.ema_decay is not None
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [torch.zeros_like(parameter) for parameter in trained for _ in range(count)]


def _memory_message(lengths: NDArray[np.int64], rows: Indices, device: torch.device) -> str:
    longest = int(lengths.max(axis=1).argmax())
    width = int(lengths.max()) + 1
    source, target = lengths[longest].tolist()
    return (
        f"the largest batch does not fit in the memory of {device}: {plural(len(rows), 'pair')} of up to"
        f" {width:,} tokens, {len(rows) * width:,} with padding; the longest is line {int(rows[longest]) + 1} of"
        f" data/train.jsonl in the run, of {source:,} and {target:,} tokens; {MEMORY_HINT}, or use a smaller model"
    )


def largest_that_fits(fits: Callable[[int], bool], limit: int) -> int:
    """The largest number that `fits`, to a sixteenth, less a margin; from `MIN_TOKENS` to `limit`."""
    largest = MIN_TOKENS
    while 2 * largest <= limit and fits(2 * largest):
        largest *= 2
    step = largest // 2
    while step >= largest // 16:
        if largest + step <= limit and fits(largest + step):
            largest += step
        step //= 2
    return max(MIN_TOKENS, int(largest * SAFETY_MARGIN))
