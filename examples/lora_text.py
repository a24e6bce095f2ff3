"""A small transformer that classifies texts, with LoRA: only what is trained is sent.

    pip install transformers peft
    python examples/lora_text.py

The model is built from a configuration, so nothing is downloaded; texts are made up.
"""

import sys
from importlib.util import find_spec

import numpy as np
import torch

import fedcore

PRAISE = ["good", "great", "fine", "superb", "lovely", "happy", "warm", "bright", "kind"]
BLAME = ["bad", "awful", "poor", "dull", "ugly", "sad", "cold", "grim", "rude"]
OTHER = ["the", "a", "film", "book", "song", "it", "was", "very", "quite", "and", "so", "but"]
LENGTH = 12
VOCABULARY = {word: number for number, word in enumerate([*PRAISE, *BLAME, *OTHER], 1)}


def texts(count: int, draws: np.random.Generator) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Token numbers with a mask, padded, and whether a text praises or blames."""
    labels, lines = draws.integers(2, size=count), []
    for label in labels:
        told = draws.choice(PRAISE if label else BLAME, size=draws.integers(1, 4))
        rest = draws.choice(OTHER, size=draws.integers(3, LENGTH - 3))
        lines.append(draws.permutation(np.concatenate([told, rest])))
    ids = torch.zeros(count, LENGTH, dtype=torch.int64)
    mask = torch.zeros(count, LENGTH, dtype=torch.int64)
    for row, line in enumerate(lines):
        ids[row, : len(line)] = torch.tensor([VOCABULARY[word] for word in line])
        mask[row, : len(line)] = 1
    return {"input_ids": ids, "attention_mask": mask}, torch.from_numpy(labels)


def main() -> None:
    """Build, train, and say what was sent."""
    missing = [name for name in ("transformers", "peft") if find_spec(name) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} not installed; pip install transformers peft")
    from peft import LoraConfig, get_peft_model
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": LENGTH}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_labels": 2}
    config = BertConfig(vocab_size=1 + len(VOCABULARY), **sizes, **heads)
    adapted = LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"])
    model = get_peft_model(BertForSequenceClassification(config), adapted)
    draws = np.random.default_rng(0)
    clients = [texts(int(count), draws) for count in draws.integers(20, 150, size=10)]
    history = fedcore.simulate(
        clients,
        model,
        test=texts(300, draws),
        strategy="fedcore",
        rounds=8,
        epochs=3,
        clients_per_round=5,
        optimiser="adam",
        learning_rate=0.01,
        metrics=["f1"],
    )
    last, everything = history.rounds[-1], sum(p.numel() for p in model.parameters())
    sent = last.ending.model_bytes if last.ending else 0
    print(f"accuracy {last.test_accuracy:.1%}, F1 {last.metrics['f1']:.3f}")
    print(f"sent each way: {sent:,} bytes of {4 * everything:,}")


if __name__ == "__main__":
    main()
