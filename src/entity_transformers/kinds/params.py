"""The typed parameters of each kind of model: of those in section lm, and its own.

The text below a parameter describes it in the documentation and on the command line.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool

from entity_transformers.study.origin import check_weights
from entity_transformers.study.sections import (
    Fraction,
    Integer,
    NonNegative,
    Number,
    Positive,
    PositiveInt,
    Rate,
    Section,
    Size,
    Width,
)

Weights = Annotated[str | None, AfterValidator(check_weights)]
Count = Annotated[Integer, Field(ge=0, le=10**10)]
Windows = Annotated[Integer, Field(ge=0, le=10**6)]
Tokens = Annotated[Integer, Field(ge=2, le=10**6)]
EntityValues = Literal["hidden", "entity", "both"]


class LmParams(Section):
    """What every kind of language model has: its shape and its training (sections 3 and 4.1)."""

    sdpa_alone: ClassVar[str] = ""  # what has no attention but sdpa

    initial_weights: Weights
    """weights to start from: a folder, study:NAME/MODEL/SEED, hub:NAME[@COMMIT],
    pip:PACKAGE==VERSION or a GGUF file; null: random"""
    layers: Width
    """layers, in a transformer its blocks"""
    heads: Width
    """attention heads of a layer that has any"""
    width: Width
    """hidden units"""
    window: Tokens
    """tokens of one forward pass, also the number of positions"""
    dropout: Rate
    """dropout of embeddings, attention and residuals"""
    memory_gradient_windows: Windows
    """earlier windows that the gradient reaches through a model's memory or state; 0: the paper"""
    steps: PositiveInt
    """optimizer steps"""
    documents_per_step: Size
    """documents side by side, each with its own memory"""
    learning_rate: Positive
    """peak learning rate of AdamW"""
    schedule: Literal["constant", "cosine"]
    """learning rate after the warm-up"""
    warmup_steps: Count
    """steps of linear warm-up"""
    weight_decay: NonNegative
    """AdamW weight decay, on matrices only"""
    clip_norm: NonNegative
    """largest gradient norm; 0: no clipping"""
    final_weights: Literal["last", "best"]
    """weights that the study goes on with: of the last step or of the lowest dev loss"""
    validate_every: PositiveInt
    """steps between validations"""
    validation_documents: PositiveInt | None
    """first documents of dev used in validation; null: all"""
    precision: Literal["float32", "bfloat16"]
    """bfloat16: autocast of the forward pass"""
    compile: Annotated[
        Literal["off", "default", "reduce-overhead"],
        # YAML 1.1 reads a bare off as false
        BeforeValidator(lambda value: "off" if value is False else value),
    ]
    """torch.compile's mode; reduce-overhead: CUDA graphs, for few documents per step"""
    attention: Literal["sdpa", "flex"]
    """on a GPU, for windows in which documents begin: flex needs no mask, but dropout 0"""
    gradient_checkpointing: StrictBool
    """recompute activations in the backward pass"""

    @property
    def context(self) -> int:
        """How many positions the model, and weights that it starts from, must have."""
        return self.window

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.width % self.heads:
            yield f"width {self.width} is not divisible by heads {self.heads}"
        graphs = self.compile == "reduce-overhead"
        if graphs and self.gradient_checkpointing and self.memory_gradient_windows:
            yield (
                "compile reduce-overhead loses gradients where windows are recomputed"
                " (gradient_checkpointing with memory_gradient_windows): set it to default, or"
                " gradient_checkpointing to false"
            )
        if self.attention == "flex" and self.sdpa_alone:
            yield f"attention flex is not available for {self.sdpa_alone}: set it to sdpa"
        if self.attention == "flex" and self.dropout > 0:
            yield (
                f"attention flex can't drop out weights, but dropout is {self.dropout}: set it"
                " to 0, or attention to sdpa"
            )
        if self.warmup_steps > self.steps:
            yield f"warmup_steps {self.warmup_steps} exceeds steps {self.steps}"

    def count_extra(self) -> int:
        """Numbers per layer beyond GPT-2's: what a parameter-matched GPT-2 gets."""
        return 0


class GPT1Params(LmParams):
    """GPT-1 (Radford et al., 2018) as transformers has it: layer norms after the sums."""

    sdpa_alone = "gpt1"


