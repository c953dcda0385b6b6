"""Tokenizers with chat templates in the shape of several families of models, written for these tests."""

import copy
from functools import cache

from tests.scoring import models

EACH = "{% for m in messages %}"
END = "{% endfor %}"
HEADER = "{% if add_generation_prompt %}"
#: Templates in the shape of families: the tokenizer they go with, the text, the tokens they add to it, and
#: whether they take a system text.
FAMILIES = {
    "llama-2": (
        "llama",
        "{% set system = '' %}{% if messages[0].role == 'system' %}"
        "{% set system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}"
        "{% set messages = messages[1:] %}{% endif %}"
        f"{EACH}{{% if m.role == 'user' %}}{{{{ bos_token + '[INST] ' + system + m.content + ' [/INST]' }}}}"
        f"{{% else %}}{{{{ ' ' + m.content + ' ' + eos_token }}}}{{% endif %}}{END}",
        [],
        True,
    ),
    "llama-3": (
        "opt",
        f"{{{{ bos_token }}}}{EACH}{{{{ '<|head|>' + m.role + '<|end|>\n\n' + m.content | trim + '<|eot|>' }}}}{END}"
        f"{HEADER}{{{{ '<|head|>assistant<|end|>\n\n' }}}}{{% endif %}}",
        ["<|head|>", "<|end|>", "<|eot|>"],
        True,
    ),
    "chatml": (
        "gpt2",
        f"{EACH}{{{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}}}{END}"
        f"{HEADER}{{{{ '<|im_start|>assistant\n' }}}}{{% endif %}}",
        ["<|im_start|>", "<|im_end|>"],
        True,
    ),
    "mistral": (
        "llama",
        f"{{{{ bos_token }}}}{EACH}{{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}}"
        "{{ raise_exception('Roles must alternate between user and assistant.') }}{% endif %}"
        f"{{% if m.role == 'user' %}}{{{{ '[INST] ' + m.content + ' [/INST]' }}}}"
        f"{{% else %}}{{{{ ' ' + m.content + eos_token }}}}{{% endif %}}{END}",
        ["[INST]", "[/INST]"],
        False,
    ),
    "no space": (
        "llama",
        f"{{{{ bos_token }}}}{EACH}{{% if m.role == 'user' %}}{{{{ '[INST] ' + m.content + ' [/INST]' }}}}"
        f"{{% else %}}{{{{ m.content + eos_token }}}}{{% endif %}}{END}",
        ["[INST]", "[/INST]"],
        False,
    ),
    "gemma": (
        "llama",
        "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        f"{{% endif %}}{EACH}{{{{ '<turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim "
        f"+ '</turn>\n' }}}}{END}{HEADER}{{{{ '<turn>model\n' }}}}{{% endif %}}",
        ["<turn>", "</turn>"],
        False,
    ),
}


@cache
def tokenizer(family):
    words, template, special, _ = FAMILIES[family]
    made = copy.deepcopy(models.tokenizer(words))
    made.add_special_tokens({"additional_special_tokens": special})
    made.chat_template = template
    return made
