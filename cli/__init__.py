if __name__ != "lethe.cli":
    raise ImportError("import lethe.cli: under its bare name each of its modules would exist twice")
