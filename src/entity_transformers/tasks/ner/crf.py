"""A linear-chain conditional random field (Lafferty et al. 2001; Lample et al. 2016, section 2.2),
vectorised over the batch.

Dimensions: B sentences, T words of the longest, K tags. Masks are bool [B, T], true on each
sentence's words, which come first; every sentence has at least one word.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Crf(nn.Module):
    """A CRF: scores of first tags [K], of last tags [K], and of a tag (row) before a tag [K, K]."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(tags))
        self.end = nn.Parameter(torch.empty(tags))
        self.transitions = nn.Parameter(torch.empty(tags, tags))
        for scores in (self.start, self.end, self.transitions):
            nn.init.uniform_(scores, -0.1, 0.1)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the log-probability [B] in nats of tag ids [B, T] under emissions [B, T, K]."""
        return self.path_scores(emissions, tags, mask) - self.log_partition(emissions, mask)

    def path_scores(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the score [B] of one path; embedding lookups sum gradients in a fixed order."""
        steps = tags[:, :-1] * len(self.start) + tags[:, 1:]  # [B, T-1]
        moves = F.embedding(steps, self.transitions.reshape(-1, 1)).squeeze(2)
        words = emissions.gather(2, tags[:, :, None]).squeeze(2)  # [B, T]
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        inner = words.masked_fill(~mask, 0).sum(1) + moves.masked_fill(~mask[:, 1:], 0).sum(1)
        return (
            inner
            + F.embedding(tags[:, 0], self.start[:, None]).squeeze(1)
            + F.embedding(last, self.end[:, None]).squeeze(1)
        )

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the log of the sum over all paths [B], by the forward algorithm on scaled
        exponentials: exact up to rounding while the scores of reaching one tag span less than 80
        nats (float32), and finite beyond.
        """
        peaks = self.transitions.detach().amax(0)  # [K]
        weights = (self.transitions - peaks).exp()  # [K, K], at most 1
        least = torch.finfo(emissions.dtype).tiny
        first, *others = (emissions + peaks).unbind(1)
        alphas = [first - peaks + self.start]  # T times [B, K]
        for emission in others:
            top = alphas[-1].detach().amax(1, keepdim=True)
            alphas.append(
                ((alphas[-1] - top).exp() @ weights).clamp_min(least).log() + top + emission
            )
        return (self._at_last_word(alphas, mask) + self.end).logsumexp(1)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the tag ids [B, T] of the path with the highest score (Viterbi), 0 on padding."""
        arriving = self.transitions.T.contiguous()  # [to, from]
        best, origins = [emissions[:, 0] + self.start], []
        for emission in emissions.unbind(1)[1:]:
            score, origin = (best[-1][:, None, :] + arriving).max(2)  # [B, to]
            best.append(score + emission)
            origins.append(origin)
        tag = last = (self._at_last_word(best, mask) + self.end).argmax(1)  # [B]
        path = [tag]
        for origin, inside in zip(reversed(origins), reversed(mask.unbind(1)[1:]), strict=True):
            tag = torch.where(inside, origin.gather(1, tag[:, None]).squeeze(1), last)
            path.append(tag)
        return torch.stack(path[::-1], 1).masked_fill(~mask, 0)

    @staticmethod
    def _at_last_word(steps: list[Tensor], mask: Tensor) -> Tensor:
        """Return, from T tensors [B, K], the row [B, K] of each sentence's last word."""
        last = (mask.sum(1) - 1)[:, None, None].expand(-1, 1, steps[0].shape[1])
        return torch.stack(steps, 1).gather(1, last).squeeze(1)
