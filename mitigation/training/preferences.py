"""Preference tuning of a LoRA through TRL, on rows of token ids."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import torch
from peft import LoraConfig
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from mitigation.cost import trained_parameters
from scoring.adapters.attach import quiet, without_remarks, wrap
from scoring.inference.model import Model

# TRL would tell the Hub that a model is trained.
huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True


class TokenTrainer(DPOTrainer):
    """TRL's trainer on rows that are tokenized already; TRL would end each completion with the end-of-text token."""

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset

    def _precompute_ref_logps(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset  # the base model has been asked before


def train(
    model: Model, rows: Sequence[Mapping[str, Any]], folder: Path, rank: int, alpha: int, **arguments: Any
) -> tuple[Any, list[dict[str, float]], int]:
    """The network with a trained LoRA, the terms of the loss of each step, and the number of trained parameters.

    Parameters
    ----------
    rows:
        Token ids by ``prompt_ids``, ``chosen_ids`` and ``rejected_ids``, and the base model's log-probabilities by
        ``ref_chosen_logps`` and ``ref_rejected_logps``.
    folder:
        Of checkpoints; an interrupted training goes on from the last one.
    rank, alpha, arguments:
        Of the LoRA, and of :class:`trl.DPOConfig`.
    """
    torch.manual_seed(arguments["seed"])
    bare = model.network
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    # The trainer changes these, and puts another method in the place of ``forward``.
    configs = [vars(bare.config), vars(bare.config.get_text_config()), vars(bare.generation_config)]
    before = [dict(config) for config in configs]
    tuned = wrap(bare, lora)
    try:
        with quiet(), without_remarks():
            config = DPOConfig(
                output_dir=str(folder),
                **arguments,
                max_length=None,
                save_total_limit=1,
                logging_steps=1,
                report_to="none",
                disable_tqdm=True,
                use_cpu=model.device.type == "cpu",
                bf16=False,
                gradient_checkpointing=False,
                disable_dropout=False,  # it would not be set back
                precompute_ref_log_probs=True,
                dataloader_pin_memory=False,
            )
            trainer = TokenTrainer(
                model=tuned,
                args=config,
                train_dataset=datasets.Dataset.from_list([dict(row) for row in rows]),
                processing_class=copy.deepcopy(model.tokens.tokenizer),  # TRL sets its padding token
            )
            trainer.remove_callback(PrinterCallback)
            trained = trained_parameters(tuned)
            last = get_last_checkpoint(str(folder)) if folder.is_dir() else None  # type: ignore[no-untyped-call]
            trainer.train(resume_from_checkpoint=last)
            tuned.delete_adapter("ref")  # TRL's copy of the start, which changes nothing
    except BaseException:
        model.network = tuned.unload().eval()
        raise
    finally:
        vars(bare).pop("forward", None)
        for changed, content in zip(configs, before, strict=True):
            changed.clear()
            changed.update(content)
    terms = [{"loss": entry["loss"]} for entry in trainer.state.log_history if "loss" in entry]
    return tuned, terms, trained
