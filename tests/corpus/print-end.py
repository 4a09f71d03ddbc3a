print("a", end="")
print("b", end="", flush=True)
