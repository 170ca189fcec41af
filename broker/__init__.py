if __name__ != "lethe.broker":
    raise ImportError("import lethe.broker: under its bare name each of its modules would exist twice")
