"""Data and model of an experiment, checked before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedcore import plugins
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadData, BadOption
from fedcore.sources.clients import LazyClients
from fedcore.sources.samples import check_alike
from fedcore.task import Task
from fedcore.types import ClientData, ClientId, FederatedDataset, Params


@dataclass(frozen=True, slots=True)
class Federation:
    """Data and model of an experiment: what all its strategies share."""

    dataset: FederatedDataset
    task: Task
    proxy: str  # what the model says can stand in for its gradients
    initial: Params


def federation_from_model(dataset: FederatedDataset, model_name: str, seed: int) -> Federation:
    """Data plus the named model, initialised from ``seed``."""
    dataset = check_dataset(dataset)
    module = plugins.load("model", model_name)
    example = next(iter(dataset.clients.values())).take(slice(0, 1))[0][0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # as the authors do: their seeds give their initial models
        model = module.build(example, dataset.num_classes)
    return federate(dataset, model)


def federate(dataset: FederatedDataset, model: nn.Module, head: str | None = None) -> Federation:
    """Data plus a model as it is; its parameters are where training starts."""
    task = Task(model, head)
    initial = task.initial_params()
    if not initial:
        raise BadOption("model has no parameter to train; give it one that is not frozen")
    return Federation(dataset, task, natural_proxy(model), initial)


def natural_proxy(model: nn.Module) -> str:
    """Section 4.3: inputs for models that are one linear layer, dL/dz for all others."""
    trained = [module for module in model.modules() if any(True for _ in module.parameters(False))]
    convex = len(trained) == 1 and type(trained[0]) is nn.Linear
    return STATIC if convex else LAST_LAYER_INPUT


def check_dataset(dataset: FederatedDataset) -> FederatedDataset:
    """Refuse data that no model can train on, naming the client that has it.

    Returns:
        The dataset; clients that are loaded on demand are checked when that happens, against
        the first of them, which is loaded here.
    """
    if not dataset.clients:
        raise BadData("clients must hold at least one client, got none")
    first, data = next(iter(dataset.clients.items()))
    example = data.x.new_empty((0, *data.x.shape[1:]))  # what all samples must look like

    def check(owner: str, data: ClientData) -> ClientData:
        _check_data(owner, data, dataset.num_classes)
        check_alike(owner, data.x, f"client {first}", example)
        return data

    def check_client(client: ClientId, data: ClientData) -> ClientData:
        return check(f"client {client}", data)

    if isinstance(dataset.clients, LazyClients):
        dataset = replace(dataset, clients=dataset.clients.map(check_client))
    else:
        for client, data in dataset.clients.items():
            check_client(client, data)
    if dataset.test is not None:
        check("the test set", dataset.test)
    return dataset


def _check_data(owner: str, data: ClientData, num_classes: int) -> None:
    if len(data.x) != len(data.y):
        raise BadData(f"{owner} has {len(data.x)} inputs but {len(data.y)} labels; each needs one")
    if data.rows is not None and not _are_rows(data.rows, len(data.y)):
        raise BadData(f"rows of {owner} must be whole numbers from 0 to {len(data.y) - 1}")
    if len(data) == 0:
        raise BadData(f"{owner} has no samples; leave it out")
    if data.x.is_floating_point() and not bool(torch.isfinite(data.x).all()):
        raise BadData(f"{owner} has NaN or infinity among its inputs; clean or drop those samples")
    if data.y.is_floating_point() or data.y.dim() != 1:
        raise BadData(f"labels of {owner} must be one whole number per sample")
    low, high = int(data.labels.min()), int(data.labels.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise BadData(f"{owner} has label {wrong}; labels must be 0 to {num_classes - 1}")


def _are_rows(rows: Tensor, available: int) -> bool:
    if rows.dim() != 1 or rows.dtype not in (torch.int32, torch.int64):
        return False
    return bool(((rows >= 0) & (rows < available)).all())
