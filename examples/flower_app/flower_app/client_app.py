"""The client: two lines make its rounds end on time."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedcore.flower import deadline_mod, fit, on_time
from flower_app.task import build_model, load, loader_of, train

app = ClientApp(mods=[deadline_mod])


@app.train()
def train_client(msg: Message, context: Context) -> Message:
    """Train as asked, and answer in time."""
    config, node = context.run_config, context.node_config
    benchmark, client = str(config["benchmark"]), int(node["partition-id"])
    dataset = load(benchmark, str(config["data-dir"]))
    model = build_model(dataset, benchmark)
    model.load_state_dict(msg.content.array_records["arrays"].to_torch_state_dict())
    rate, batch_size = float(config["learning-rate"]), int(config["batch-size"])
    if config["way"] == "exact":  # FedCore's own loop: plain SGD, as the simulator has it
        own = dataset.clients[client]
        return fit(model, own, msg, context, learning_rate=rate, batch_size=batch_size)
    round_number = msg.content.config_records["config"]["server-round"]
    assert isinstance(round_number, int)
    pause = float(node.get("pause", 0.0))
    if round_number >= int(node.get("slower-from", round_number + 1)):
        pause *= 3
    loader = loader_of(dataset, client, batch_size, pause)
    batches = on_time(loader, model, msg, context)  # the first line
    train(model, batches, rate)
    return batches.reply(model.state_dict())  # and the second
