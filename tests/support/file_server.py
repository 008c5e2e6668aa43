"""A web server on this machine, and small corpora on it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from seq2attn.data.corpora import PublicCorpus


@dataclass
class Server:
    """A web server of files."""

    files: dict[str, bytes]  # by path
    url: str = ""
    supports_ranges: bool = True
    break_after: int | None = None  # bytes of the first response, after which the connection closes
    num_failures: int = 0  # requests with status 503 before one succeeds
    ranges: list[str | None] = field(default_factory=list)  # of all requests

    def corpus(self, corpus: PublicCorpus) -> PublicCorpus:
        """The same corpus with this server in the place of all others."""
        texts = [
            replace(
                text, parts=tuple(replace(part, url=f"{self.url}/{part.url.split('/', 3)[3]}") for part in text.parts)
            )
            for text in corpus.texts
        ]
        return replace(corpus, texts=tuple(texts))


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Server]:
    state = Server(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested = self.headers["Range"]
            state.ranges.append(requested)
            is_partial = requested and state.supports_ranges
            start = int(requested.removeprefix("bytes=").removesuffix("-")) if is_partial else 0
            content = state.files.get(self.path)
            if content is None or "Python" in self.headers["User-Agent"]:
                return self.send_error(404)
            if state.num_failures:
                state.num_failures -= 1
                return self.send_error(503)
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                return self.end_headers()
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end, state.break_after = state.break_after, None  # before the client has all, and sets it again
            self.wfile.write(content[start:end])
            return None

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}"
    yield state
    http.shutdown()
    http.server_close()
    thread.join()
