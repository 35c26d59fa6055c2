"""Google's and Azure's stores as small HTTP servers over a folder, for the tests of gs:// and az://."""

import base64
import hashlib
import hmac
import re
from html import escape
from urllib.parse import parse_qs, quote, unquote, urlsplit

from object_server import ObjectServer, S3Server


class GsServer(S3Server):
    """Google's XML API: like S3's, with a token, or with an HMAC key and either provider's signature."""

    bearer = "ya29.token"
    tokens: frozenset = frozenset()  # that are good as well
    statuses = {"InvalidToken": 401}
    region = "auto"
    dialects = {**S3Server.dialects, "GOOG4": ("storage", "goog4_request", "x-goog")}

    def _wrong(self, handler, of=None):
        names = {name.lower()[:6] for name in handler.headers}
        if handler.command in ("GET", "HEAD") and handler.headers.get("Accept-Encoding") != "gzip":
            return "ObjectsWouldBeDecompressed"
        if "x-amz-" in names and "x-goog" in names:
            return "ExcessHeaderValues"
        given = handler.headers.get("Authorization", "")
        if given.startswith("Bearer "):
            return None if given[7:] in {self.bearer, *self.tokens} else "InvalidToken"
        return super()._wrong(handler, of)

    def _store(self, handler, path, data, tag):
        file = self.file(path.lstrip("/"))
        if "If-Match" in handler.headers or "If-None-Match" in handler.headers:
            return self._error(400, "ConditionsAreOfGenerations")
        there = self.metadata.get(file, {}).get("x-goog-generation", "1") if file.exists() else "0"
        if handler.headers.get("x-goog-if-generation-match", there) != there:
            return self._error(412, "PreconditionFailed")
        self.metadata[file] = {"x-goog-generation": str(next(self.numbers) + 2)}
        return super()._store(handler, path, data, tag)

    def _do_complete(self, handler, path, query):
        status, headers, body = super()._do_complete(handler, path, query)
        file = self.file(path.lstrip("/"))
        if status == 200:
            self.etags[file] = f'"-{hashlib.md5(file.read_bytes()).hexdigest()}="'  # no number of parts
        return status, headers, body


