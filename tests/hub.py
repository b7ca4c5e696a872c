"""A Hugging Face Hub on loopback: the part of its HTTP API that ``huggingface_hub`` uses here.

Repositories of models and data sets with commits, branches, tags, visibility and rights; large
files through the LFS protocol and a second host name in the role of the CDN. Tests speak to it with
the real client (``HF_HUB_DISABLE_XET=1``: Xet has a protocol of its own). Faults can be injected by
path. In-memory, standard library only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LFS_SUFFIXES = (".safetensors", ".parquet")
FaultKind = Literal["drop", "cut", "short", "flip"]


@dataclass(frozen=True)
class User:
    """Whose token it is, and in which namespaces it may write."""

    name: str
    writes: tuple[str, ...] = ()


@dataclass
class Repo:
    """A repository: its branches and tags point to commits, which hold whole trees."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: dict[str, bytes]) -> str:
        parent = self.branches.get(branch, "")
        listing = [f"{path} {sha256(content)}" for path, content in sorted(files.items())]
        sha = hashlib.sha1("\n".join([parent, *listing]).encode()).hexdigest()
        self.commits[sha] = files
        self.branches[branch] = sha
        return sha

    def resolve(self, revision: str) -> str | None:
        if revision in self.commits:
            return revision
        return self.branches.get(revision) or self.tags.get(revision)


@dataclass
class Fault:
    """What goes wrong with requests whose path contains ``where``.

    drop: the connection closes without an answer. cut: it closes in the middle of the body.
    short: the body is complete by its own length but half of the file. flip: one byte differs.
    A number is an HTTP status. ``times`` None: every time.
    """

    where: str
    kind: FaultKind | int
    times: int | None = None
    method: str = ""


