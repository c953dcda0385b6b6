"""What this package and the code of bias-bench are compared on: random small models, and the rows of both benchmarks.

The recorded numbers of bias-bench are in ``bias_bench.json``; ``tools/peers/compare_bias_bench.py`` makes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from builders.datasets import biaske
from builders.parsers import read
from builders.text.wording import LABELS
from scoring.benchmarks import get
from scoring.inference.load_options import load
from scoring.inference.model import Model
from tests.scoring.models import folder
from tests.support.helpers import mirrored

RECORDED = Path(__file__).with_name("bias_bench.json")
PAIRS = ("sentence_biased", "sentence_unbiased")
#: Text that the vocabularies come from; with it and all characters of ASCII, words have one to several tokens.
TEXT = [
    "The teacher was kind and the children were happy to see her in the morning.",
    "He works as an engineer and she works as a doctor in the same town.",
    "My grandmother makes bread, my grandfather makes cheese, and they sell both.",
    "Some people think that the new neighbor is loud; others find him very friendly.",
    "Our family came from another country because there was no work at home.",
    "A good mechanic is careful, patient and honest, and does not ask for too much money.",
    "Women and men went to the church, the mosque and the temple on different days.",
    "I could not find my keys, so the young man next door helped me to open the window.",
    "She is strong and he is weak, she is rich and he is poor, or is it the other way?",
    "Black cats, white dogs and brown horses live on this old farm near the river.",
] * 3
ASCII = [chr(n) for n in range(33, 127)]
_SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
MODELS = {
    "gpt2": (transformers.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
    "bert-cased": (transformers.BertConfig, _SHAPE),
    "bert-uncased": (transformers.BertConfig, _SHAPE),
    # bias-bench puts a space before a word for a model of this name alone.
    "roberta-base": (transformers.RobertaConfig, _SHAPE),
}
#: A trained causal model beside the mirror. Its tokenizer begins every text with a special token, see the tool.
TRAINED = "stories260K"


def tokenizer(name):
    """A tokenizer of the form that the published models have, with a vocabulary from :data:`TEXT`."""
    if name.startswith("bert"):
        special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
        special["mask_token"] = "[MASK]"
        made = Tokenizer(models.WordPiece(_pieces([*special.values()], name == "bert-uncased"), unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=name == "bert-uncased")
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return PreTrainedTokenizerFast(tokenizer_object=made, **special)
    special = ["<|endoftext|>"] if name == "gpt2" else ["<s>", "<pad>", "</s>", "<unk>"]
    made = Tokenizer(models.BPE(unk_token=None if name == "gpt2" else "<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pieces = trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(TEXT, pieces)
    if name == "gpt2":
        made.post_processor = processors.ByteLevel(trim_offsets=False)
        return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=special[0], eos_token=special[0])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
    # The mask of RoBERTa takes the space before it. Training must not add it, because it would lose this property.
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(tokenizer_object=made, mask_token=mask, unk_token="<unk>", **names)


def _pieces(special, lowercase):
    """A WordPiece vocabulary with its ids. Training one gives another vocabulary each time."""
    lines = [line.lower() if lowercase else line for line in TEXT]
    words = sorted({word for line in lines for word in re.findall(r"\w\w+", line)})
    endings = sorted({f"##{word[-n:]}" for word in words for n in (2, 3)})
    pieces = [*special, *ASCII, *(f"##{letter}" for letter in ASCII), *words, *endings]
    return {piece: n for n, piece in enumerate(dict.fromkeys(pieces))}


def digest(words):
    """Names a tokenizer by its vocabulary: with another one the recorded numbers mean nothing."""
    return hashlib.sha256(json.dumps(words.get_vocab(), sort_keys=True).encode()).hexdigest()[:16]


def network(name, words):
    """A network with random weights that depend on their names alone, so not on the order of initialization."""
    made, settings = MODELS[name]
    ids = {k: getattr(words, k) for k in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = made(vocab_size=len(words), **settings, **{k: v for k, v in ids.items() if v is not None})
    kind = transformers.AutoModelForCausalLM if name == "gpt2" else transformers.AutoModelForMaskedLM
    result = kind.from_config(config)
    with torch.no_grad():
        for place, weights in result.named_parameters():
            drawn = np.random.default_rng(zlib.crc32(place.encode())).normal(size=tuple(weights.shape))
            norm = weights.dim() == 1 and place.endswith("weight")
            weights.copy_(torch.tensor(1 + 0.1 * drawn if norm else 0.3 * drawn))
    return result.float().eval()


def model(name):
    """A model to be compared, ready to be asked."""
    if name == TRAINED:
        return load(folder(TRAINED), dtype="float32", device="cpu")
    words = tokenizer(name)
    return Model(network(name, words), words, kind="causal" if name == "gpt2" else "masked", name=name)


def stereoset_rows():
    """The rows of the development set of StereoSet, intrasentence."""
    built = biaske._stereoset("intrasentence", mirrored("stereoset/dev"))
    return [{"id": r.id, "config": "stereoset", "split": r.split, **r.values} for r in built]


def crows_rows():
    """All pairs of CrowS-Pairs as published; the data set has those about gender, race and religion."""
    files = mirrored(biaske._CROWS_FILE)
    built = {r.id: {"split": r.split, **r.values} for r in biaske._crows(True, files)}
    rows = []
    for n, pair in enumerate(read.table(files[biaske._CROWS_FILE].path, biaske._CROWS_COLUMNS)):
        sentences = dict(zip(PAIRS, (pair["sent_more"], pair["sent_less"]), strict=True))
        other = {"domain": pair["bias_type"], "direction": pair["stereo_antistereo"], "writer": "", **sentences}
        row = built.get(f"crows-pairs-{n}", {"split": "test", **other})
        rows.append({"id": f"crows-pairs-{n}", "config": "crows_pairs-paper", **row})
    return rows


def crows(made):
    """The benchmark that is CrowS-Pairs as bias-bench defines it, for a kind of model."""
    return get("crows_pairs" if made.kind == "causal" else "crows_pairs_modified")


def scores(table):
    """The scores of the sentences of each row by its id; None for a pair that has none."""
    columns = [table[f"score_{label}"].tolist() for label in LABELS if f"score_{label}" in table]
    rows = zip(table["id"].tolist(), zip(*columns, strict=True), strict=True)
    return {row: None if np.isnan(values).any() else list(values) for row, values in rows}
