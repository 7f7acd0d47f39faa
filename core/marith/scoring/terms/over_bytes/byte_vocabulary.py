"""The vocabulary of an engine over bytes: 256 bytes and one end."""

from __future__ import annotations

from functools import cached_property

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.prompting.tool_format import ToolFormat

# The token after the 256 bytes is the end of a text. The number of a byte is its token.
END = 256
SIZE = 257
# The name of the end if the base model has no end token.
_END_NAME = "<|end|>"


class ByteVocabulary(Vocabulary):
    """A vocabulary whose tokens are the 256 bytes and one end, with a model's chat template.

    The end has the name of the model's end token, and stands for all its end tokens. The other
    special tokens of the model have no token here: their names are ordinary text.
    """

    def __init__(self, base: Vocabulary) -> None:
        own = base.tokenizer
        end = getattr(own, "eos_token", None) or _END_NAME
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=_byte_tokenizer(),
            eos_token=end,
            chat_template=getattr(own, "chat_template", None),
        )
        # Templates write the name of the first token, which is not a token of this vocabulary.
        tokenizer.bos_token = getattr(own, "bos_token", None)
        super().__init__(tokenizer, SIZE, (END,))
        self._base = base

    @cached_property
    def tool_format(self) -> ToolFormat:
        """The form of the model's tool calls and reasoning, as its chat template shows it."""
        return self._base.tool_format


def _byte_tokenizer() -> Tokenizer:
    """Return a tokenizer that writes each byte of a text as the token of its number."""
    raw = Tokenizer(BPE({letter: byte for byte, letter in bytes_to_unicode().items()}, []))
    raw.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = ByteDecoder()
    return raw
