"""HDFS as two small HTTP servers over a folder, for the tests of hdfs://: a NameNode, and a DataNode."""

import json
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from object_server import ObjectServer


class DataNode(ObjectServer):
    """Sends ranges as 200, without an ETag. Knows only who the redirect's URL says."""

    names: "NameNode"

    def _good(self, handler, path, number):
        query = {k: v[0] for k, v in parse_qs(urlsplit(handler.path).query).items()}
        if "Range" in handler.headers or query.get("op") != "OPEN" or "namenoderpcaddress" not in query:
            return self.status(handler, 400)
        if not self.names.knows(query):
            return self.status(handler, 403)
        path = self.root / unquote(urlsplit(handler.path).path).removeprefix("/webhdfs/v1/")
        begin = int(query.get("offset", 0))
        data = path.read_bytes()[begin:]
        data = data[: int(query.get("length", len(data)))]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        self.requests[number] = (handler.command, handler.path, begin, len(data))
        handler.wfile.write(data)
        return None


class NameNode(ObjectServer):
    """user, token: who may read; None: everybody. refusal: the status and exception of each answer."""

    user = token = refusal = None

    def __init__(self, root):
        self.data = DataNode(root)
        self.data.names = self
        super().__init__(root)
        self.host = self.url.removeprefix("http://")

    def close(self):
        super().close()
        self.data.close()

    def knows(self, query):
        return query.get("user.name") == self.user and query.get("delegation") == self.token

    def _good(self, handler, path, number):
        parts = urlsplit(handler.path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        key = unquote(parts.path).removeprefix("/webhdfs/v1/")
        path = self.root / key
        if self.refusal:
            return self.refuse(handler, *self.refusal)
        if not self.knows(query):
            return self.refuse(handler, 403, "AccessControlException", f"Permission denied: inode=/{key}")
        if not path.exists():
            return self.refuse(handler, 404, "FileNotFoundException", f"File does not exist: /{key}")
        if query["op"] == "OPEN":
            query["namenoderpcaddress"] = "localhost:8020"
            where = f"{self.data.url}/webhdfs/v1/{quote(key)}?{urlencode(query)}"
            return self.status(handler, 307, Location=where)
        if query["op"] == "GETFILESTATUS":
            return self.send(handler, {"FileStatus": self.file_status(path, "")})
        assert query["op"] == "LISTSTATUS"
        names = sorted((p.name for p in path.iterdir()), reverse=True)
        found = [self.file_status(path / name, name) for name in names]
        return self.send(handler, {"FileStatuses": {"FileStatus": found}})

    @staticmethod
    def file_status(path, name):
        info = path.stat()
        return {
            "accessTime": 1, "blockSize": 134217728, "childrenNum": 0, "fileId": 16389, "group": "g{}[]\"",
            "length": 0 if path.is_dir() else info.st_size, "modificationTime": info.st_mtime_ns // 1_000_000,
            "owner": "o", "pathSuffix": name, "permission": "644", "replication": 3,
            "type": "DIRECTORY" if path.is_dir() else "FILE",
        }  # fmt: skip

    def refuse(self, handler, code, name, message="refused"):
        java = f"org.apache.hadoop.ipc.{name}"
        return self.send(
            handler,
            {"RemoteException": {"exception": name, "javaClassName": java, "message": message}},
            code,
        )

    def send(self, handler, value, code=200):
        body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        handler.wfile.write(body)
        return True
