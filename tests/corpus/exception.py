def inner():
    raise ValueError("boom: über")


inner()