class GPT2Params(LmParams):
    """GPT-2 as transformers has it: the baseline."""

    matched_to: str | None = None
    """entry of models whose number of parameters it gets by wider feed-forward layers"""


class GPT2AntecedentParams(LmParams):
    """GPT-2 with a head that learns to look back at antecedents (after Cheng and Erk, 2020)."""

    antecedent_weight: NonNegative = 1.0
    """weight of the head's loss, in nats per token; 0: a plain GPT-2"""
    antecedent_layer: PositiveInt | None = None
    """layer of the head, from 1; null: the middle one"""
    antecedent_head: PositiveInt = 1
    """the head in its layer, from 1"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for name, one, most in (
            ("layer", self.antecedent_layer or 1, self.layers),
            ("head", self.antecedent_head, self.heads),
        ):
            if one > most:
                yield f"antecedent_{name} {one} is more than {name}s {most}"


def count_entity_attention(params: Any, width: int) -> int:
    """Numbers of a block's entity attention: 4 projections of width² + width, 5 if values come from
    hidden states and entities, and where switched on a layer norm of 2 width and a gate of 1.
    """
    projections = 5 if params.entity_values == "both" else 4
    numbers = projections * width * (width + 1)
    return numbers + 2 * width * params.entity_layer_norm + (params.entity_gate == "zero")


class GPT2EParams(LmParams):
    """GPT2E (section 3): GPT-2 with attention over a memory of entities (docs/architecture.md)."""

    entity_residual: StrictBool
    """residual connection around entity attention"""
    entity_layer_norm: StrictBool
    """layer norm before entity attention"""
    entity_gate: Literal["none", "zero"]
    """zero: a learnt gate that starts at 0"""
    entity_values: EntityValues
    """where the values of entity attention come from"""
    memory_write: Literal["last", "mean"]
    """state written to the memory: last token or mean of the latest mention"""
    memory_life: Literal["document", "epochs"]
    """epochs: a training document's entities come back as its last reading left them"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.entity_gate == "zero" and not self.entity_residual:
            yield "entity_gate zero without entity_residual would give a constant output"

    def count_extra(self) -> int:
        """Those of its entity attention."""
        return count_entity_attention(self, self.width)


