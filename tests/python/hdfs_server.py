"""HDFS as two small HTTP servers over a folder, for the tests of hdfs://: a NameNode, and a DataNode."""

import itertools
import json
import os
import shutil
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from object_server import ObjectServer


def query_of(handler):
    return {k: v[0] for k, v in parse_qs(urlsplit(handler.path).query).items()}


def key_of(handler):
    return unquote(urlsplit(handler.path).path).removeprefix("/webhdfs/v1/")


class DataNode(ObjectServer):
    """Sends ranges as 200, without an ETag, and takes files. Knows only who the redirect's URL says."""

    names: "NameNode"

    def _good(self, handler, path, number):
        handler.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        query, key = query_of(handler), key_of(handler)
        if "Range" in handler.headers or "namenoderpcaddress" not in query:
            return self.status(handler, 400)
        if not self.names.knows(query):
            return self.status(handler, 403)
        if (handler.command, query.get("op")) == ("PUT", "CREATE"):
            return self.names.write(handler, "CREATE", key, query)
        if (handler.command, query.get("op")) != ("GET", "OPEN"):
            return self.status(handler, 400)
        begin = int(query.get("offset", 0))
        data = (self.root / key).read_bytes()[begin:]
        data = data[: int(query.get("length", len(data)))]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        self.requests[number] = (handler.command, handler.path, begin, len(data))
        handler.wfile.write(data)
        return None


class Refused(Exception):
    """status, exception, message."""


