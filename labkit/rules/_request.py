"""What a caller asks for: one generation request, as numbers and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from labkit.rules._openai import fields_from_openai
from labkit.rules._reading import choice, read_fields

PaddingSide = Literal["left", "right"]
Speculation = Literal["assistant", "prompt_lookup"]

_CHOICES = {
    "PaddingSide": choice("left", "right"),
    "Speculation": choice("assistant", "prompt_lookup"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One generation request. Every default asks for nothing beyond plain greedy decoding.

    Attributes:
        model: Name of the model that must answer; None: whichever is served.
        prompt_tokens: Length of the prompt, of the longest row in a batch; None: not counted yet.
        max_new_tokens: Tokens to generate at most; None: left to the library.
        min_new_tokens: Tokens to generate at least.
        max_total_tokens: A limit on prompt and output together, if one is given as well.
        cached_tokens: Tokens that already stand in a cache this request continues from.
        truncation: Whether a prompt that is too long is to be cut.
        do_sample: Whether to sample; None: left to the checkpoint's generation config.
        temperature: Divides the logits before sampling.
        top_p: Smallest set of tokens with this probability is kept.
        top_k: Number of tokens kept; 0 keeps all.
        min_p: Least probability kept, relative to the likeliest token's.
        typical_p: Share of typical probability mass kept.
        repetition_penalty: Divides logits of tokens seen before; 1 changes nothing.
        no_repeat_ngram_size: Length of the n-grams that may not repeat; 0 is off.
        num_beams: Beams of a beam search; 1 or None is none.
        options: Further generation options by name, handed on as they are.
        system_message: Whether a system message is given.
        roles: Roles of the chat's messages in order, if a chat template is applied.
        chat_template: Whether the chat template is applied.
        add_special_tokens: Whether the tokenizer adds its special tokens to the (rendered)
            text; None: the library's own path, which does the right one of the two.
        batch_size: Rows in the batch.
        shortest_prompt_tokens: Length of the shortest row; None: rows may differ.
        padding_side: Where shorter rows are filled up; None: the tokenizer's own side.
        attention_mask: Whether an attention mask is passed.
        attention_mask_tokens: Length of the mask, if it was built by hand.
        position_ids: Whether position ids that skip the padding are passed.
        device: Kind of device the work must run on, as `device_kind` names it; None: any.
        dtype: Type to compute in; None: the type the checkpoint is stored in.
        attention_implementation: Attention kernel by its library name; None: the default.
        use_cache: Whether keys and values are kept between steps.
        cache_implementation: Kind of cache by its library name; None: dynamic.
        cache_tokens: Length asked for a cache of fixed size.
        kv_cache_dtype: Type the cache is stored in; None: the computing type.
        compile: Whether to compile the forward pass; None: the library decides.
        quantization: Method to quantise the weights with at load; None: as stored.
        rope_scaling: RoPE parameters that replace the checkpoint's.
        rope_after_load: Whether those are written to a model that is already built.
        window_tokens: An attention window imposed by the runtime.
        sink_tokens: First tokens that stay visible beside that window.
        speculation: Who drafts tokens: an assistant model or a look-up in the prompt.
        expert_capacity_factor: Bound on the tokens an expert takes, in units of an even share.
    """

    model: str | None = None
    prompt_tokens: int | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    max_total_tokens: int | None = None
    cached_tokens: int = 0
    truncation: bool = False
    do_sample: bool | None = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    num_beams: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    system_message: bool = False
    roles: tuple[str, ...] = ()
    chat_template: bool = False
    add_special_tokens: bool | None = None
    batch_size: int = 1
    shortest_prompt_tokens: int | None = None
    padding_side: PaddingSide | None = None
    attention_mask: bool = True
    attention_mask_tokens: int | None = None
    position_ids: bool = False
    device: str | None = None
    dtype: str | None = None
    attention_implementation: str | None = None
    use_cache: bool = True
    cache_implementation: str | None = None
    cache_tokens: int | None = None
    kv_cache_dtype: str | None = None
    compile: bool | None = None
    quantization: str | None = None
    rope_scaling: Mapping[str, object] | None = None
    rope_after_load: bool = False
    window_tokens: int | None = None
    sink_tokens: int = 0
    speculation: Speculation | None = None
    expert_capacity_factor: float | None = None

    @property
    def total_tokens(self) -> int | None:
        """Tokens in the context when the last one is generated; None if the prompt is uncounted."""
        if self.prompt_tokens is None:
            return None
        present = self.cached_tokens + self.prompt_tokens
        if self.max_new_tokens is None:
            return max(present, self.max_total_tokens or 0)
        return present + self.max_new_tokens

    @property
    def templated(self) -> bool:
        """Whether the request goes through the chat template."""
        return self.chat_template or self.system_message or bool(self.roles)

    @property
    def has_system_message(self) -> bool:
        """Whether a system message is among what is asked."""
        return self.system_message or "system" in self.roles

    @property
    def padded(self) -> bool:
        """Whether some row of the batch is filled up, as far as the request says."""
        return self.batch_size > 1 and (
            self.shortest_prompt_tokens is None or self.shortest_prompt_tokens != self.prompt_tokens
        )

    @classmethod
    def from_json(cls, data: object) -> Request:
        """Read a request from parsed JSON.

        Raises:
            RequestError: If a field is unknown or of another kind; all faults are named.
        """
        return read_fields(cls, data, what="A request", choices=_CHOICES)

    @classmethod
    def from_openai(cls, body: object, *, prompt_tokens: int | None = None) -> Request:
        """Read a request in the OpenAI chat shape.

        Args:
            body: The parsed JSON.
            prompt_tokens: Length of the rendered prompt; None leaves it uncounted.

        Raises:
            RequestError: If a field is unknown or of another kind; it is named.
        """
        return cls.from_json(fields_from_openai(body, prompt_tokens=prompt_tokens))
