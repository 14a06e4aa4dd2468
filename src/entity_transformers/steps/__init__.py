"""The steps of the method, one module each: parameters, the run, tables and figures."""
