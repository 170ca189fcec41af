if __name__ != "lethe.controller":
    raise ImportError("import lethe.controller: under its bare name each of its modules would exist twice")
