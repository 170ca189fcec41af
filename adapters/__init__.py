if __name__ != "lethe.adapters":
    raise ImportError("import lethe.adapters: under its bare name each of its modules would exist twice")
