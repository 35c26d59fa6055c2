"""The small S3 server for the libraries of others: deltalake, pylance and pyiceberg speak to it by their own
clients, which ask for more than the engine does.
"""

import io
import re
from html import escape

from object_server import S3Server

MODIFIED = "2026-01-01T00:00:00.000Z"


class SdkServer(S3Server):
    """Lists have folders and times, objects have Last-Modified, bodies come in chunks, many keys are removed
    by one request."""

    def _wrong(self, handler, of=None):
        """The clients' signatures are their own matter: the key alone is looked at."""
        found = re.search(r"Credential=(.+?)/", handler.headers.get("Authorization", ""))
        return None if found and found[1] == self.key else "InvalidAccessKeyId"

    def answer(self, handler):
        rest, body = handler.rfile, self._body(handler)
        del handler.headers["Content-Length"]
        handler.headers["Content-Length"] = str(len(body))
        handler.rfile = io.BytesIO(body)
        try:
            return super().answer(handler)
        finally:
            handler.rfile = rest

    @classmethod
    def _body(cls, handler):
        if handler.headers.get("Transfer-Encoding") == "chunked":
            body = cls._chunks(handler.rfile)
            handler.rfile.readline()
        else:
            body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        if "aws-chunked" in handler.headers.get("Content-Encoding", ""):
            body = cls._chunks(io.BytesIO(body))
        return body

    @staticmethod
    def _chunks(file):
        out = b""
        while n := int(file.readline().split(b";")[0], 16):
            out += file.read(n)
            file.readline()
        return out

    def _good(self, handler, path, number):
        self.metadata.setdefault(path, {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})
        return super()._good(handler, path, number)

    def _do_create(self, handler, path, query):
        if "delete" not in query:
            return super()._do_create(handler, path, query)
        keys = re.findall(r"<Key>(.*?)</Key>", handler.body.decode())
        for key in keys:
            self.file(f"{path.strip('/')}/{key}").unlink(missing_ok=True)
        found = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return 200, {}, f"<DeleteResult>{found}</DeleteResult>"

    def _list(self, handler, bucket, query):
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        behind = query.get("start-after", [""])[0]
        files = {k: p for k, p in self.objects(bucket).items() if k.startswith(prefix) and k > behind}
        lines, folders = [], {}
        for key in sorted(files, key=str.encode):
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if found:
                folders[f"{prefix}{head}{delimiter}"] = None
                continue
            tag, size = escape(self.etag(files[key])), files[key].stat().st_size
            lines.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{MODIFIED}</LastModified><ETag>{tag}</ETag>"
                f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
        lines += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders]
        head = f"<Name>{bucket}</Name><KeyCount>{len(lines)}</KeyCount><IsTruncated>false</IsTruncated>"
        body = f"<ListBucketResult>{head}{''.join(lines)}</ListBucketResult>".encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/xml")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
