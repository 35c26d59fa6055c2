"""WebDataset shards as they lie there: what the reading itself costs, without decoders."""

from workloads import webdataset as decoded

TITLE = "WebDataset, bytes"
DATA = "webdataset"
WHOLE = False


def headrace(data):
    return decoded.headrace(data, decoder=None)


def webdataset(data):
    return decoded.webdataset(data, decoder=None)