class AzServer(ObjectServer):
    """Azure's Blob API, the account's key checked; the folders below `root` are containers, the first part
    of the path is the account. sas: a query that stands for a signature. folders: keys that are none."""

    account, key, sas, bearer = "acct", base64.b64encode(b"k" * 64).decode(), None, None
    page = 5000
    tokens: frozenset = frozenset()
    public: frozenset = frozenset()
    folders: frozenset = frozenset()
    on_write = None

    def __init__(self, root):
        self.blocks = {}  # by path: {id: bytes}
        self.committed = {}  # likewise
        super().__init__(root)

    def etag(self, path):
        return self.etags.get(path, f'"0x{path.stat().st_mtime_ns:X}"')

    def answer(self, handler):
        parts = urlsplit(handler.path)
        handler.body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        account, _, path = unquote(parts.path).lstrip("/").partition("/")
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        wrong = account != self.account and "InvalidUri"
        if not wrong and path.partition("/")[0] not in self.public:
            wrong = self._wrong(handler, parts)
        if wrong:
            self.requests.append((handler.command, handler.path, -1, 0))
            return self.refuse(handler, 401 if wrong == "InvalidAuthenticationInfo" else 403, wrong)
        if query.get("comp") == "list":
            self.requests.append(("LIST", handler.path, -1, 0))
            return self._list(handler, path, query)
        handler.path = "/" + quote(path)
        if handler.command in ("PUT", "DELETE"):
            return self._write(handler, path, query)
        if path.partition("/")[2] in self.folders:
            self.requests.append((handler.command, handler.path, -1, 0))
            return self.status(handler, 200, **{"x-ms-meta-hdi_isfolder": "true"})
        if not self.file(path).is_file():
            self.requests.append((handler.command, handler.path, -1, 0))
            return self.refuse(handler, 404, "BlobNotFound")
        return super().answer(handler)

    def refuse(self, handler, code, name):
        body = (
            f"\ufeff<?xml?><Error><Code>{name}</Code><Message>refused\nRequestId:1</Message></Error>".encode()
        )
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("x-ms-error-code", name)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
        return True

    def _wrong(self, handler, parts):
        """What is wrong with the signature; None: nothing."""
        headers = handler.headers
        given = headers.get("Authorization", "")
        if not headers.get("x-ms-version") or not headers.get("x-ms-date"):
            return "MissingRequiredHeader"
        if self.sas and parts.query.endswith(self.sas):
            return None
        if given.startswith("Bearer "):
            return None if given[7:] in {self.bearer, *self.tokens} else "InvalidAuthenticationInfo"
        names = [
            "Content-Encoding",
            "Content-Language",
            "Content-Length",
            "Content-MD5",
            "Content-Type",
            "Date",
        ]
        names += ["If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"]
        values = [headers.get(n, "") for n in names]
        values[2] = "" if values[2] == "0" else values[2]
        own = sorted((n.lower(), v.strip()) for n, v in headers.items() if n.lower().startswith("x-ms-"))
        query = [p.partition("=") for p in parts.query.split("&") if p]
        text = "\n".join(
            [handler.command, *values, *(f"{n}:{v}" for n, v in own)]
            + [f"/{self.account}{parts.path}", *sorted(f"{n}:{unquote(v)}" for n, _, v in query)]
        )
        want = hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")
        if given != f"SharedKey {self.account}:{base64.b64encode(want).decode()}":
            return "AuthenticationFailed"
        return None

    def _list(self, handler, container, query):
        if not (self.root / container).is_dir():
            return self.refuse(handler, 404, "ContainerNotFound")
        keys = self.objects(container) | dict.fromkeys(self.folders)
        begin = query["prefix"]
        names = {k for k in keys if k.startswith(begin)}
        if "delimiter" in query:
            names = {
                begin + "/".join(k[len(begin) :].split("/")[:1] + [""] * ("/" in k[len(begin) :]))
                for k in names
            }
        names = sorted(k for k in names if k > query.get("marker", ""))
        lines = []
        for key in names[: self.page]:
            if key not in keys:
                lines.append(f"<BlobPrefix><Name>{escape(key)}</Name></BlobPrefix>")
                continue
            path = keys[key]
            tag = self.etag(path).strip('"') if path else "0x1"
            size = path.stat().st_size if path else 0
            kind = "file" if path else "directory"
            lines.append(
                f"<Blob><Name>{escape(key)}</Name><Properties><Content-Length>{size}</Content-Length>"
                f"<Etag>{tag}</Etag><ResourceType>{kind}</ResourceType></Properties></Blob>"
            )
        marker = escape(names[self.page - 1]) if len(names) > self.page else ""
        body = (
            f"\ufeff<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>{''.join(lines)}</Blobs>"
            f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
        ).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
        return None

    def _write(self, handler, path, query):
        """What writers ask for; on_write as in S3Server."""
        kinds = {"block": "PART", "blocklist": "COMPLETE", None: handler.command}
        kind = kinds[query.get("comp")]
        with self.lock:
            self.requests.append((kind, "/" + path, -1, len(handler.body)))
        hook = self.on_write and self.on_write(kind, "/" + path, handler)
        if hook is True:
            return None
        with self.lock:
            status, code = getattr(self, "_do_" + kind.lower())(handler, path, query)
        if hook == "lose":
            handler.close_connection = True
        elif code:
            self.refuse(handler, status, code)
        else:
            self.status(handler, status, ETag=self.etags.get(self.file(path), ""))
        return None

    def _store(self, handler, path, data):
        file = self.file(path)
        if handler.headers.get("If-None-Match") == "*" and file.exists():
            return 409, "BlobAlreadyExists"
        if "If-Match" in handler.headers and not (
            file.exists() and handler.headers["If-Match"] == self.etag(file)
        ):
            return 412, "ConditionNotMet"
        file.parent.mkdir(parents=True, exist_ok=True)
        self.store(file, data)
        self.etags[file] = f'"0x{next(self.numbers):X}"'
        self.metadata[file] = {k: v for k, v in handler.headers.items() if k.startswith("x-ms-meta-")}
        return 201, None

    def _do_put(self, handler, path, query):
        if handler.headers.get("x-ms-blob-type") != "BlockBlob":
            return 400, "MissingRequiredHeader"
        return self._store(handler, path, handler.body)

    def _do_part(self, handler, path, query):
        ids = self.blocks.setdefault(path, {})
        if not handler.body:
            return 400, "InvalidHeaderValue"
        if any(len(i) != len(query["blockid"]) for i in ids):
            return 400, "InvalidBlobOrBlock"
        ids[query["blockid"]] = handler.body
        return 201, None

    def _do_complete(self, handler, path, query):
        ids = re.findall(r"<Latest>(.*?)</Latest>", handler.body.decode())
        known = {**self.committed.get(path, {}), **self.blocks.get(path, {})}
        if any(i not in known for i in ids):
            return 400, "InvalidBlockList"
        status, code = self._store(handler, path, b"".join(known[i] for i in ids))
        if not code:
            self.committed[path] = {i: known[i] for i in ids}
            self.blocks.pop(path, None)
        return status, code

    def _do_delete(self, handler, path, query):
        file = self.file(path)
        if not file.is_file():
            return 404, "BlobNotFound"
        file.unlink()
        self.committed.pop(path, None)
        return 202, None
