"""Tiny models with random weights and tokenizers trained on the spot, one for every way of tokenizing."""

from functools import cache

import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from scoring.inference.load_options import load
from scoring.inference.model import Model
from tests.support.helpers import beside

CORPUS = [
    "The nurse said that she would come again in the morning.",
    "The farmer told his daughter that he had seen her.",
    "My friend is a teacher, and they like the unhappy children.",
    "She and he went home; it was her idea, not his.",
    "I recently met a mechanic. He showed me how it works.",
    "Girls tend to be more gentle than boys, they say.",
    "Women who work as doctors are clever and careful people.",
    "Q: What is the pilot's gender? Answer with just one word.\nA: female or male",
] * 3
#: Small real models, which lie beside the mirror.
REAL = ("stories260K", "babyllama105")
torch.set_num_threads(1)


def _trained(model, trainer, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _bpe(size, special, alphabet=()):
    return trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=list(alphabet), show_progress=False
    )


def _bytes(special, **bpe):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return _trained(
        models.BPE(**bpe),
        _bpe(400, special, alphabet),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )


def _around(tokenizer, single):
    special = {w: tokenizer.token_to_id(w) for w in single.split() if w != "$A"}
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=list(special.items()))
    return tokenizer


@cache
def tokenizer(name):
    """A tokenizer in the manner of a family of models."""
    if name == "gpt2":  # Byte level, no BOS added, no padding token.
        made = _bytes(["<|endoftext|>"])
        made.post_processor = processors.ByteLevel(trim_offsets=False)
        return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    if name == "trimmed":  # Byte level whose offsets leave out the space, padding on the left.
        made = _bytes(["<|endoftext|>"])
        made.post_processor = processors.ByteLevel(trim_offsets=True)
        return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|endoftext|>", padding_side="left")
    if name == "opt":  # Byte level, BOS added and equal to EOS, a padding token, padding on the left.
        made = _around(_bytes(["<pad>", "</s>"]), "</s> $A")
        return PreTrainedTokenizerFast(
            tokenizer_object=made, bos_token="</s>", eos_token="</s>", pad_token="<pad>", padding_side="left"
        )
    if name == "llama":  # SentencePiece-like with a space put before the text, pad = eos.
        made = _trained(
            models.BPE(unk_token="<unk>", byte_fallback=False),
            _bpe(300, ["<unk>", "<s>", "</s>"]),
            pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"),
            decoder=decoders.Metaspace(prepend_scheme="first"),
        )
        return PreTrainedTokenizerFast(
            tokenizer_object=_around(made, "<s> $A"),
            bos_token="<s>",
            eos_token="</s>",
            unk_token="<unk>",
            pad_token="</s>",
        )
    if name == "bert":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        made = _trained(
            models.WordPiece(unk_token="[UNK]"),
            trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False),
            normalizer=normalizers.BertNormalizer(lowercase=True),
            pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
            decoder=decoders.WordPiece(),
        )
        names = zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True)
        return PreTrainedTokenizerFast(tokenizer_object=_around(made, "[CLS] $A [SEP]"), **dict(names))
    if name == "roberta":
        made = _bytes(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], unk_token="<unk>")
        ends = [("</s>", 2), ("<s>", 0)]
        made.post_processor = processors.RobertaProcessing(*ends, trim_offsets=True, add_prefix_space=False)
        names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
        mask = AddedToken("<mask>", lstrip=True, special=True)
        return PreTrainedTokenizerFast(tokenizer_object=made, mask_token=mask, unk_token="<unk>", **names)
    raise KeyError(name)


#: Name of a model: its configuration, its class, its tokenizer.
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
FAMILIES = {
    "gpt2": (transformers.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96}, "gpt2"),
    "opt": (
        transformers.OPTConfig,
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 48,
            "max_position_embeddings": 96,
        },
        "opt",
    ),
    "llama": (transformers.LlamaConfig, SHAPE | {"num_key_value_heads": 2, "max_position_embeddings": 96}, "llama"),
    "neox": (transformers.GPTNeoXConfig, SHAPE | {"max_position_embeddings": 96}, "trimmed"),
    "gemma2": (
        transformers.Gemma2Config,
        SHAPE | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 64, "max_position_embeddings": 96},
        "llama",
    ),
    "cohere": (transformers.CohereConfig, SHAPE | {"num_key_value_heads": 2, "max_position_embeddings": 96}, "llama"),
    "granite": (
        transformers.GraniteConfig,
        SHAPE | {"num_key_value_heads": 2, "max_position_embeddings": 96, "logits_scaling": 3.0},
        "llama",
    ),
    "bloom": (transformers.BloomConfig, {"hidden_size": 32, "n_layer": 2, "n_head": 4}, "gpt2"),
    "bert": (transformers.BertConfig, SHAPE | {"max_position_embeddings": 96}, "bert"),
    "roberta": (transformers.RobertaConfig, SHAPE | {"max_position_embeddings": 98}, "roberta"),
}
CAUSAL = ["gpt2", "opt", "llama", "neox", "gemma2", "cohere", "granite", "bloom"]
MASKED = ["bert", "roberta"]


def network(name, dtype=torch.float32, **more):
    """A network of a family, the same weights whenever it is asked for; large enough weights for answers to differ."""
    config_class, settings, words = FAMILIES[name]
    text = tokenizer(words)
    ids = {k: getattr(text, k) for k in ("bos_token_id", "eos_token_id", "pad_token_id")}
    ids = {k: v for k, v in ids.items() if v is not None}
    config = config_class(vocab_size=len(text), initializer_range=0.3, init_std=0.3, **ids, **settings, **more)
    kind = transformers.AutoModelForCausalLM if name in CAUSAL else transformers.AutoModelForMaskedLM
    torch.manual_seed(0)
    return kind.from_config(config).to(dtype).eval()


def model(name, dtype=torch.float32, **more):
    """A family's tiny model, ready to be asked."""
    exact = more.pop("exact", False)
    kind = "causal" if name in CAUSAL else "masked"
    return Model(network(name, dtype, **more), tokenizer(FAMILIES[name][2]), kind=kind, name=name, exact=exact)


def marked(parameters):
    """Parameters of tests that begin with the name of a model, with the marker ``mirror`` for the real ones."""
    rows = [each if isinstance(each, tuple) else (each,) for each in parameters]
    return [pytest.param(*row, marks=[pytest.mark.mirror] * (row[0] in REAL)) for row in rows]


def folder(name):
    """The folder of a small real model."""
    return beside("models", name)


@cache
def real(name, dtype="float32"):
    """A small real model."""
    return load(folder(name), dtype=dtype)