class PointerParams(LmParams):
    """GPT-2 with an entity pointer at its output, which copies forms (ours, docs/systems.md)."""

    entity_lag: Annotated[Integer, Field(ge=1, le=1024)] = 16
    """tokens after a mention's end that are read before its label is used: over two words'"""
    pointer_width: Width = 64
    """width of its queries and keys"""
    pointer_forms: PositiveInt = 4
    """latest different forms that are kept of an entity"""
    pointer_tokens: PositiveInt = 8
    """tokens of the longest mention that is kept"""
    pointer_rate: Positive = 30.0
    """how much faster the pointer learns than learning_rate says"""

    def count_extra(self) -> int:
        """Numbers of the pointer, over all layers, rounded up."""
        numbers = (2 * self.pointer_width + 1) * self.width + 1 + 14 + 8 + self.pointer_forms + 3
        return -(-numbers // self.layers)


class MaskedParams(LmParams):
    """What the kinds that learn from hidden tokens share."""

    sdpa_alone = "a kind that sees later tokens"

    mask_rate: Annotated[Number, Field(gt=0, lt=1)] = 0.15
    """share of a window's text that is to be predicted"""
    whole_words: bool = False
    """hide whole words, as BERT's authors did later, in place of single tokens"""
    positions: Tokens | None = None
    """positions that the model has, for later trainings in longer windows; null: the window"""

    @property
    def context(self) -> int:
        return self.positions or self.window

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.positions is not None and self.positions < self.window:
            yield f"positions {self.positions} are fewer than the window's {self.window} tokens"


class BertParams(MaskedParams):
    """BERT: what stands in the place of hidden tokens (Devlin et al., 2019, section 3.1)."""

    mask_share: Fraction = 0.8
    """of the tokens to be predicted, how many the mask stands for"""
    random_share: Fraction = 0.1
    """and how many a random token; the others are left as they are"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.mask_share + self.random_share > 1 + 1e-9:
            yield (
                f"mask_share {self.mask_share} and random_share {self.random_share} add up to more"
                " than 1"
            )


class ElectraParams(MaskedParams):
    """ELECTRA (Clark et al., 2020): which tokens are not the text's, but a small generator's?"""

    quarter: ClassVar[int] = 4  # the generator's width and heads are so many times smaller

    discriminator_weight: NonNegative = 50.0
    """lambda: of the discriminator's loss beside the generator's"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        width, heads = self.width // self.quarter, max(1, self.heads // self.quarter)
        if self.width % self.quarter or width % heads:
            yield (
                f"width {self.width} and heads {self.heads}: a generator a quarter as wide can't"
                f" have {heads} heads: give a width that {self.quarter * heads} divides"
            )


class TransformerXLParams(LmParams):
    """Transformer-XL (Dai et al., 2019): a window also reads hidden states of earlier tokens."""

    sdpa_alone = "relative positions"

    memory_tokens: Count | None = None
    """earlier tokens of the document that are attended to; null: as many as the window"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.width % 2:
            yield f"width {self.width} is odd, but distances are encoded as sines and cosines"


class XLNetParams(TransformerXLParams):
    """XLNet (Yang et al., 2019): tokens are predicted in random orders (sections 2.3 and 3.1)."""

    partial_prediction: Annotated[Number, Field(ge=1, le=1000)] = 6.0
    """K: one token in K is predicted, the last of the order"""
    longest_span: Size = 5
    """tokens of the longest span that is predicted together"""


class LSTMParams(LmParams):
    """LSTM (Zaremba et al., 2014), what has a default is AWD-LSTM's (Merity et al., 2018)."""

    hidden: Width | None = None
    """units of all layers but the last, which has the width; null: the width"""
    residual: StrictBool = False
    """from the second layer on a layer's inputs are added to its outputs, as in ELMo"""
    weight_drop: Rate = 0.0
    """dropout of hidden-to-hidden weights, one mask per window"""
    embedding_dropout: Rate = 0.0
    """dropout of whole words of the vocabulary, one mask per window"""
    input_dropout: Rate = 0.0
    """dropout of embeddings, one mask per window and stream"""
    hidden_dropout: Rate = 0.0
    """dropout between layers, one mask per window and stream"""
    output_dropout: Rate = 0.0
    """dropout after the last layer, one mask per window and stream"""
    activation_penalty: NonNegative = 0.0
    """alpha: weight of the mean square of dropped outputs (AR)"""
    temporal_penalty: NonNegative = 0.0
    """beta: weight of the mean square of an output's change in time (TAR)"""
    optimizer: Literal["adamw", "asgd"] = "adamw"
    """asgd: gradient descent, averaged once a validation is worse than the best before"""
    nonmonotone_interval: Count = 5
    """latest validations that asgd leaves out of comparison"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for name in ("input_dropout", "hidden_dropout", "output_dropout"):
            if self.dropout > 0 and (rate := getattr(self, name)) > 0:
                yield f"{name} {rate} acts where dropout {self.dropout} does: set one of them to 0"
        if self.residual and self.hidden not in (None, self.width):
            yield f"residual needs layers of equal width, but hidden is {self.hidden}: omit hidden"
        if self.layers == 1 and self.hidden not in (None, self.width):
            yield (
                f"hidden {self.hidden} is for all layers but the last, but layers is 1: omit hidden"
            )
        if self.layers == 1 and self.hidden_dropout > 0:
            yield (
                f"hidden_dropout {self.hidden_dropout} is between layers, but layers is 1: set"
                " it to 0"
            )


class ELMoParams(LmParams):
    """ELMo (Peters et al., 2018) and TagLM (2017): a forward and a backward LSTM, no heads."""

    hidden: Width | None = None
    """units of each LSTM, projected to the width; null: the width, and no projection"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.hidden is not None and self.hidden <= self.width:
            yield (
                f"hidden {self.hidden} is projected to width {self.width}, which must be smaller:"
                " raise hidden, or leave it out"
            )


class NGramParams(Section):
    """Counts of the training text: of section lm only what says how they are read is theirs."""

    window: Tokens
    """tokens of one forward pass; the context before them is never lost"""
    validation_documents: PositiveInt | None
    """first documents of dev that its loss there is of, as for trained models; null: all"""
    order: Annotated[Integer, Field(ge=2, le=4)] = 4
    """tokens of the longest n-gram"""
    initial_weights: Weights = None
    """counts of another text, named as in lm, mixed with its own by the share best on dev"""


class TakenParams(Section):
    """What is said of a model that others have trained."""

    initial_weights: Annotated[str, AfterValidator(check_weights)]
    """its weights: pip:PACKAGE==VERSION, hub:NAME@COMMIT, a folder or a GGUF file"""
    window: Tokens
    """tokens of one forward pass, at most as many as it has positions"""
    precision: Literal["float32", "bfloat16"]
    """of its weights and of every product"""


class PretrainedParams(TakenParams):
    """A model that others have trained: of section lm only window and precision are its own."""

    mixed_layers: Size = 7
    """layers that a tagger mixes, evenly spaced; 1: it reads the last"""
    ner_context: Literal["word", "sentence", "document"] | None = None
    """text around a word for the tagger; null: as section embeddings says"""


class PretrainedEParams(TakenParams):
    """What the top blocks of a pretrained model learn, and how: entity attention, or LoRA."""

    blocks: Width = 6
    """blocks from the top that learn; what those below make of the text is computed once"""
    adapter: Literal["entities", "lora"] = "entities"
    """entities: attention over a memory of entities; lora: as many parameters without one"""
    antecedent_weight: NonNegative = 0.0
    """with lora: weight of a loss by which labels guide a head in training, the first one of the
    lowest block that learns, to antecedents, in nats per token; 0: none"""
    entity_gate: Literal["none", "zero"] = "none"
    """zero: a learnt gate that starts at 0; none: the output projection does, and learns sooner"""
    entity_values: EntityValues = "both"
    """where the values of entity attention come from"""
    entity_layer_norm: StrictBool = True
    """layer norm before entity attention"""
    entity_alibi: StrictBool = True
    """lower scores for entities further back, by ALiBi, unlike the paper"""
    memory_write: Literal["last", "mean"] = "last"
    """state written to the memory: last token or mean of the latest mention"""
    epochs: PositiveInt = 1
    """passes over train"""
    documents_per_step: Size
    """documents side by side, each with its own memory"""
    learning_rates: Annotated[tuple[Positive, ...], Field(min_length=1)] = (3e-4, 1e-3, 3e-3)
    """peak learning rates of AdamW, of which the best on dev is kept"""
    warmup: Fraction = 0.05
    """share of the steps with linear warm-up, before a cosine to 0"""
    weight_decay: NonNegative
    """AdamW weight decay"""
    clip_norm: NonNegative
    """largest gradient norm; 0: no clipping"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.antecedent_weight and self.adapter != "lora":
            yield (
                f"antecedent_weight {self.antecedent_weight} needs adapter lora, but adapter is"
                f" {self.adapter}: set it to 0"
            )


class StaticParams(Section):
    """Static word vectors are no language models: of section lm only the width is theirs."""

    initial_weights: Weights = None
    """vectors to take as they are, named as in lm; null: they are learnt"""
    width: Width
    """numbers of a vector; by default lm.width"""
    epochs: PositiveInt
    """passes over the text, or over its counts"""
    context: PositiveInt
    """words on either side that are a word's context, at most"""
    min_count: PositiveInt
    """times that a word occurs in train; rarer ones are left out"""
    rate: Positive
    """learning rate at the start"""


class Word2VecParams(StaticParams):
    """word2vec: skip-gram with negative sampling (Mikolov et al., 2013)."""

    negatives: PositiveInt
    """words drawn at random against each word of the context"""
    sample: Fraction
    """share of the text from which a word on is left out at random; 0: none"""


class FastTextParams(Word2VecParams):
    """fastText: skip-gram over words and their character n-grams (Bojanowski et al., 2017)."""

    shortest: PositiveInt
    """characters of the shortest n-grams"""
    longest: PositiveInt
    """characters of the longest n-grams"""
    buckets: PositiveInt
    """vectors that all n-grams share, by their hash"""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.shortest > self.longest:
            yield f"shortest {self.shortest} exceeds longest {self.longest}"


class GloVeParams(StaticParams):
    """GloVe: least squares on logarithms of co-occurrence counts (Pennington et al., 2014)."""

    x_max: Positive
    """count from which on the weight is 1"""
    exponent: Positive
    """below it the weight is (count / x_max) ** exponent"""
