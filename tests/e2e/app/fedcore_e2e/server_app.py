from flwr.serverapp import ServerApp
app = ServerApp()
@app.main()
def main(grid, context):
    import time
    print("nodes", list(grid.get_node_ids()))
