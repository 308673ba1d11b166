"""How an agent thinks: the tools it has, and the strategies by which its model uses them."""
