"""Data and model of an experiment, checked before anything is trained."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from fedcore import plugins
from fedcore.arrays import check_alike
from fedcore.bundle import Inputs, parts_of
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadData, BadOption
from fedcore.losses import IGNORED, cross_entropy
from fedcore.sources.clients import GIVEN, LazyClients, Streamed, as_client, is_streamed, size_of
from fedcore.task import CLASSES, Task, Terms, outputs_of
from fedcore.types import ClientData, ClientId, FederatedDataset, Params
from fedcore.values import whole_number

MOST_OPENED = 1000  # Datasets that are opened to measure a model on everything
MOST_CLASSES = 1_000_000  # beyond it, labels are taken for something else than classes


@dataclass(frozen=True, slots=True)
class Federation:
    """Data and model of an experiment: what all its strategies share."""

    dataset: FederatedDataset
    task: Task
    proxy: str  # what the model says can stand in for its gradients
    initial: Params

    @property
    def model_bytes(self) -> int:
        """What is sent each way."""
        return sum(value.nbytes for value in self.initial.values())


def settled(terms: Terms, targets: Tensor) -> Terms:
    """Terms for such targets: a class for each of several positions has no fast path."""
    several = targets.dim() > 1 and targets.shape[1] > 1 and not targets.is_floating_point()
    return replace(terms, loss=cross_entropy) if several and terms.loss is None else terms


def federation_from_model(
    dataset: FederatedDataset,
    model_name: str,
    seed: int,
    method: plugins.Options = plugins.NONE,
    terms: Terms = CLASSES,
) -> Federation:
    """Data plus the named model, initialised from ``seed``; of ``method`` it gets what it takes."""
    dataset = check_dataset(dataset, terms=terms)
    x, y = next(iter(dataset.clients.values())).take(slice(0, 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # as the authors do: their seeds give their initial models
        known = next(iter(parts_of(x).values()))[0], dataset.num_classes
        model = plugins.build("model", model_name, nn.Module, *known, method=method)
    scored = try_out(Task(model, terms=settled(terms, y)), x, y)
    if scored != dataset.num_classes and terms.loss is None:
        there = dataset.num_classes
        raise BadOption(f"model {model_name!r} scores {scored} classes, but the data has {there}")
    return federate(dataset, model, None, terms)


def try_out(task: Task, x: Inputs, y: Tensor) -> int:
    """How many numbers a model ends in, with its loss, for one sample, if both can be trained."""
    # A copy, for a model may change when it is called; in training, some layers need more samples.
    task, classes = copy.deepcopy(task), task.terms.loss is None
    task.model.eval()
    with torch.enable_grad():
        found = outputs_of(partial(task.logits, {}), x, classes=classes)
        if not classes:
            task.losses(found, y)
    return found.shape[-1]


def federate(
    dataset: FederatedDataset, model: nn.Module, head: str | None = None, terms: Terms = CLASSES
) -> Federation:
    """Data plus a model as it is; its parameters are where training starts."""
    task = Task(model, head, settled(terms, next(iter(dataset.clients.values())).y))
    initial = task.initial_params()
    if not initial:
        raise BadOption("model has no parameter to train; give it one that is not frozen")
    # Section 4.3: inputs stand in for gradients where the loss is convex, as where one linear layer
    # holds all parameters, and where they can be held; dL/dz elsewhere.
    kinds = [type(module) for module in model.modules() if list(module.parameters(recurse=False))]
    static = kinds == [nn.Linear] and not is_streamed(dataset.clients)
    return Federation(dataset, task, STATIC if static else LAST_LAYER_INPUT, initial)


def check_dataset(
    dataset: FederatedDataset, floating: torch.dtype = torch.float32, terms: Terms = CLASSES
) -> FederatedDataset:
    """The dataset as tensors, refused where no model can train on it; lazy clients when loaded."""
    if not isinstance(dataset.clients, Mapping):
        got = f"got a {type(dataset.clients).__name__}; dict(enumerate(clients)) makes one"
        raise BadData(f"clients must be a dict of samples by client, {got}")
    if not dataset.clients:
        raise BadData("clients must hold at least one client, got none")
    classes = whole_number("the number of classes", dataset.num_classes, 1, MOST_CLASSES)
    given = [] if isinstance(dataset.clients, LazyClients) else list(dataset.clients.values())
    if any(isinstance(one, GIVEN) for one in given):
        sizes = [size_of(f"client {number}", one) for number, one in enumerate(given)]
        dataset = replace(dataset, clients=LazyClients(sizes, given.__getitem__))
    first = next(iter(dataset.clients))
    one = as_client(f"client {first}", dataset.clients[first], floating, classes=False)
    example, loss = one.x[:0], settled(terms, one.y).loss

    def checked(number: ClientId | None, data: ClientData, *, ragged: bool = False) -> ClientData:
        owner = "the test set" if number is None else f"client {number}"
        data = as_client(owner, data, floating, classes=loss is None)
        if isinstance(data, Streamed):
            ragged = data.collate is not default_collate  # which may pad each batch as it likes
            return replace(data, check=partial(checked, number, ragged=ragged))
        if len(data) == 0:
            raise BadData(f"{owner} has no samples; leave it out")
        if not all(bool(torch.isfinite(part).all()) for part in parts_of(data.x).values()):
            raise BadData(f"{owner} has NaN or infinity among its inputs; clean or drop those")
        labels = data.labels if loss is None else data.labels[data.labels != IGNORED]
        ends = (labels.min(), labels.max()) if loss in (None, cross_entropy) and len(labels) else ()
        for label in map(int, ends):
            if not 0 <= label < classes:
                raise BadData(f"{owner} has label {label}; labels must be 0 to {classes - 1}")
        if not ragged:
            check_alike(owner, data.x, f"client {first}", example)
        return data

    clients: Mapping[ClientId, ClientData]
    if isinstance(dataset.clients, LazyClients):
        clients = dataset.clients.map(checked)
        clients.hold([first])  # whom many ask what samples look like
        clients.costly = len(given) > MOST_OPENED or getattr(clients[first], "large", False)
    else:
        clients = {whole_number("client", n, 0): checked(n, x) for n, x in dataset.clients.items()}
    test = None if dataset.test is None else checked(None, dataset.test)
    return replace(dataset, clients=clients, test=test, num_classes=classes)
