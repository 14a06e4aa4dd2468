"""Attention of windows in which documents begin, without a mask of T x T numbers.

transformers gives SDPA a mask there, for which no flash kernel is taken. Here FlexAttention (Dong
et al. 2024) gets the mask as a rule and as blocks that are skipped; a window of one document goes
to SDPA's causal kernel as before. Equal to the mask up to rounding.

Dimensions: B documents or streams, T tokens of a window, H heads, D width of a head.
"""

from typing import Any

from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flex_attention_mask, sdpa_mask

NAME = "packed"


def make_mask(*, allow_is_causal_skip: bool = True, **window: Any) -> BlockMask | Tensor | None:
    """The mask of a window, with the arguments of transformers' mask functions; None where each
    token sees all before it.
    """
    if allow_is_causal_skip:
        return sdpa_mask(allow_is_causal_skip=True, **window)
    return flex_attention_mask(**window)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: BlockMask | Tensor | None,
    **how: Any,
) -> tuple[Tensor, None]:
    """Attention of queries, keys and values [B, H, T, D]: [B, T, H, D], and no weights."""
    kernel: Any = flex_attention_forward if isinstance(mask, BlockMask) else sdpa_attention_forward
    return kernel(module, query, key, value, mask, **how)[0], None


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, make_mask)
