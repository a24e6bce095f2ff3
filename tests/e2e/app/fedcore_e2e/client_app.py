"""A client by the protocol alone: NumPy, a rate of samples per second, and faults on demand."""

import json
import os
import signal
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    began, age = time.monotonic(), time.time() - msg.metadata.created_at
    order = json.loads(msg.content["config"]["fedcore-order"])
    told = order["assignment"]
    own = context.node_config
    fault, number = own.get("fault", ""), told["base_version"] + 1
    if number >= 2:
        if fault == "raises":
            raise RuntimeError("this client always fails")
        if fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "hangs":
            time.sleep(3600)
    samples, rate = int(own.get("samples", 40)), float(own.get("rate", 1000.0))
    data = np.random.default_rng(int(own["partition-id"]))
    x = data.normal(size=(samples, 5)).astype(np.float32)
    y = (x[:, :3] + 0.1 * x[:, 2:]).argmax(1)
    weight, bias = (msg.content["arrays"][name].numpy().copy() for name in ("weight", "bias"))
    left = (order["deadline"] - min(max(age, 0.0), order["deadline"]) - order["back"]) * 0.98
    planned = sum(
        phase["epochs"] * min(samples, phase["coreset"]["budget"] if phase["coreset"] else samples)
        for phase in told["plan"]["phases"]
    )
    work = 0
    for number_of_step in range(planned // 8):
        if time.monotonic() - began + 8 / rate > left:
            break
        time.sleep(8 / rate)
        rows = np.arange(8 * number_of_step, 8 * number_of_step + 8) % samples
        scores = x[rows] @ weight.T + bias
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        chances[np.arange(8), y[rows]] -= 1
        weight -= 0.1 * (chances.T @ x[rows] / 8).astype(np.float32)
        bias -= 0.1 * chances.mean(0).astype(np.float32)
        work += 8
    spent = time.monotonic() - began
    if fault == "nan":
        weight[0, 0] = np.nan
    report = {
        "num-examples": samples,
        "ticket": order["ticket"],
        "base-version": told["base_version"],
        "steps": work // 8,
        "work": work,
        "training-seconds": spent,
        "age": age,
        "handler-seconds": spent,
        "loss-sum": 0.0,
        "loss-square-sum": 0.0,
        "loss-count": 0,
        "coreset-size": 0,
        "gradient-error": -1.0,
        "fell-back": 0,
        "cut-short": int(work < planned // 8 * 8),
    }
    arrays = ArrayRecord({"weight": Array(weight), "bias": Array(bias)})
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord(report)})
    return Message(content, reply_to=msg)