class NameNode(ObjectServer):
    """user, token: who may read; None: everybody. refusal: the status and exception of each answer.

    on_write(kind, path, handler), of what is written, may answer itself (True), or be "lose": the request is
    done, and its answer is lost. The kind is the operation; CREATE comes when the DataNode has all bytes.
    """

    user = token = refusal = on_write = None
    has_attributes = True

    def __init__(self, root):
        self.ids = {}  # numbers of files that were written here, by path
        self.attributes = {}  # by number and name
        self.next_id = itertools.count(1 << 40)
        self.written = []  # (kind, key)
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
        handler.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        query, key = query_of(handler), key_of(handler)
        path, op = self.root / key, query["op"]
        if self.refusal:
            return self.refuse(handler, *self.refusal)
        if not self.knows(query):
            return self.refuse(handler, 403, "AccessControlException", f"Permission denied: inode=/{key}")
        if handler.command == "GET" and not path.exists():
            return self.refuse(handler, 404, "FileNotFoundException", f"File does not exist: /{key}")
        if op in ("OPEN", "CREATE"):
            assert not handler.body  # it would be thrown away
            query["namenoderpcaddress"] = "localhost:8020"
            where = f"{self.data.url}/webhdfs/v1/{quote(key)}?{urlencode(query)}"
            return self.status(handler, 307, Location=where)
        if handler.command != "GET":
            return self.write(handler, op, key, query)
        with self.lock:
            code, value = self._look(path, op, query)
        return self.send(handler, value) if code == 200 else self.refuse(handler, code, *value)

    def _look(self, path, op, query):
        if not path.exists():
            return 404, ("FileNotFoundException", f"File does not exist: {path}")
        if op == "GETFILESTATUS":
            return 200, {"FileStatus": self.file_status(path, "")}
        if op == "GETXATTRS":
            value = self.attributes.get((self.number_of(path), query["xattr.name"]))
            if value is None:
                return 403, ("XAttrNotFoundException", "At least one was not found.")
            return 200, {"XAttrs": [{"name": query["xattr.name"], "value": value}]}
        assert op == "LISTSTATUS"
        names = sorted((p.name for p in path.iterdir()), reverse=True) if path.is_dir() else [""]
        found = [self.file_status(path / name, name) for name in names]
        return 200, {"FileStatuses": {"FileStatus": found}}

    def number_of(self, path):
        return self.ids.get(path) or path.stat().st_ino

    def file_status(self, path, name):
        info = path.stat()
        return {
            "accessTime": 1, "blockSize": 134217728, "childrenNum": 0, "fileId": self.number_of(path),
            "group": "g{}[]\"",
            "length": 0 if path.is_dir() else info.st_size, "modificationTime": info.st_mtime_ns // 1_000_000,
            "owner": "o", "pathSuffix": name, "permission": "644", "replication": 3,
            "type": "DIRECTORY" if path.is_dir() else "FILE",
        }  # fmt: skip

    # Writing.

    def write(self, handler, op, key, query):
        hook = self.on_write and self.on_write(op, key, handler)
        if hook is True:
            return True
        with self.lock:
            self.written.append((op, key))
            try:
                code, value = getattr(self, "_do_" + op.lower())(self.root / key, query, handler.body)
            except Refused as e:
                code, value = None, e.args
        if hook == "lose":
            handler.close_connection = True
            return True
        if code is None:
            return self.refuse(handler, *value)
        if value is None:
            where = {"Location": f"hdfs://localhost:8020/{quote(key)}"} if code == 201 else {}
            return self.status(handler, code, **where)
        return self.send(handler, value, code)

    def _folder(self, path):
        """Makes the folder, and those above it."""
        above = path
        while not above.exists():
            above = above.parent
        if not above.is_dir():
            raise Refused(403, "ParentNotDirectoryException", f"{above} (is not a directory)")
        path.mkdir(parents=True, exist_ok=True)

    def _do_create(self, path, query, body):
        if path.is_dir():
            raise Refused(403, "FileAlreadyExistsException", f"{path} already exists as a directory")
        if path.exists() and query.get("overwrite") != "true":
            raise Refused(403, "FileAlreadyExistsException", f"{path} for client 127.0.0.1 already exists")
        self._folder(path.parent)
        path.unlink(missing_ok=True)
        path.write_bytes(body)
        self.ids[path] = next(self.next_id)
        return 201, None

    def _do_mkdirs(self, path, query, body):
        if path.is_file():
            raise Refused(403, "FileAlreadyExistsException", f"Path is not a directory: {path}")
        self._folder(path)
        return 200, {"boolean": True}

    def _do_rename(self, path, query, body):
        to, option = self.root / query["destination"].removeprefix("/"), query["renameoptions"]
        if not path.exists():
            raise Refused(404, "FileNotFoundException", f"rename source {path} is not found.")
        if to.exists() and to.is_dir() != path.is_dir():
            raise Refused(403, "IOException", f"Source {path} and destination {to} must both be directories")
        if to.exists() and option == "NONE":
            raise Refused(403, "FileAlreadyExistsException", f"rename destination {to} already exists")
        if to.is_dir() and any(to.iterdir()):
            raise Refused(403, "IOException", f"rename destination directory is not empty: {to}")
        if not to.parent.is_dir():
            raise Refused(404, "FileNotFoundException", f"rename destination parent {to.parent} not found.")
        moved = {p: n for p, n in self.ids.items() if p == path or path in p.parents}
        os.replace(path, to)
        self.ids.pop(to, None)
        for old, number in moved.items():
            del self.ids[old]
            self.ids[to / old.relative_to(path) if old != path else to] = number
        return 200, None

    def _do_concat(self, path, query, body):
        sources = [self.root / s.removeprefix("/") for s in query["sources"].split(",")]
        for one in [path, *sources]:
            if not one.is_file():
                raise Refused(404, "FileNotFoundException", f"File does not exist: {one}")
            if one.parent != path.parent or one.stat().st_size == 0:
                raise Refused(400, "IllegalArgumentException", f"concat: source file {one} is invalid")
        with open(path, "ab") as file:
            for one in sources:
                file.write(one.read_bytes())
                one.unlink()
        return 200, None

    def _do_delete(self, path, query, body):
        if not path.exists():
            return 200, {"boolean": False}
        if path.is_file():
            path.unlink()
        elif query.get("recursive") == "true":
            shutil.rmtree(path)
        elif any(path.iterdir()):
            raise Refused(403, "PathIsNotEmptyDirectoryException", f"`{path} is non empty': Directory")
        else:
            path.rmdir()
        self.ids = {p: n for p, n in self.ids.items() if p != path and path not in p.parents}
        return 200, {"boolean": True}

    def _do_setxattr(self, path, query, body):
        name = query["xattr.name"]
        if not self.has_attributes:
            raise Refused(403, "IOException", "The XAttr operation has been rejected.  Support for XAttrs")
        if not path.exists():
            raise Refused(404, "FileNotFoundException", f"File does not exist: {path}")
        if (self.number_of(path), name) in self.attributes and query["flag"] == "CREATE":
            words = f"XAttr: {name} already exists. The REPLACE flag must be specified."
            raise Refused(403, "IOException", words)
        self.attributes[self.number_of(path), name] = query["xattr.value"]
        return 200, None

    def _do_removexattr(self, path, query, body):
        del self.attributes[self.number_of(path), query["xattr.name"]]
        return 200, None

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