@dataclass
class Hub:
    """State of the server, shared by its threads; ``log`` has every request with its range."""

    url: str = ""
    cdn: str = ""
    users: dict[str, User] = field(default_factory=dict)
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    lfs: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    log: list[tuple[str, str, str | None]] = field(default_factory=list)
    closed: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)

    def repo(self, name: str, kind: str = "models") -> Repo:
        return self.repos[(kind, name)]

    def add(self, name: str, files: dict[str, bytes], kind: str = "models") -> str:
        """Publish files without going through the API; returns the commit."""
        repo = self.repos.setdefault((kind, name), Repo(private=False))
        return repo.commit("main", files)

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.where in path and fault.method in ("", method) and fault.times != 0:
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serve an empty hub until the block ends."""
    hub = Hub()

    class Handler(_Handler):
        state = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    port = server.server_address[1]
    # Two names of this machine: a redirect to another host must not carry the token along.
    hub.url, hub.cdn = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        hub.closed = True  # connections that clients keep open would still be served
        server.shutdown()
        thread.join()
        server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Refusal(Exception):
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class _Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Keep the test output quiet."""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = self._chunks()
        else:
            self.body = self.rfile.read(length)
        parts = urlsplit(self.path)
        path, self.query = unquote(parts.path), parse_qs(parts.query)
        with self.state.lock:
            self.state.log.append((self.command, path, self.headers.get("Range")))
        self.fault = self.state.take_fault(self.command, path)
        if self.state.closed or (self.fault is not None and self.fault.kind == "drop"):
            self.close_connection = True
            return
        try:
            if self.fault is not None and isinstance(self.fault.kind, int):
                raise _Refusal(self.fault.kind, message=HTTPStatus(self.fault.kind).phrase)
            self._route(path.strip("/").split("/"))
        except _Refusal as refusal:
            headers = {"X-Error-Message": refusal.message}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self._send(json.dumps({"error": refusal.message}).encode(), refusal.status, headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().strip(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _route(self, path: list[str]) -> None:
        if path[:1] == ["lfs"]:
            return self._store_large(path[1])
        if path[:1] == ["cdn"]:
            return self._send_file(self.state.lfs[path[1]], {"ETag": f'"{path[1]}"'})
        if path == ["api", "whoami-v2"]:
            return self._json({"type": "user", "name": self._user().name})
        if path == ["api", "validate-yaml"]:
            return self._validate_yaml()
        if path == ["api", "repos", "create"]:
            return self._create()
        if path[0] == "api":
            return self._api(path[1], "/".join(path[2:4]), path[4:])
        kind = "datasets" if path[0] == "datasets" else "models"
        rest = path[1:] if kind == "datasets" else path
        if rest[1].endswith(".git"):
            return self._lfs_batch(kind, f"{rest[0]}/{rest[1].removesuffix('.git')}")
        if rest[2] == "resolve":
            return self._resolve(kind, f"{rest[0]}/{rest[1]}", rest[3], "/".join(rest[4:]))
        raise _Refusal(404, message="no such page")

    def _api(self, kind: str, name: str, rest: list[str]) -> None:
        verb, argument = (*rest, "", "")[:2]
        if self.command == "POST" and verb in ("preupload", "commit", "branch", "tag"):
            repo = self._writable(kind, name)
            return getattr(self, f"_{verb}")(repo, name, kind, argument)
        repo = self._readable(kind, name)
        if verb == "refs":
            return self._json(
                {
                    "branches": _refs(repo.branches, "heads"),
                    "tags": _refs(repo.tags, "tags"),
                    "converts": [],
                }
            )
        commit = self._commit_of(repo, argument or "main")
        files = repo.commits[commit]
        if verb == "tree":
            prefix = "/".join(rest[2:])
            return self._json(
                [_entry(p, c) for p, c in sorted(files.items()) if p.startswith(prefix)]
            )
        if verb == "paths-info":
            wanted = json.loads(self.body)["paths"]
            return self._json([_entry(p, files[p]) for p in wanted if p in files])
        if verb in ("", "revision"):
            return self._json(
                {
                    "_id": sha256(name.encode())[:24],
                    "id": name,
                    "sha": commit,
                    "private": repo.private,
                    "tags": [],
                    "downloads": 0,
                    "likes": 0,
                    "siblings": [_sibling(p, c) for p, c in sorted(files.items())],
                }
            )
        raise _Refusal(404, message=f"no API {verb}")

    # Rights -------------------------------------------------------------------------------------

    def _token(self) -> str | None:
        header = self.headers.get("Authorization", "")
        return header.removeprefix("Bearer ") or None

    def _user(self) -> User:
        token = self._token()
        if token not in self.state.users:
            raise _Refusal(401, message="Invalid credentials in Authorization header")
        return self.state.users[token]

    def _readable(self, kind: str, name: str) -> Repo:
        repo = self.state.repos.get((kind, name))
        user = self._user() if self._token() else None
        allowed = repo is not None and (
            not repo.private or (user is not None and name.split("/")[0] in user.writes)
        )
        if repo is None or not allowed:
            if user is None:
                raise _Refusal(401, message="Invalid username or password.")
            raise _Refusal(404, "RepoNotFound", "Repository not found")
        return repo

    def _writable(self, kind: str, name: str) -> Repo:
        repo, user = self._readable(kind, name), self._user()
        if name.split("/")[0] not in user.writes:
            raise _Refusal(403, message="You don't have the rights to write here")
        return repo

    def _commit_of(self, repo: Repo, revision: str) -> str:
        commit = repo.resolve(revision)
        if commit is None:
            raise _Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    # Writing ------------------------------------------------------------------------------------

    def _create(self) -> None:
        asked = json.loads(self.body)
        user = self._user()
        space = asked.get("organization") or user.name
        if space not in user.writes:
            raise _Refusal(403, message=f"You don't have the rights to create in {space}")
        kind, name = f"{asked.get('type', 'model')}s", f"{space}/{asked['name']}"
        url = f"{self.state.url}/{'datasets/' if kind == 'datasets' else ''}{name}"
        with self.state.lock:
            known = (kind, name) in self.state.repos
            if not known:
                hidden = asked.get("visibility") == "private" or asked.get("private")
                repo = Repo(private=bool(hidden))
                repo.commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"})
                self.state.repos[(kind, name)] = repo
        self._json({"url": url, "name": name}, 409 if known else 200)

    def _branch(self, repo: Repo, name: str, kind: str, branch: str) -> None:
        if branch in repo.branches:
            raise _Refusal(409, message="Reference already exists")
        start = json.loads(self.body or b"{}").get("startingPoint", "main")
        repo.branches[branch] = self._commit_of(repo, start)
        self._json({})

    def _tag(self, repo: Repo, name: str, kind: str, revision: str) -> None:
        repo.tags[json.loads(self.body)["tag"]] = self._commit_of(repo, revision)
        self._json({})

    def _preupload(self, repo: Repo, name: str, kind: str, revision: str) -> None:
        files = repo.commits[self._commit_of(repo, revision)]
        answers = []
        for asked in json.loads(self.body)["files"]:
            path = asked["path"]
            large = path.endswith(LFS_SUFFIXES)
            old = files.get(path)
            oid = None if old is None else (sha256(old) if large else _git_oid(old))
            mode = "lfs" if large else "regular"
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._json({"files": answers})

    def _lfs_batch(self, kind: str, name: str) -> None:
        self._writable(kind, name)
        objects = []
        for asked in json.loads(self.body)["objects"]:
            answer = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in self.state.lfs:
                answer["actions"] = {"upload": {"href": f"{self.state.cdn}/lfs/{asked['oid']}"}}
            objects.append(answer)
        self._json({"transfer": "basic", "objects": objects})

    def _store_large(self, oid: str) -> None:
        if sha256(self.body) != oid:
            raise _Refusal(400, message="checksum mismatch")
        self.state.lfs[oid] = self.body
        self._json({})

    def _commit(self, repo: Repo, name: str, kind: str, branch: str) -> None:
        files = dict(repo.commits[self._commit_of(repo, branch)])
        for line in self.body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                if value["oid"] not in self.state.lfs:
                    raise _Refusal(400, message=f"LFS object {value['oid']} is missing")
                files[value["path"]] = self.state.lfs[value["oid"]]
            elif item["key"] == "deletedFile":
                del files[value["path"]]
        sha = repo.commit(branch, files)
        prefix = "datasets/" if kind == "datasets" else ""
        url = f"{self.state.url}/{prefix}{name}/commit/{sha}"
        self._json({"success": True, "commitOid": sha, "commitUrl": url})

    def _validate_yaml(self) -> None:
        head = json.loads(self.body)["content"].split("---\n")[1]
        if not isinstance(yaml.safe_load(head), dict):
            raise _Refusal(400, message="no metadata")
        self._json({"errors": [], "warnings": []})

    # Reading ------------------------------------------------------------------------------------

    def _resolve(self, kind: str, name: str, revision: str, path: str) -> None:
        repo = self._readable(kind, name)
        commit = self._commit_of(repo, revision)
        content = repo.commits[commit].get(path)
        if content is None:
            raise _Refusal(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": commit}
        if not path.endswith(LFS_SUFFIXES):
            return self._send_file(content, headers | {"ETag": f'"{_git_oid(content)}"'})
        oid = sha256(content)
        self.state.lfs[oid] = content
        headers |= {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
        self._send(b"", 302, headers | {"Location": f"{self.state.cdn}/cdn/{oid}"})

    def _send_file(self, content: bytes, headers: dict[str, str]) -> None:
        headers = headers | {"Accept-Ranges": "bytes"}
        wanted, status = self.headers.get("Range"), 200
        if wanted is not None:
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            content, status = content[start:], 206
        if self.fault is None or self.command == "HEAD":
            return self._send(content, status, headers)
        if self.fault.kind == "short":
            return self._send(content[: len(content) // 2], status, headers)
        if self.fault.kind == "flip":
            middle = len(content) // 2
            changed = bytes([content[middle] ^ 1])
            return self._send(content[:middle] + changed + content[middle + 1 :], status, headers)
        self.close_connection = True
        self._send(content, status, headers, sent=len(content) // 2)

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json"})

    def _send(
        self, body: bytes, status: int, headers: dict[str, str], sent: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])
            self.wfile.flush()


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": path, "size": len(content), "oid": _git_oid(content)}
    if path.endswith(LFS_SUFFIXES):
        lfs = {"oid": sha256(content), "size": len(content), "pointerSize": 130}
        entry |= {"lfs": lfs}
    return entry


def _sibling(path: str, content: bytes) -> dict[str, Any]:
    sibling = {"rfilename": path, "size": len(content), "blobId": _git_oid(content)}
    if path.endswith(LFS_SUFFIXES):
        sibling["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 130}
    return sibling


def _refs(refs: dict[str, str], kind: str) -> list[dict[str, str]]:
    return [
        {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit}
        for name, commit in refs.items()
    ]
