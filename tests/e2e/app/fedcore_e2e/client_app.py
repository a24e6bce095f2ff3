from flwr.clientapp import ClientApp
app = ClientApp()
@app.train()
def train(msg, context): ...
