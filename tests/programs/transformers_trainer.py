"""Hugging Face's Trainer on two workers: a tiny GPT-2, its checkpoint loaded again."""

import json
import os
import sys

import numpy as np
import ray
import ray.train
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer

TOKENS = 24


def tiny_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(12)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=TOKENS, n_positions=8, n_embd=8, n_layer=1, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip


def train_loop(config):
    import transformers

    shard = ray.train.get_dataset_shard("train")
    arguments = transformers.TrainingArguments(
        output_dir=config["scratch"],
        max_steps=4,
        save_strategy="steps",
        save_steps=4,
        logging_strategy="steps",
        logging_steps=4,
        learning_rate=0.01,
        lr_scheduler_type="constant",
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        seed=3,
    )
    trainer = transformers.Trainer(
        tiny_model(), arguments, train_dataset=shard.iter_torch_batches(batch_size=16, dtypes=torch.int64)
    )
    trainer.add_callback(RayTrainReportCallback())
    prepare_trainer(trainer).train()


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    ids = np.arange(32)[:, None] * np.arange(1, 7) % TOKENS
    ds = ray.data.from_items([{"input_ids": one, "labels": one} for one in ids])
    result = TorchTrainer(
        train_loop,
        train_loop_config={"scratch": os.path.join(folder, "scratch")},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="transformers", storage_path=os.path.join(folder, "runs")),
        datasets={"train": ds},
    ).fit()
    from transformers import GPT2LMHeadModel

    with result.checkpoint.as_directory() as at:
        model = GPT2LMHeadModel.from_pretrained(os.path.join(at, "checkpoint"))
    with torch.inference_mode():
        loss = model(input_ids=torch.as_tensor(ids), labels=torch.as_tensor(ids)).loss
    print(
        json.dumps(
            {
                "step": result.metrics["step"],
                "train_loss": round(result.metrics["loss"], 2),
                "loss": round(loss.item(), 2),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
