"""The server: FedCore in place of FedAvg."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedcore.flower import FedCore
from flower_app.task import accuracy, build_model, load

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, with the server's own held-out data to see how it goes."""
    config = context.run_config
    dataset = load(str(config["benchmark"]), str(config["data-dir"]))
    model = build_model(dataset, str(config["benchmark"]))

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": accuracy(model, dataset)})

    nodes = int(config["min-nodes"])
    strategy = FedCore(
        fraction_evaluate=0.0,
        min_train_nodes=nodes,
        min_available_nodes=nodes,
        deadline=float(config["deadline"]) or "auto",
        grace=float(config["grace"]),
        clock=str(config["clock"]),
        local_epochs=int(config["local-epochs"]),
        strategy=str(config["strategy"]),
        checkpoint=str(config["checkpoint"]) or None,
        out=str(config["out"]) or None,
    )
    arrays = ArrayRecord(model.state_dict())
    rounds = int(config["num-rounds"])
    strategy.start(grid, arrays, num_rounds=rounds, evaluate_fn=evaluate)
