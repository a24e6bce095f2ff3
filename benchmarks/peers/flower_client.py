"""Flower's side of a client; a module of its own, so that Ray's actors import it once."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.peers.work import Work, build_model, set_weights, train_client, weights_of

WORK_FILE = "FEDCORE_PEERS_WORK"  # environment variables: they reach the actors as well
THREADS = "FEDCORE_PEERS_THREADS"

app = ClientApp()


@functools.cache
def work_at_hand() -> Work:
    """The work, read once per actor, as a simulation that keeps data in memory would."""
    torch.set_num_threads(int(os.environ[THREADS]))
    return Work.read(Path(os.environ[WORK_FILE]))


@functools.cache
def model_at_hand() -> torch.nn.Module:
    return build_model(work_at_hand().model)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the client that the message names, whichever node got it."""
    work, model = work_at_hand(), model_at_hand()
    config = message.content.config_records["config"]
    client, number = config["client"], config["round"]
    assert isinstance(client, int)
    assert isinstance(number, int)
    set_weights(model, message.content.array_records["arrays"].to_numpy_ndarrays())
    train_client(model, work, number, client)
    content = RecordDict(
        {
            "arrays": ArrayRecord(numpy_ndarrays=weights_of(model)),
            "metrics": MetricRecord({"num-examples": int(work.sizes[client])}),
        }
    )
    return Message(content=content, reply_to=message)
